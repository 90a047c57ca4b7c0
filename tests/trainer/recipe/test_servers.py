"""Test that weight decay and schedules work the same in TensorFlow's parameter servers as in its Horovod program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.conftest import DIGITS_IN_IMAGE, USER_MODELS, ProgramInImage
from tests.trainer.fixtures import saved_state

RECIPE = (
    "--data",
    DIGITS_IN_IMAGE,
    "--batch-size=500",
    "--steps=5",
    "--learning-rate=0.01",
    "--rate-scaling=none",
    "--weight-decay=0.1",
    "--label-smoothing=0.1",
    "--model=small:net",
)

# An epoch has three steps. SGD has a constant learning rate here, because a change of the rate would act differently:
# in Keras, the momentum keeps each gradient with the rate of its own step, but the servers apply the current rate to
# all gradients.
OPTIMIZERS = {"sgd": ("--optimizer=sgd",), "adam": ("--optimizer=adam", "--schedule=step", "--milestones=1")}


def weights_of(name: str, optimizer: str, digits: Path, folder: Path) -> dict[str, Any]:
    """Train on one rank, and return the weights."""
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "small.py").write_text(USER_MODELS["tensorflow"], encoding="utf-8")
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end")
    program = ProgramInImage.named(name, digits)
    run = program(
        *RECIPE, *OPTIMIZERS[optimizer], *places, ranks=1, env={"PYTHONPATH": "/out"}, mounts={folder: "/out"}
    )
    assert run.returncode == 0, run.stderr
    return {
        name: np.frombuffer(content, dtype=np.float32).reshape(told["shape"])
        for name, told, content in saved_state._read(saved_state.newest(folder / "checkpoints"))
        if name.startswith("model.")
    }


@pytest.mark.full
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_servers_change_weights_as_horovod_does(optimizer: str, digits: Path, tmp_path: Path) -> None:
    horovod, servers = (
        weights_of(name, optimizer, digits, tmp_path / name) for name in ("tensorflow-horovod", "tensorflow-ps")
    )

    assert horovod.keys() == servers.keys()
    assert len(horovod) == 2
    for name, weight in horovod.items():
        np.testing.assert_allclose(servers[name], weight, rtol=1e-3, atol=1e-5)
