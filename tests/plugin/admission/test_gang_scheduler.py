"""Test that a job whose pods name a gang scheduler needs that scheduler in the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.live_cluster import check
from distrain.check.report import Report
from distrain.workload.manifest import Job
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, batch_job, mpi_job, namespace, node, of_another_tool, template

ROOM = [node("a", {"ephemeral-storage": "9Gi"}, gpu="8")]
VOLCANO, PLUGINS = "scheduling.volcano.sh", "scheduling.x-k8s.io"
SERVED = {"v1beta1": ["PodGroup"]}


def _scheduled(name: str) -> Job:
    spec = {"schedulerName": name}
    return chart_job(worker=spec, launcher=spec)


def _gang(**worker: Any) -> Job:
    """Return a job for which the operator creates the PodGroup."""
    made = mpi_job(worker=worker, launcher=worker)
    made["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": 3}}
    return job_of(made)


def _plain(group: str) -> Job:
    """Return a Job that another tool has rendered, and its PodGroup, which is in the same manifest."""
    pods = template("j", {}, {"schedulerName": "ours"})
    pod_group = {"apiVersion": f"{group}/v1beta1", "kind": "PodGroup", "metadata": {"name": "j"}, "spec": {}}
    return job_of(of_another_tool(batch_job("j", pods)), pod_group)


def _checked(api: FakeApi, folder: Path, job: Job) -> Report:
    api.answers |= {"/api/v1/nodes": ROOM, "/api/v1/pods": [], "/api/v1/namespaces/team": namespace("team")}
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}
    api.serve_mpi_jobs()
    return check(connect(Target(str(api.kubeconfig(folder)), "fake", "team")), job, "team")


def _definition(group: str) -> Object:
    names, versions = {"kind": "PodGroup"}, [{"name": "v1", "served": True}]
    spec = {"group": group, "names": names, "versions": versions}
    return {"kind": "CustomResourceDefinition", "metadata": {"name": f"podgroups.{group}"}, "spec": spec}


@pytest.mark.parametrize(
    ("job", "group"),
    [
        pytest.param(_scheduled("volcano"), VOLCANO, id="volcano"),
        pytest.param(_scheduled("scheduler-plugins-scheduler"), PLUGINS, id="scheduler-plugins"),
        pytest.param(_gang(schedulerName="volcano"), VOLCANO, id="volcano-of-an-operator"),
        pytest.param(_gang(), VOLCANO, id="the-operators-scheduler"),
        pytest.param(_gang(), PLUGINS, id="the-operators-other-scheduler"),
        pytest.param(_plain(VOLCANO), VOLCANO, id="pod-group"),
        pytest.param(_plain(PLUGINS), PLUGINS, id="pod-group-of-scheduler-plugins"),
    ],
)
def test_gang_needs_its_scheduler_in_the_cluster(api: FakeApi, tmp_path: Path, job: Job, group: str) -> None:
    without = _checked(api, tmp_path, job)
    api.serve_group(group, SERVED)
    served = _checked(api, tmp_path, job)

    assert (without.verdict, served.verdict) == ("impossible", "fits")
    assert without.reasons[0].reason.startswith('no matches for kind "PodGroup" in group "scheduling.')


@pytest.mark.parametrize(
    ("job", "place", "advice"),
    [
        pytest.param(_scheduled("volcano"), "schedulerName", "name another scheduler", id="scheduler"),
        pytest.param(
            _gang(schedulerName="volcano"), "gang.scheduler", "set gang.scheduler to none", id="gang-of-the-chart"
        ),
        pytest.param(_plain(VOLCANO), "j", "name another scheduler", id="gang-of-another-tool"),
    ],
)
def test_missing_scheduler_is_named_with_the_value(
    api: FakeApi, tmp_path: Path, job: Job, place: str, advice: str
) -> None:
    words = f"{place}: the cluster has no Volcano, as it serves no PodGroup of scheduling.volcano.sh."
    after = f" The pods would wait for ever. Install it, or {advice}."

    assert _checked(api, tmp_path, job).next == words + after


def test_other_scheduler_than_the_one_of_the_cluster_is_refused(api: FakeApi, tmp_path: Path) -> None:
    api.serve_group(PLUGINS, SERVED)

    assert _checked(api, tmp_path, _gang(schedulerName="volcano")).verdict == "impossible"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(_scheduled("volcano"), "whether the cluster has Volcano, for which the pods wait", id="volcano"),
        pytest.param(_gang(), "whether the cluster has Volcano or scheduler-plugins, for which", id="operators"),
        pytest.param(_scheduled("ours"), "whether scheduler ours runs, for which its pods wait", id="unknown"),
    ],
)
def test_what_cannot_be_known_is_named(api: FakeApi, tmp_path: Path, job: Job, words: str) -> None:
    api.answers |= {f"/apis/{group}": 403 for group in (VOLCANO, PLUGINS)}

    answer = _checked(api, tmp_path, job)

    assert answer.verdict == "fits"
    assert any(line.startswith(words) for line in answer.unseen)


def test_scheduler_of_a_served_group_may_still_not_run(api: FakeApi, tmp_path: Path) -> None:
    api.serve_group(PLUGINS, SERVED)

    answer = _checked(api, tmp_path, _scheduled("scheduler-plugins-scheduler"))

    assert "whether scheduler scheduler-plugins-scheduler runs, for which its pods wait" in answer.unseen


def test_job_without_a_gang_reads_no_group(api: FakeApi, tmp_path: Path) -> None:
    _checked(api, tmp_path, chart_job())

    assert not [each for each in api.requests if "scheduling.volcano" in each or "x-k8s" in each]


def test_file_with_definitions_tells_which_scheduler_there_is() -> None:
    job = _scheduled("volcano")

    without = judged(job, ROOM)
    there = judged(job, ROOM, others=[_definition(VOLCANO)])

    assert (without.verdict, there.verdict) == ("impossible", "fits")
