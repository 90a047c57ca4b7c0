"""Test the end of a run: the last state is saved, and even a late request to stop keeps results from being written."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer.errors import StoppedError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.run import Run
from tests.trainer.fixtures.counter_run import begin, make_step


def trained(folder: Path, *, checkpoint_at_end: bool = True) -> Run:
    run = begin(folder, epochs=None, steps=2, checkpoint_at_end=checkpoint_at_end)
    for _ in range(2):
        make_step(run)
    return run


def test_last_state_is_saved_before_the_test(tmp_path: Path) -> None:
    run = trained(tmp_path)

    run.save_end()

    assert run.lease
    assert run.lease.head.checkpoint == "1-20"
    assert begin(tmp_path, epochs=None, steps=2).position.step == 2


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("by", ["this rank", "another rank", "a server"])
def test_run_stops_after_its_test_if_any_process_was_asked_to(by: str, at_end: bool, tmp_path: Path) -> None:
    run = trained(tmp_path, checkpoint_at_end=at_end)
    run.save_end()
    if by == "this rank":
        run.request.reason = stop_flag.SIGTERM
    if by == "another rank":
        run.group = ProcessGroup(0, 2, lambda value: value, lambda value: [value, stop_flag.SIGTERM])

    with pytest.raises(StoppedError):
        run.heed_stop(stop_flag.SIGTERM if by == "a server" else stop_flag.NOTHING)

    assert begin(tmp_path, epochs=None, steps=2).position.step == 2


def test_failing_store_does_not_keep_a_trained_run_from_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path)
    monkeypatch.setattr(Run, "asked", stop_flag.NO_CHECKPOINT)

    run.heed_stop()
