"""Test that each program keeps a record of its run: as it trains, and when it comes back at another size."""

from __future__ import annotations

from pathlib import Path

from distrain.record import read
from tests.trainer.conftest import DIGITS_IN_IMAGE, ProgramInImage, tried_by

# Those whose ranks measure how long they wait for the averages of the gradients.
MEASURE_WAIT = ("tensorflow-horovod", "pytorch-ddp", "pytorch-horovod")


@tried_by("tensorflow-ps", "tensorflow-horovod", "pytorch-ddp")
def test_record_of_a_run_that_is_longer_and_smaller_the_second_time(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end", "--output=/out/outcome")
    options = (f"--data={DIGITS_IN_IMAGE}", "--log-every=2", *places)

    for length, ranks in ((6, 2), (10, 1)):
        run = program(*options, f"--steps={length}", ranks=ranks, mounts={tmp_path: "/out"})
        assert run.returncode == 0, run.stdout + run.stderr

    record = read.in_folder(tmp_path / "outcome")
    assert record.unreadable == 0
    assert [line.event for line in record.lines if line.event != "step"] == [
        "start",
        "checkpoint",
        "end",
        "rescale",
        "start",
        "checkpoint",
        "end",
    ]
    first, second = record.of("start")
    assert (first.framework, first.world_size, first.step, first.steps) == (program.program.framework, 2, 0, 6)
    assert (second.world_size, second.step, second.steps, second.checkpoint) == (1, 6, 10, "1-768")
    # The model for digits of 8 x 8 pixels has 53,002 parameters, of 4 bytes each.
    assert (first.parameter_bytes, second.parameter_bytes) == (4 * 53_002, 4 * 53_002)
    assert first.values
    assert first.values["batch_size"] == 64
    steps = [line.step or 0 for line in record.of("step")]
    assert steps == sorted(steps)
    assert {6, 10} <= {*steps}
    last = record.of("step")[-1]
    assert last.loss
    assert last.step_seconds_total
    # The chief of a TFJob reads no input.
    assert (last.input_wait_seconds_total is None) == (program.name == "tensorflow-ps")
    # The first start has two ranks, the second one.
    of_two, of_one = (line for line in record.of("step") if line.step in (6, 10))
    waits = (of_two.allreduce_wait_seconds_total, of_one.allreduce_wait_seconds_total)
    assert (waits[0] is not None, waits[1]) == (program.name in MEASURE_WAIT, None)
    assert waits[0] is None or 0 < waits[0] < (of_two.step_seconds_total or 0)
    assert [(line.cause, line.step, line.accuracy is None) for line in record.of("end")] == [
        ("finished", 6, False),
        ("finished", 10, False),
    ]
