"""Test the exit code and the message with which a rank ends after an error."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import distrain_trainer
from distrain_trainer import errors

# A process that is rank 1 of a job. After an error, such a rank waits for minutes, so that only rank 0 logs an error
# that all ranks have.
RANK_1 = """
import os, signal, threading
from distrain_trainer.loop.stop_flag import StopRequest
from distrain_trainer import errors
errors.SECONDS_FOR_RANK_0 = 600
StopRequest().listen()
print(flush=True)
if {is_told}:
    os.kill(os.getpid(), signal.SIGTERM)
else:
    threading.Timer(5, os.kill, [os.getpid(), signal.SIGTERM]).start()
errors.end_rank(errors.LostPeerError("rank 0 is gone"))
"""


def start_rank_1(*, is_told: bool) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(distrain_trainer.__file__).parents[1]), "RANK": "1"}
    command = [sys.executable, "-c", RANK_1.format(is_told=is_told)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_rank_that_waits_for_another_ones_line_ends_when_it_is_told_to() -> None:
    process = start_rank_1(is_told=False)

    said = process.communicate(timeout=300)[1]

    assert (said, process.returncode) == ("", 1)


def test_rank_that_was_told_to_end_says_at_once_what_came_in_the_way() -> None:
    process = start_rank_1(is_told=True)

    said = process.communicate(timeout=300)[1]

    assert said == "distrain: rank 0 is gone\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        pytest.param("StorageError", 5, f"distrain: {socket.gethostname()}: s3.secretName: refused\n", id="refused"),
        pytest.param("UnavailableError", 5, f"distrain: {socket.gethostname()}: s3.secretName: refused\n", id="away"),
        pytest.param("MissingError", 2, "distrain: s3.secretName: refused\n", id="missing-for-all"),
        pytest.param("DataError", 2, "distrain: s3.secretName: refused\n", id="mistake"),
    ],
)
def test_worker_that_alone_cannot_reach_the_storage_names_itself(error: str, code: int, line: str) -> None:
    program = "from distrain_trainer import errors; errors.SECONDS_TO_BE_ALONE = errors.SECONDS_FOR_RANK_0 = 0.1; "
    program += f'errors.end_rank(errors.{error}("s3.secretName: refused"))'
    environment = {**os.environ, "PYTHONPATH": str(Path(distrain_trainer.__file__).parents[1]), "RANK": "1"}

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (code, line)


def test_torchrun_and_kubernetes_are_told_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error_file, log = tmp_path / "error.json", tmp_path / "termination-log"
    log.write_text("a longer line of the container's life before this one")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(error_file))
    monkeypatch.setattr(errors, "TERMINATION_LOG", log)

    errors.tell_torchrun("distrain: data.uri: gone")

    assert json.loads(error_file.read_text())["message"]["extraInfo"]["py_callstack"] == "distrain: data.uri: gone"
    assert log.read_text() == "distrain: data.uri: gone"


@pytest.mark.parametrize("name", ["caf\udce9.jpg", "\ud800.jpg"])
def test_name_that_is_not_unicode_changes_neither_exit_code_nor_line(tmp_path: Path, name: str) -> None:
    error_file, log = tmp_path / "error.json", tmp_path / "termination-log"
    log.touch()
    program = "import sys; from pathlib import Path; from distrain_trainer import errors; "
    program += f"errors.TERMINATION_LOG = Path(sys.argv[1]); errors.end_rank(errors.DataError({name!a}))"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(distrain_trainer.__file__).parents[1]),
        "TORCHELASTIC_ERROR_FILE": str(error_file),
    }

    ended = subprocess.run(
        [sys.executable, "-c", program, log], env=environment, capture_output=True, text=True, check=False
    )

    line = f"distrain: {ascii(name)[1:-1]}"
    assert (ended.returncode, ended.stderr, log.read_text()) == (2, f"{line}\n", line)
    assert json.loads(error_file.read_text())["message"]["message"] == line


def test_without_torchrun_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.setattr(errors, "TERMINATION_LOG", log)

    errors.tell_torchrun("distrain: data.uri: gone")

    assert log.read_text() == ""
