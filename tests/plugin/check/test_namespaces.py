"""Test jobs with pods in several namespaces. Each namespace has its own quotas, LimitRanges and pods."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.workload.manifest import Job
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object, node, pod, with_images

ROOM = [node("a", labels={"kubernetes.io/hostname": "a"})]
HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
NAMED = {"kind": "Namespace", "metadata": {"name": "blue", "labels": {"kubernetes.io/metadata.name": "blue"}}}


def _part(name: str, namespace: str, pods: int, **spec: Any) -> Object:
    """Return a Job in which each of `pods` pods requests 1 cpu."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": with_images({"containers": [container], "restartPolicy": "Never", **spec}),
    }
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _spec(pods, template)}


def _spec(pods: int, template: Object) -> Object:
    return {"parallelism": pods, "template": template}


def _quota(namespace: str, hard: Object, **more: Any) -> Object:
    metadata = {"name": f"of-{namespace}", "namespace": namespace}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, **more}


def _apart(**term: Any) -> Object:
    """Return fields of a pod spec that forbid two pods with this label on the same host."""
    terms = [{**HOST, **term}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _two(pods: tuple[int, int] = (2, 1), **spec: Any) -> Job:
    """Return a job with pods in the namespaces team and blue."""
    return job_of(_part("one", "", pods[0], **spec), _part("two", "blue", pods[1], **spec))


@pytest.mark.parametrize(
    ("quotas", "verdict"),
    [
        pytest.param([_quota("team", {"pods": "2"}), _quota("blue", {"pods": "1"})], "fits", id="both-admit"),
        pytest.param([_quota("team", {"pods": "1"}), _quota("blue", {"pods": "1"})], "impossible", id="first-refuses"),
        pytest.param([_quota("team", {"pods": "2"}), _quota("blue", {"pods": "0"})], "impossible", id="other-refuses"),
        pytest.param([_quota("blue", {"pods": "1"}, status={"used": {"pods": "1"}})], "busy", id="other-is-in-use"),
        pytest.param([_quota("blue", {"count/jobs.batch": "1"})], "fits", id="objects-of-one-namespace"),
    ],
)
def test_quotas_of_each_namespace_count_its_pods(quotas: list[Object], verdict: str) -> None:
    assert judged(_two(), ROOM, others=[NAMED, *quotas]).verdict == verdict


@pytest.mark.parametrize("namespace", ["team", "blue"])
def test_jobs_of_equal_names_count_in_their_own_namespaces(namespace: str) -> None:
    job = job_of(_part("one", "team", 1), _part("one", "blue", 1))
    enough, none = (_quota(namespace, {"count/jobs.batch": hard}) for hard in "10")

    assert judged(job, ROOM, others=[NAMED, enough]).verdict == "fits"
    assert judged(job, ROOM, others=[NAMED, none]).next.startswith(f"{namespace}/Job/one/one: the job needs 1 of count")


def test_limit_range_of_each_namespace_is_for_its_pods() -> None:
    limits = {"limits": [{"type": "Container", "min": {"cpu": "2"}}]}
    limited = {"kind": "LimitRange", "metadata": {"name": "large", "namespace": "blue"}, "spec": limits}

    answer = judged(_two(), ROOM, others=[NAMED, limited])

    assert answer.verdict == "impossible"
    assert answer.next.startswith("two: LimitRange large refuses its pods: minimum cpu usage per Container is 2")


@pytest.mark.parametrize(
    ("term", "verdict"),
    [
        pytest.param({}, "fits", id="own-namespace"),
        pytest.param({"namespaces": ["team", "blue"]}, "impossible", id="named"),
        pytest.param({"namespaceSelector": {}}, "impossible", id="all"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "blue"}}}, "impossible", id="selected"
        ),
    ],
)
def test_anti_affinity_stays_in_its_namespace_unless_it_says_otherwise(term: Object, verdict: str) -> None:
    assert judged(_two((1, 1), **_apart(**term)), ROOM, others=[NAMED]).verdict == verdict


def test_affinity_stays_in_its_namespace() -> None:
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST]}}
    seeker = _part("two", "blue", 1, affinity=near)
    seeker["spec"]["template"]["metadata"]["labels"] = {"app": "y"}

    assert judged(job_of(_part("one", "", 1), seeker), ROOM, others=[NAMED]).verdict == "impossible"


def test_topology_spread_counts_pods_of_its_namespace() -> None:
    hosts = [node(name, labels={"kubernetes.io/hostname": name}, cpu=cpu) for name, cpu in (("a", "3"), ("b", "1"))]
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    even = _part("two", "blue", 2, topologySpreadConstraints=[{**spread, "labelSelector": HOST["labelSelector"]}])
    elsewhere = _part("one", "", 2, nodeSelector={"kubernetes.io/hostname": "a"})

    assert judged(job_of(elsewhere, even), hosts, others=[NAMED]).verdict == "fits"


@pytest.mark.parametrize(("namespace", "verdict"), [("blue", "busy"), ("team", "fits"), ("other", "fits")])
def test_running_pods_count_in_the_namespace_of_the_role(namespace: str, verdict: str) -> None:
    running = pod("p", on="a")
    running["metadata"] |= {"namespace": namespace, "labels": {"app": "x"}}
    job = job_of(_part("one", "", 2), _part("two", "blue", 1, **_apart()))

    assert judged(job, ROOM, [running], [NAMED]).verdict == verdict


def test_anti_affinity_of_a_running_pod_reaches_the_role_in_its_namespace() -> None:
    running = pod("p", on="a")
    running["metadata"]["namespace"] = "blue"
    running["spec"] |= _apart()

    assert judged(_two((2, 1)), ROOM, [running], [NAMED]).verdict == "busy"
