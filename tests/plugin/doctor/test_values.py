"""Test what `doctor` reports about the values of a run."""

from __future__ import annotations

import pytest

from distrain import cli
from tests.plugin.doctor.examining import LISTS, Doctor
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import deployment


def test_value_that_does_harm_is_a_warning_and_leaves_the_cluster_ready(examine: Doctor) -> None:
    found = examine("--set", "workers.gpus=16")

    warning = found["workers.gpus"]
    assert (warning["section"], warning["state"]) == ("values", "warning")
    assert warning["found"] == "is 16, and no node has more than 8 nvidia.com/gpu"
    assert warning["next"] == "set it to 8 or less"
    assert found.code == 0


def test_values_without_a_warning_are_ok(examine: Doctor) -> None:
    assert examine("--set", "workers.gpus=8").says("workers")[0] == "ok"


def test_without_values_nothing_is_said_of_them(examine: Doctor) -> None:
    assert not [finding for finding in examine().answer["findings"] if finding["section"] == "values"]


def test_values_that_the_chart_refuses_are_not_examined(examine: Doctor) -> None:
    state, found = examine("--set", "podSpec.hostNetwork=true").says("workers")

    assert state == "unknown"
    assert "podSpec.hostNetwork: podSecurity restricted forbids the node's network" in found


@pytest.mark.parametrize(("scheduler", "name"), [("volcano", "Volcano"), ("scheduler-plugins", "scheduler-plugins")])
def test_values_that_need_a_missing_gang_scheduler_cannot_run(examine: Doctor, scheduler: str, name: str) -> None:
    found = examine("--set", f"workers.gpus=8,gang.scheduler={scheduler}")

    state, words = found.says("gang.scheduler")
    assert (found.code, state, found["gang.scheduler"]["section"]) == (11, "missing", "values")
    assert words.startswith(f"is {scheduler}, and {name} is missing (none of its APIs is served): the pods would wait")
    assert found["gang.scheduler"]["next"] == f"install {name}, or set it to none"
    assert not any(each["name"] == "workers" for each in found.answer["findings"])


def test_gang_scheduler_that_does_not_run_is_named(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("scheduling.volcano.sh", {"v1beta1": ["PodGroup"]})
    cluster.answers[LISTS[0]] = [deployment("volcano-scheduler", "volcanosh/vc-scheduler:v1.10", ready=0)]

    found = examine("--set", "workers.gpus=8,gang.scheduler=volcano")

    assert found["gang.scheduler"]["found"].startswith("is volcano, and Volcano does not run (v1.10, serves PodGroup")


def test_values_with_a_queue_and_without_kueue_start_at_once(examine: Doctor) -> None:
    found = examine("--set", "workers.gpus=8,gang.scheduler=kueue,gang.queue=team-a")

    state, words = found.says("gang.scheduler")
    assert (found.code, state) == (0, "warning")
    assert words.endswith("the job starts at once and waits in no queue")


def test_gang_scheduler_of_the_cluster_is_no_finding(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("scheduling.volcano.sh", {"v1beta1": ["PodGroup"]})

    assert examine("--set", "workers.gpus=8,gang.scheduler=volcano").says("workers")[0] == "ok"


def test_values_of_a_kind_that_cannot_run_are_not_ready(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.serve_group("kubeflow.org", {"v2beta1": ["MPIJob"]})

    assert cli.run(["doctor", "--set", "job.kind=PyTorchJob,framework=pytorch"]) == 11

    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("not ready: the job of these values cannot run in namespace team: job.kind: is PyTorchJob")
