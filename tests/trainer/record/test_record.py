"""Test what a run's record contains: in a folder, in S3, and after restarts of the run."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distrain_trainer import errors
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.errors import DivergedError, StoppedError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.saving import tell
from distrain_trainer.record import Record
from distrain_trainer.results import Accuracy
from distrain_trainer.storage import open_store
from tests.trainer.fixtures.counter_run import begin, make_step, save_step
from tests.trainer.fixtures.disk import wait_until

BATCH = SimpleNamespace(samples=10, global_samples=10)


@pytest.fixture(params=["folder", "S3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of an empty folder or S3 prefix, for records."""
    if request.param == "folder":
        return str(tmp_path / "output")
    request.getfixturevalue("s3_in_environment")
    return f"s3://{request.getfixturevalue('bucket')}/{tmp_path.name}"


def lines(place: str | Path, name: str = "record.jsonl") -> list[dict[str, Any]]:
    content = open_store(str(place), value="output.uri").read(name)
    return [json.loads(line) for line in content.decode().splitlines()]


def of(event: str, place: str | Path) -> list[dict[str, Any]]:
    return [line for line in lines(place) if line["event"] == event]


def train(run: Run, steps: int, *, loss: float = 0.5) -> Progress:
    progress = Progress.start(run)
    run.watchdog.stop()
    for _ in range(steps):
        progress.add(BATCH, loss=loss, seconds=0.5, mean=lambda value: value)
        run.begin_step(10)
    return progress


def kill(run: Run) -> None:
    """Wait until the lines of the run are written. Then leave the run in the state in which SIGKILL would leave it."""
    wait_until(lambda: not run.record._new)
    run.record._is_fenced = True


def test_record_tells_of_a_run_from_its_start_to_its_end(place: str, tmp_path: Path) -> None:
    run = begin(tmp_path / "checkpoints", output=place, epochs=None, steps=20, log_every=5)
    progress = train(run, 20)

    progress.finish(Accuracy(0.9, 0.99), model="model", save=Path.touch)

    first, start, *steps, end = lines(place)
    assert (first["event"], first["version"]) == ("record", 1)
    times = [line["unix_seconds"] for line in (first, start, *steps, end)]
    assert all(time > 1_700_000_000 and round(time, 3) == time for time in times)
    # Times have fractions of a second, so some of these numbers are not whole.
    assert any(time % 1 for time in times)
    names = ("event", "number", "framework", "model", "world_size", "generation", "step", "samples", "steps")
    assert [start[name] for name in names] == ["start", 1, "tensorflow", "mnist", 1, 1, 0, 0, 20]
    # The fixture's state has a single weight, of 8 bytes.
    assert start["parameter_bytes"] == 8
    assert start["values"]["batch_size"] == 10
    assert [(line["event"], line["number"], line["step"]) for line in steps] == [
        ("step", 1, 5),
        ("step", 2, 10),
        ("step", 3, 15),
        ("step", 4, 20),
    ]
    last = steps[-1]
    assert (last["samples"], last["loss"], last["step_seconds_total"], last["epoch"]) == (200, 0.5, 10.0, 2.0)
    assert last["checkpoint_stall_seconds_total"] == 0.0
    assert last["images_per_second_mean"] == 20.0
    told = ("event", "cause", "exit_code", "step", "samples", "accuracy", "images_per_second_mean")
    assert [end[name] for name in told] == ["end", "finished", 0, 20, 200, 0.9, 20.0]


def test_wait_for_the_all_reduce_is_told_without_metrics(tmp_path: Path) -> None:
    run = begin(tmp_path, log_every=1)
    assert run.config.metrics_port is None
    run.metrics.begin_steps()
    for _ in range(2):
        run.metrics.made_step(samples=10, seconds=0.5, allreduce_wait=0.1)
    train(run, 11)
    kill(run)

    assert of("step", tmp_path)[-1]["allreduce_wait_seconds_total"] == 0.2


def test_wait_that_is_not_measured_is_left_out(tmp_path: Path) -> None:
    run = begin(tmp_path, log_every=1)
    train(run, 11)
    kill(run)

    assert "allreduce_wait_seconds_total" not in of("step", tmp_path)[-1]


def test_record_is_beside_the_checkpoints_without_an_output(tmp_path: Path) -> None:
    kill(begin(tmp_path))

    assert of("start", tmp_path)[0]["world_size"] == 1


def test_run_without_output_and_checkpoints_has_no_record() -> None:
    run = begin("")

    run.record.add("step", step=1)

    assert run.record._new == []


def test_only_rank_0_writes(tmp_path: Path) -> None:
    group = ProcessGroup(1, 2, lambda value: value, lambda value: [value, value])
    run = begin("", output=str(tmp_path), group=group)

    assert not run.record._uri


def test_checkpoint_is_told_of(tmp_path: Path) -> None:
    run = begin(tmp_path)
    save_step(run)
    tell(run, run.writer)  # type: ignore[arg-type]
    kill(run)

    [line] = of("checkpoint", tmp_path)
    assert (line["checkpoint"], line["step"], line["samples"]) == ("1-10", 1, 10)
    assert line["write_seconds"] >= line["stall_seconds"] >= 0


def test_stop_is_told_of_with_its_checkpoint(tmp_path: Path) -> None:
    run = begin(tmp_path)
    make_step(run)
    run.request.reason = stop_flag.SIGTERM

    with pytest.raises(StoppedError):
        make_step(run)

    *_, checkpoint, end = lines(tmp_path)
    assert checkpoint["checkpoint"] == "1-20"
    assert [end[name] for name in ("cause", "reason", "exit_code", "step")] == ["stopped", "SIGTERM", 143, 2]


def test_end_is_written_before_another_job_may_take_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(tmp_path)
    at_release: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(Lease, "end", lambda lease, state, **options: at_release.append(lines(tmp_path)))
    run.request.reason = stop_flag.SIGTERM

    with pytest.raises(StoppedError):
        make_step(run)

    assert at_release[0][-1]["event"] == "end"


def test_killed_run_that_comes_back_smaller_continues_the_record(place: str, tmp_path: Path) -> None:
    run = begin(tmp_path, output=place, log_every=1)
    save_step(run)
    train(run, 15)
    kill(run)
    earlier = lines(place)[1:]

    two = ProcessGroup(0, 2, lambda value: value, lambda value: [value], shares_state=False)
    again = begin(tmp_path, output=place, group=two)
    kill(again)

    first, *now = lines(place)
    assert first["event"] == "record"
    assert now[: len(earlier)] == earlier
    killed, rescale, start = now[len(earlier) :]
    last = earlier[-1]
    assert last["event"] == "step"
    assert killed.pop("unix_seconds")
    assert killed == {
        "event": "kill",
        "number": 1,
        "step": last["step"],
        "samples": last["samples"],
        "seen_unix_seconds": last["unix_seconds"],
    }
    assert [rescale[name] for name in ("event", "world_size", "world_size_before", "step")] == ["rescale", 2, 1, 1]
    assert [start[name] for name in ("number", "step", "checkpoint", "generation")] == [2, 1, "1-10", 2]


def test_failure_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_exit", sys.exit)
    run = begin(tmp_path, max_bad_steps=0)
    train(run, 12)

    with pytest.raises(DivergedError) as raised:
        train(run, 1, loss=math.nan)
    with pytest.raises(SystemExit):
        errors.end_rank(raised.value)

    end = lines(tmp_path)[-1]
    assert [end[name] for name in ("event", "cause", "exit_code", "step")] == ["end", "failed", 2, 11]
    assert "the loss is nan at step" in end["reason"]


def test_loss_that_is_no_number_is_null(tmp_path: Path) -> None:
    run = begin(tmp_path, log_every=1)
    train(run, 11)
    run.record.add("step", step=12, loss=math.nan, images_per_second=math.inf)
    kill(run)

    last = of("step", tmp_path)[-1]
    assert (last["loss"], last["images_per_second"]) == (None, None)


def test_record_without_a_place_keeps_nothing() -> None:
    before = [*errors.AT_END]
    record = Record()

    record.add("step", step=1)
    record.end("finished")

    assert before == errors.AT_END
