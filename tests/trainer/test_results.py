"""Test the results that a run writes when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer.log import Log
from distrain_trainer.results import Results, write_outcome
from distrain_trainer.storage.folder import FolderStore


def save(path: Path) -> None:
    path.write_text("model")
    (path.parent / "a_saved_model/variables").mkdir(parents=True)
    (path.parent / "a_saved_model/variables/index").write_text("index")
    (path.parent / "z.safetensors").write_text("arrays")


def test_model_comes_after_its_other_formats_and_before_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []
    original = FolderStore.write

    def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
        # Threads of runs in earlier tests may still write.
        if store.uri == str(tmp_path):
            written.append(name)
        original(store, name, content)

    monkeypatch.setattr(FolderStore, "write", write)
    results = Results("pytorch", "mnist", 1, 1, 1, None, None, [], model_file="model.pt")

    write_outcome(str(tmp_path), results, Log(speaks=True), save=save)

    assert written == ["a_saved_model/variables/index", "z.safetensors", "model.pt", "results.json", "log.txt"]
    assert (tmp_path / "a_saved_model/variables/index").read_text() == "index"
    said = f"a_saved_model, model.pt, z.safetensors, results.json and log.txt are in {tmp_path}\n"
    assert capsys.readouterr().out == (tmp_path / "log.txt").read_text() == said
