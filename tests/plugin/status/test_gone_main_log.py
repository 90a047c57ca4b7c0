"""Test that `status` reads the record of an ended run if the pod with the main log is gone and other pods are left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain.request import run_record
from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.report import records
from tests.plugin.status import runs
from tests.plugin.status.runs import PYTORCH, serve, step

Release = Callable[[dict[str, Any]], object]
CONTENT = records.content(records.rescaled())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit for reading a record, because a busy machine may need longer to start Helm."""
    monkeypatch.setattr(run_record, "SECONDS", 100.0)


def _values(uri: Path) -> dict[str, Any]:
    return {"output": {"uri": str(uri)}, "checkpoint": {"uri": ""}, "s3": {"endpoint": ""}}


@pytest.mark.parametrize(
    ("kind", "others"), [(kind, others) for kind, (_, _, roles) in runs.ROLES.items() for others in runs.subsets(roles)]
)
@pytest.mark.parametrize("end", ["suspended", "Succeeded", "Failed"])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_run_whose_main_pod_is_gone_is_read_from_its_record_whatever_pods_are_left(
    api: FakeApi, status: Run, release: Release, tmp_path: Path, kind: str, others: list[str], end: str, phase: str
) -> None:
    serve(api, *runs.over(runs.ROLES[kind][0], end), pods=[runs.pod(role, phase=phase) for role in others])
    folder = tmp_path / "team" / "run1"
    folder.mkdir(parents=True)
    last = {"event": "end", "cause": "failed", "reason": "distrain: data.uri: x holds nothing; correct it"}
    (folder / "record.jsonl").write_bytes(CONTENT + f"{json.dumps(last)}\n".encode())
    release(_values(tmp_path))

    answer = json.loads(status("run1", "-o", "json").out)

    assert (answer["step"], answer["from_record"], answer["unread"]) == (200, True, [])
    assert end != "Failed" or (answer["why"], answer["next"]) == ("data.uri: x holds nothing", "correct it")


@pytest.mark.parametrize("kind", ["elastic PyTorchJob", "MXJob"])
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("log", ["", "of another worker\n"], ids=["empty", "other-lines"])
@pytest.mark.parametrize("has_record", [True, False], ids=["record", "no-record"])
def test_run_whose_worker_with_the_main_log_is_gone_is_read_from_its_record(
    api: FakeApi, status: Run, release: Release, tmp_path: Path, kind: str, end: str, log: str, has_record: bool
) -> None:
    others = [runs.pod(role, phase=end) for role in runs.ROLES[kind][2]]
    job = runs.over(runs.ROLES[kind][0], end)
    serve(api, *job, pods=[*others, runs.pod("worker", 1, phase=end)], run1_worker_1=log)
    folder = tmp_path / "team" / "run1"
    folder.mkdir(parents=True)
    if has_record:
        (folder / "record.jsonl").write_bytes(CONTENT)
    release(_values(tmp_path))

    answer, waited = json.loads(status("run1", "-o", "json").out), status("run1", "--for=step=10")

    assert (answer["step"], answer["from_record"]) == ((200, True) if has_record else (None, False))
    assert (answer["restarts"], answer["rescales"]) == ((1, 1) if has_record else (None, None))
    assert bool(answer["unread"]) == (not has_record)
    assert end == "Failed" or waited.code == (0 if has_record else 4)


def test_step_of_a_worker_that_was_rank_0_before_is_not_the_last(
    api: FakeApi, status: Run, release: Release, tmp_path: Path
) -> None:
    pods = [runs.pod("worker", 1, phase="Succeeded")]
    serve(api, *runs.over([PYTORCH], "Succeeded"), pods=pods, run1_worker_1=step(40, steps=200))
    folder = tmp_path / "team" / "run1"
    folder.mkdir(parents=True)
    (folder / "record.jsonl").write_bytes(CONTENT)
    release(_values(tmp_path))

    answer = json.loads(status("run1", "-o", "json").out)

    assert (answer["step"], answer["from_record"], answer["restarts"]) == (200, True, 1)
