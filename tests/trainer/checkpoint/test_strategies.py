"""Each framework has two programs.

Test that one of them loads the whole state from a checkpoint of the other, or refuses the checkpoint.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest

from tests.matrix import one_of
from tests.trainer.conftest import DIGITS_IN_IMAGE, ProgramInImage, Run, alone_of, assert_refused
from tests.trainer.fixtures import saved_state


def train(name: str, digits: Path, folder: Path, *, steps: int) -> Run:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    options = (
        "--checkpoint=/out/run",
        "--checkpoint-at-end",
        "--optimizer=adam",
        f"--steps={steps}",
        "--deterministic",
    )
    arguments = (f"--data={DIGITS_IN_IMAGE}", "--batch-size=32", *options)
    starter = alone_of if name == "pytorch-ddp" else None
    return ProgramInImage.named(name, digits)(*arguments, ranks=1, starter=starter, mounts={folder: "/out"})


def contents(folder: Path) -> dict[str, bytes]:
    checkpoint = saved_state.newest(folder / "run")
    return {f"{checkpoint.name}/{path.name}": path.read_bytes() for path in checkpoint.iterdir()}


@pytest.mark.parametrize(
    ("writer", "reader", "array"),
    [
        ("mxnet-kvstore", "mxnet-horovod", "updates is missing there and int64 here"),
        pytest.param(
            "tensorflow-horovod",
            "tensorflow-ps",
            r"optimizer\.beta1_power is missing there and float32 here",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "tensorflow-ps",
            "tensorflow-horovod",
            r"optimizer\.beta1_power is float32 there and missing here",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "mxnet-horovod", "mxnet-kvstore", "updates is int64 there and missing here", marks=pytest.mark.full
        ),
    ],
)
def test_state_of_another_optimizer_is_refused_and_left_as_it_is(
    writer: str, reader: str, array: str, digits: Path, tmp_path: Path
) -> None:
    wrote = train(writer, digits, tmp_path, steps=2)
    assert wrote.returncode == 0, wrote.stderr
    before = contents(tmp_path)

    run = train(reader, digits, tmp_path, steps=4)

    refusal = (
        rf"checkpoint\.uri: /out/run/1-64 does not fit this run: strategy or trainer\.model: {array}; correct that"
    )
    assert_refused(run, refusal)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("writer", one_of(["pytorch-horovod", "pytorch-ddp"]))
def test_state_of_the_same_optimizer_goes_on_as_if_the_strategy_had_not_changed(
    writer: str, digits: Path, tmp_path: Path
) -> None:
    reader = {"pytorch-ddp": "pytorch-horovod", "pytorch-horovod": "pytorch-ddp"}[writer]
    go_on = functools.partial(train, digits=digits, steps=4)
    wrote = train(writer, digits, tmp_path / "same", steps=2)
    assert wrote.returncode == 0, wrote.stderr
    shutil.copytree(tmp_path / "same", tmp_path / "other")
    for path in (tmp_path / "other").rglob("*"):
        path.chmod(0o777)  # In the image, the trainer runs as another user, who must be able to read the folder.

    same, other = go_on(writer, folder=tmp_path / "same"), go_on(reader, folder=tmp_path / "other")

    assert (same.returncode, other.returncode) == (0, 0), same.stderr + other.stderr
    assert "resumed from 1-64: step 2, " in other.stdout
    saved = [saved_state.arrays(saved_state.newest(tmp_path / each / "run")) for each in ("same", "other")]
    assert saved[0] == saved[1]
