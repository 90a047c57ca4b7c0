"""Test the bench that compares the trainer's data reader with other libraries. These libraries are not needed here."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.bench.readers.table import BARE, DISTRAIN, LOCAL, OTHER_PIXELS, TF_DATA, Figure, failures, median
from lab.bench.readers.tar import samples_in
from lab.datasets.pictures import photographs, write_shards
from lab.paths import REPOSITORY

COUNT, SHARDS = 40, [20, 20]
FILES = [content for content, _ in photographs(COUNT, size=32, classes=8)]
GOOD = {(DISTRAIN, False): 1000.0, (DISTRAIN, True): 90.0, (LOCAL, True): 90.0, (BARE, True): 100.0}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    written = write_shards(tmp_path, photographs(COUNT, size=32, classes=8), SHARDS, ".jpg")
    (tmp_path / "sizes.json").write_text(json.dumps(written))
    return tmp_path


@pytest.mark.parametrize(
    ("options", "size"),
    [
        pytest.param([], sum(map(len, FILES)), id="files"),
        pytest.param(["--decodes"], COUNT * 224 * 224 * 3 * 4, id="decoded"),
    ],
)
def test_program_of_the_trainer_reads_every_image_once(shards: Path, options: list[str], size: int) -> None:
    command = [sys.executable, "-m", "lab.bench.readers.of_distrain", str(shards), *options]
    environment = {**os.environ, "PYTHONPATH": "trainer"}

    run = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert (told["images"], told["bytes"]) == (COUNT, size)
    assert told["per_second"] > 0
    assert told["processor"] > 0


def test_samples_of_a_shard_are_those_written(shards: Path) -> None:
    content = (shards / "shard-000000.tar").read_bytes()

    found = list(samples_in(io.BytesIO(content)))

    assert found == list(photographs(COUNT, size=32, classes=8))[: SHARDS[0]]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, [], id="ahead"),
        pytest.param({(TF_DATA, False): 1000.0, (TF_DATA, True): 90.0}, [], id="as-fast"),
        pytest.param(
            {(TF_DATA, False): 1001.0}, ["tf.data is faster: 1001 images/s, the trainer 1000"], id="behind-with-files"
        ),
        pytest.param(
            {(TF_DATA, True): 91.0}, ["tf.data is faster with decoding: 91 images/s, the trainer 90"], id="behind"
        ),
        pytest.param({(OTHER_PIXELS, True): 200.0}, [], id="other-pixels"),
        pytest.param({(LOCAL, True): 89.0}, ["distrain, local files: 0.89 of a bare loop"], id="slower-than-bare"),
    ],
)
def test_bench_fails_where_the_trainer_is_behind(more: dict[tuple[str, bool], float], expected: list[str]) -> None:
    medians = {key: Figure(rate, 1.0) for key, rate in {**GOOD, **more}.items()}

    assert failures(medians) == expected


def test_median_is_of_each_figure() -> None:
    assert median([Figure(1, 30), Figure(3, 10), Figure(2, 20)]) == Figure(2, 20)
