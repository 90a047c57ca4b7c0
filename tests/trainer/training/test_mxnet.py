"""Test what only MXNet has: its parameter servers, and the arithmetic of its two programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distrain_trainer.models import MODELS
from tests.matrix import one_of
from tests.trainer.conftest import (
    DIGITS_IN_IMAGE,
    SCRIPTS,
    ProgramInImage,
    assert_refused,
    mpirun_of,
    mxjob_of,
    run_in_image,
)

DIGITS = ("--data", DIGITS_IN_IMAGE, "--batch-size", "32")
# Script that broadcasts several values from rank 0, one after another.
SHARES = """
import horovod.mxnet as hvd
from distrain_trainer.mxnet.horovod import process_group
hvd.init()
ranks = process_group()
for number in range(50):
    assert ranks.broadcast(bytes([number]) * 10**6 if ranks.rank == 0 else None) == bytes([number]) * 10**6
print("all the same")
"""
# Script that prints how many trainable parameters each built-in model has.
COUNT_PARAMETERS = """
from distrain_trainer.models import MODELS
from distrain_trainer.mxnet.models import build
for name, described in MODELS.items():
    parameters = build(name, shape=described.shape, classes=described.classes).collect_params().values()
    print(name, sum(each.data().size for each in parameters if each.grad_req != "null"))
"""
# For each of three models, this script seeds a step twice with the same seed, and draws three random numbers each time.
# It prints how many of them are the same.
SEEDS = """
import mxnet as mx
from distrain_trainer.mxnet.training import seeder
from mxnet.gluon import nn

def numbers_after(seed_layers):
    seed_layers(1)
    return mx.nd.random.uniform(shape=3).asnumpy()

class DropsInTraining(mx.gluon.HybridBlock):
    def hybrid_forward(self, operators, images):
        return operators.Dropout(images, p=0.5) if mx.autograd.is_training() else images

for layers in ([nn.Flatten(), nn.Dense(2)], [nn.Dropout(0.5), nn.Flatten(), nn.Dense(2)],
               [DropsInTraining(), nn.Flatten(), nn.Dense(2), nn.Activation("relu")]):
    model = nn.HybridSequential()
    model.add(*layers)
    seed_layers = seeder(model)
    print(len(layers), sum(numbers_after(seed_layers) == numbers_after(seed_layers)))
"""
# Script that compares the gradients of two models: one applies a layer in a loop, row by row, and the other applies it
# once.
IN_A_LOOP = """
import mxnet as mx, numpy as np
from distrain_trainer.mxnet.training import Loss
from mxnet.gluon import nn

class Rows(mx.gluon.HybridBlock):
    def __init__(self, has_loop):
        super().__init__()
        self.has_loop, self.layer = has_loop, nn.Dense(3, in_units=4, flatten=False, activation="tanh")

    def hybrid_forward(self, operators, images):
        if not self.has_loop:
            return self.layer(images)
        step = lambda row, states: (self.layer(row), states)
        rows, _ = operators.contrib.foreach(step, operators.transpose(images, (1, 0, 2)), operators.zeros((1,)))
        return operators.transpose(rows, (1, 0, 2))

def gradients_of(has_loop):
    mx.random.seed(1)
    model = nn.HybridSequential()
    model.add(Rows(has_loop), nn.Dense(2, in_units=15))
    model.initialize()
    for each in model.collect_params().values():
        each.set_data(mx.nd.linspace(-1, 1, each.data().size).reshape(each.shape))
    loss_of, found = Loss(model), []
    for number in range(1, 9):
        with mx.autograd.record():
            loss = loss_of(mx.nd.random.uniform(shape=(6, 5, 4)) * number, mx.nd.arange(6) % 2, mx.nd.ones(6))
        loss.backward()
        found += [loss.asnumpy(), *(each.grad().asnumpy().copy() for each in model.collect_params().values())]
    return found

for one, other in zip(gradients_of(True), gradients_of(False), strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
print("the same")
"""
LEARN = ("--optimizer", "adam", "--learning-rate", "0.01", "--warmup", "20")


@pytest.fixture
def kvstore(digits: Path) -> ProgramInImage:
    return ProgramInImage.named("mxnet-kvstore", digits)


def weights_of(program: ProgramInImage, folder: Path, *arguments: str, ranks: int) -> list[list[np.ndarray]]:
    """Train, and return the weights of each rank."""
    folder.mkdir()
    folder.chmod(0o777)
    mounts = {SCRIPTS / "weights/weights_after_steps.py": "/weights.py", folder: "/out"}
    run = program(*arguments, "--data", DIGITS_IN_IMAGE, ranks=ranks, script="/weights.py", mounts=mounts)
    assert run.returncode == 0, run.stderr
    return [list(np.load(folder / f"{rank}.npz").values()) for rank in range(ranks)]


def test_only_a_model_that_draws_random_numbers_is_seeded_in_each_step(digits: Path) -> None:
    run = run_in_image("mxnet", ["python3", "-c", SEEDS], digits, env=None, mounts=None, timeout=120)

    assert run.returncode == 0, run.stderr
    assert run.stdout == "2 0\n3 3\n4 3\n"


def test_model_with_control_flow_has_the_gradients_of_a_model_without(digits: Path) -> None:
    run = run_in_image("mxnet", ["python3", "-c", IN_A_LOOP], digits, env=None, mounts=None, timeout=120)

    assert run.returncode == 0, run.stderr
    assert run.stdout == "the same\n"


@pytest.mark.parametrize("name", one_of(["mxnet-kvstore", "mxnet-horovod"]))
# An epoch has two steps. For the second one, only one of the 1437 digits is left, so one of the two ranks has no
# sample.
@pytest.mark.parametrize("steps", [pytest.param("1", marks=pytest.mark.full), "3"])
def test_two_ranks_make_the_weights_of_one_with_the_whole_batch(
    name: str, steps: str, digits: Path, tmp_path: Path
) -> None:
    alone, together = (ProgramInImage.named(each, digits) for each in ("mxnet-horovod", name))
    # The servers must compute the learning rate and the decay, although they know neither the number of samples nor the
    # shapes of the weights.
    recipe = ("--steps", steps, "--weight-decay=0.05", "--schedule=step", "--milestones=1", "--decay-factor=0.5")
    one = weights_of(alone, tmp_path / "one", *recipe, "--batch-size", "1436", ranks=1)
    two = weights_of(together, tmp_path / "two", *recipe, "--batch-size", "718", ranks=2)

    for expected, first, second in zip(one[0], *two, strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "ranks", "servers", "epochs"),
    [
        # With a single worker, every run has the same result.
        pytest.param("dist_async", 1, 1, 6, id="async-1"),
        pytest.param("dist_async", 2, 2, 20, id="async-2", marks=pytest.mark.full),
        pytest.param("dist_async", 4, 1, 20, id="async-4", marks=pytest.mark.full),
        pytest.param("dist_device_sync", 2, 2, 20, id="device-sync", marks=pytest.mark.full),
    ],
)
def test_digits_are_learnt_with_every_kind_of_store(
    kvstore: ProgramInImage, kind: str, ranks: int, servers: int, epochs: int
) -> None:
    arguments = (*DIGITS, *LEARN, "--epochs", str(epochs), "--kvstore", kind)

    run = kvstore(*arguments, ranks=ranks, starter=lambda ranks: mxjob_of(ranks, servers))

    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert float(run.stdout.partition("test accuracy: ")[2].split()[0]) >= 0.95


def test_values_shared_one_after_the_other_all_reach_the_other_ranks(digits: Path) -> None:
    run = run_in_image(
        "mxnet",
        [*mpirun_of(3), "-c", SHARES],
        digits,
        env=None,
        mounts=None,
        timeout=300,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout == "all the same\n" * 3


def test_lost_worker_ends_scheduler_servers_and_workers_by_themselves(kvstore: ProgramInImage) -> None:
    run = kvstore(
        *(*DIGITS, "--epochs", "1"),
        script="/fails.py",
        starter=lambda ranks: mxjob_of(ranks, after_failure="wait"),
        mounts={SCRIPTS / "faults/fails_on_rank_1.py": "/fails.py"},
    )

    assert run.returncode == 2, run.stderr
    assert sorted(run.stderr.splitlines()[:2]) == [
        "distrain: data.uri: gone from rank 1",
        "scheduler 0: distrain: worker 1 has ended before the training, and so all others do; its log says why",
    ]


def test_parameter_server_without_an_operator_is_refused_in_one_line(kvstore: ProgramInImage) -> None:
    run = kvstore("--steps", "1", starter=lambda ranks: ["python3"])

    assert_refused(run, "strategy: MXNet's parameter server needs DMLC")


def test_models_have_their_published_parameters(digits: Path) -> None:
    run = run_in_image("mxnet", ["python3", "-c", COUNT_PARAMETERS], digits, env=None, mounts=None, timeout=300)

    expected = [f"{name} {described.parameters['mxnet']}" for name, described in MODELS.items()]
    assert run.stdout.splitlines() == expected, run.stderr
