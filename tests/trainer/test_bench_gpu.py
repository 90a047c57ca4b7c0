"""Test that `make bench-gpu` runs, here with a small model on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.builds.trainer import run_trainer
from lab.paths import REPOSITORY
from tests.trainer.conftest import OF_THIS_MACHINE

FIGURES = {"trainer", "bare", "ratio"}


# Full matrix only: the bench is made for GPUs, and it imports PyTorch four times.
@pytest.mark.full
def test_gpu_bench_writes_the_figures_of_trainer_and_bare_loop(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    arguments = [
        "--models=mnist",
        "--precisions=fp32",
        "--batch-size=8",
        "--steps=4",
        "--rounds=1",
        "--json=/out/figures",
    ]

    run = run_trainer(
        "pytorch",
        ["python3", "-m", "lab.bench.gpu", *arguments],
        env={**OF_THIS_MACHINE, "PYTHONPATH": "/lab-folder"},
        mounts={REPOSITORY / "lab": "/lab-folder/lab", tmp_path: "/out"},
    )

    # Exit code 1 means that the trainer is slower than its goal. With so few steps on the CPU, this may happen.
    assert run.returncode in (0, 1), run.stderr
    assert "mnist fp32, batch 8: trainer " in run.stdout, run.stderr
    [outcome] = json.loads((tmp_path / "figures").read_text())["outcomes"]
    assert all(outcome[name] > 0 for name in FIGURES)
    assert abs(sum(outcome["shares"].values()) - 1) < 0.01
