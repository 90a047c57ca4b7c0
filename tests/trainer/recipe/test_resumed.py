"""Test a run that is stopped between the end of an epoch and the epoch's test. It has many recipe values.

It must end like an uninterrupted run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import one_of
from tests.trainer.checkpoint.test_state import STOPPED, train
from tests.trainer.conftest import ProgramInImage
from tests.trainer.fixtures import saved_state

# With two ranks and batches of 128 samples, an epoch has six steps. A run that receives SIGTERM still makes one more
# step, so SIGTERM after step 5 stops it at the end of the epoch.
ASKED_AFTER = 5
ALLREDUCE = ["mxnet-horovod", "pytorch-ddp", "pytorch-horovod", "tensorflow-horovod"]
RECIPE = (
    "--schedule=cosine",
    "--warmup-epochs=0.5",
    "--weight-decay=0.01",
    "--label-smoothing=0.1",
    "--ema=0.9",
    "--evaluate-every=1",
    "--augment-mean=0.3",
    "--augment-std=0.3",
    "--output=/out",
)


def outcome(folder: Path) -> dict[str, Any]:
    """Return the arrays of the last checkpoint, the results of all evaluations, and the best model."""
    checkpoint = saved_state.newest(folder / "checkpoints")
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    results = json.loads((folder / "results.json").read_text())
    best = json.loads((folder / "best-evaluation.json").read_text())
    # The model file of Keras is not compared, because it contains the time when it was written.
    models = {path.name: path.read_bytes() for path in folder.glob("*model.p*")}
    return {
        "arrays": saved_state.arrays(checkpoint),
        "saved": manifest["evaluations"],
        "told": results["evaluations"],
        "accuracy": (results["accuracy"], results["top5_accuracy"]),
        "best": best,
        "models": models,
    }


# With parameter servers, moving averages and tests between epochs are refused.
@pytest.mark.parametrize("program", one_of(ALLREDUCE), indirect=True)
def test_run_with_a_recipe_is_resumed_with_the_very_bits(program: ProgramInImage, tmp_path: Path) -> None:
    run = {name: tmp_path / name for name in ("unbroken", "resumed")}

    unbroken = train(program, "lamb", run["unbroken"], more=RECIPE)
    stopped = train(program, "lamb", run["resumed"], more=RECIPE, stop_after=ASKED_AFTER)
    resumed = train(program, "lamb", run["resumed"], more=RECIPE)

    assert unbroken.returncode == 0, unbroken.stdout + unbroken.stderr
    assert STOPPED.search(stopped.stdout), stopped.stdout + stopped.stderr
    assert "epoch 1: Accuracy" not in stopped.stdout
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "epoch 1: Accuracy @ 1 = " in resumed.stdout
    ended, ended_resumed = (outcome(folder) for folder in run.values())
    assert ended == ended_resumed
    assert [each["epoch"] for each in ended["saved"]] == [1]
    assert any(name.startswith("ema.") for name in ended["arrays"])
    # After so few steps, the moving averages cannot be equal to the weights yet.
    arrays = ended["arrays"]
    assert all(arrays[f"model.{name[4:]}"] != arrays[name] for name in arrays if name.startswith("ema."))
