"""Test that each program writes a record of its run, during the training and after a restart with fewer ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain.record import read
from tests.trainer.conftest import DIGITS_IN_IMAGE, ProgramInImage, tried_by
from tests.trainer.fixtures import rescaled_record
from tests.trainer.fixtures.event_files import scalars, steps

# The number of the last step in each start. After six steps with batches of 64, two ranks have seen 768 samples.
LENGTHS = (6, 10)


# Full matrix only: metrics/test_prometheus.py reads the record of pytorch-ddp, and training/test_training.py checks how
# long TensorFlow's ranks wait.
@pytest.mark.full
def test_record_of_a_run_that_is_longer_and_smaller_the_second_time(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end", "--output=/out/outcome")
    options = (f"--data={DIGITS_IN_IMAGE}", "--log-every=2", *places)

    for length, ranks in zip(LENGTHS, rescaled_record.RANKS, strict=True):
        run = program(*options, f"--steps={length}", ranks=ranks, mounts={tmp_path: "/out"})
        assert run.returncode == 0, run.stdout + run.stderr

    rescaled_record.assert_told(tmp_path / "outcome", program, LENGTHS, checkpoint="1-768")


# All programs write event files with the same code, so one program is enough.
@tried_by("mxnet-horovod")
def test_tensorboard_reads_a_run_that_is_longer_the_second_time(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end", "--output=/out/outcome", "--tensorboard")
    options = (f"--data={DIGITS_IN_IMAGE}", "--log-every=1", *places)

    for length in (4, 6):
        run = program(*options, f"--steps={length}", ranks=1, mounts={tmp_path: "/out"})
        assert run.returncode == 0, run.stdout + run.stderr
        assert "tensorboard: not written" not in run.stdout

    found = scalars(tmp_path / "outcome/tensorboard")
    told = read.in_folder(tmp_path / "outcome").of("step")
    assert [(point.step, point.value) for point in found["loss"]] == [
        (line.step, pytest.approx(line.loss)) for line in told
    ]
    assert {4, 6} <= {*steps(found["loss"])}
    assert steps(found["accuracy"]) == [4, 6]
    assert {point.value for point in found["world_size"]} == {1.0}
