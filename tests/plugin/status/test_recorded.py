"""Test that `status --record` reads facts from a run's record when the logs no longer contain them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, PLAIN, ROLES, live, over, pod, serve, step

NOW = 1767225600


@pytest.fixture
def record(tmp_path: Path) -> Path:
    folder = tmp_path / "record"
    folder.mkdir()
    return folder


def _write(folder: Path, *lines: dict[str, Any]) -> None:
    text = "".join(f"{json.dumps({'unix_seconds': NOW, **line})}\n" for line in lines)
    (folder / "record.jsonl").write_text(text)


def _start(size: int, number: int = 1) -> dict[str, Any]:
    return {"event": "start", "number": number, "world_size": size, "steps": 1000, "epochs": 10}


def _step(number: int, rate: float) -> dict[str, Any]:
    return {"event": "step", "step": number, "images_per_second_mean": rate, "loss": 0.5}


def _rows(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())


UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
DONE = live({**MPI, "status": {}}, "Succeeded")


def test_run_whose_pods_are_gone_has_the_figures_of_its_record(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, DONE)
    saved = {"event": "checkpoint", "step": 900, "checkpoint": "s3://b/c"}
    _write(record, _start(2), _step(990, 80.0), saved, _start(2, 2), _step(1000, 90.0))

    rows = _rows(status("run1", "--record", str(record)).out)

    assert rows["run1"] == "Succeeded"
    assert rows["step"] == "1000 of 1000 100 %"
    assert rows["speed"] == "90.0 images/sec on the whole"
    assert rows["checkpoint"].startswith("step 900, ")
    assert rows["source"] == "from the run's record"
    assert rows["restarts"] == "1 restart, 0 rescales"


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        pytest.param(["rescale", "start"], "0 restarts, 1 rescale", id="rescale"),
        pytest.param(["start"], "1 restart, 0 rescales", id="restart"),
        pytest.param(["kill", "start"], "1 restart, 0 rescales", id="kill"),
        pytest.param(["kill", "rescale", "start"], "1 restart, 1 rescale", id="kill-that-takes-a-worker"),
        pytest.param(["rescale", "start", "start"], "1 restart, 1 rescale", id="both"),
    ],
)
@pytest.mark.parametrize("pods", [[], [pod("launcher")]], ids=["gone", "runs"])
def test_start_with_another_number_of_ranks_is_no_restart_but_a_kill_is(
    api: FakeApi, status: Run, record: Path, events: list[str], counted: str, pods: list[Object]
) -> None:
    serve(api, MPI if pods else DONE, pods=pods, run1_launcher=step(990))
    _write(record, {"event": "start"}, _step(980, 80.0), *({"event": event} for event in events), _step(990, 80.0))

    assert _rows(status("run1", "--record", str(record)).out)["restarts"] == counted


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param("run2-1234abcd-0a1b2c3d", "run2-1234abcd", id="another-run"),
        pytest.param("run1-1234abcd-x-0a1b2c3d", "run1-1234abcd-x", id="longer-name"),
        pytest.param("run1-1234abcd-0a1b2c3d", "", id="same-run"),
        pytest.param("run1-1234abcd-plain-0a1b2c3d", "", id="same-run-of-kind-plain"),
        pytest.param(None, "", id="not-told"),
    ],
)
@pytest.mark.parametrize("objects", [[DONE], PLAIN], ids=["mpi", "plain"])
def test_record_of_another_run_is_refused(
    api: FakeApi, status: Run, record: Path, job: str | None, words: str, objects: list[Object]
) -> None:
    serve(api, *objects)
    _write(record, {**_start(2), "job": job}, _step(990, 80.0))

    shown = status("run1", "--record", str(record))

    told = f"distrain: --record: belongs to job {words}, but the job of run1 is run1-1234abcd; name the record of run1"
    assert (shown.code, shown.err.startswith(told)) == ((2, True) if words else (0, False))


def test_log_comes_before_the_record(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, MPI, pods=[pod("launcher"), pod("worker", 0), pod("worker", 1)], run1_launcher=step(7))
    _write(record, _start(2), _step(5, 80.0))

    answer = json.loads(status("run1", "--record", str(record), "-o", "json").out)

    assert (answer["step"], answer["from_record"]) == (7, False)


def test_speed_is_compared_with_single_ranks_once_one_was_measured(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, DONE)
    _write(record, _start(1), _step(10, 50.0), _start(4, 2), _step(20, 180.0))

    shown = status("run1", "--record", str(record))

    assert _rows(shown.out)["speed"] == "180.0 images/sec on the whole (90% of as many single GPUs)"


def test_speed_that_a_log_tells_is_compared_at_its_own_size(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, MPI, pods=UP, run1_launcher=step(50, world_size=2, images_per_second=60.0, images_per_second_mean=50.0))
    _write(record, _start(1), _step(1, 100.0), _start(4, 2), _step(2, 360.0))

    rows = _rows(status("run1", "--record", str(record)).out)

    assert rows["speed"] == "50.0 images/sec on the whole (25% of as many single GPUs)"


@pytest.mark.parametrize("name", ["model", "framework"])
def test_single_rank_of_another_model_or_framework_is_not_compared_with(
    api: FakeApi, status: Run, record: Path, name: str
) -> None:
    serve(api, DONE)
    lines = [{**_start(1), name: "a"}, _step(1, 10_000.0), {**_start(2, 2), name: "b"}, _step(2, 90.0)]
    _write(record, *lines)

    assert _rows(status("run1", "--record", str(record)).out)["speed"] == "90.0 images/sec on the whole"


def test_start_from_an_earlier_step_undoes_the_steps_before(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, DONE)
    _write(record, _start(4), {**_step(150, 400.0), "images_per_second": 400.0}, {**_start(2, 2), "step": 100})

    rows = _rows(status("run1", "--record", str(record)).out)

    assert rows["step"] == "100 of 1000 10 %"
    assert "speed" not in rows
    assert rows["loss"] == "not known, or not a number"


@pytest.mark.parametrize("event", ["checkpoint", "end"])
@pytest.mark.parametrize(
    "start", [pytest.param([], id="same-start"), pytest.param([{**_start(4, 2), "step": 100}], id="earlier-step")]
)
def test_step_is_not_older_than_the_checkpoint_and_the_end(
    api: FakeApi, status: Run, record: Path, event: str, start: list[dict[str, Any]]
) -> None:
    serve(api, DONE)
    _write(record, _start(4), _step(150, 400.0), *start, {"event": event, "step": 156, "checkpoint": "1-9984"})

    rows = _rows(status("run1", "--record", str(record)).out)

    assert rows["step"] == "156 of 1000 15 %"
    assert rows.get("speed") == (None if start else "400.0 images/sec on the whole")


def test_checkpoint_before_a_start_from_an_earlier_step_does_not_count(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, DONE)
    saved = {"event": "checkpoint", "step": 156, "checkpoint": "1-9984"}
    _write(record, _start(4), _step(150, 400.0), saved, {**_start(4, 2), "step": 100}, _step(110, 400.0))

    assert _rows(status("run1", "--record", str(record)).out)["step"] == "110 of 1000 11 %"


def test_start_from_the_last_step_keeps_its_figures(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, DONE)
    _write(record, _start(4), _step(150, 400.0), {**_start(2, 2), "step": 150})

    rows = _rows(status("run1", "--record", str(record)).out)

    assert (rows["step"], rows["speed"]) == ("150 of 1000 15 %", "400.0 images/sec on the whole")


def test_end_before_another_start_does_not_explain_a_failure(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, live({**MPI, "status": {}}, "Failed"))
    _write(record, _start(2), {"event": "end", "cause": "failed", "reason": "disk full"}, _start(2, 2), _step(50, 1.0))

    assert "disk full" not in status("run1", "--record", str(record)).out


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([_start(4), _step(20, 180.0)], id="no-single-rank"),
        pytest.param([_start(1), _step(20, 50.0)], id="one-rank-now"),
        pytest.param([_step(20, 50.0)], id="unknown-size"),
        pytest.param([], id="empty"),
    ],
)
def test_without_a_single_rank_to_compare_with_no_efficiency_is_known(
    api: FakeApi, status: Run, record: Path, lines: list[dict[str, Any]]
) -> None:
    serve(api, DONE)
    _write(record, *lines)

    assert json.loads(status("run1", "--record", str(record), "-o", "json").out)["efficiency"] is None


def test_failed_run_without_pods_has_the_reason_of_its_record(api: FakeApi, status: Run, record: Path) -> None:
    serve(api, live({**MPI, "status": {}}, "Failed"))
    reason = "data.uri: bucket b does not exist; create it"
    _write(record, _start(2), {"event": "end", "cause": "failed", "reason": f"distrain: {reason}"})

    rows = _rows(status("run1", "--record", str(record)).out)

    assert (rows["why"], rows["next"]) == ("data.uri: bucket b does not exist", "create it")


def test_folder_without_a_record_is_refused_and_so_is_one_for_all_runs(status: Run, record: Path) -> None:
    shown = status("run1", "--record", str(record))

    assert shown.code == 2
    assert "contains no record.jsonl; give the run's folder" in shown.err

    shown = status("--record", str(record))

    assert shown.code == 2
    assert shown.err.startswith("distrain: --record: is for a single run; write `helm distrain status run1`")


@pytest.mark.parametrize("kind", ROLES)
@pytest.mark.parametrize("end", ["", "Succeeded"])
def test_only_pods_that_run_are_ready(api: FakeApi, status: Run, kind: str, end: str) -> None:
    job, main, others = ROLES[kind]
    pods = [pod(role, phase=end or "Running") for role in (main, *others)]
    serve(api, *(over(job, end) if end else job), pods=pods)

    answer = json.loads(status("run1", "-o", "json").out)

    ready = [answer["workers"]["ready"], *(each["ready"] for each in answer["others"])]
    assert (any(ready), all(ready)) == (not end, not end)
