"""Test the cache of shards: ranks share complete pieces within the size limit, and a fault disables the cache."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import threading
from contextlib import closing
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.data import cache as caches
from distrain_trainer.data import load, read_ahead
from distrain_trainer.data.cache import Cache, CachedReader
from distrain_trainer.data.read_ahead import ReadAhead, Span
from distrain_trainer.storage import FolderStore, Store, open_store
from lab.datasets.pictures import numbered, write_shards
from tests.trainer.fixtures.datasets import config_of, epoch_of, numbers_in

PIECE = 1000
# The size in bytes of a piece's file in the cache: the piece itself and its checksum.
KEPT = PIECE + 4


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "PIECE", PIECE)
    monkeypatch.setattr(read_ahead, "BUFFER", 512)
    monkeypatch.setattr(caches, "_readers", {})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The content of each file below shards/ in the store, keyed by file name."""
    (tmp_path / "shards").mkdir()
    made = {f"{number}.tar": random.Random(number).randbytes(4500 + number) for number in range(4)}
    for name, content in made.items():
        (tmp_path / "shards" / name).write_bytes(content)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The pieces that were read from the store because they were not in the cache."""
    seen: list[tuple[str, int]] = []
    original = FolderStore.read_tagged_into

    def watched(self: FolderStore, name: str, place: memoryview, *, start: int = 0) -> tuple[int, str]:
        seen.append((name, start))
        return original(self, name, place, start=start)

    monkeypatch.setattr(FolderStore, "read_tagged_into", watched)
    return seen


def reader(tmp_path: Path, limit: int = 1_000_000) -> CachedReader:
    """Return a new reader of the cache, as a new process would create it."""
    return CachedReader(Cache(tmp_path / "cache", limit), open_store(str(tmp_path / "shards"), value="data.uri"), PIECE)


def read(source: CachedReader | Store, *names: str, start: int = 0) -> list[bytes]:
    with closing(ReadAhead(source, [Span(name, start) for name in names])) as ahead:
        return [_content(ahead) for _ in names]


def _content(ahead: ReadAhead) -> bytes:
    with ahead.next_file() as file:
        return file.read()


def taken(tmp_path: Path) -> int:
    return sum(path.stat().st_size for path in (tmp_path / "cache").glob("*.piece"))


def test_files_are_read_once_and_come_from_the_cache_again(
    tmp_path: Path, files: dict[str, bytes], asked: list[tuple[str, int]]
) -> None:
    assert read(reader(tmp_path), *files) == [*files.values()]
    assert len(asked) == len(set(asked)) == 4 * 5
    asked.clear()

    assert read(reader(tmp_path), *files) == [*files.values()]
    assert read(reader(tmp_path), *files, start=1700) == [content[1700:] for content in files.values()]
    assert not asked


def test_ranks_share_what_each_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, int]]
) -> None:
    written = write_shards(tmp_path / "shards", numbered(60), (30, 30))
    (tmp_path / "shards" / "sizes.json").write_text(json.dumps(written))
    config = config_of(tmp_path / "shards", cache=str(tmp_path / "cache"), cache_size=1_000_000)

    for epoch in (0, 1):
        per_rank = epoch_of(config, load(config), ranks=3, epoch=epoch)

        assert sorted(itertools.chain(*map(numbers_in, per_rank))) == list(range(60))
    asked.clear()
    epoch_of(config, load(config), ranks=2)

    # In a shard, each sample takes 2 KiB. Only the zeros at the end of a shard may be missing in the cache, so nothing
    # before them may be requested.
    assert all(start > 30 * 2048 for _, start in asked)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[: len(content) // 2], id="half"),
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: bytes(len(content)), id="zeros-after-a-crash"),
        pytest.param(lambda content: content[:100] + b"?" + content[101:], id="a-byte"),
    ],
)
def test_piece_that_is_not_whole_is_read_again(
    tmp_path: Path, files: dict[str, bytes], asked: list[tuple[str, int]], damage: Any
) -> None:
    read(reader(tmp_path), *files)
    for path in (tmp_path / "cache").glob("*.piece"):
        path.write_bytes(damage(path.read_bytes()))
    asked.clear()

    assert read(reader(tmp_path), *files) == [*files.values()]
    assert len(asked) == 4 * 5
    asked.clear()
    assert read(reader(tmp_path), *files) == [*files.values()]
    assert not asked


def test_piece_that_a_killed_process_left_unfinished_is_not_used_and_removed(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            reader(tmp_path).read_into("0.tar", memoryview(bytearray(PIECE)))
    assert [path.suffix for path in (tmp_path / "cache").iterdir() if path.name != "usage"] == [".part"]

    monkeypatch.setattr(caches, "SECONDS_UNFINISHED", -1)
    assert read(reader(tmp_path), "0.tar") == [files["0.tar"]]
    assert not list((tmp_path / "cache").glob("*.part"))


def test_shard_that_was_replaced_is_read_anew(tmp_path: Path, files: dict[str, bytes]) -> None:
    read(reader(tmp_path), "0.tar")
    replace(tmp_path / "shards" / "0.tar", files["0.tar"][::-1])

    assert read(reader(tmp_path), "0.tar") == [files["0.tar"][::-1]]


def replace(path: Path, content: bytes) -> None:
    """Write a file anew. On older kernels, two writes within 4 ms would leave the same time of change."""
    path.write_bytes(content)
    os.utime(path, ns=(2, 2))


@pytest.mark.parametrize("is_known", [False, True], ids=["replaced-before-the-look", "replaced-after-the-look"])
def test_piece_of_a_shard_that_was_replaced_and_put_back_is_not_kept_as_its_own(
    tmp_path: Path, files: dict[str, bytes], is_known: bool
) -> None:
    path, source = tmp_path / "shards" / "0.tar", reader(tmp_path)
    if is_known:
        source._stat("0.tar")
    kept = path.rename(tmp_path / "kept")
    replace(path, files["0.tar"][::-1])
    assert read(source, "0.tar") == [files["0.tar"][::-1]]
    kept.rename(path)

    assert read(reader(tmp_path), "0.tar") == [files["0.tar"]]


def test_piece_of_a_shard_that_changes_during_the_read_is_not_kept(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shards" / "0.tar"

    class Changing(BufferedReader):
        def readinto(self, place: Any) -> int:
            found = super().readinto(place)
            os.utime(path, ns=(1, 1))
            return found

    source = reader(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: Changing(FileIO(path)))
        assert source.read_into("0.tar", memoryview(bytearray(PIECE))) == 4500

    assert not [*(tmp_path / "cache").glob("*.piece")]
    assert source.read_into("0.tar", memoryview(bytearray(PIECE))) == 4500
    assert len([*(tmp_path / "cache").glob("*.piece")]) == 1


def test_bytes_beyond_a_shards_end_are_none_in_the_cache_too(tmp_path: Path, files: dict[str, bytes]) -> None:
    source = reader(tmp_path)
    read(source, "0.tar")
    before = sorted((tmp_path / "cache").iterdir())

    for start in (4500, 4600, 5000, 9000):
        assert read(source, "0.tar", start=start) == [b""]
    assert sorted((tmp_path / "cache").iterdir()) == before


def test_limit_is_kept_by_removing_what_was_used_least_recently(
    tmp_path: Path, files: dict[str, bytes], asked: list[tuple[str, int]]
) -> None:
    limit = 12 * KEPT
    source = reader(tmp_path, limit)
    read(source, "0.tar")
    read(source, "1.tar")
    for path in (tmp_path / "cache").glob("*.piece"):
        os.utime(path, ns=(1, 1))
    read(source, "0.tar")

    # The first two files have ten pieces in total, which fill the cache. So the third file replaces some pieces of the
    # second file.
    read(source, "2.tar")

    assert taken(tmp_path) <= limit
    asked.clear()
    assert read(source, "0.tar") == [files["0.tar"]]
    assert not asked
    assert read(source, "1.tar") == [files["1.tar"]]
    assert asked


def test_pieces_that_other_ranks_are_writing_count(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "other-000000.1.part").write_bytes(bytes(8 * KEPT))

    read(reader(tmp_path, 10 * KEPT), *files)

    assert taken(tmp_path) <= 2 * KEPT


def test_limit_is_kept_after_a_rank_was_killed_while_it_wrote_the_usage(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 12 * KEPT
    source, other = reader(tmp_path, limit), reader(tmp_path, limit)
    read(source, "0.tar", "1.tar")

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", killed)
        with pytest.raises(KeyboardInterrupt):
            other.read_into("2.tar", memoryview(bytearray(PIECE)))
    read(source, "2.tar", "3.tar")

    assert 5 * KEPT < taken(tmp_path) <= limit


@pytest.mark.parametrize("left", [b"", b"0000", b"12", bytes(20), b"-0000000000000000001"])
def test_usage_that_cannot_be_read_is_counted_again(tmp_path: Path, files: dict[str, bytes], left: bytes) -> None:
    limit = 12 * KEPT
    source = reader(tmp_path, limit)
    read(source, "0.tar", "1.tar")
    (tmp_path / "cache" / "usage").write_bytes(left)

    read(source, "2.tar", "3.tar")

    assert 5 * KEPT < taken(tmp_path) <= limit


def test_cache_that_a_lower_limit_begins_with_is_cut(tmp_path: Path, files: dict[str, bytes]) -> None:
    read(reader(tmp_path), *files)

    reader(tmp_path, 5 * KEPT)

    assert 3 * KEPT <= taken(tmp_path) <= 5 * KEPT


@pytest.mark.parametrize("limit", [9 * KEPT, 1_000_000], ids=["too-small", "large"])
def test_many_readers_at_once_read_what_is_there_within_the_limit(
    tmp_path: Path, files: dict[str, bytes], limit: int
) -> None:
    faults: list[str] = []

    def read_often(seed: int) -> None:
        chance, source = random.Random(seed), reader(tmp_path, limit)
        for _ in range(10):
            names = chance.sample(sorted(files), 3)
            if read(source, *names) != [files[name] for name in names]:
                faults.append(f"{names} differ")
            with source._usage():  # While this lock is held, other readers cannot remove pieces.
                if (now := taken(tmp_path)) > limit:
                    faults.append(f"{now} bytes")

    readers = [threading.Thread(target=read_often, args=[seed]) for seed in range(4)]
    for each in readers:
        each.start()
    for each in readers:
        each.join(60)

    assert not faults


def fail(number: int) -> Any:
    def write(*_: object, **__: object) -> None:
        raise OSError(number, "No space left on device" if number == errno.ENOSPC else "Read-only file system")

    return write


def test_full_volume_is_said_once_and_the_reading_goes_on(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = reader(tmp_path)
    monkeypatch.setattr(Path, "replace", fail(errno.ENOSPC))

    for _ in range(3):
        assert read(source, *files) == [*files.values()]

    assert capsys.readouterr().err == (
        f"data.cache.folder: {tmp_path}/cache cannot be written: No space left on device; the training goes on without "
        "this cache; free some disk space, or lower data.cache.size\n"
    )
    assert not list((tmp_path / "cache").glob("*.p*"))


def test_limit_that_is_less_than_a_piece_is_said_once(
    tmp_path: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    source = reader(tmp_path, KEPT - 1)

    for _ in range(3):
        assert read(source, *files) == [*files.values()]

    assert capsys.readouterr().err == (
        f"data.cache.size: {KEPT - 1} bytes are less than a piece of a shard, which has {KEPT}, so it is not cached; "
        f"give {KEPT} bytes or more\n"
    )
    read(reader(tmp_path, KEPT), *files)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", ["file", "read-only"])
def test_folder_that_cannot_be_written_is_said_once(
    tmp_path: Path,
    files: dict[str, bytes],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if fault == "file":
        (tmp_path / "cache").touch()
    else:
        monkeypatch.setattr(Path, "mkdir", fail(errno.EROFS))

    source = reader(tmp_path)
    for _ in range(2):
        assert read(source, *files) == [*files.values()]

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "; the training goes on without this cache; mount a writable volume" in said


def test_cache_from_s3_asks_for_no_bytes_again(
    tmp_path: Path, files: dict[str, bytes], s3_server: Any, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="cached")
    for name, content in files.items():
        client.put_object(Bucket="cached", Key=name, Body=content)
    store, gets = open_store("s3://cached", value="data.uri"), list[str]()
    store.client.meta.events.register("before-call.s3.GetObject", lambda **_: gets.append("get"))  # type: ignore[attr-defined]
    place = Cache(tmp_path / "cache", 1_000_000)

    assert read(CachedReader(place, store, PIECE), *files) == [*files.values()]
    assert len(gets) == 4 * 5
    assert read(CachedReader(place, store, PIECE), *files) == [*files.values()]
    assert len(gets) == 4 * 5
