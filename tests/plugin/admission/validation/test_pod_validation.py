"""Test that `check` refuses pods whose resources the API server would refuse.

Also test what it checks if a job has no pods.
"""

from __future__ import annotations

from typing import Any

import pytest

from distrain.check.report import Report
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.objects import Object, batch_job, node, pytorch_job, template

ROOM = [node("a", {"ephemeral-storage": "9Gi"}, gpu="8")]
GPU = "nvidia.com/gpu"
WORKERS = "spec.containers[0].resources"


def _worker(**resources: Any) -> Object:
    return {"containers": [{"name": "main", "resources": resources}]}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        pytest.param(
            {"limits": {GPU: "500m"}},
            [
                f'{WORKERS}.limits[{GPU}]: Invalid value: "500m": must be an integer',
                f'{WORKERS}.requests[{GPU}]: Invalid value: "500m": must be an integer',
            ],
            id="fraction-of-a-gpu",
        ),
        pytest.param(
            {"requests": {GPU: 1}},
            [f"{WORKERS}.limits: Required value: Limit must be set for non overcommitable resources"],
            id="gpu-without-limit",
        ),
        pytest.param(
            {"requests": {GPU: 1}, "limits": {GPU: 2}},
            [f'{WORKERS}.requests: Invalid value: "1": must be equal to {GPU} limit of 2'],
            id="fewer-gpus-than-the-limit",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}},
            [f'{WORKERS}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m'],
            id="request-above-limit",
        ),
        pytest.param(
            {"requests": {"memory": "-1Gi"}},
            [f'{WORKERS}.requests[memory]: Invalid value: "-1Gi": must be greater than or equal to 0'],
            id="negative",
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            [f"{WORKERS}: Forbidden: HugePages require cpu or memory"],
            id="huge-pages-alone",
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}},
            [
                f'{WORKERS}.{kind}[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi"
                for kind in ("limits", "requests")
            ],
            id="huge-pages-in-part",
        ),
        pytest.param(
            {"limits": {"pods": "1"}},
            [
                f'{WORKERS}.{kind}[pods]: Invalid value: "pods": must be a standard resource for containers'
                for kind in ("limits", "requests")
            ],
            id="resource-of-no-container",
        ),
        pytest.param(
            {"requests": {"gpu": "0"}},
            [
                f'{WORKERS}.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
                f'{WORKERS}.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers',
            ],
            id="resource-without-prefix",
        ),
        pytest.param(
            {"limits": {f"requests.{GPU}": "0"}},
            [
                f'{WORKERS}.{kind}[requests.{GPU}]: Invalid value: "requests.{GPU}": doesn\'t follow extended resource '
                "name standard"
                for kind in ("limits", "requests")
            ],
            id="resource-of-a-quota",
        ),
    ],
)
def test_pod_that_the_api_server_refuses_is_impossible(resources: Object, words: list[str]) -> None:
    answer = judged(chart_job(workers=1, worker=_worker(**resources)), ROOM)

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason == f"Pod is invalid: {', '.join(words)}"
    assert answer.next == f"workers: no API server accepts such pods. Correct {words[0].partition(': ')[0]}."


def test_role_without_pods_has_none_to_refuse() -> None:
    worker = _worker(requests={"cpu": "2"}, limits={"cpu": "1"})

    assert judged(chart_job(workers=0, worker=worker, version="v1"), ROOM).verdict == "fits"


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"limits": {GPU: 1}},
        {"requests": {GPU: 1}, "limits": {GPU: "1"}},
        {"requests": {"cpu": "500m"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}},
        {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}},
        {"requests": {"kubernetes.io/x": "1"}},
    ],
)
def test_pod_that_the_api_server_takes_is_judged_by_its_room(resources: Object) -> None:
    assert not any(
        "Pod is invalid" in each.reason
        for each in judged(chart_job(workers=1, worker=_worker(**resources)), ROOM).reasons
    )


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(
            {"requests": {"cpu": "1"}},
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
            "requests of 2",
            id="below-the-containers",
        ),
        pytest.param(
            {"limits": {"cpu": "1"}},
            'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits '
            "of 1",
            id="container-above-the-pod",
        ),
        pytest.param(
            {"requests": {"cpu": "4"}, "limits": {"cpu": "3"}},
            'spec.resources.requests: Invalid value: "4": must be less than or equal to cpu limit of 3',
            id="request-above-limit",
        ),
    ],
)
def test_resources_of_a_pod_that_contradict_its_containers_are_refused(pod: Object, words: str) -> None:
    containers = [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]
    answer = judged(chart_job(worker={"containers": containers, "resources": pod}), [node("a")])

    assert answer.verdict == "impossible"
    assert any(words in reason.reason for reason in answer.reasons)


def test_pods_limit_of_huge_pages_below_the_sum_of_its_containers_is_refused() -> None:
    limits = {"cpu": "1", "hugepages-2Mi": "2Mi"}
    containers = [{"name": name, "resources": {"limits": limits}} for name in ("main", "other")]
    pod = {"containers": containers, "resources": {"limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}}}

    words = (
        'spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate '
        "container limits of 4Mi"
    )
    assert words in judged(chart_job(worker=pod), [node("a")]).reasons[0].reason


def test_negative_number_of_pods_is_refused() -> None:
    answer = judged(job_of(pytorch_job(workers=-1)), ROOM)

    words = "Pod is invalid: the number of pods: Invalid value: -1: must be greater than or equal to 0"
    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [words])


def test_whole_pod_can_only_ask_for_cpu_memory_and_huge_pages() -> None:
    worker = {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "2"}, "limits": {GPU: "8"}}}
    answer = judged(chart_job(worker=worker), [node("a")])

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith(
        f'Pod is invalid: spec.resources.limits[{GPU}]: Unsupported value: "{GPU}": supported values: "cpu", '
        '"hugepages-", "memory"'
    )


def test_job_without_pods_is_refused_for_its_template() -> None:
    empty = batch_job("a", template("a", {"limits": {"pods": "0"}}), parallelism=0)
    answer = judged(job_of(empty, batch_job("b", template("b", {}))), ROOM)

    assert answer.verdict == "impossible"
    path = "spec.template.spec.containers[0].resources.limits[pods]"
    assert answer.reasons[0].reason.startswith(f"Job is invalid: {path}: Invalid value")


def test_defaults_of_a_limit_range_do_not_raise_what_the_pod_asks_for() -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}
    default = {"kind": "LimitRange", "metadata": {"name": "d", "namespace": "team"}, "spec": limits}
    bare = {"containers": [{"name": "main"}], "resources": {"limits": {"cpu": "4"}}}

    # The API server sets the pod-level request to the pod-level limit before LimitRanges set the containers' defaults.
    answer = judged(chart_job(worker=bare, workers=1), [node("a", cpu="3.2")], others=[default])

    assert answer.verdict == "impossible"
    assert answer.pods[-1].requests == {"cpu": "4"}


@pytest.mark.parametrize(
    "limit",
    [pytest.param({"default": {"cpu": "100m"}}, id="default"), pytest.param({"max": {"cpu": "100m"}}, id="max")],
)
def test_limit_range_whose_default_limit_the_pod_exceeds_is_named(limit: Object) -> None:
    answer = _answer_with({"requests": {"cpu": "200m"}}, limit)

    cause = f'{WORKERS}.requests: Invalid value: "200m": must be less than or equal to cpu limit of 100m'
    assert cause in answer.reasons[0].reason
    assert answer.next == (
        f"workers: no API server accepts such pods: LimitRange lr sets a limit, and {cause}. Ask for less, or change "
        "the LimitRange."
    )


def test_limit_range_is_not_named_for_a_mistake_of_the_pod() -> None:
    answer = _answer_with({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, {"default": {"cpu": "1"}})

    assert answer.next == f"workers: no API server accepts such pods. Correct {WORKERS}.requests."


def _answer_with(resources: Object, limit: Object) -> Report:
    """Check a worker in a namespace with two LimitRanges: `another` sets nothing, and `lr` sets the given limit."""
    ranges = [
        {"kind": "LimitRange", "metadata": {"name": name, "namespace": "team"}, "spec": {"limits": limits}}
        for name, limits in (("another", []), ("lr", [{"type": "Container", **limit}]))
    ]
    return judged(chart_job(workers=1, worker=_worker(**resources)), ROOM, others=ranges)
