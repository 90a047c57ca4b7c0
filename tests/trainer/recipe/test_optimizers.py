"""For each optimizer, compare its steps, with weight decay and a moving average, with formulas in NumPy.

Also compare the losses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.recipe import OPTIMIZERS
from tests.trainer.conftest import SCRIPTS, run_in_image
from tests.trainer.recipe.references import Epsilon, averages_after, smoothed_loss, weights_after

# The decay of the moving average reaches EMA at the third step.
STEPS, RATE, EMA, DECAYS = 3, 0.5, 0.28, (0.02, 0.0)
Made = tuple[str, dict[str, Any]]
# The epsilon that Adam has in each framework. The trainer itself implements LAMB, with its own epsilon.
ADAMS = {"pytorch": Epsilon(1e-8), "mxnet": Epsilon(1e-8, is_hat=True), "tensorflow": Epsilon(1e-7, is_hat=True)}
LAMBS = Epsilon(1e-6)


def given_of(seed: int) -> dict[str, Any]:
    """Return a matrix, a bias, and the gradients of both for each step."""
    random = np.random.default_rng(seed)
    shapes = {"matrix": (3, 5), "bias": (5,)}
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    for step in range(STEPS):
        arrays |= {f"{name}-{step}": random.normal(size=shape) for name, shape in shapes.items()}
    return {name: array.astype(np.float32) for name, array in arrays.items()}


GIVEN = given_of(7)
SMOOTHING = 0.1
LOGITS = np.random.default_rng(8).normal(size=(4, 6), scale=3).astype(np.float32)
# The last sample is there only to fill up the batch, so its weight is 0.
LABELS, WEIGHTS = np.array([0, 5, 2, 3]), np.array([0.3, 0.3, 0.4, 0], dtype=np.float32)


@pytest.fixture(scope="module", params=["mxnet", "pytorch", "tensorflow"])
def made(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the name of a framework, and the results of all its optimizers. A single process computes all results."""
    framework, folder = request.param, tmp_path_factory.mktemp("steps")
    folder.chmod(0o777)
    given = {name: as_in(framework, each) for name, each in GIVEN.items()}
    np.savez(folder / "given.npz", steps=STEPS, logits=LOGITS, labels=LABELS, weights=WEIGHTS, **given)
    run = run_in_image(
        framework,
        ["python3", "/steps.py", framework, str(EMA), str(SMOOTHING), *map(str, DECAYS)],
        digits,
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        mounts={SCRIPTS / "recipe/steps.py": "/steps.py", folder: "/out"},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return framework, {name: as_in(framework, array) for name, array in np.load(folder / "found.npz").items()}


def as_in(framework: str, array: Any) -> Any:
    """Transpose a matrix, except for TensorFlow: Keras stores the weights of a dense layer in the transposed order."""
    return np.ascontiguousarray(array.T) if framework != "tensorflow" and array.ndim > 1 else array


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_an_optimizer_are_those_of_its_formula(made: Made, optimizer: str, decay: float) -> None:
    framework, found = made
    epsilon = LAMBS if optimizer == "lamb" else ADAMS[framework]

    for name in ("matrix", "bias"):
        gradients = [GIVEN[f"{name}-{step}"] for step in range(STEPS)]
        expected = list(weights_after(optimizer, GIVEN[name], gradients, rate=RATE, decay=decay, epsilon=epsilon))
        averages = list(averages_after(GIVEN[name], expected, EMA))
        for step in range(STEPS):
            for of, wanted in ((name, expected[step]), (f"average-{name}", averages[step])):
                np.testing.assert_allclose(found[f"{optimizer}-{decay}-{of}-{step}"], wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("smoothing", ["0", str(SMOOTHING)])
def test_loss_is_that_of_smoothed_labels(made: Made, smoothing: str) -> None:
    _, found = made

    assert found[f"loss-{smoothing}"] == pytest.approx(
        smoothed_loss(LOGITS, LABELS, WEIGHTS, float(smoothing)), rel=1e-5
    )
