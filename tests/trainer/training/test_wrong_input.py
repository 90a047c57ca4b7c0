"""Test that wrong input ends all ranks of a run, with the same error line and exit code in every program.

The starter of a program (conftest.py) waits until all ranks have ended. So a test fails if a rank does not end in time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.datasets.digits import write_idx
from tests.matrix import one_of
from tests.trainer.conftest import (
    DIGITS_IN_IMAGE,
    FORKED,
    SCRIPTS,
    USER_MODELS,
    USER_MODELS_FOLDER,
    ProgramInImage,
    Run,
    Starter,
    alone_of,
    assert_refused,
    tried_by,
)

EPOCH = ("--epochs", "1", "--batch-size", "32")
DIGITS = (*EPOCH, "--data", DIGITS_IN_IMAGE)
SHARED = pytest.mark.shared
FULL = pytest.mark.full


@SHARED
def test_damaged_file(program: ProgramInImage, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits, tmp_path / "digits")
    images = tmp_path / "digits" / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:1000])

    run = program(*EPOCH, "--data", "/data/damaged", mounts={tmp_path / "digits": "/data/damaged"})

    assert_refused(run, r"data\.uri: /data/damaged/train-images-idx3-ubyte\.gz is damaged \(.*\); upload it again")


@SHARED
def test_prefix_with_nothing_in_it(program: ProgramInImage, digits_uri: str, s3_env: dict[str, str]) -> None:
    run = program(*EPOCH, "--data", "s3://datasets/none", env=s3_env)

    assert_refused(run, r"data\.uri: s3://datasets/none holds nothing; correct data.uri, or put there")


# The chief of a TFJob does not train, but it waits for its workers. So the chief must detect this mistake, too.
@tried_by("tensorflow-ps")
def test_global_batch_larger_than_the_data(program: ProgramInImage) -> None:
    run = program(*DIGITS, "--batch-size", "1438", ranks=1, starter=FORKED.get(program.name))

    assert_refused(run, r"trainer\.batchSize: each step needs 1438 samples .*, but /data/digits has 1437;")


@SHARED
def test_more_ranks_than_samples(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", np.zeros((1, 8, 8), dtype=np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.zeros(1, dtype=np.uint8))

    run = program("--epochs", "1", "--batch-size", "1", "--data", "/data/one", mounts={tmp_path: "/data/one"})

    assert_refused(run, r"workers\.replicas: 2 ranks are more than the 1 training samples of /data/one; lower workers")


@SHARED
def test_loss_that_is_no_number(program: ProgramInImage) -> None:
    run = program(*DIGITS, "--learning-rate", "1e6")

    assert_refused(run, r"trainer\.learningRate: the loss is nan at step \d+; lower trainer\.learningRate")


# Most other tests in this module use mpirun, so this test uses torchrun. test_mxnet.py and test_parameter_server.py
# test what happens if a job with servers loses a process.
@tried_by("pytorch-ddp")
def test_rank_that_fails_alone(program: ProgramInImage) -> None:
    run = program(*DIGITS, script="/fails.py", mounts={SCRIPTS / "faults/fails_on_rank_1.py": "/fails.py"}, timeout=300)

    # Under mpirun, the error line is that of the failed rank itself. If each process has a log of its own, the error in
    # the chief's log names the failed process.
    assert_refused(
        run, r"(data\.uri: gone from rank 1|worker 0 has ended before the training, .* its log says why)", code=(1, 2)
    )


@pytest.fixture
def models(program: ProgramInImage, tmp_path: Path) -> Path:
    """A folder that contains user models for the framework of the program."""
    tmp_path.chmod(0o755)
    broken = "def one_argument(shape): ...\n\ndef nothing(shape, classes): ...\n"
    (tmp_path / "small.py").write_text(USER_MODELS[program.program.framework] + broken)
    (tmp_path / "broken.py").write_text("import absent_package\n")
    return tmp_path


def with_model(
    program: ProgramInImage, models: Path, model: str, *, ranks: int = 2, starter: Starter | None = None
) -> Run:
    """Train a model that is in the folder `models`."""
    in_image: dict[str, Any] = {"env": {"PYTHONPATH": "/models"}, "mounts": {models: "/models"}}
    return program(*DIGITS, "--model", model, ranks=ranks, starter=starter, **in_image)


@SHARED
@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(
            "broken:net",
            r"trainer\.model: broken does not import \(/models/broken\.py, line 1\): ModuleNotFoundError: ",
            id="import-fails",
        ),
        # models/test_user.py tests these errors without running a program.
        pytest.param(
            "absent:net", r"trainer\.model: there is no module absent for absent:net in ", id="no-module", marks=FULL
        ),
        pytest.param(
            "small:absent",
            r"trainer\.model: /models/small\.py has no absent \(its ",
            id="no-function",
            marks=FULL,
        ),
        pytest.param(
            "small:one_argument",
            r"trainer\.model: small:one_argument\(shape\) cannot be called with \(shape, classes\)",
            id="signature",
            marks=FULL,
        ),
        pytest.param(
            "small:nothing",
            r"trainer\.model: small:nothing returned nothing, and the model ",
            id="no-model",
            marks=FULL,
        ),
    ],
)
def test_users_model_that_is_none(program: ProgramInImage, models: Path, model: str, message: str) -> None:
    assert_refused(with_model(program, models, model), message)


# All programs make this check with the same code.
@SHARED
def test_users_model_of_other_classes(program: ProgramInImage, models: Path) -> None:
    run = with_model(program, models, "small:wrong_classes")

    assert_refused(
        run, r"trainer\.model: the model of small:wrong_classes returns shape \(1, 11\) for one image, but the data "
    )


@tried_by("pytorch-ddp", "mxnet-horovod")
@pytest.mark.parametrize("ranks", one_of([1, 2]))
def test_parameter_that_the_users_forward_pass_leaves_out(program: ProgramInImage, ranks: int) -> None:
    # Do not use FORKED here, because it imports PyTorch early. The trainer must first set which warnings PyTorch
    # prints.
    starter = alone_of if (program.name, ranks) == ("pytorch-ddp", 1) else None

    run = with_model(program, USER_MODELS_FOLDER, "unused:net", ranks=ranks, starter=starter)

    if program.program.framework == "mxnet":
        assert_refused(
            run, r"trainer\.model: the forward pass of unused:net does not use its parameter unused\.weight, "
        )
    else:
        assert run.returncode == 0, run.stderr
        assert "find_unused_parameters" not in run.stderr


@pytest.mark.parametrize("program", ["pytorch-ddp"], indirect=True)
def test_reentrant_checkpointing_in_the_users_model(program: ProgramInImage) -> None:
    run = with_model(program, USER_MODELS_FOLDER, "reentrant:net", ranks=1, starter=alone_of)

    # PyTorch prints a warning first, so the error is not in the first line.
    assert run.returncode == 2, run.stderr
    lines = [line for line in run.stderr.splitlines() if line.startswith("distrain: ")]
    assert len(lines) == 1
    assert lines[0].startswith("distrain: trainer.model: a step computes a parameter's gradient twice, ")


# Full matrix only: other tests, such as test_state.py, train a user's model with each framework too.
@FULL
@SHARED
def test_users_model_trains(program: ProgramInImage, models: Path) -> None:
    run = with_model(program, models, "small:net")

    assert run.returncode == 0, run.stderr
    assert "test accuracy: " in run.stdout
