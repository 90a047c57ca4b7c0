"""Test that a checkpoint does not count if a rank fails or has not taken its snapshot."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from distrain_trainer.checkpoint import reports, writer
from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore, open_store
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.ranks import Ranks, make_step_together
from tests.trainer.fixtures.together import (
    FULL,
    end,
    newest,
    newest_in,
    quick,
    save_one,
    start,
    steps_until,
    until_saved_after,
)

__all__ = ["quick"]

pytestmark = pytest.mark.usefixtures("quick")


class Faults:
    """Lets a test make the writes of one rank's files fail or wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.error = "", StorageError(FULL)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        original = FolderStore.write

        def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
            if self.file and name.endswith(self.file):
                self.may_go_on.wait(30)
                if self.file:
                    raise self.error
            original(store, name, content)

        monkeypatch.setattr(FolderStore, "write", write)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.mark.parametrize("file", ["state-1.safetensors", "rank-1.json"])
def test_rank_that_cannot_write_keeps_the_checkpoint_from_being_whole(
    file: str, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.1)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        first = save_one(run)
        if group.rank == 0:
            faults.file = file
        steps_until(run, lambda run: run.writer and "rank 1 has not written" in run.writer.outage.reason)
        place = run.group.broadcast(newest(run))
        for _ in range(30):
            make_step_together(run)
        assert newest(run) == place >= first
        faults.file = ""
        until_saved_after(run, place)
        end(run)

    Ranks(2).run(work)
    out, err = capfd.readouterr()
    assert "is not saved (checkpoint.uri: rank 1 has not written its files of " in out
    assert "rank 1: checkpoint: step " in err
    assert FULL in err
    assert "; resumes there\n" in out


def test_pauses_between_two_looks_for_a_report_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(reports, "time", Mock(monotonic=Mock(return_value=0.0), sleep=pauses.append))
    store = open_store(str(tmp_path), value="checkpoint.uri")

    with pytest.raises(UnavailableError, match=r"rank 1 has not written its files of .*/1-10 within 0 s"):
        reports.wait(store, "1-10", 2, "start", Mock(), seconds=60, is_wanted=lambda: len(pauses) < 7)

    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


class LostAnswers:
    """A fake store that writes rank 1's report, but raises an error as if the write had failed.

    Rank 0 writes its manifest only after the test has set `may_complete`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_complete, self.fails_again = threading.Event(), False
        self.reports = 0
        original = FolderStore.write

        def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
            if name.endswith("manifest.json"):
                assert self.may_complete.wait(30)
            if name.endswith("/state-1.safetensors") and self.reports and self.fails_again:
                raise StorageError(FULL)
            original(store, name, content)
            if name.endswith("/rank-1.json"):
                self.reports += 1
                raise StorageError(FULL)

        monkeypatch.setattr(FolderStore, "write", write)


@pytest.mark.parametrize("attempts", [1, 2], ids=["told-that-the-report-is-not-written", "and-the-retry-fails"])
def test_files_whose_report_rank_0_may_have_read_stay(
    attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, failures = LostAnswers(monkeypatch), list[int]()
    # With a pause of 60 s, no retry writes the files again during the test.
    monkeypatch.setattr(writer, "FIRST_PAUSE", 60 if attempts == 1 else 0.02)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 60)
    lost.fails_again = attempts == 2
    fail = writer.Writer._fail

    def noted(of: writer.Writer, *told: Any) -> None:
        fail(of, *told)
        failures.append(of._member.rank)
        if failures.count(1) == attempts:
            lost.may_complete.set()

    monkeypatch.setattr(writer.Writer, "_fail", noted)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_every=1000)
        make_step_together(run)
        assert run.writer
        run.writer.save(partial(snapshot, run))
        wait_until(lambda: newest_in(tmp_path) == "1-10")

    Ranks(2).run(work)

    assert failures[:attempts] == [1] * attempts
    assert Ranks(2).run(lambda group: start(tmp_path, group).resumed_from) == ["1-10", "1-10"]


def test_state_that_one_rank_has_not_taken_is_given_up_for_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each attempt waits 0.3 s for the other rank. The pauses between attempts are shorter than the time between two
    # checkpoints.
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.3)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.1)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_every=0.5)
        assert run.writer
        if group.rank == 1:  # Rank 1 cannot take a snapshot while its buffer is in use.
            run.writer._using_buffer.acquire()
        steps_until(run, lambda run: run.writer and run.writer._is_busy)
        if group.rank == 1:
            run.writer._using_buffer.release()
        steps_until(run, lambda run: run.writer and run.writer.outage)
        until_saved_after(run, None)
        end(run)

    Ranks(2).run(work)


def test_no_state_is_taken_while_a_rank_still_reports_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return = threading.Event()
    original = FolderStore.write

    def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
        original(store, name, content)
        if name.endswith("/rank-1.json"):
            may_return.wait(30)

    monkeypatch.setattr(FolderStore, "write", write)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        first = save_one(run)
        taken = run.taken_step
        for _ in range(20):
            make_step_together(run)
        assert (run.taken_step, newest(run)) == (taken, first)
        may_return.set()
        until_saved_after(run, first)
        end(run)

    Ranks(2).run(work)


def test_state_that_a_slow_rank_still_writes_is_not_replaced(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.05)
    faults.file = "/state-1.safetensors"
    faults.may_go_on.clear()
    failures, fail = list[Any](), writer.Writer._fail

    def noted(of: writer.Writer, *told: Any) -> None:
        failures.append(told)
        fail(of, *told)

    monkeypatch.setattr(writer.Writer, "_fail", noted)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        steps_until(run, lambda run: run.taken_step)
        taken = run.taken_step
        steps_until(run, lambda _: len(failures) > 3)
        assert run.taken_step == taken
        faults.file = ""
        faults.may_go_on.set()
        save_one(run)
        end(run)

    Ranks(2).run(work)


def test_rank_that_cannot_write_for_too_long_ends_the_run(faults: Faults, tmp_path: Path) -> None:
    faults.file = "state-1.safetensors"

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_max_age=0.3)
        with pytest.raises(UnavailableError, match=r"^checkpoint\.maxAge: nothing could be saved for 0 s"):
            steps_until(run, lambda run: False)

    Ranks(2).run(work)
    assert not [*tmp_path.glob("*/manifest.json")]


def test_last_state_that_one_rank_cannot_write_is_not_saved(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_LAST", 0.1)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_every=1000)
        make_step_together(run)
        faults.file = "state-1.safetensors"
        end(run)

    Ranks(2).run(work)
    assert f"; not saved: rank 1: {FULL}\n" in capsys.readouterr().out
    assert not [*tmp_path.glob("*/manifest.json")]


def test_checkpoint_of_a_rank_that_died_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good: list[str] = []

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        good.append(save_one(run))
        assert run.writer
        if group.rank:
            run.writer.close()  # From now on, this rank cannot write any file.
        else:
            monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.1)
        steps_until(run, lambda run: run.writer and run.writer.outage)

    Ranks(2).run(work)
    torn = [path for path in tmp_path.iterdir() if path.is_dir() and not (path / "manifest.json").exists()]
    assert torn

    assert {*Ranks(3).run(lambda group: start(tmp_path, group).resumed_from)} == {newest_in(tmp_path)}
