"""In every program, test steps that are left out, ranks without samples, and batch normalization statistics."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lab.datasets.digits import write_idx
from tests.matrix import one_of
from tests.trainer.conftest import (
    DIGITS_IN_IMAGE,
    SCRIPTS,
    USER_MODELS_FOLDER,
    ProgramInImage,
    run_in_image,
    tried_by,
)

MODEL = {USER_MODELS_FOLDER: "/models"}
WITH_MODEL = {"PYTHONPATH": "/models"}
LEARNS = shlex.split(f"--data {DIGITS_IN_IMAGE} --model normalized:net --batch-size 32 --optimizer adam --warmup 20")

# This script makes two steps with a weight, and the second one is left out. First it changes PyTorch's default type,
# which the weight gets.
OF_ANOTHER_TYPE = """
import torch
from distrain_trainer.pytorch.training import make_step_if_finite
torch.set_default_dtype(torch.{type})
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=1.0, fused=True)
for gradient in (0.5, torch.inf):
    weight.grad = torch.full_like(weight, gradient)
    print(bool(make_step_if_finite(optimizer)), weight.item())
"""

Arrays = list[npt.NDArray[np.generic]]


# test_pytorch.py tests that PyTorch's programs leave out a step.
@tried_by("mxnet-kvstore")
def test_step_with_a_loss_that_is_no_number_is_left_out_by_all_ranks(program: ProgramInImage) -> None:
    run = program(
        *(*LEARNS, "--epochs", "4", "--learning-rate", "0.1"),
        script="/bad_batch.py",
        env=WITH_MODEL,
        mounts={**MODEL, SCRIPTS / "faults/bad_batch.py": "/bad_batch.py"},
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert re.findall(r"^step (\d+) is left out: .*\((\d+) in a row", run.stdout, re.MULTILINE) == [("11", "1")]
    assert float(run.stdout.partition("test accuracy: ")[2].split()[0]) >= 0.8


# TensorFlow's program with parameter servers is not tested, because its servers hold one set of statistics for all
# workers.
@pytest.mark.parametrize(
    "program",
    [
        "mxnet-horovod",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("tensorflow-horovod", "pytorch-horovod", "pytorch-ddp", "mxnet-kvstore")
        ),
    ],
    indirect=True,
)
def test_rank_without_samples_leaves_its_means_alone_and_all_test_with_the_same(
    program: ProgramInImage, three_samples: Path, tmp_path: Path
) -> None:
    # In the second step of the epoch, only rank 1 has a sample.
    one_step, one_epoch = (means_of_ranks(program, three_samples, tmp_path, of) for of in ("--steps=1", "--epochs=1"))

    assert len(one_epoch) == 2
    for rank_0, rank_1, before in zip(*one_epoch, one_step[0], strict=True):
        np.testing.assert_array_equal(rank_0, rank_1)
        np.testing.assert_array_equal(rank_0, before)


def means_of_ranks(program: ProgramInImage, data: Path, folder: Path, length: str) -> list[Arrays]:
    out = folder / length
    out.mkdir()
    for each in (folder, out):
        each.chmod(0o777)
    run = program(
        *("--data=/three", "--model=normalized:net", "--batch-size=1", "--learning-rate=1e-30", length),
        script="/shown.py",
        env=WITH_MODEL,
        mounts={**MODEL, SCRIPTS / "weights/shown_statistics.py": "/shown.py", data: "/three", out: "/out"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return [list(np.load(path).values()) for path in sorted(out.iterdir())]


@pytest.fixture(scope="module")
def three_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    folder.chmod(0o755)
    random = np.random.default_rng(0)
    for part, count in (("train", 3), ("t10k", 4)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", random.integers(0, 256, (count, 8, 8), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count, dtype=np.uint8) % np.uint8(3))
    return folder


@pytest.mark.parametrize("kind", one_of(["float64", "bfloat16"]))
def test_model_may_change_the_default_type(kind: str, digits: Path) -> None:
    script = OF_ANOTHER_TYPE.format(type=kind)

    run = run_in_image("pytorch", ["python3", "-c", script], digits, env=None, mounts=None, timeout=120)

    assert run.returncode == 0, run.stderr
    assert run.stdout == "False 0.5\nTrue 0.5\n"
