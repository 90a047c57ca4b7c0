"""How a rank's end is told to those who started it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain_trainer import errors


def test_torchrun_and_kubernetes_are_told_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error_file, log = tmp_path / "error.json", tmp_path / "termination-log"
    log.write_text("a longer line of the container's life before this one")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(error_file))
    monkeypatch.setattr(errors, "TERMINATION_LOG", log)

    errors.tell_torchrun("distrain: data.uri: gone")

    assert json.loads(error_file.read_text())["message"]["extraInfo"]["py_callstack"] == "distrain: data.uri: gone"
    assert log.read_text() == "distrain: data.uri: gone"


def test_without_torchrun_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.setattr(errors, "TERMINATION_LOG", log)

    errors.tell_torchrun("distrain: data.uri: gone")

    assert log.read_text() == ""
