"""Test damaged or unusual input: the run trains on the good samples, or an error line names the bad file."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from distrain_trainer.data import load
from distrain_trainer.data.tars import Header
from distrain_trainer.errors import DataError, TrainerError
from lab.datasets.pictures import add, encode, numbered, write_image_folder, write_shards
from tests.trainer.fixtures.datasets import config_of, epoch_of, go_through, numbers_in

SIZES = (9, 6, 8)
# A program that reads all samples of the shards in a folder. It prints the number of samples, and the peak memory
# of Python's objects in bytes.
READ = """
import sys, tracemalloc
import numpy as np
from distrain_trainer.data import load, read_ahead
from distrain_trainer.data.shards import Shards
from tests.trainer.fixtures.datasets import config_of

read_ahead.PIECE, read_ahead.MEMORY = 65_536, 16 * 65_536
train = load(config_of(sys.argv[1])).train
assert isinstance(train, Shards)
tracemalloc.start()
print(sum(1 for _ in train.read(np.arange(len(train)))), tracemalloc.get_traced_memory()[1])
"""


def write_counted(folder: Path) -> list[Path]:
    written = write_shards(folder, numbered(sum(SIZES)), SIZES)
    (folder / "sizes.json").write_text(json.dumps(written))
    return [folder / name for name in written]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_shard_that_is_cut_is_named(tmp_path: Path, share: float) -> None:
    shards = write_counted(tmp_path)
    content = shards[1].read_bytes()
    shards[1].write_bytes(content[: int(len(content) * share)])
    config = config_of(tmp_path, batch_size=1)

    with pytest.raises(DataError, match=r"^data\.uri: /.*/shard-000001\.tar is damaged \(.+\); upload it again$"):
        go_through(config)


@pytest.mark.parametrize("counted", [True, False], ids=["sizes.json", "walked"])
def test_shard_of_0_bytes_is_named(tmp_path: Path, counted: bool) -> None:
    shards = write_counted(tmp_path)
    shards[1].write_bytes(b"")
    if not counted:
        (tmp_path / "sizes.json").unlink()

    with pytest.raises(DataError, match=r"^data\.uri: /.*/shard-000001\.tar is damaged \(empty file\); upload it aga"):
        go_through(config_of(tmp_path))


def test_shard_without_a_sample_is_passed_over(tmp_path: Path) -> None:
    shards = write_counted(tmp_path)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    (tmp_path / "sizes.json").write_text(
        json.dumps({path.name: size for path, size in zip(shards, SIZES, strict=True)} | {"empty.tar": 0})
    )

    assert sorted(numbers_in(go_through(config_of(tmp_path)))) == list(range(sum(SIZES)))


def test_shard_of_many_small_files_takes_no_more_memory(tmp_path: Path) -> None:
    count, image = 10_000, encode(np.zeros((4, 4, 3), dtype=np.uint8), "PNG")
    write_shards(tmp_path, ((image, 0) for _ in range(count)), [count])
    (tmp_path / "sizes.json").write_text(json.dumps({"shard-000000.tar": count}))

    # The program runs in a process of its own, because threads of earlier tests allocate memory in this process.
    done = subprocess.run(
        [sys.executable, "-c", READ, tmp_path],
        env={**os.environ, "PYTHONPATH": "trainer"},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    read, most = map(int, done.stdout.split())
    assert read == count
    # tarfile would keep all 20,000 headers in memory, and each header takes about a kilobyte.
    assert most < 5e6


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_headers_are_read_as_python_reads_them(tmp_path: Path, tar_format: int) -> None:
    path = tmp_path / "a.tar"
    names = [
        "1.png",
        f"{'f/' * 60}2.png",
        "ä.png",
        *([] if tar_format == tarfile.USTAR_FORMAT else [f"{'l' * 300}.png"]),
    ]
    with tarfile.open(path, "w", format=tar_format) as tar:
        for name in names:
            add(tar, name, name.encode())
            folder = tarfile.TarInfo(f"{name}.d")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        # Programs from before 1988 mark a folder in a tar in this way.
        old = tarfile.TarInfo("old/")
        old.type = tarfile.AREGTYPE
        tar.addfile(old)

    def members(kind: type[tarfile.TarInfo]) -> list[tuple[object, ...]]:
        with tarfile.open(path, tarinfo=kind) as tar:
            return [(each.name, each.size, each.type, each.offset, each.offset_data) for each in tar]

    assert members(Header) == members(tarfile.TarInfo)
    assert [name for name, *_ in members(Header)][::2] == [*names, "old"]


def _write(folder: Path, content: bytes, suffix: str) -> Path:
    (folder / "a").mkdir()
    (folder / "a" / f"1{suffix}").write_bytes(content)
    return folder


@pytest.mark.parametrize("values", [{}, {"image_size": 8}], ids=["whole", "scaled"])
def test_jpeg_in_cmyk_is_trained_on_in_its_colour(tmp_path: Path, values: dict[str, int]) -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    buffer = io.BytesIO()
    red.save(buffer, "JPEG")
    config = config_of(_write(tmp_path, buffer.getvalue(), ".jpg"), batch_size=1, **values)

    [batch] = go_through(config)

    assert batch.images[0, 4, 4] == pytest.approx([1, 0, 0], abs=0.02)


def _png_of_16_bits(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint16]]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("values", [{}, {"image_size": 4}], ids=["whole", "scaled"])
def test_png_of_16_bits_keeps_its_shades(tmp_path: Path, values: dict[str, int]) -> None:
    pixels = np.full((8, 8), 0x8000, dtype=np.uint16)
    config = config_of(_write(tmp_path, _png_of_16_bits(pixels), ".png"), batch_size=1, **values)

    [batch] = go_through(config)

    assert batch.images[0, 2, 2] == pytest.approx([0.5] * 3, abs=0.01)


@pytest.mark.parametrize("kind", ["images", "shards"])
def test_image_of_0_bytes_is_left_out_within_the_share(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [(b"" if number == 5 else image, label) for number, (image, label) in enumerate(numbered(10))]
    if kind == "images":
        write_image_folder(tmp_path, iter(samples))
    else:
        write_shards(tmp_path, iter(samples), [10])

    with pytest.raises(TrainerError, match=r"^data\.uri: /.*00005\.png is damaged \(no JPEG or PNG image\); upload it"):
        go_through(config_of(tmp_path, max_bad_share=0.05))
    capsys.readouterr()
    read = numbers_in(go_through(config_of(tmp_path, max_bad_share=0.1)))

    assert sorted(read) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert capsys.readouterr().out.startswith("left out: data.uri: /")


@pytest.mark.parametrize("kind", ["images", "shards"])
def test_damaged_image_whose_name_is_not_utf8_is_named_with_escapes(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "z\udce9"  # Python's str of the bytes b"z\xe9".
    if kind == "images":
        write_image_folder(tmp_path, numbered(10))
        (tmp_path / "class-0" / f"{name}.png").touch()
    else:
        write_shards(tmp_path, numbered(10), [10])
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            add(tar, f"{name}.png", b"")
            add(tar, f"{name}.cls", b"0")

    read = numbers_in(go_through(config_of(tmp_path, max_bad_share=0.1)))

    assert sorted(read) == list(range(10))
    assert "/z\\udce9." in capsys.readouterr().out
    with pytest.raises(TrainerError, match=r"/z\\udce9\..* is damaged"):
        go_through(config_of(tmp_path, max_bad_share=0.0))


def test_first_image_of_0_bytes_is_named(tmp_path: Path) -> None:
    write_image_folder(tmp_path, ((b"" if number == 0 else image, 0) for number, (image, _) in enumerate(numbered(10))))

    with pytest.raises(
        TrainerError, match=r"^data\.uri: /.*/00000\.png is damaged \(no JPEG or PNG image\); upload it"
    ):
        load(config_of(tmp_path, max_bad_share=0.5))


@pytest.mark.parametrize("ranks", [4, 7, 23])
def test_more_ranks_than_shards_share_the_shards(tmp_path: Path, ranks: int) -> None:
    write_counted(tmp_path)
    config = config_of(tmp_path, batch_size=1)

    per_rank = epoch_of(config, load(config), ranks=ranks)

    assert sorted(itertools.chain(*map(numbers_in, per_rank))) == list(range(sum(SIZES)))
