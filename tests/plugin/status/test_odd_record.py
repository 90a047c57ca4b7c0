"""Test that odd records lead to a clear answer, never to a traceback or a senseless figure."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Outcome, Run
from tests.plugin.status.runs import MPI, live, rows_of, serve

START = {"event": "start", "number": 1, "world_size": 2, "steps": 1000}
STEP = {"event": "step", "number": 1, "step": 990, "loss": 0.5, "images_per_second_mean": 80.0}


def _status(api: FakeApi, status: Run, folder: Path, content: bytes, *arguments: str) -> Outcome:
    serve(api, live({**MPI, "status": {}}, "Succeeded"))
    (folder / "record.jsonl").write_bytes(content)
    return status("run1", "--record", str(folder), *arguments)


def _lines(*lines: dict[str, Any], version: int = 1) -> bytes:
    first = {"event": "record", "version": version, "unix_seconds": time.time()}
    return "".join(f"{json.dumps(line)}\n" for line in (first, *lines)).encode()


def test_line_that_is_cut_in_the_middle_is_left_out(api: FakeApi, status: Run, tmp_path: Path) -> None:
    whole = _lines(START, STEP, {**STEP, "number": 2, "step": 1000})

    shown = _status(api, status, tmp_path, whole[:-40])

    assert (shown.code, shown.err, rows_of(shown)["step"]) == (0, "", "990 of 1000 99 %")


def test_record_that_begins_in_the_middle_of_a_line_is_read(api: FakeApi, status: Run, tmp_path: Path) -> None:
    shown = _status(api, status, tmp_path, _lines(START, STEP)[30:])

    assert (shown.code, rows_of(shown)["step"]) == (0, "990 of 1000 99 %")


def test_record_of_a_newer_version_is_refused(api: FakeApi, status: Run, tmp_path: Path) -> None:
    shown = _status(api, status, tmp_path, _lines(START, STEP, version=2))

    words = "has version 2 of the record's format, and this distrain reads up to version 1"
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"distrain: --record: {tmp_path}/record.jsonl {words}")


@pytest.mark.parametrize(
    ("minutes", "ages"),
    # On a busy machine, the command may need some seconds.
    [pytest.param(5, range(2), id="ahead"), pytest.param(-5, range(300, 360), id="behind")],
)
def test_clocks_that_differ_make_no_negative_age_and_no_time_left(
    api: FakeApi, status: Run, tmp_path: Path, minutes: int, ages: range
) -> None:
    now = time.time()
    there = {"unix_seconds": now + 60 * minutes}
    lines = ({**START, "unix_seconds": now}, {**STEP, **there}, {"event": "checkpoint", "step": 990, **there})

    answer = json.loads(_status(api, status, tmp_path, _lines(*lines), "-o", "json").out)

    assert answer["step_age_seconds"] in ages
    assert answer["checkpoint_age_seconds"] in ages
    assert answer["eta_seconds"] is None


@pytest.mark.parametrize("word", ["NaN", "Infinity", "null"])
def test_loss_that_is_no_number_is_not_known(api: FakeApi, status: Run, tmp_path: Path, word: str) -> None:
    content = _lines(START) + f'{{"event": "step", "step": 7, "loss": {word}}}\n'.encode()

    shown = _status(api, status, tmp_path, content)

    assert rows_of(shown)["loss"] == "not known, or not a number"
    answer = json.loads(status("run1", "--record", str(tmp_path), "-o", "json").out, parse_constant=pytest.fail)
    assert (answer["step"], answer["loss"]) == (7, None)


def test_many_restarts_are_counted_by_their_numbers(api: FakeApi, status: Run, tmp_path: Path) -> None:
    starts = [{**START, "number": number} for number in (1, 2, 5000, 10_001)]

    shown = _status(api, status, tmp_path, _lines(*starts, STEP))

    assert rows_of(shown)["restarts"] == "10,000 restarts, 0 rescales"


def test_restarts_of_a_program_that_numbers_no_lines_are_counted(api: FakeApi, status: Run, tmp_path: Path) -> None:
    content = b'{"event": "start"}\n' * 10_001 + b'{"event": "step", "step": 7}\n'

    assert rows_of(_status(api, status, tmp_path, content))["restarts"] == "10,000 restarts, 0 rescales"


def test_empty_record_is_told_and_no_failure(api: FakeApi, status: Run, tmp_path: Path) -> None:
    shown = _status(api, status, tmp_path, b"")

    words = "is empty: the run has not written its first line yet; try again later"
    assert (shown.code, rows_of(shown)["run1"]) == (0, "Succeeded")
    assert f"not read     the run's record: {tmp_path} {words}" in shown.out.splitlines()


def test_lines_of_a_shell_script_are_a_record(api: FakeApi, status: Run, tmp_path: Path) -> None:
    content = b'{"event": "step", "unix_seconds": 1767225600, "step": 120, "loss": 0.52}\nhello\n'

    rows = rows_of(_status(api, status, tmp_path, content))

    assert (rows["step"].partition(",")[0], rows["loss"]) == ("120", "0.52")


@pytest.mark.parametrize(
    "content", [b"hello\nworld\n", b"\x00\xff" * 1000, b"[1, 2]\n3\n"], ids=["echo", "binary", "json"]
)
def test_file_of_another_program_is_refused(api: FakeApi, status: Run, tmp_path: Path, content: bytes) -> None:
    shown = _status(api, status, tmp_path, content)

    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert f"--record: {tmp_path}/record.jsonl is not a run's record: none of its lines is a JSON object" in shown.err
