"""Test reading records: of the trainer, of a user's program, truncated records, and records of a newer version."""

from __future__ import annotations

import codecs
import json
import math
import re
import subprocess
from pathlib import Path

import pytest

from distrain.record import read
from distrain.record.read import Line, RecordError, parse
from distrain_trainer.record import lines as trainers
from lab.paths import REPOSITORY

FIRST = b'{"event": "record", "version": 1, "unix_seconds": 1}\n'
STEP = b'{"event": "step", "step": 120, "loss": 0.5}\n'
PAGE = (REPOSITORY / "docs" / "record.md").read_text(encoding="utf-8")


def test_trainers_record_is_read() -> None:
    told = [
        trainers.line_of("start", 1, {"world_size": 2, "values": {"seed": 0}}),
        *(trainers.line_of("step", number, {"step": 10 * number, "loss": math.nan}) for number in range(1, 5001)),
        trainers.line_of("end", 1, {"cause": "finished", "accuracy": 0.9}),
    ]
    content, kept = trainers.render(told, "me")

    record = parse(content, "run1/record.jsonl")

    assert record.unreadable == 0
    assert len(record.lines) == len(kept) < 2100
    assert (record.count("step"), record.count("start"), record.count("kill")) == (5000, 1, 0)
    assert record.of("start")[0].values == {"seed": 0}
    last, end = record.last("step"), record.last("end")
    assert last is not None
    assert (last.step, last.loss) == (50_000, None)
    assert end is not None
    assert (end.cause, end.accuracy) == ("finished", 0.9)


@pytest.mark.parametrize(
    "cut",
    [b'{"event": "st', b"\xff\xfe\x00", b"x" * 1_000_000, b"[" * 100_000, b'{"event": "step", "step": "many"}', b"[1]"],
    ids=["cut", "binary", "1 MB", "nested", "another type", "list"],
)
@pytest.mark.parametrize("ending", [b"", b"\n" + STEP])
def test_line_that_cannot_be_read_is_skipped(cut: bytes, ending: bytes) -> None:
    record = parse(FIRST + STEP + cut + ending, "")

    assert record.unreadable == 1
    assert [line.number for line in record.of("step")] == [1, 2][: 1 + bool(ending)]


def test_text_that_is_not_utf_8_and_a_loss_that_is_no_number_are_read() -> None:
    record = parse(FIRST + b'{"event": "end", "reason": "caf\xe9", "loss": NaN, "accuracy": -Infinity}\n', "")

    assert record.lines == (Line(event="end", number=1, reason="caf�"),)


@pytest.mark.parametrize("version", [2, 1.5, "1.1", [], True])
def test_newer_version_is_refused_in_one_line(version: object) -> None:
    # A newer version of the program may write another type under the same key.
    content = json.dumps({"event": "record", "version": version, "step": "new"}).encode() + b"\n" + STEP

    with pytest.raises(RecordError, match=r"^s3://b/record\.jsonl has version .* newer distrain$") as raised:
        parse(content, "s3://b/record.jsonl")
    assert len(raised.value.messages) == 1


def test_version_in_quotes_is_said_to_be_no_number() -> None:
    content = FIRST.replace(b"1,", b'"1",', 1) + STEP

    with pytest.raises(RecordError) as raised:
        parse(content, "run1/record.jsonl")
    words = 'run1/record.jsonl has the version "1" as text in its first line; write the number 1'
    assert raised.value.messages == (words,)


def test_byte_order_mark_is_no_part_of_the_first_line() -> None:
    record = parse(codecs.BOM_UTF8 + FIRST + STEP, "")

    assert (record.unreadable, len(record.lines)) == (0, 1)
    with pytest.raises(RecordError, match="newer distrain"):
        parse(codecs.BOM_UTF8 + FIRST.replace(b"1,", b"2,", 1) + STEP, "")


@pytest.mark.parametrize(
    ("loss", "is_odd"), [(b"null", True), (b"NaN", True), (b'"inf"', True), (b"0.5", False), (b"1e300", False)]
)
def test_loss_that_is_no_number_is_told_from_one_that_is_left_out(loss: bytes, is_odd: bool) -> None:
    told, left_out = parse(b'{"event": "step", "loss": ' + loss + b'}\n{"event": "step"}\n', "").lines

    assert (told.has_odd_loss, left_out.has_odd_loss) == (is_odd, False)


def test_record_without_lines_is_empty() -> None:
    assert parse(b"", "").lines == parse(FIRST, "").lines == ()


def test_file_that_is_no_record_is_refused() -> None:
    with pytest.raises(RecordError, match=r"^/tmp/x is not a run's record: "):
        parse(b"hello\nworld\n", "/tmp/x")


def test_lines_without_numbers_are_numbered() -> None:
    content = b'{"event": "step"}\n{"event": "mine", "x": 1}\n{"event": "step", "number": 7}\n{"event": "step"}\n'

    assert [line.number for line in parse(content, "").lines] == [1, 1, 7, 8]


def test_last_file_of_a_folder_counts(tmp_path: Path) -> None:
    for name in ("record.jsonl", "record-2.jsonl", "record-10.jsonl", "record-x.jsonl", "record-11.jsonl.part"):
        (tmp_path / name).write_text(json.dumps({"event": name}) + "\n")

    assert read.in_folder(tmp_path).lines[0].event == "record-10.jsonl"
    assert read.newest(["log.txt"]) is None


def test_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"contains no record\.jsonl; give the run's folder"):
        read.in_folder(tmp_path)
    with pytest.raises(RecordError, match=r"/none cannot be read: No such file or directory; "):
        read.in_folder(tmp_path / "none")


def test_shell_line_of_the_page_writes_a_record(tmp_path: Path) -> None:
    [command] = re.findall(r"^    (echo .*)$", PAGE, re.MULTILINE)
    command = command.replace("/output/team/run1", str(tmp_path))

    for _ in range(2):
        subprocess.run(["sh", "-c", command], check=True)

    steps = read.in_folder(tmp_path).of("step")
    assert [(line.number, line.step, line.loss) for line in steps] == [(1, 120, 0.52), (2, 120, 0.52)]
    assert steps[0].unix_seconds


def test_program_of_the_page_writes_a_record(tmp_path: Path) -> None:
    program, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

    exec(program.replace("/output/team/run1", str(tmp_path)), {})

    record = read.in_folder(tmp_path)
    assert [line.event for line in record.lines] == ["start", "step", "end"]
    assert record.lines[1].loss == 0.52
    assert len(program.strip().splitlines()) <= 12


def test_program_of_the_page_continues_a_record_in_s3(
    s3_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    client = s3_server.boto3_client()  # type: ignore[attr-defined]
    client.create_bucket(Bucket="models")
    monkeypatch.setattr("boto3.client", lambda service: client)

    for step in (1, 2):
        names: dict[str, object] = {}
        exec(program, names)
        names["tell"]("step", step=step)  # type: ignore[operator]

    content = client.get_object(Bucket="models", Key="team/run1/record.jsonl")["Body"].read()
    assert [line.step for line in parse(content, "").lines] == [1, 2]
