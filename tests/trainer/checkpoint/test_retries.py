"""Test the writer's retries: the pauses between them, which files are deleted, and when the last state is given up."""

from __future__ import annotations

import math
import re
import threading
from functools import partial
from pathlib import Path

import pytest

from distrain_trainer.checkpoint import files
from distrain_trainer.checkpoint.writer import SECONDS_FOR_LAST, Writer
from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore
from lab.paths import CHART
from tests.trainer.fixtures.counter_run import begin, make_step, save_step
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.unsteady_s3 import Clock


class Failing:
    """Lets a test make the next writes of a state fail with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0.0
        self.error: Exception = StorageError("full")
        original = FolderStore.write

        def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
            if self.left > 0 and name.endswith(".safetensors"):
                self.left -= 1
                raise self.error
            original(store, name, content)

        monkeypatch.setattr(FolderStore, "write", write)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the pauses that the writer makes before its retries, and make them shorter."""
    found: list[float] = []
    original = Writer._wait

    def wait(writer: Writer, pause: float) -> bool:
        if not writer._is_closed:  # An earlier test's writer may still be ending.
            found.append(pause)
        return original(writer, min(pause, 0.001))

    monkeypatch.setattr(Writer, "_wait", wait)
    return found


def saved(run: Run, samples: int) -> bool:
    return run.writer is not None and run.writer.saved_samples == samples and not run.writer._is_busy


def give(run: Run) -> None:
    """Make a step, and give the state to the writer. Do not wait for the write."""
    assert run.writer
    run.position = run.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)
    assert run.writer.save(partial(snapshot, run), wait=10)


def test_pause_doubles_up_to_a_minute_and_begins_anew_after_a_success(
    failing: Failing, pauses: list[float], tmp_path: Path
) -> None:
    run = begin(tmp_path)
    failing.left = 9
    give(run)
    wait_until(lambda: saved(run, 10))
    failing.left = 2
    give(run)
    wait_until(lambda: saved(run, 20))

    wait_until(lambda: len(pauses) == 14)
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("error", "deletes"),
    [
        pytest.param(StorageError("full"), True, id="full"),
        pytest.param(UnavailableError("no answer"), False, id="server-that-does-not-answer"),
        pytest.param(RuntimeError("a mistake"), False, id="mistake"),
    ],
)
def test_room_is_made_only_where_the_store_answers(
    error: Exception, deletes: bool, failing: Failing, pauses: list[float], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    deleted: list[str] = []
    monkeypatch.setattr(files, "delete_torn", lambda store, *, before, tell: deleted.append(f"before {before}"))
    monkeypatch.setattr(files, "delete_own", lambda store, name, parts, tell: deleted.append(name))
    run = begin(tmp_path)
    failing.left, failing.error = 1, error
    give(run)
    wait_until(lambda: saved(run, 10))

    assert deleted == (["1-10", "before 1-10"] if deletes else [])


def test_mistake_of_the_program_is_told_with_its_type(failing: Failing, tmp_path: Path) -> None:
    run = begin(tmp_path)
    failing.left, failing.error = math.inf, RuntimeError("a mistake")
    give(run)
    assert run.writer
    wait_until(lambda: run.writer and run.writer.outage)

    assert run.writer.outage.reason == "RuntimeError: a mistake"
    failing.left = 0


class WallClock(Clock):
    def time(self) -> float:
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The writer's fake clock."""
    clock = WallClock()
    clock.now = 1000.0
    monkeypatch.setattr("distrain_trainer.checkpoint.writer.time", clock)
    return clock


def idle_writer(folder: Path) -> Writer:
    run = begin(folder)
    assert run.writer
    return run.writer


@pytest.mark.parametrize(
    ("failed", "is_busy", "seconds", "is_hopeless"),
    [
        pytest.param((10, 1001.0), False, SECONDS_FOR_LAST, False, id="within-the-time"),
        pytest.param((10, 1001.0), False, SECONDS_FOR_LAST + 0.1, True, id="after-the-time"),
        pytest.param((10, 1000.0), False, SECONDS_FOR_LAST + 0.1, True, id="failed-at-once"),
        pytest.param((10, 999.9), False, SECONDS_FOR_LAST + 0.1, False, id="failed-before-it-began"),
        pytest.param((20, 1001.0), False, SECONDS_FOR_LAST + 0.1, False, id="another-state-failed"),
        pytest.param((10, 1001.0), True, SECONDS_FOR_LAST + 0.1, False, id="write-in-progress"),
    ],
)
def test_last_state_is_given_up_once_it_failed_and_its_time_is_over(
    failed: tuple[int, float], is_busy: bool, seconds: float, is_hopeless: bool, clock: Clock, tmp_path: Path
) -> None:
    writer = idle_writer(tmp_path)
    with writer._using_buffer:
        writer._failed, writer._is_busy = failed, is_busy
        clock.now = 1000.0 + seconds
        assert writer._is_hopeless(10, 1000.0) == is_hopeless


def test_last_state_is_tried_for_half_of_the_time_that_a_rank_has_to_stop() -> None:
    # The other half is left for the end of the current step, and for a last attempt to save.
    grace = re.search(r"ternary (\d+) \$theirs", (CHART / "templates" / "pod" / "_pod.tpl").read_text())

    assert grace
    assert int(grace[1]) / 2 == SECONDS_FOR_LAST


def test_checkpoint_is_due_after_the_interval_unless_one_is_held_or_written(clock: Clock, tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=90)
    writer = run.writer
    assert writer
    found = []
    for seconds in (0, 89.9, 0.1, 1):
        clock.sleep(seconds)
        found.append(writer.is_due())
    assert found == [False, False, True, True]
    run.position = run.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)

    assert writer.save(partial(snapshot, run), holds=True)
    assert not writer.is_due()
    writer.settle(2, is_good=False)
    assert writer.is_due()
    # The snapshot was dropped before the writer's thread got it.
    assert (writer._given, writer.saved_samples) == (None, -1)


def test_first_checkpoint_is_due_after_a_minute_where_the_interval_is_chosen(clock: Clock, tmp_path: Path) -> None:
    writer = idle_writer(tmp_path)
    clock.sleep(59.9)
    assert not writer.is_due()
    clock.sleep(0.1)
    assert writer.is_due()


def test_step_between_copy_and_verdict_does_not_count_as_cost(clock: Clock, tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=90)
    writer = run.writer
    assert writer
    run.position = run.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)

    def take() -> object:
        clock.sleep(2)
        return snapshot(run)

    assert writer.save(take, holds=True)  # type: ignore[arg-type]
    clock.sleep(30)
    writer.settle(2, is_good=True)
    wait_until(lambda: writer.saved_samples == 10)

    [line] = writer.lines
    assert line == (
        "checkpoint: saved 1-10 at step 1 (10 samples), 2.0 s, held the training up for 2.000 s; next in 88 s "
        "(checkpoint.every)"
    )
    assert writer._due == 1000.0 + 32 + 88


def test_snapshot_is_refused_while_the_buffer_is_used(tmp_path: Path) -> None:
    run = begin(tmp_path)
    save_step(run)
    writer = run.writer
    assert writer
    with writer._using_buffer:
        refused = []
        thread = threading.Thread(target=lambda: refused.append(writer.save(partial(snapshot, run), wait=0.01)))
        thread.start()
        thread.join(10)

    assert refused == [False]
    assert writer.save(partial(snapshot, run))


def test_closed_writer_has_ended_its_thread(tmp_path: Path) -> None:
    run = begin(tmp_path)
    make_step(run)
    assert run.writer
    run.writer.close()

    assert not run.writer._thread.is_alive()


def test_next_one_is_due_at_once_where_writing_took_longer_than_the_interval(clock: Clock, tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=90)
    assert run.writer

    assert run.writer._plan_next(200.0) == "next in 0 s (checkpoint.every)"
    assert run.writer.is_due()
