"""Test that checkpoints are written in the background, one after the other, at the chosen interval."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from distrain.derive import formulas
from distrain_trainer.checkpoint import interval, reports, writer
from distrain_trainer.errors import StoppedError, Termination
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore
from tests.trainer.fixtures.counter_run import Counter, begin, make_step, save_step
from tests.trainer.fixtures.disk import Disk, steps_until, wait_until


def test_step_does_not_wait_for_a_write(disk: Disk, tmp_path: Path) -> None:
    disk.may_go_on.clear()
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes)

    for _ in range(20):
        make_step(run)

    # If a step had waited for the write to end, it would then have started a second write.
    assert disk.writes == 1
    disk.may_go_on.set()


def test_state_is_that_of_its_step_though_the_training_goes_on(disk: Disk, tmp_path: Path) -> None:
    disk.may_go_on.clear()
    run = begin(tmp_path, state := Counter(), checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes)
    for _ in range(5):
        make_step(run)
    disk.may_go_on.set()
    steps_until(run, lambda: run.lease and run.lease.head.checkpoint)

    resumed = begin(tmp_path, loaded := Counter())

    assert loaded.weight == [resumed.position.step]
    assert resumed.position.step <= state.weight


def test_last_state_is_saved_by_a_slow_write_once_the_outage_is_over(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_LAST", 0.1)
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: run.writer and run.writer.outage)
    disk.may_go_on.clear()
    before = disk.writes
    wait_until(lambda: disk.writes > before)
    disk.is_full = False
    run.request.reason = stop_flag.SIGTERM
    threading.Timer(0.5, disk.may_go_on.set).start()

    with pytest.raises(StoppedError):
        make_step(run)

    assert begin(tmp_path).position == run.position


def test_state_whose_copy_failed_is_not_saved(disk: Disk, tmp_path: Path) -> None:
    disk.is_full = True
    run = begin(tmp_path, state := Counter(), checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes)

    def fail(into: object, cuts: object) -> None:
        raise RuntimeError("half-way")

    state.copy = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="half-way"):
        steps_until(run, lambda: False)
    disk.is_full = False
    wait_until(lambda: run.writer and not run.writer._is_busy and run.writer._given is None)
    time.sleep(0.3)

    assert run.writer
    assert run.writer._thread.is_alive()
    assert not [*tmp_path.glob("*/manifest.json")]


class Watched(writer.Writer):
    """A writer with which a test can control a race between two threads.

    When the writer's own thread has found nothing to write, it pauses until another thread has given it a snapshot.
    """

    has_found_nothing: threading.Event | None = None
    may_go_on = threading.Event()
    _snapshot: writer.Snapshot | None = None

    @property
    def _given(self) -> writer.Snapshot | None:
        found = self._snapshot
        event = self.has_found_nothing
        if found is None and event is not None and threading.current_thread() is self._thread:
            self.has_found_nothing = None
            event.set()
            self.may_go_on.wait(30)
        return found

    @_given.setter
    def _given(self, snapshot: writer.Snapshot | None) -> None:
        self._snapshot = snapshot


def test_snapshot_that_is_given_while_the_thread_finds_none_is_saved(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distrain_trainer.loop.resume.Writer", Watched)
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=1000)
    found = run.writer
    assert isinstance(found, Watched)
    make_step(run)
    found.save(partial(snapshot, run))
    wait_until(lambda: found.outage)
    found.has_found_nothing = has_found_nothing = threading.Event()

    # The thread wakes up for a retry. At this moment, a held snapshot replaces the one that the thread wants to retry.
    # The disk is full until the snapshot is given, so that no retry saves the earlier one.
    assert found.save(partial(snapshot, run), wait=30, holds=True)
    disk.is_full = False
    assert has_found_nothing.wait(30)
    found._give()
    found.may_go_on.set()

    wait_until(lambda: found.saved_samples == run.position.samples)
    assert not found._is_busy


def test_stall_is_the_time_of_the_copies_alone(tmp_path: Path) -> None:
    found = (run := begin(tmp_path, checkpoint_every=1000)).writer
    assert found
    assert found.stalled == 0

    save_step(run)

    assert 0 < found.stalled == found.saved[0]["stall_seconds"]


def test_last_state_is_retried_at_once_when_the_run_stops(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 600)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 600)
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=1000)
    make_step(run)
    assert run.writer
    run.writer.save(partial(snapshot, run))
    wait_until(lambda: run.writer and run.writer.outage)
    disk.is_full = False

    with ThreadPoolExecutor(1) as other:
        last = other.submit(run.writer.save_last, partial(snapshot, run), run.position.samples)
        assert last.result(60) == ""


def test_retry_of_a_state_does_not_put_off_the_next_snapshot(disk: Disk, tmp_path: Path) -> None:
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=1000)
    make_step(run)
    found = run.writer
    assert found
    found.save(partial(snapshot, run))
    wait_until(lambda: found.outage)
    due, before = found._due, disk.writes

    wait_until(lambda: disk.writes > before + 2)

    assert found._due == due


def test_rank_0_holds_head_before_it_writes_a_file(disk: Disk, tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=0.001)
    (tmp_path / "HEAD").unlink()
    disk.may_go_on.clear()

    steps_until(run, lambda: disk.writes)

    assert (tmp_path / "HEAD").exists()
    disk.may_go_on.set()


def test_rank_0_waits_for_the_others_longer_than_it_wrote_itself(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def wait(store: FolderStore, *_: object, seconds: float, **__: object) -> dict[str, object]:
        if store.uri == str(tmp_path):  # A thread of another test may still be saving its run.
            given.append(seconds)
        return {}

    monkeypatch.setattr(reports, "wait", wait)
    disk.may_go_on.clear()
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes)
    time.sleep(0.05)
    disk.may_go_on.set()

    wait_until(lambda: given)

    assert given[0] >= writer.SECONDS_FOR_OTHERS + 0.05


def test_process_that_fails_does_not_wait_for_its_writer(tmp_path: Path) -> None:
    found = begin(tmp_path).writer
    assert found

    # Python waits at its end for every thread that is no daemon.
    assert found._thread.daemon


def test_finished_run_has_waited_for_the_write_that_was_on(disk: Disk, tmp_path: Path) -> None:
    disk.may_go_on.clear()
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes)
    threading.Timer(0.2, disk.may_go_on.set).start()

    run.finish()

    assert run.writer
    assert run.writer.saved_samples > 0
    assert not run.writer._thread.is_alive()


def test_finished_run_sleeps_while_it_waits_for_the_write(tmp_path: Path) -> None:
    found = begin(tmp_path).writer
    assert found
    # A loop without a pause would take processor time from the write.
    found._thread = Mock(spec=threading.Thread, is_alive=Mock(side_effect=[True, True, False]))

    found.close()

    assert found._thread.join.call_count == 2


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGUSR1, "SIGUSR1")])
def test_signal_asks_to_stop_and_a_second_one_changes_nothing(
    number: signal.Signals, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set the flag with monkeypatch, which resets it after the test. Otherwise the flag would stay set in later tests.
    monkeypatch.setattr(Termination, "requested", False)
    request = stop_flag.StopRequest()
    handlers = {each: signal.getsignal(each) for each in stop_flag.SIGNALS}
    try:
        request.listen()
        signal.raise_signal(number)
        for each in stop_flag.SIGNALS:
            signal.raise_signal(each)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)

    assert stop_flag.WORDS[request.reason] == name


def test_without_a_place_nothing_is_saved_and_signals_stay_as_they_are() -> None:
    before = signal.getsignal(signal.SIGTERM)

    run = begin("")
    make_step(run)
    run.finish()

    assert signal.getsignal(signal.SIGTERM) == before
    assert (run.writer, run.lease, run.position.samples) == (None, None, 10)


@pytest.mark.parametrize("cost", [0.01, 1.0, 60.0, 1e9])
@pytest.mark.parametrize("mtbf", [60.0, 1e6])
def test_interval_is_the_plugins(cost: float, mtbf: float) -> None:
    assert interval.checkpoint_interval(cost, mtbf) == formulas.checkpoint_interval(cost, mtbf)
    assert interval.GPU_DAYS_BETWEEN_FAILURES == formulas.GPU_DAYS_BETWEEN_FAILURES
    assert interval.LONGEST == formulas.LONGEST_BETWEEN_CHECKPOINTS


@pytest.mark.parametrize(
    ("every", "stall", "write", "ranks", "seconds", "reason"),
    [
        pytest.param(90, 5, 200, 8, 90, "checkpoint.every", id="given"),
        # 8 GPUs together fail once in 1230.8 / 8 = 153.8 days, which is 13 292 308 s. Then sqrt(2 x 0.01 s x 13 292 308
        # s) is 515.6 s.
        pytest.param(None, 0.01, 60, 8, 515.6, "auto: loses least for 8 ranks .* 0.01 s for each", id="by-the-stall"),
        pytest.param(None, 5, 60, 8, 1800, "auto: at most 30 minutes", id="never-longer-than-half-an-hour"),
        pytest.param(None, 0.01, 700, 8, 700, "auto: writing one takes 700 s", id="never-shorter-than-writing"),
        pytest.param(None, 5, 4000, 8, 4000, "auto: writing one takes 4000 s", id="writing-takes-longer"),
        pytest.param(None, 1e-6, 3, 8, 60, "auto: at least a minute", id="hardly-stands-still"),
        pytest.param(None, 0, 0.1, 8, 60, "auto: at least a minute", id="stands-still-for-nothing"),
        pytest.param(None, 1e-6, 70, 8, 70, "auto: writing one takes 70 s", id="writing-takes-longer-than-a-minute"),
    ],
)
def test_interval_follows_from_how_long_the_training_stands_still(
    every: float | None, stall: float, write: float, ranks: int, seconds: float, reason: str
) -> None:
    found = interval.interval(every, stall=stall, write=write, ranks=ranks)

    assert found.seconds == pytest.approx(seconds, rel=0.001)
    assert re.fullmatch(reason, found.reason)


@pytest.mark.parametrize(
    ("left", "told"),
    [
        # On a busy machine, saving a checkpoint takes some seconds, which are subtracted from the 90 s.
        pytest.param(45, "none is due before the run's end", id="ends-before"),
        pytest.param(95, r"next in (4[5-9]|[5-8]\d|90) s \(checkpoint\.every\)", id="goes-on"),
    ],
)
def test_next_one_is_told_where_there_is_one(
    left: float, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path, checkpoint_every=90)
    assert run.writer
    run.writer.seconds_left = left
    save_step(run)
    run.finish()

    [line, _] = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"checkpoint: saved 1-10 at step 1 .*, held the training up for 0\.\d+ s; {told}", line)


def test_run_of_a_few_steps_saves_nothing_but_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, at_end in (("pod", False), ("volume", True)):
        run = begin(tmp_path / folder, checkpoint_at_end=at_end)
        for _ in range(4):
            make_step(run)
        run.finish()

    assert not [*(tmp_path / "pod").rglob("*.safetensors")]
    head = json.loads((tmp_path / "volume" / "HEAD").read_text())
    assert (head["checkpoint"], head["state"]) == ("1-40", "finished")
    assert "; none is due before the run's end\n" in capsys.readouterr().out


def test_one_that_is_due_at_the_runs_end_is_not_told(tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=90)
    assert run.writer
    run.writer.seconds_left = 90

    assert run.writer._plan_next(0.0) == "none is due before the run's end"
