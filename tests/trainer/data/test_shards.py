"""Test that tar shards are read sequentially or in part, and that an error names the shard and the member."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import tarfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from distrain_trainer.data import Position, load, read_ahead, shards, train_batches
from distrain_trainer.data.images import Decoder
from distrain_trainer.data.read_ahead import Span
from distrain_trainer.data.sampler import SHUFFLE_BUFFER, Segment, part_of_epoch
from distrain_trainer.data.shards import Shard, Shards, find_shards, span_of
from distrain_trainer.errors import DataError
from distrain_trainer.storage import FolderStore, open_store
from lab.datasets.pictures import add, numbered, photographs, write_shards
from tests.trainer.fixtures.datasets import config_of, epoch_of, go_through, numbers_in

SAMPLES = 23
SIZES = (9, 1, 0, 13)

Reads = list[tuple[str, int]]


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """All reads of this test's files: the name of the file, and the number of bytes."""
    seen: Reads = []
    read, read_into = FolderStore.read, FolderStore.read_into

    def watch(store: FolderStore, name: str, length: int) -> None:
        # Threads of earlier tests may still be reading other files; do not record these reads.
        if store.uri == str(tmp_path):
            seen.append((name, length))

    def watched(self: FolderStore, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        content = read(self, name, start=start, length=length)
        watch(self, name, len(content))
        return content

    def watched_into(self: FolderStore, name: str, place: memoryview, *, start: int = 0) -> int:
        size = read_into(self, name, place, start=start)
        watch(self, name, min(len(place), size - start))
        return size

    monkeypatch.setattr(FolderStore, "read", watched)
    monkeypatch.setattr(FolderStore, "read_into", watched_into)
    return seen


def samples_of(folder: Path, shard: Shard, first: int, count: int) -> list[int]:
    """Read samples of a shard in the same way as the training. Return their numbers."""
    store = open_store(str(folder), value="data.uri")
    decoder = Decoder((8, 8, 3), scales=False, first="", augments=False, seed=0)
    numbers = np.arange(first, first + count)
    return [sample.label for _, sample in Shards(store, [shard], 3, decoder).read(numbers)]


def test_rank_opens_its_own_shards_alone(tmp_path: Path, reads: Reads) -> None:
    # This rank has so few batches that the loader prefetches all of them.
    write_shards(tmp_path, numbered(80), (10,) * 8)
    config = config_of(tmp_path, batch_size=10)
    dataset = load(config)
    reads.clear()

    next(train_batches(config, dataset, rank=1, ranks=4))

    part = part_of_epoch(80, 10, seed=0, epoch=0, rank=1, ranks=4, shards=dataset.train.shards)
    own = {f"shard-{shard:06}.tar" for shard in part.reading // 10}
    assert len(own) == 2
    assert reads[0][0] in own
    assert {name for name, _ in reads[:2]} <= own


@pytest.mark.parametrize("counted", [False, True], ids=["walked", "sizes.json"])
def test_run_that_begins_inside_a_shard_begins_there(
    tmp_path: Path, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHUFFLE_BUFFER", 4)
    written = write_shards(tmp_path, numbered(SAMPLES), (SAMPLES,))
    if counted:
        (tmp_path / "sizes.json").write_text(json.dumps(written))
    config = config_of(tmp_path)
    dataset = load(config)

    per_rank = [numbers_in(batches) for batches in epoch_of(config, dataset, ranks=3)]

    assert [sorted(numbers) for numbers in per_rank] == [list(range(7)), list(range(7, 15)), list(range(15, 23))]
    assert all(numbers != sorted(numbers) for numbers in per_rank)


@pytest.mark.parametrize("buffer", [4, 1000], ids=["gaps-passed-over", "gaps-read-over"])
def test_rest_of_an_epoch_is_read_at_another_number_of_ranks(
    tmp_path: Path, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHUFFLE_BUFFER", buffer)
    write_shards(tmp_path, numbered(SAMPLES), SIZES)
    config = config_of(tmp_path)
    dataset = load(config)
    start = Position(2, 12, (Segment(2, 3, 2),))

    before = [numbers_in(batches[:2]) for batches in epoch_of(config, dataset, ranks=2)]
    after = [
        numbers_in(list(itertools.islice(train_batches(config, dataset, rank=rank, ranks=3, start=start), 2)))
        for rank in range(3)
    ]

    assert sorted(itertools.chain(*before, *after)) == list(range(SAMPLES))


@pytest.mark.parametrize(("space", "wanted"), [(0, 1), (5, 5), (2000, SHUFFLE_BUFFER)])
def test_large_samples_get_a_smaller_buffer(
    tmp_path: Path, space: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`space` is the space in the buffer, in samples of the first shard."""
    write_shards(tmp_path, numbered(SAMPLES), SIZES)
    size = (tmp_path / "shard-000000.tar").stat().st_size
    monkeypatch.setattr(shards, "BUFFERED", -(-space * size // SIZES[0]))

    dataset = load(config_of(tmp_path)).train

    assert dataset.shuffle_buffer == wanted
    part = part_of_epoch(SAMPLES, 2, seed=0, epoch=0, rank=0, ranks=1, shards=SIZES, shuffle_buffer=wanted)
    used = [number for numbers, _ in part.steps for number in numbers.tolist()]
    places = {number: place for place, number in enumerate(part.reading.tolist())}
    assert sorted(used) == list(range(SAMPLES))
    assert max(places[number] - step for step, number in enumerate(used)) < wanted


def test_shard_is_read_once_and_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads) -> None:
    monkeypatch.setattr(read_ahead, "PIECE", 4096)
    write_shards(tmp_path, numbered(SAMPLES), (SAMPLES,))

    samples = samples_of(tmp_path, Shard("shard-000000.tar", SAMPLES), 0, SAMPLES)

    size = (tmp_path / "shard-000000.tar").stat().st_size
    assert len(samples) == SAMPLES
    assert max(length for _, length in reads) == 4096
    assert sum(length for _, length in reads) <= size


def test_walk_through_the_headers_passes_over_the_images(tmp_path: Path, reads: Reads) -> None:
    write_shards(tmp_path, photographs(4, size=512, classes=1), (4,), ".jpg")

    shards, classes = find_shards(open_store(str(tmp_path), value="data.uri"), ["shard-000000.tar"], "")

    assert ([shard.samples for shard in shards], classes) == ([4], 1)
    assert sum(length for _, length in reads) < (tmp_path / "shard-000000.tar").stat().st_size / 2


def test_run_inside_a_walked_shard_reads_that_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    monkeypatch.setattr(read_ahead, "PIECE", 4096)
    write_shards(tmp_path, numbered(SAMPLES), (SAMPLES,))
    train = load(config_of(tmp_path)).train
    assert isinstance(train, Shards)
    reads.clear()

    samples = samples_of(tmp_path, train.files[0], 20, 2)

    # In a shard, each sample takes 2 KiB.
    assert samples == [2, 0]
    assert sum(length for _, length in reads) <= 8192


def test_sizes_spare_the_look_at_the_labels_and_the_model_tells_the_classes(tmp_path: Path) -> None:
    written = write_shards(tmp_path, numbered(SAMPLES), SIZES)
    (tmp_path / "sizes.json").write_text(json.dumps(written))

    assert load(config_of(tmp_path)).classes == 10
    assert load(config_of(tmp_path, classes=4)).classes == 4


def test_labels_of_walked_test_shards_count_as_classes(tmp_path: Path) -> None:
    written = write_shards(tmp_path / "train", numbered(SAMPLES), SIZES)
    (tmp_path / "train" / "sizes.json").write_text(json.dumps(written))
    write_shards(tmp_path / "val", numbered(SAMPLES, classes=12), SIZES)

    assert load(config_of(tmp_path)).classes == 12


def shard_of(*members: tuple[str, bytes], links: dict[str, bytes] | None = None) -> bytes:
    """Return a tar of these files, followed by `links`: the types of links to other files, by their names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            add(tar, name, content)
        for name, kind in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, members[0][0]
            tar.addfile(link)
    return buffer.getvalue()


def labelled(label: str) -> bytes:
    return shard_of(("1.png", PNG), ("1.cls", label.encode()), *GOOD)


PNG = next(numbered(1))[0]
GOOD = (("a/1.png", PNG), ("a/1.cls", b"0\n"), ("a/1.json", b"{}"), ("a/2.jpeg", PNG), ("a/2.cls", b"1"))


def test_shard_with_folders_long_names_and_more_members_is_read(tmp_path: Path) -> None:
    long = "folder/" * 30 + "3.x"
    (tmp_path / "a.tar").write_bytes(shard_of(*GOOD, (f"{long}.png", PNG), (f"{long}.cls", b"2")))
    # The suffix of a file name begins at its first dot. So the suffix is .x.png here, which is not an image format.
    with pytest.raises(DataError, match=r"folder/3 has no \.jpg, \.jpeg or \.png beside it"):
        load(config_of(tmp_path))

    long = long.replace(".x", "")
    (tmp_path / "a.tar").write_bytes(shard_of(*GOOD, (f"{long}.png", PNG), (f"{long}.cls", b"2")))

    dataset = load(config_of(tmp_path))
    go_through(config_of(tmp_path, batch_size=1))
    assert (len(dataset.train), dataset.classes) == (3, 3)


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


@pytest.mark.parametrize("counted", [False, True], ids=["walked", "sizes.json"])
def test_members_that_are_no_part_of_a_sample_are_passed_over(tmp_path: Path, counted: bool) -> None:
    # tar of macOS adds a file ._1.png before 1.png, and the Finder a file .DS_Store.
    hidden = [(name, b"") for name in ("./._1.png", "./1.png", ".DS_Store", "./._1.cls", "./1.cls", "./.png", "a/.cls")]
    members = [(name, content or {"./1.png": PNG, "./1.cls": b"0002"}.get(name, b"")) for name, content in hidden]
    links = {"latest": tarfile.SYMTYPE, "b.txt": tarfile.LNKTYPE, "c.jpg": tarfile.DIRTYPE}
    (tmp_path / "a.tar").write_bytes(shard_of(*members, *GOOD, links=links))
    if counted:
        (tmp_path / "sizes.json").write_text('{"a.tar": 3}')

    batches = go_through(config_of(tmp_path, batch_size=1))

    assert sorted(int(batch.labels[0]) for batch in batches) == [0, 1, 2]


def test_largest_class_number_is_that_of_the_message(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(labelled("999999"))

    assert load(config_of(tmp_path)).classes == 1_000_000


@pytest.mark.parametrize("counted", [False, True], ids=["walked", "sizes.json"])
@pytest.mark.parametrize(
    ("content", "finding"),
    [
        pytest.param(b"", r"is damaged \(empty file\)", id="empty-file"),
        pytest.param(b"<html>" * 200, r"is damaged \(.+\)", id="a-web-page"),
        pytest.param(shard_of(*GOOD)[: 512 + 20], r"is damaged \(unexpected end of data\)", id="cut-in-an-image"),
        pytest.param(shard_of(*GOOD)[:2048], r"is damaged \(no header and no end .* byte 2048\)", id="cut-between"),
        pytest.param(_flipped(shard_of(*GOOD), 3072 + 200), r"is damaged \(.+\)", id="header-damaged"),
        pytest.param(shard_of(*GOOD, ("b.cls", b"0")), r": b has no \.jpg, \.jpeg or \.png beside it", id="no-image"),
        pytest.param(shard_of(*GOOD, ("b.jpg", PNG)), r": b has no \.cls beside it", id="no-class"),
        pytest.param(labelled("cat"), r": 1\.cls holds 'cat' instead of a class number from 0 to 999999", id="name"),
        pytest.param(labelled("-1"), r": 1\.cls holds '-1' instead of a class number", id="negative"),
        pytest.param(labelled("1000000"), r": 1\.cls holds '1000000' instead of a class number", id="too-large"),
        pytest.param(labelled("9" * 5000), r": 1\.cls holds '9{20}' instead of a class number", id="5000-digits"),
        pytest.param(
            shard_of(*GOOD, ("3.png", PNG), ("3.cls", b"0"), ("3.png", PNG), ("3.cls", b"1")),
            r": 3 has two \.png; give each sample a key of its own",
            id="one-key-for-two-samples",
        ),
        pytest.param(
            shard_of(*GOOD, ("3.png", PNG), ("3.cls", b"0"), ("3.cls", b"1")), r": 3 has two \.cls;", id="two-labels"
        ),
        pytest.param(
            shard_of(*GOOD, ("3.png", PNG), links={"3.cls": tarfile.LNKTYPE}),
            r": 3\.cls is a link or .*; .* --dereference --hard-dereference",
            id="label-is-a-hard-link",
        ),
        pytest.param(
            shard_of(*GOOD, links={"3.PNG": tarfile.LNKTYPE, "3.cls": tarfile.LNKTYPE}),
            r": 3\.PNG is a link or ",
            id="sample-of-hard-links",
        ),
        pytest.param(shard_of(*GOOD, links={"3.jpg": tarfile.SYMTYPE}), r": 3\.jpg is a link or ", id="symlink"),
        pytest.param(
            shard_of(*GOOD) + shard_of(*GOOD), r"goes on after .* \(byte \d+\).*; upload each tar as a", id="two-tars"
        ),
        pytest.param(gzip.compress(shard_of(*GOOD)), r"is compressed by gzip; upload it decompressed", id="gzip"),
        pytest.param(bz2.compress(shard_of(*GOOD)), r"is compressed by bzip2; upload it decompressed", id="bzip2"),
        pytest.param(lzma.compress(shard_of(*GOOD)), r"is compressed by xz; upload it decompressed", id="xz"),
        pytest.param(
            shard_of(("1.png", PNG[:-30]), ("1.cls", b"0"), *GOOD), r": 1\.png is damaged \(.+\)", id="image-damaged"
        ),
    ],
)
def test_wrong_shard_is_named_with_the_member(tmp_path: Path, content: bytes, finding: str, counted: bool) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    if counted:
        (tmp_path / "sizes.json").write_text('{"a.tar": 3}')

    with pytest.raises(DataError, match=rf"^data\.uri: /.*/a\.tar:? ?{finding}"):
        go_through(config_of(tmp_path, batch_size=1))


def test_class_beyond_the_known_ones_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(shard_of(*GOOD, ("3.png", PNG), ("3.cls", b"10")))
    (tmp_path / "sizes.json").write_text('{"a.tar": 3}')

    with pytest.raises(
        DataError, match=r"a\.tar: 3\.png is of class 10, but this run has only 10 .*add --classes=11 or"
    ):
        go_through(config_of(tmp_path))

    go_through(config_of(tmp_path, classes=11))


@pytest.mark.parametrize(
    ("sizes", "finding"),
    [
        pytest.param('{"a.tar": 3}', r"a\.tar holds fewer samples than the 3 that sizes\.json lists", id="fewer"),
        pytest.param('{"a.tar": 1}', r"a\.tar holds more samples than the 1 that sizes\.json lists", id="more"),
        pytest.param('{"a.tar": 0}', r"a\.tar holds more samples than the 0 that sizes\.json lists", id="none"),
        pytest.param('{"a.tar": "2"}', r"sizes\.json does not map each shard to its number", id="a-string"),
        pytest.param('{"a.tar": -1}', r"sizes\.json does not map each shard to its number", id="negative"),
        pytest.param('{"a.tar": 1000000000000}', r"sizes\.json does not map each shard to its number", id="huge"),
        pytest.param("[2]", r"sizes\.json does not map each shard to its number", id="a-list"),
        pytest.param("{", r"sizes\.json does not map each shard to its number", id="no-json"),
        pytest.param('{"a.tar": 2, "b.tar": 2}', r"b\.tar is in the list, but not in the folder", id="missing-shard"),
        pytest.param("{}", r"a\.tar is in the folder, but not in the list", id="missing-name"),
    ],
)
def test_wrong_sizes_are_named(tmp_path: Path, sizes: str, finding: str) -> None:
    (tmp_path / "a.tar").write_bytes(shard_of(*GOOD))
    (tmp_path / "sizes.json").write_text('{"a.tar": 2}')
    go_through(config_of(tmp_path, batch_size=1))
    (tmp_path / "sizes.json").write_text(sizes)

    with pytest.raises(DataError, match=rf"^data\.uri: .*{finding}"):
        go_through(config_of(tmp_path, batch_size=1))


@pytest.mark.parametrize("folder", ["train", "val"])
def test_shard_of_which_the_sizes_say_0_is_looked_at(tmp_path: Path, folder: str) -> None:
    for each in ("train", "val"):
        (tmp_path / each).mkdir()
        for name in ("a.tar", "b.tar"):
            (tmp_path / each / name).write_bytes(shard_of(*GOOD))
    (tmp_path / folder / "sizes.json").write_text('{"a.tar": 2, "b.tar": 0}')

    with pytest.raises(DataError, match=rf"^data\.uri: /.*/{folder}/b\.tar holds more samples than the 0 that sizes"):
        load(config_of(tmp_path))


@pytest.mark.parametrize("counted", [False, True], ids=["walked", "sizes.json"])
def test_shards_without_any_sample_are_refused(tmp_path: Path, counted: bool) -> None:
    (tmp_path / "a.tar").write_bytes(shard_of())
    if counted:
        (tmp_path / "sizes.json").write_text('{"a.tar": 0}')

    with pytest.raises(DataError, match=r"^data\.uri: the shards of /.*/ hold no sample; "):
        load(config_of(tmp_path))


def test_span_of_a_shard_without_offsets_is_a_share_of_its_file() -> None:
    assert span_of(Shard("1.tar", 8), 1, 5) == Span("1.tar", share=0.75)


def test_shuffle_buffer_takes_128_mib() -> None:
    store = Mock(stat=Mock(return_value=(1000 * 2 * 1024**2, "tag")))

    assert shards.shuffle_buffer_for(store, Shard("1.tar", 1000)) == 64
