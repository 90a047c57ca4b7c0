"""Test the PyTorch image for GPUs on a machine without GPUs: two ranks train on digits, on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer.conftest import DIGITS_IN_IMAGE, run_in_image, torchrun_of
from tests.trainer.training.test_training import LEARNS_DIGITS

IMAGE = "pytorch-cuda"
DIGITS = ("--framework=pytorch", f"--data={DIGITS_IN_IMAGE}", *LEARNS_DIGITS)
# The GPU architectures of A100, H100 and B200. Unlike torch.cuda.get_arch_list(), `_cuda_getArchFlags` works without a
# GPU.
ARCHITECTURES = {"sm_80", "sm_90", "sm_100"}
ASK = "import torch; print(torch._C._cuda_getArchFlags())"


@pytest.mark.full
def test_image_for_gpus_trains_on_the_cpu(digits: Path) -> None:
    run = run_in_image(
        IMAGE, [*torchrun_of(2), "-m", "distrain_trainer", *DIGITS], digits, env=None, mounts=None, timeout=600
    )

    assert run.returncode == 0, run.stderr
    assert float(run.stdout.partition("test accuracy: ")[2].split()[0]) >= 0.95


@pytest.mark.full
def test_image_for_gpus_has_kernels_for_each_generation_and_a_compiler(digits: Path) -> None:
    asked = run_in_image(IMAGE, ["python3", "-c", ASK], digits, env=None, mounts=None, timeout=120)
    compiler = run_in_image(IMAGE, ["gcc", "--version"], digits, env=None, mounts=None, timeout=120)

    assert asked.returncode == 0, asked.stderr
    assert set(asked.stdout.split()) >= ARCHITECTURES
    assert compiler.returncode == 0, compiler.stderr
