"""Test that ranks save and read their own shares of a checkpoint, and that an incomplete checkpoint does not count."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.checkpoint import writer
from distrain_trainer.errors import FencedError, StorageError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.ranks import Ranks, make_step_together
from tests.trainer.fixtures.together import (
    SIZE,
    Averaged,
    end,
    newest,
    newest_in,
    quick,
    save_one,
    saved_by,
    start,
    steps_until,
    until_saved_after,
)

__all__ = ["quick"]

pytestmark = pytest.mark.usefixtures("quick")


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
    # Rank 0 has a second file, state-4, for the arrays that may differ between the ranks.
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


@pytest.mark.parametrize(
    "report",
    [
        pytest.param('{"start": "another", "files": {}}', id="of-an-earlier-start"),
        pytest.param('{"start": "an', id="cut"),
        pytest.param("[]", id="list"),
        pytest.param("{}", id="empty"),
    ],
)
def test_report_of_an_earlier_start_does_not_count(
    report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_OTHERS", 0.1)
    for samples in range(10, 1000, 10):
        path = tmp_path / f"1-{samples}" / "rank-1.json"
        path.parent.mkdir()
        path.write_text(report)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        assert run.writer
        if group.rank:
            run.writer.close()
        steps_until(run, lambda run: run.writer and "rank 1 has not written" in run.writer.outage.reason)

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
            wait_until(lambda: run.writer and not run.writer._thread.is_alive())
            assert run.writer.lease.is_fenced
            assert not run.writer.outage
        with pytest.raises(FencedError, match=r"is held by generation 7|see rank 0's log"):
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


def test_store_without_the_right_to_delete_is_no_reason_to_end_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: FolderStore, name: str) -> None:
        raise StorageError(f"the keys may not delete {name}")

    monkeypatch.setattr(FolderStore, "delete", refuse)

    def work(group: ProcessGroup) -> None:
        run = start(tmp_path, group)
        save_one(run)
        end(run)

    Ranks(2).run(work)
    assert len([*tmp_path.glob("*/manifest.json")]) > 0


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
            run.begin_step(10)  # Begin a step while the outcome of the previous step is still unknown.
            if step > 1:
                run.end_step(step - 1, asked=stop_flag.SAVE if step in (3, 4) else stop_flag.NOTHING)
                taken.append(run.taken_step)
        return taken

    assert Ranks(2).run(work) == [[0, 3, 3, 3]] * 2
