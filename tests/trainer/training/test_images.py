"""Test whole runs on folders of images and on tar shards, and the errors for invalid data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lab.datasets.pictures import encode, numbered, write_image_folder, write_shards
from tests.trainer.conftest import ProgramInImage, assert_refused

DATA = ("--data", "/data/images")
# The error in the log if one rank fails during the training and other ranks wait for its gradients. If each process has
# a log of its own, the chief's log only names the process whose log contains the cause.
ELSEWHERE = r"worker \d has ended before the training, .* its log says why"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the trainer is allowed to read, although it runs as another user."""
    tmp_path.chmod(0o755)
    return tmp_path


def write_images(folder: Path) -> None:
    for part in ("train", "val"):
        write_image_folder(folder / part, numbered(20))


def write_tars(folder: Path) -> None:
    for part in ("train", "val"):
        written = write_shards(folder / part, numbered(20), (9, 11))
        (folder / part / "sizes.json").write_text(json.dumps(written))


@pytest.mark.shared
# test_storage_faults.py runs a training on images in S3.
@pytest.mark.parametrize(
    "write", [pytest.param(write_images, id="images", marks=pytest.mark.full), pytest.param(write_tars, id="shards")]
)
def test_images_are_trained_and_tested_on(write: Callable[[Path], None], program: ProgramInImage, folder: Path) -> None:
    write(folder)

    run = program(*DATA, "--epochs", "3", "--batch-size", "4", mounts={folder: "/data/images"})

    assert run.returncode == 0, run.stderr
    assert re.search(r"^9\timages/sec: ", run.stdout, re.MULTILINE)
    assert re.search(r"^test accuracy: [01]\.\d{4}$", run.stdout, re.MULTILINE)
    assert run.stderr == ""


def cut_an_image(folder: Path) -> None:
    write_images(folder)
    path = folder / "train" / "class-1" / "00001.png"
    path.write_bytes(path.read_bytes()[:-30])


def mix_sizes(folder: Path) -> None:
    write_images(folder)
    (folder / "train" / "class-1" / "00001.png").write_bytes(encode(np.zeros((9, 8, 3), dtype=np.uint8), "PNG"))


def cut_a_shard(folder: Path) -> None:
    write_tars(folder)
    path = folder / "train" / "shard-000001.tar"
    path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.shared
@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(
            cut_an_image,
            r"data\.uri: /data/images/train/class-1/00001\.png is damaged \(.+\); upload it",
            id="image",
            marks=pytest.mark.full,
        ),
        # data/test_images.py tests these errors without running a program.
        pytest.param(
            mix_sizes,
            r"data\.uri: .*0\.png is 8x8x3, but .*1\.png is 9x8x3; add --image-size=8 to",
            id="sizes",
            marks=pytest.mark.full,
        ),
        pytest.param(cut_a_shard, r"data\.uri: /data/images/train/shard-000001\.tar is damaged \(.+\)", id="shard"),
        pytest.param(
            lambda folder: None,
            r"data\.uri: /data/images holds nothing; correct data.uri, or put there",
            id="nothing",
            marks=pytest.mark.full,
        ),
    ],
)
def test_what_cannot_be_trained_on_ends_the_run_in_one_line(
    write: Callable[[Path], None], message: str, program: ProgramInImage, folder: Path
) -> None:
    write(folder)

    run = program(*DATA, "--epochs", "1", "--batch-size", "4", mounts={folder: "/data/images"})

    assert_refused(run, f"({message}|{ELSEWHERE})", code=(1, 2))
