"""Test how a checkpoint is read: each file is read once, and the framework decodes a file of format 1."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distrain_trainer.checkpoint import reader
from distrain_trainer.checkpoint.arrays import Field
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.files import Checkpoint
from distrain_trainer.checkpoint.layout import Part
from distrain_trainer.checkpoint.manifest import FileSum, Manifest
from distrain_trainer.errors import CheckpointError, MissingError
from distrain_trainer.storage import FolderStore, open_store
from tests.trainer.fixtures.counter_run import Counter, begin, save_step


def saved(folder: Path, size: int = 1) -> Path:
    """Save a checkpoint with the name 1-10, and return its folder."""
    save_step(begin(folder, Counter(size)))
    return folder / "1-10"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record every read from a folder, as the file's name and the number of bytes."""
    found: list[tuple[str, int]] = []
    original, into = FolderStore.read, FolderStore.read_into

    def read(store: FolderStore, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        piece = original(store, name, start=start, length=length)
        found.append((name, len(piece)))
        return piece

    def read_into(store: FolderStore, name: str, place: memoryview, *, start: int = 0) -> int:
        found.append((name, len(place)))
        return into(store, name, place, start=start)

    monkeypatch.setattr(FolderStore, "read", read)
    monkeypatch.setattr(FolderStore, "read_into", read_into)
    return found


def test_file_is_read_once_in_pieces(
    reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "PIECE", 100)
    size = (saved(tmp_path, 50) / "state-0.safetensors").stat().st_size

    begin(tmp_path, state := Counter(50))

    assert state.weight.tolist() == [1] * 50
    lengths = [length for name, length in reads if name == "1-10/state-0.safetensors"]
    # The first read of a file gets its header. The other reads get the arrays, piece by piece.
    assert lengths == [size + 1, *[100] * 4]


def as_former(checkpoint: Path, **given: list[float]) -> None:
    """Convert a checkpoint to format 1, in which the manifest does not contain the names of the arrays."""
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


def test_former_format_whose_size_is_wrong_takes_no_memory(
    reads: list[tuple[str, int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_former(checkpoint := saved(tmp_path), weight=[7.0])
    manifest = checkpoint / "manifest.json"
    told = json.loads(manifest.read_text())
    size = told["files"]["state.npz"]["size"]
    told["files"]["state.npz"]["size"] = 2**42
    manifest.write_text(json.dumps(told))

    assert begin(tmp_path).position.step == 0

    assert f"1-10 is damaged (state.npz: {size} bytes instead of {2**42}), skipped" in capsys.readouterr().out
    assert [length for name, length in reads if name == "1-10/state.npz"] == [1]


def test_former_format_of_another_shape_is_refused(tmp_path: Path) -> None:
    as_former(saved(tmp_path), weight=[7.0, 8.0])

    with pytest.raises(CheckpointError, match=r"1-10 does not fit this run: weight is 2 there and 1 here; correct"):
        begin(tmp_path)


@pytest.mark.parametrize(("samples", "step"), [(10, 2), (18, 1)], ids=["of-its-name", "of-another-name"])
def test_checkpoint_whose_manifest_has_another_number_of_samples_is_damaged(
    samples: int, step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_step(run := begin(tmp_path))
    save_step(run)
    path = tmp_path / "1-20/manifest.json"
    told = json.loads(path.read_text())
    told["position"]["samples"] += samples - 10
    path.write_text(json.dumps(told))

    again = begin(tmp_path)

    assert again.position.step == step
    said = [line for line in capsys.readouterr().out.splitlines() if "is damaged" in line]
    assert said == ["checkpoint: 1-20 is damaged (manifest.json says 28 samples), skipped"] * (samples != 10)


DATA = np.arange(40, dtype=np.uint8)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda content: content, None, id="whole"),
        pytest.param(lambda content: b"", r"0 bytes instead of \d+", id="emptied"),
        pytest.param(lambda content: content[:-1], r"\d+ bytes instead of \d+", id="shorter"),
        pytest.param(lambda content: content + b"x", r"more than \d+ bytes", id="longer"),
        pytest.param(lambda content: content[:-1] + b"x", "checksum differs", id="other"),
        pytest.param(lambda content: None, "missing", id="missing"),
    ],
)
def test_file_is_held_against_its_manifest(
    damage: Callable[[bytes], bytes | None], reason: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "PIECE", 7)
    store, buffer = open_store(str(tmp_path), value="checkpoint.uri"), Buffer()
    [part] = buffer.fill({"a": DATA})
    content = bytes(buffer.span(part.start, part.end))
    if (held := damage(content)) is not None:
        store.write(f"1-10/{part.file}", held)
    saved(tmp_path / "like")
    manifest = Manifest.from_json((tmp_path / "like/1-10/manifest.json").read_bytes())
    found = Checkpoint("1-10", replace(manifest, files={part.file: FileSum.of(content)}), [])

    def check() -> None:
        laid_out = replace(found, parts=reader._layout_of(store, found))
        reader.read_files(store, laid_out, laid_out.parts, buffer)
        assert buffer.arrays(laid_out.parts)["a"].tolist() == DATA.tolist()

    buffer.release()
    if reason is None:
        check()
    else:
        with pytest.raises(reader.DamagedCheckpointError, match=rf"^state-0\.safetensors: {reason}$"):
            check()


@pytest.mark.parametrize("size", [0, 1])
def test_file_without_arrays_ends_with_its_header(size: int, tmp_path: Path) -> None:
    saved(tmp_path / "like")
    manifest = Manifest.from_json((tmp_path / "like/1-10/manifest.json").read_bytes())
    store, buffer = open_store(str(tmp_path), value="checkpoint.uri"), Buffer()
    [part] = buffer.fill({})
    content = bytes(buffer.span(part.start, part.end))
    store.write(f"1-10/{part.file}", content + bytes(size))
    found = Checkpoint("1-10", replace(manifest, files={part.file: FileSum.of(content)}), [])

    if size:
        with pytest.raises(reader.DamagedCheckpointError, match=r"^state-0\.safetensors: more than \d+ bytes$"):
            reader._layout_of(store, found)
    else:
        found = replace(found, parts=reader._layout_of(store, found))
        reader.read_files(store, found, found.parts, buffer)
        assert buffer.arrays(found.parts) == {}


def test_header_that_is_longer_than_usual_is_read_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    saved(tmp_path)
    monkeypatch.setattr(reader, "FIRST_BYTES", 9)

    assert begin(tmp_path).position.step == 1


@pytest.mark.parametrize(
    ("sizes", "ranks", "expected"),
    [
        pytest.param([8], 2, [[], [0]], id="fewer-files-than-ranks"),
        pytest.param([8, 8, 8, 8], 2, [[0, 1], [2, 3]], id="as-many-each"),
        pytest.param([80, 8, 8, 8], 2, [[0], [1, 2, 3]], id="as-many-bytes"),
        pytest.param([8, 8], 1, [[0, 1]], id="alone"),
        pytest.param([2, 2], 2, [[0], [1]], id="small-ones"),
    ],
)
def test_files_are_shared_out_in_their_order(sizes: list[int], ranks: int, expected: list[list[int]]) -> None:
    parts = [Part(f"{number}", 0, b"", {"a": Field("U8", (size,))}, {}) for number, size in enumerate(sizes)]

    found = reader.shares(parts, ranks)

    assert [[int(part.file) for part in share] for share in found] == expected


def test_missing_file_ends_all_other_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PIECE", 100)
    monkeypatch.setattr(reader, "READS", 1)
    saved(tmp_path, 1000)
    pieces, original = list[int](), FolderStore.read_into

    def read_into(store: FolderStore, name: str, place: memoryview, *, start: int = 0) -> int:
        if start:
            pieces.append(start)
            time.sleep(0.2)
            raise MissingError(name)
        return original(store, name, place, start=start)

    monkeypatch.setattr(FolderStore, "read_into", read_into)
    before = {*readers()}

    assert begin(tmp_path, Counter(1000)).position.step == 0

    assert len(pieces) < 40
    assert {*readers()} == before


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_only_older_checkpoints_of_the_run_are_candidates(tmp_path: Path) -> None:
    for name in ("1-10", "1-20", "2-5", "2-10", "2-15", "3-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").touch()
    store = open_store(str(tmp_path), value="checkpoint.uri")

    # The run began anew in generation 2.
    assert [*reader._candidates(store, "2-10", 2)] == ["2-10", "2-5"]
    assert [*reader._candidates(store, "2-10", 1)] == ["2-10", "2-5", "1-20", "1-10"]
