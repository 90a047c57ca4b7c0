"""Test the verdict of a check on a job, given the nodes and pods of a cluster."""

from __future__ import annotations

import pytest

from distrain.check.gpus import gpus_of
from distrain.solver.capacity import Judgement
from tests.plugin.check.judging import GPU, GPU_TAINT, chart_job, job_of, judged, said
from tests.plugin.objects import (
    Object,
    mx_job,
    node,
    pod,
    pytorch_job,
    tainted,
    with_images,
)


def test_job_that_fits_says_what_it_takes_and_what_is_free() -> None:
    job = chart_job(workers=2, gpus=4)

    answer = judged(job, [node("a", gpu="8")])

    assert (answer.verdict, answer.verdict.exit_code) == ("fits", 0)
    assert (answer.gpus.needed, answer.gpus.free, answer.gpus.total) == (8, 8, 8)
    assert answer.reasons == []
    assert answer.next == ""
    assert said(answer, job) == (
        "fits: 2 workers of 4 nvidia.com/gpu each and 1 launcher of 100m cpu and 512Mi memory; 8 of 8 GPUs free"
    )


def test_more_workers_than_the_cluster_can_ever_hold_are_impossible() -> None:
    answer = judged(chart_job(workers=5, gpus=4), [node("a", gpu="8"), node("b", gpu="8")], [pod("p", on="a", gpu="8")])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers.replicas: 5 workers of 4 nvidia.com/gpu each do not fit, even on empty nodes; these hold 4. "
        "Lower workers.replicas to 4."
    )


def test_workers_that_only_the_pod_limit_keeps_away_are_named() -> None:
    answer = judged(chart_job(workers=5, gpus=0), [node("a", pods="3")])

    assert answer.next == (
        "workers.replicas: 5 workers of no request each do not fit, even on empty nodes; these hold 2. "
        "Lower workers.replicas to 2."
    )


def test_room_that_other_pods_hold_makes_it_busy() -> None:
    answer = judged(chart_job(workers=3, gpus=4), [node("a", gpu="8"), node("b", gpu="8")], [pod("p", on="a", gpu="6")])

    assert (answer.verdict, answer.verdict.exit_code) == ("busy", 10)
    assert answer.fit["worker"] == 2
    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [(2, "Insufficient nvidia.com/gpu")]
    assert answer.next == (
        "workers.replicas: 3 workers fit only once other pods end or nodes come back; there is room "
        "for 2 now. Lower workers.replicas to 2, or wait."
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_holds_nothing(phase: str) -> None:
    answer = judged(chart_job(workers=2, gpus=4), [node("a", gpu="8")], [pod("p", on="a", gpu="8", phase=phase)])

    assert answer.verdict == "fits"


def test_pod_that_waits_for_its_nominated_node_holds_it_already() -> None:
    preemptor = pod("p", gpu="8", phase="Pending")
    preemptor["status"]["nominatedNodeName"] = "a"

    assert judged(chart_job(workers=2, gpus=4), [node("a", gpu="8")], [preemptor]).verdict == "busy"


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(pod("p", on="a", gpu="6", owner="DaemonSet"), id="daemonset"),
        pytest.param(
            {
                **pod("p", on="a", gpu="6"),
                "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "1"}},
            },
            id="static",
        ),
    ],
)
def test_pods_that_never_end_count_for_ever(kept: Object) -> None:
    assert judged(chart_job(workers=1, gpus=4), [node("a", gpu="8")], [kept]).verdict == "impossible"


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(node("a", gpu="8", cordoned=True), id="cordoned"),
        pytest.param(tainted(node("a", gpu="8"), "node.kubernetes.io/not-ready:NoSchedule"), id="not-ready"),
    ],
)
def test_node_that_is_only_away_makes_it_busy(away: Object) -> None:
    assert judged(chart_job(workers=1, gpus=4), [node("b"), away]).verdict == "busy"


def test_reasons_count_nodes_in_the_schedulers_words() -> None:
    cluster = [
        node("full", gpu="8"),
        node("cordoned", gpu="8", cordoned=True),
        tainted(node("tainted", gpu="8"), GPU_TAINT),
        node("crowded", gpu="8", pods="1"),
        node("without"),
    ]
    running = [pod("p", on="full", gpu="8"), pod("q", on="crowded")]

    answer = judged(chart_job(workers=1, gpus=4), cluster, running)

    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [
        (2, "Insufficient nvidia.com/gpu"),
        (1, "Too many pods"),
        (1, "node(s) had untolerated taint(s)"),
        (1, "node(s) were unschedulable"),
    ]


def test_reasons_count_the_launcher_as_placed() -> None:
    job = chart_job(
        workers=2,
        worker={"containers": [{"name": "w", "resources": {"limits": {GPU: 1, "cpu": 1}}}]},
        launcher={"containers": [{"name": "l", "resources": {"requests": {"cpu": 1}}}]},
    )

    answer = judged(job, [node("a", gpu="2", cpu="2")])

    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [(1, "Insufficient cpu")]


def test_job_that_depends_on_the_order_is_not_reported_to_fit() -> None:
    # If the launcher is placed on node a, it uses CPU that the second worker needs. If the launcher is placed on node
    # b, it uses nothing that a worker needs.
    job = chart_job(workers=2, worker={"containers": [{"name": "w", "resources": {"limits": {GPU: 4, "cpu": 8}}}]})

    answer = judged(job, [node("a", gpu="8", cpu="16"), node("b", cpu="1")])

    assert (answer.verdict, answer.verdict.exit_code) == ("depends", 12)
    assert answer.next == (
        "workers.replicas: 2 workers and the launcher fit, but not in every order and place that the scheduler may "
        "choose. Lower workers.replicas to 1 to be sure."
    )


def test_servers_in_the_way_of_a_worker_leave_it_open() -> None:
    worker = {"containers": [{"name": "mxnet", "resources": {"requests": {"cpu": "16"}}}]}
    job = mx_job(servers=2, workers=1, gpus=0)
    job["spec"]["mxReplicaSpecs"]["Worker"]["template"]["spec"] = with_images(worker)

    answer = judged(job_of(job), [node("a"), node("b")])

    assert answer.verdict == "depends"
    assert answer.next == (
        "workers.replicas: 1 worker, 2 servers and the scheduler fit, but not in every order and place that the "
        "scheduler may choose. Free some room to be sure."
    )


def test_master_is_counted_among_the_workers_that_may_not_fit_in_every_order() -> None:
    job = pytorch_job(workers=2, master=True)
    cpu = {"containers": [{"name": "pytorch", "resources": {"requests": {"cpu": "1"}}}]}
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"] = with_images(cpu)

    # If the scheduler places the Master on the only node with GPUs, the Master uses the CPU that a worker needs there.
    answer = judged(job_of(job), [node("a", gpu="4", cpu="1"), node("b", cpu="1")])

    assert answer.verdict == "depends"
    assert answer.next == (
        "workers.replicas: 2 workers fit, but not in every order and place that the scheduler may choose. "
        "Free some room to be sure."
    )


FULL = Judgement(2, sure=0, most=1)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(
            [Judgement(2, sure=1, most=2, undecided=True)],
            "2 workers, 2 servers and the scheduler fit in one placement; undecided whether in every order: the search "
            "of the orders ended after 10000000 steps. Free some room, or lower workers.replicas to 1, to be sure.",
            id="order",
        ),
        pytest.param(
            [Judgement(2, sure=0, most=None, undecided=True), FULL],
            "undecided whether 2 workers, 2 servers and the scheduler fit: no placement is found, and the search of "
            "the placements ended after 10000000 steps. Free some room, or lower workers.replicas, to be sure.",
            id="now",
        ),
        pytest.param(
            [FULL, Judgement(2, sure=0, most=1, undecided=True)],
            "2 workers, 2 servers and the scheduler do not fit now; undecided whether on empty nodes: the search of "
            "the placements there ended after 10000000 steps. Free some room, or lower workers.replicas, to be sure.",
            id="emptied",
        ),
    ],
)
def test_search_that_was_cut_short_is_reported(
    monkeypatch: pytest.MonkeyPatch, found: list[Judgement], words: str
) -> None:
    monkeypatch.setattr("distrain.check.cluster_state.capacity.judge", lambda *_: found.pop(0))

    answer = judged(job_of(mx_job(servers=2, workers=2)), [node("a", gpu="8")])

    assert (answer.verdict, answer.verdict.exit_code) == ("depends", 12)
    assert answer.next == f"workers.replicas: {words}"


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        ("amd.com/gpu", "amd.com/gpu"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("rdma/hca", "nvidia.com/gpu"),
    ],
)
def test_gpus_of_a_manifest_are_known_by_their_name(resource: str, found: str) -> None:
    job = chart_job(worker={"containers": [{"name": "w", "resources": {"limits": {resource: 1}}}]})

    assert gpus_of(job) == found


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(("runPolicy", "suspend"), ["the suspended job goes on"], id="suspended"),
        pytest.param(("runPolicy", "backoffLimit"), [], id="another-field"),
    ],
)
def test_suspended_job_is_judged_as_if_it_went_on(path: tuple[str, str], words: list[str]) -> None:
    job = pytorch_job(workers=2, gpus=4)
    job["spec"][path[0]] = {path[1]: True if words else 3}

    answer = judged(job_of(job), [node("a", gpu="4")])

    assert (answer.verdict, answer.assumed) == ("impossible", words)
