"""Test what is read of a checkpoint: each file once, and files of format 1 by the framework's decoder."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distrain_trainer.checkpoint import arrays, reader
from distrain_trainer.checkpoint.arrays import Buffer
from distrain_trainer.checkpoint.files import Checkpoint
from distrain_trainer.checkpoint.manifest import FileSum, Manifest
from distrain_trainer.errors import CheckpointError
from distrain_trainer.storage import FolderStore, open_store
from tests.trainer.fixtures.counter_run import Counter, begin, save_step


def saved(folder: Path, size: int = 1) -> Path:
    """Save the checkpoint 1-10, and return its folder."""
    save_step(begin(folder, Counter(size)))
    return folder / "1-10"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record each read from a folder: the file's name, and the number of bytes."""
    found: list[tuple[str, int]] = []
    original = FolderStore.read

    def read(store: FolderStore, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        piece = original(store, name, start=start, length=length)
        found.append((name, len(piece)))
        return piece

    monkeypatch.setattr(FolderStore, "read", read)
    return found


def test_file_is_read_once_in_pieces(
    reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "PIECE", 100)
    size = (saved(tmp_path, 50) / "state-0.safetensors").stat().st_size

    begin(tmp_path, state := Counter(50))

    assert state.weight.tolist() == [1] * 50
    lengths = [length for name, length in reads if name == "1-10/state-0.safetensors"]
    # First the last byte, then all pieces, then nothing behind them.
    assert lengths == [1, *[100] * (size // 100), size % 100, 0]


def as_former(checkpoint: Path, **given: list[float]) -> None:
    """Turn a checkpoint into one of format 1, where the arrays have no names in the manifest."""
    (checkpoint / "state-0.safetensors").unlink()
    content = io.BytesIO()
    np.savez(content, **{name: np.array(array) for name, array in given.items()})
    (checkpoint / "state.npz").write_bytes(content.getvalue())
    told = json.loads((checkpoint / "manifest.json").read_text())
    told["subject"]["shapes"] = {"model-0": [1]}
    size, checksum = len(content.getvalue()), FileSum.of(content.getvalue()).sha256
    told |= {"format": 1, "files": {"state.npz": {"size": size, "sha256": checksum}}}
    (checkpoint / "manifest.json").write_text(json.dumps(told))


def test_former_format_is_read_by_the_frameworks_decoder(tmp_path: Path) -> None:
    as_former(saved(tmp_path), weight=[7.0])

    run = begin(tmp_path, state := Counter())

    assert state.weight == [7]
    assert run.position.step == 1


def test_former_format_of_another_shape_is_refused(tmp_path: Path) -> None:
    as_former(saved(tmp_path), weight=[7.0, 8.0])

    with pytest.raises(CheckpointError, match=r"1-10 is of another training: weight is 2 there and 1 here; correct"):
        begin(tmp_path)


@pytest.mark.parametrize(
    ("content", "told", "reason"),
    [
        pytest.param(b"", FileSum.of(b""), None, id="empty"),
        pytest.param(b"12345", FileSum.of(b"12345"), None, id="whole"),
        pytest.param(b"12345", FileSum.of(b""), "a.bin: 5 bytes instead of 0", id="not-empty"),
        pytest.param(b"", FileSum.of(b"12"), "a.bin: 0 bytes instead of 2", id="emptied"),
        pytest.param(b"1234", FileSum.of(b"12345"), "a.bin: 4 bytes instead of 5", id="shorter"),
        pytest.param(b"123456", FileSum.of(b"12345"), "a.bin: more than 5 bytes", id="longer"),
        pytest.param(b"12346", FileSum.of(b"12345"), "a.bin: checksum differs", id="other"),
        pytest.param(None, FileSum.of(b""), "a.bin: missing", id="missing"),
    ],
)
def test_file_is_held_against_its_manifest(
    content: bytes | None, told: FileSum, reason: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "PIECE", 2)
    store = open_store(str(tmp_path), value="checkpoint.uri")
    if content is not None:
        store.write("1-10/a.bin", content)
    found = bytearray(told.size)

    def check() -> None:
        reader._require_size(store, "1-10/a.bin", told.size)
        reader._read_file(store, "1-10/a.bin", told, memoryview(found))

    if reason is None:
        check()
        assert found == content
    else:
        with pytest.raises(reader.DamagedCheckpointError, match=f"^{reason}$"):
            check()


def test_size_is_checked_before_the_file_is_read(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), value="checkpoint.uri")
    store.write("1-10/a.bin", b"123")

    for size in (2, 3):  # _read_file finds what is longer.
        reader._require_size(store, "1-10/a.bin", size)
    with pytest.raises(reader.DamagedCheckpointError, match=r"^a\.bin: 3 bytes instead of 0$"):
        reader._require_size(store, "1-10/a.bin", 0)


def test_files_are_read_to_aligned_places(tmp_path: Path) -> None:
    saved(tmp_path)
    store = open_store(str(tmp_path), value="checkpoint.uri")
    content = store.read("1-10/state-0.safetensors")
    store.write("1-10/state-1.safetensors", content)
    held = store.read_tagged("1-10/manifest.json")
    assert held
    manifest = Manifest.from_json(held[0])
    files = {f"state-{number}.safetensors": FileSum.of(content) for number in (0, 1)}

    found = reader._read_parts(store, Checkpoint("1-10", replace(manifest, files=files), []), buffer := Buffer())

    length = arrays.aligned(len(content))
    assert [(part.start, part.end) for part in found.parts] == [(0, len(content)), (length, length + len(content))]
    assert bytes(buffer.span(length, length + len(content))) == content
