"""Test that all ranks save and read their shares of a checkpoint, and that incomplete checkpoints do not count."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.checkpoint import arrays, layout, writer
from distrain_trainer.checkpoint import head as heads
from distrain_trainer.errors import FencedError, StoppedError, StorageError, UnavailableError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore
from tests.trainer.fixtures.counter_run import Counter, begin
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.ranks import Ranks, make_step_together

SIZE = 1000
FULL = "checkpoint.uri: the disk is full; free some of it"


class Averaged(Counter):
    """A state with a large weight, and with means that differ between the ranks."""

    def __init__(self, rank: int) -> None:
        super().__init__(SIZE)
        self.means = np.full(3, rank, np.float32)

    def fields(self) -> arrays.Fields:
        return {**super().fields(), "model.means": arrays.Field("F32", (3,))}

    def unshared(self) -> tuple[str, ...]:
        return ("model.means",)

    def copy(self, into: arrays.Arrays, cuts: arrays.Cuts) -> None:
        held = {"model.weight": self.weight, "model.means": self.means}
        for name, place in into.items():
            place[...] = arrays.elements(held[name], cuts.get(name), place.size)

    def load(self, found: arrays.Arrays) -> None:
        super().load(found)
        self.means[:] = found["model.means"]


@pytest.fixture(autouse=True)
def quick(in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "SMALLEST_CUT", 64)
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.04)
    monkeypatch.setattr("distrain_trainer.loop.process_group.CHUNK", 1000)


def start(folder: Path, group: ProcessGroup, **values: object) -> Run:
    return begin(folder, Averaged(group.rank), group=group, **{"checkpoint_every": 0.001, **values})


def newest(run: Run) -> str | None:
    """Return the checkpoint that HEAD names. All ranks get what rank 0 reads."""
    head = heads.read(run.writer.lease.store) if run.writer else None
    found: str | None = run.group.broadcast(head and head[0].checkpoint)
    return found


def steps_until(run: Run, condition: Callable[[Run], Any]) -> None:
    """Make steps until the condition holds on rank 0, for at most 20 s."""
    end = time.monotonic() + 20
    while not run.group.broadcast(bool(condition(run)) or time.monotonic() > end):
        make_step_together(run)
        time.sleep(0.01)
    assert time.monotonic() < end, "it never came"


def until_saved_after(run: Run, before: str | None) -> None:
    steps_until(run, lambda run: run.lease and run.lease.head.checkpoint != before)


def save_one(run: Run) -> str:
    until_saved_after(run, None)
    found = newest(run)
    assert found
    return found


def end(run: Run) -> None:
    """Stop all ranks. This saves the last state."""
    run.request.reason = stop_flag.SIGTERM
    with pytest.raises(StoppedError):
        make_step_together(run)


def saved_by(folder: Path, ranks: int) -> None:
    def work(group: ProcessGroup) -> None:
        run = start(folder, group)
        make_step_together(run)
        end(run)

    Ranks(ranks).run(work)


@pytest.mark.parametrize(("before", "now"), [(1, 1), (1, 3), (3, 1), (2, 2), (2, 5), (5, 2)])
def test_any_number_of_ranks_reads_what_any_number_saved(before: int, now: int, tmp_path: Path) -> None:
    saved_by(tmp_path, before)

    def resume(group: ProcessGroup) -> tuple[Any, Any, int]:
        run = start(tmp_path, group)
        assert isinstance(run.state, Averaged)
        return run.state.weight.tolist(), run.state.means.tolist(), run.position.step

    assert Ranks(now).run(resume) == [([2.0] * SIZE, [0.0] * 3, 2)] * now


def test_every_rank_writes_as_many_bytes_and_the_manifest_lists_all_files(tmp_path: Path) -> None:
    saved_by(tmp_path, 4)

    [folder] = [path.parent for path in tmp_path.glob("*/manifest.json")]
    told = json.loads((folder / "manifest.json").read_text())
    # Rank 0 writes a second file for the arrays that may differ between the ranks.
    assert [*told["files"]] == [f"state-{number}.safetensors" for number in (0, 4, 1, 2, 3)]
    assert {path.name for path in folder.iterdir()} == {*told["files"], "manifest.json"}
    sizes = {file: (folder / file).stat().st_size for file in told["files"]}
    assert sizes == {file: each["size"] for file, each in told["files"].items()}
    assert all(1900 < sizes[f"state-{number}.safetensors"] < 2300 for number in (1, 2, 3, 4))
    assert (told["ranks"], told["format"]) == (4, 3)


def test_ranks_save_again_and_again_and_keep_the_last_ones(tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> tuple[int, int]:
        run = start(tmp_path, group, checkpoint_keep=2)
        for _ in range(4):
            until_saved_after(run, newest(run))
        end(run)
        assert run.writer
        return run.writer.saved_samples, run.position.samples

    [(saved, samples)] = {*Ranks(3).run(work)}
    assert saved == samples
    assert len([*tmp_path.glob("*/manifest.json")]) == 2
    assert not [*tmp_path.rglob("rank-*.json")]


class Faults:
    """Makes the writes of one rank's files fail or wait."""

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


class LostAnswers:
    """Writes rank 1's report, and tells rank 1 that it is not written. Rank 0's manifest waits for `may_complete`."""

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
    # With a pause, no retry writes the files again.
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
    # One attempt takes 0.3 s, and the pauses are shorter than the interval between two checkpoints.
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.3)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.1)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_every=0.5)
        assert run.writer
        if group.rank == 1:  # As if a call to the store took long.
            run.writer._using_buffer.acquire()
        steps_until(run, lambda run: run.writer and run.writer._is_busy)
        if group.rank == 1:
            run.writer._using_buffer.release()
        steps_until(run, lambda run: run.writer and run.writer.outage)
        until_saved_after(run, None)
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
            run.writer.close()  # This rank writes nothing from now on.
        else:
            monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.1)
        steps_until(run, lambda run: run.writer and run.writer.outage)

    Ranks(2).run(work)
    torn = [path for path in tmp_path.iterdir() if path.is_dir() and not (path / "manifest.json").exists()]
    assert torn

    assert {*Ranks(3).run(lambda group: start(tmp_path, group).resumed_from)} == {newest_in(tmp_path)}


def newest_in(folder: Path) -> str:
    name: str = json.loads((folder / "HEAD").read_text())["checkpoint"]
    return name


def test_report_of_an_earlier_start_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.1)
    for samples in range(10, 1000, 10):
        path = tmp_path / f"1-{samples}" / "rank-1.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"start": "another", "files": {}}))

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        assert run.writer
        if group.rank:
            run.writer.close()
        steps_until(run, lambda run: run.writer and run.writer.outage)

    Ranks(2).run(work)
    assert not [*tmp_path.glob("*/manifest.json")]


def test_rank_of_a_job_that_lost_the_run_writes_nothing(tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_every=1000)
        make_step_together(run)
        if group.rank == 0:
            head = json.loads((tmp_path / "HEAD").read_text())
            (tmp_path / "HEAD").write_text(json.dumps({**head, "generation": 7, "job": "another"}))
        group.gather(None)
        assert run.writer
        if group.rank:
            run.writer.save(partial(snapshot, run))
            wait_until(lambda: run.writer and run.writer.lease.is_fenced)
        with pytest.raises(FencedError, match=r"is held by generation 7|rank 0 names it"):
            make_step_together(run)

    Ranks(2).run(work)
    assert not [*tmp_path.glob("1-10")]


def test_state_before_a_bad_step_is_written_by_no_rank(tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        steps_until(run, lambda run: run.writer and run.writer._held)
        assert run.writer
        held = run.writer._held
        make_step_together(run, is_bad=True)
        assert run.writer._held is None
        for _ in range(3):
            make_step_together(run, is_bad=True)
        assert held
        assert not [*tmp_path.glob(f"1-{held.position.samples}/*")]

    Ranks(2).run(work)


def test_rank_0_saves_alone_if_the_ranks_have_folders_of_their_own(tmp_path: Path) -> None:
    def save(group: ProcessGroup) -> None:
        run = start(tmp_path / str(group.rank), group)
        make_step_together(run)
        assert (run.writer is None) == (group.rank > 0)
        end(run)

    def resume(group: ProcessGroup) -> tuple[float, int]:
        run = start(tmp_path / str(group.rank), group)
        assert isinstance(run.state, Averaged)
        return float(run.state.weight.sum()), run.position.step

    Ranks(3).run(save)
    assert [path.parent.name for path in tmp_path.glob("*/HEAD")] == ["0"]
    assert Ranks(3).run(resume) == [(2.0 * SIZE, 2)] * 3
    assert not [*tmp_path.rglob("probe-*")]


@pytest.mark.parametrize("file", ["state-0.safetensors", "state-1.safetensors"])
def test_share_that_is_damaged_makes_all_ranks_skip_the_checkpoint(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_by(tmp_path, 2)
    first = newest_in(tmp_path)
    saved_by(tmp_path, 2)
    damaged = newest_in(tmp_path)
    path = tmp_path / damaged / file
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    found = Ranks(2).run(lambda group: start(tmp_path, group).resumed_from)

    assert found == [first, first]
    assert f"checkpoint: {damaged} is damaged ({file}: checksum differs), skipped\n" in capsys.readouterr().out


def test_finished_run_ends_on_all_ranks_with_its_last_state_saved(tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group, checkpoint_at_end=True, checkpoint_every=1000)
        for _ in range(3):
            make_step_together(run)
        run.save_end()
        run.finish()
        assert run.writer
        assert not run.writer._thread.is_alive()

    Ranks(3).run(work)
    head = json.loads((tmp_path / "HEAD").read_text())
    assert (head["checkpoint"], head["state"]) == ("1-30", "finished")


def test_request_of_a_step_that_began_before_the_snapshot_is_not_heeded_again(tmp_path: Path) -> None:
    def work(group: ProcessGroup) -> list[int]:
        run = start(tmp_path, group, checkpoint_every=1000)
        taken = []
        for step in range(1, 6):
            run.begin_step(10)  # Begin a step before the previous step's outcome is known.
            if step > 1:
                run.end_step(step - 1, asked=stop_flag.SAVE if step in (3, 4) else stop_flag.NOTHING)
                taken.append(run.taken_step)
        return taken

    assert Ranks(2).run(work) == [[0, 3, 3, 3]] * 2
