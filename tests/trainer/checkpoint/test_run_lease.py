"""Test how a run holds HEAD: another job may ask for it, take it over, or find that HEAD was deleted.

The run hands HEAD over after a step if another job asks, ends if it is fenced, and survives a deletion of HEAD.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from distrain_trainer.checkpoint.head import Holder
from distrain_trainer.errors import (
    FencedError,
    FinishedError,
    StoppedError,
)
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import open_store
from tests.trainer.fixtures.counter_run import begin, make_step, save_step
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.holders import A, B, as_job, take

pytestmark = pytest.mark.usefixtures("quick_beats")


def test_run_hands_over_at_a_step_when_another_job_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_job(monkeypatch, A)
    run = begin(tmp_path)
    make_step(run)
    store = open_store(str(tmp_path), value="checkpoint.uri")
    with ThreadPoolExecutor(1) as other:
        second = other.submit(take, store, B)
        wait_until(lambda: run.asked)

        with pytest.raises(StoppedError):
            make_step(run)

        assert second.result(120).head.checkpoint == "1-20"
    assert (
        "stopped at step 2 (20 samples) after another job asked for the run; resumes there\n" in capsys.readouterr().out
    )


def test_fenced_run_ends_at_its_next_step(tmp_path: Path) -> None:
    run = begin(tmp_path)
    take(open_store(str(tmp_path), value="checkpoint.uri"), Holder(""))
    wait_until(lambda: run.asked)

    with pytest.raises(FencedError, match=r"^checkpoint\.uri: .* is held by generation 2 \(job .*\) and no longer by"):
        make_step(run)


def test_run_whose_checkpoints_are_deleted_writes_its_next_one_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    save_step(run := begin(folder))
    # Rename the folder, which removes all files at once. If the files were deleted one by one, a heartbeat could write
    # HEAD again in the meantime.
    folder.rename(tmp_path / "deleted")

    save_step(run)

    assert not run.asked
    assert begin(folder).position.samples == 20


def test_run_whose_head_alone_is_deleted_goes_on_after_a_restart(
    without_beats: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_step(begin(tmp_path))
    save_step(begin(tmp_path))
    # An incomplete checkpoint, as a failed save leaves it behind.
    (tmp_path / "2-30").mkdir()
    (tmp_path / "2-30/state-1.safetensors").touch()
    (tmp_path / "HEAD").unlink()

    run = begin(tmp_path)

    assert run.position.samples == 20
    assert run.lease
    assert run.lease.head.generation == 3
    said = capsys.readouterr().out
    assert f"checkpoint: {tmp_path}/HEAD is gone; resuming from the newest checkpoint, 2-20\n" in said


def test_run_begun_anew_in_place_of_a_deleted_head_keeps_its_checkpoint(
    without_beats: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, A)
    former = begin(tmp_path)
    (tmp_path / "HEAD").unlink()
    as_job(monkeypatch, B)
    save_step(begin(tmp_path))
    state = tmp_path / "1-10/state-0.safetensors"
    written = state.stat().st_mtime_ns

    assert former.writer
    former.position = former.position.after_step(10, ranks=1, batch_size=10, epoch_samples=100)
    failure = former.writer.save_last(partial(snapshot, former), 10)

    assert "is held by generation 1 (job run-b)" in failure
    assert state.stat().st_mtime_ns == written


def test_run_without_a_head_that_is_never_to_resume_begins_anew(without_beats: None, tmp_path: Path) -> None:
    save_step(begin(tmp_path))
    (tmp_path / "HEAD").unlink()

    run = begin(tmp_path, resume="never")

    assert run.lease
    assert (run.position.samples, run.lease.head.generation, run.lease.head.since) == (0, 2, 2)


def test_run_that_is_never_to_resume_does_for_a_restart_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_job(monkeypatch, A)
    save_step(begin(tmp_path))
    as_job(monkeypatch, Holder(A.job, ("pod-of-a-new-install",)))

    anew = begin(tmp_path, resume="never")
    again = begin(tmp_path, resume="never")
    save_step(anew := begin(tmp_path, resume="never"))
    restarted = begin(tmp_path, resume="never")

    assert (again.position.samples, anew.position.samples, restarted.position.samples) == (0, 10, 10)
    assert json.loads((tmp_path / "HEAD").read_text())["since"] == 2


def test_finished_run_ends_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path, epochs=None, steps=1)
    make_step(run)
    run.finish()

    with pytest.raises(FinishedError):
        begin(tmp_path, epochs=None, steps=1)

    first, second = capsys.readouterr().out.splitlines()
    assert first == "finished: 1 steps, 10 samples"
    assert second.startswith("finished: ")
