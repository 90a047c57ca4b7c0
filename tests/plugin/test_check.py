"""The verdict on a job, with its reasons and the next step, from the nodes and pods of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from distrain.check import report as check
from distrain.check.capacity import Judgement
from distrain.check.report import Report, not_judged, report, summary
from distrain.check.snapshot import take
from distrain.job import Job, from_manifest
from tests.plugin.objects import (
    Object,
    mpi_job,
    mx_job,
    node,
    nodes,
    of_another_tool,
    plain,
    pod,
    pods,
    pytorch_job,
    tainted,
    tf_job,
)

GPU = "nvidia.com/gpu"
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"


def _job(**fields: Any) -> Job:
    return from_manifest(yaml.safe_dump(mpi_job(**fields)), "--chart")


def _report(job: Job, cluster: list[Object], running: list[Object] | None = None) -> Report:
    return report(job, take(nodes(*cluster), pods(*(running or [])), "team"), GPU, unseen=[])


def test_job_that_fits_says_what_it_takes_and_what_is_free() -> None:
    job = _job(workers=2, gpus=4)

    answer = _report(job, [node("a", gpu="8")])

    assert (answer.verdict, answer.exit_code) == ("fits", 0)
    assert (answer.gpus.needed, answer.gpus.free, answer.gpus.total) == (8, 8, 8)
    assert answer.reasons == []
    assert answer.next == ""
    assert summary(answer, job) == [
        "fits: 2 workers of 4 nvidia.com/gpu each and 1 launcher of 100m cpu and 512Mi memory; 8 of 8 GPUs free"
    ]


def test_worker_larger_than_any_node_is_impossible_and_named() -> None:
    job = _job(workers=1, gpus=16)

    answer = _report(job, [node("a", gpu="8"), node("b", gpu="8")])

    assert (answer.verdict, answer.exit_code) == ("impossible", 11)
    assert summary(answer, job) == [
        "impossible: workers.gpus: 16 nvidia.com/gpu asked, but no node has more than 8. "
        "Lower workers.gpus to 8 or less.",
        "  on the nodes: 2 Insufficient nvidia.com/gpu",
    ]


def test_more_workers_than_the_cluster_can_ever_hold_are_impossible() -> None:
    answer = _report(_job(workers=5, gpus=4), [node("a", gpu="8"), node("b", gpu="8")], [pod("p", on="a", gpu="8")])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers.replicas: 5 workers of 4 nvidia.com/gpu each do not fit, even on empty nodes; these hold 4. "
        "Lower workers.replicas to 4."
    )


def test_workers_that_only_the_pod_limit_keeps_away_are_named() -> None:
    answer = _report(_job(workers=5, gpus=0), [node("a", pods="3")])

    assert answer.next == (
        "workers.replicas: 5 workers of no request each do not fit, even on empty nodes; these hold 2. "
        "Lower workers.replicas to 2."
    )


def test_room_that_other_pods_hold_makes_it_busy() -> None:
    answer = _report(_job(workers=3, gpus=4), [node("a", gpu="8"), node("b", gpu="8")], [pod("p", on="a", gpu="6")])

    assert (answer.verdict, answer.exit_code) == ("busy", 10)
    assert answer.fit["worker"] == 2
    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [(2, "Insufficient nvidia.com/gpu")]
    assert answer.next == (
        "workers.replicas: 3 workers fit only once other pods end or nodes come back; there is room "
        "for 2 now. Lower workers.replicas to 2, or wait."
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_holds_nothing(phase: str) -> None:
    answer = _report(_job(workers=2, gpus=4), [node("a", gpu="8")], [pod("p", on="a", gpu="8", phase=phase)])

    assert answer.verdict == "fits"


def test_pod_that_waits_for_its_nominated_node_holds_it_already() -> None:
    preemptor = pod("p", gpu="8", phase="Pending")
    preemptor["status"]["nominatedNodeName"] = "a"

    assert _report(_job(workers=2, gpus=4), [node("a", gpu="8")], [preemptor]).verdict == "busy"


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
    assert _report(_job(workers=1, gpus=4), [node("a", gpu="8")], [kept]).verdict == "impossible"


@pytest.mark.parametrize(
    "away",
    [
        pytest.param(node("a", gpu="8", cordoned=True), id="cordoned"),
        pytest.param(tainted(node("a", gpu="8"), "node.kubernetes.io/not-ready:NoSchedule"), id="not-ready"),
    ],
)
def test_node_that_is_only_away_makes_it_busy(away: Object) -> None:
    assert _report(_job(workers=1, gpus=4), [node("b"), away]).verdict == "busy"


def test_reasons_count_nodes_in_the_schedulers_words() -> None:
    cluster = [
        node("full", gpu="8"),
        node("cordoned", gpu="8", cordoned=True),
        tainted(node("tainted", gpu="8"), GPU_TAINT),
        node("crowded", gpu="8", pods="1"),
        node("without"),
    ]
    running = [pod("p", on="full", gpu="8"), pod("q", on="crowded")]

    answer = _report(_job(workers=1, gpus=4), cluster, running)

    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [
        (2, "Insufficient nvidia.com/gpu"),
        (1, "Too many pods"),
        (1, "node(s) had untolerated taint(s)"),
        (1, "node(s) were unschedulable"),
    ]


def test_reasons_count_the_launcher_as_placed() -> None:
    job = _job(
        workers=2,
        worker={"containers": [{"name": "w", "resources": {"requests": {GPU: 1, "cpu": 1}}}]},
        launcher={"containers": [{"name": "l", "resources": {"requests": {"cpu": 1}}}]},
    )

    answer = _report(job, [node("a", gpu="2", cpu="2")])

    assert [(reason.nodes, reason.reason) for reason in answer.reasons] == [(1, "Insufficient cpu")]


def test_taint_in_the_way_is_named() -> None:
    answer = _report(_job(workers=2, gpus=4), [node("cpu-only"), tainted(node("a", gpu="8"), GPU_TAINT)])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers.tolerations: 1 node would do, but for taints: nvidia.com/gpu=present:NoSchedule. Tolerate them, "
        "or add a node without."
    )
    assert (answer.gpus.free, answer.gpus.total) == (0, 8)


def test_tolerated_taint_is_not_in_the_way() -> None:
    job = _job(workers=2, gpus=4, worker={"tolerations": [{"key": GPU, "operator": "Exists"}]})

    assert _report(job, [node("cpu-only"), tainted(node("a", gpu="8"), GPU_TAINT)]).verdict == "fits"


def test_label_in_the_way_is_named() -> None:
    job = _job(workers=1, gpus=8, worker={"nodeSelector": {"pool": "gpu"}})

    assert _report(job, [node("a", gpu="8", labels={"pool": "gpu"})]).verdict == "fits"
    assert _report(job, [node("a", gpu="8")]).next == (
        "workers.nodeSelector: 1 node would do, but for labels. Correct nodeSelector or affinity."
    )


@pytest.mark.parametrize(
    ("cluster", "job", "words"),
    [
        pytest.param([], {}, "The cluster has no nodes. Add one.", id="no-nodes"),
        pytest.param(
            [node("a")],
            {},
            "workers.gpus: 4 nvidia.com/gpu asked, but no node has any. Add GPU nodes, correct workers.gpuResource, "
            "or set workers.gpus to 0 to train on the CPU.",
            id="no-gpus",
        ),
        pytest.param(
            [node("a", gpu="8", memory="1000Mi")],
            {"launcher": {"containers": [{"name": "l", "resources": {"requests": {"memory": "2Gi"}}}]}},
            "launcher.memory: 2Gi memory asked, but no node has more than 1000Mi. "
            "Lower launcher.memory to 1000Mi or less.",
            id="launcher-too-large",
        ),
        pytest.param(
            [node("a", gpu="4", memory="1Gi"), node("b", memory="2Gi")],
            {
                "worker": {
                    "containers": [{"name": "w", "resources": {"requests": {GPU: 4, "memory": "2Gi"}}}],
                }
            },
            "workers: no node has 2Gi memory and 4 nvidia.com/gpu at once. Lower one of them.",
            id="never-together",
        ),
    ],
)
def test_impossible_job_gets_the_step_that_mends_it(cluster: list[Object], job: dict[str, Any], words: str) -> None:
    answer = _report(_job(**job), cluster)

    assert answer.verdict == "impossible"
    assert answer.next == words


def test_job_that_depends_on_the_order_is_not_said_to_fit() -> None:
    # The launcher may take the second worker's cpu on a, or land on b and take none.
    job = _job(workers=2, worker={"containers": [{"name": "w", "resources": {"requests": {GPU: 4, "cpu": 8}}}]})

    answer = _report(job, [node("a", gpu="8", cpu="16"), node("b", cpu="1")])

    assert (answer.verdict, answer.exit_code) == ("depends", 12)
    assert answer.next == (
        "workers.replicas: 2 workers and the launcher fit, but not in every order and place that the scheduler may "
        "choose. Lower workers.replicas to 1 to be sure."
    )


def test_job_on_the_cpu_does_not_speak_of_gpus() -> None:
    job = _job(workers=1, gpus=0, worker={"containers": [{"name": "w", "resources": {"requests": {"cpu": "2"}}}]})

    assert summary(_report(job, [node("a")]), job) == [
        "fits: 1 worker of 2 cpu and 1 launcher of 100m cpu and 512Mi memory"
    ]


def test_launcher_that_every_taint_keeps_off_is_named() -> None:
    job = _job(workers=2, gpus=4, worker={"tolerations": [{"operator": "Exists"}]})

    answer = _report(job, [tainted(node("a", gpu="8"), GPU_TAINT)])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "launcher.tolerations: 1 node would do, but for taints: nvidia.com/gpu=present:NoSchedule. Tolerate them, "
        "or add a node without."
    )


@pytest.mark.parametrize(
    ("term", "repelling"),
    [
        pytest.param({"topologyKey": "zone"}, 1, id="own-namespace"),
        pytest.param({"topologyKey": "zone", "namespaces": ["other"]}, 0, id="other-namespace"),
        pytest.param({"topologyKey": "zone", "namespaceSelector": {}}, 1, id="chosen-by-labels"),
    ],
)
def test_running_pods_that_may_keep_ours_off_are_counted(term: Object, repelling: int) -> None:
    running = pod("p", on="a")
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    running["spec"]["affinity"] = rule

    assert take(nodes(node("a")), pods(running, pod("q", on="a")), "team").repelling == repelling


def test_what_the_verdict_leaves_out_is_said() -> None:
    job = _job(
        worker={
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}},
            "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "images"}}, {"name": "tmp"}],
            "containers": [{"name": "w", "ports": [{"containerPort": 22, "hostPort": 22}]}],
            "schedulerName": "volcano",
        }
    )

    assert not_judged(job) == [
        "affinity between pods of the worker",
        "topology spread of the worker",
        "persistent volume claim images of the worker",
        "host ports of the worker",
        "the rules of scheduler volcano of the worker",
    ]
    assert not_judged(_job()) == []


def test_ports_of_pods_on_the_hosts_network_are_host_ports() -> None:
    ssh = [{"name": "w", "ports": [{"containerPort": 2222}]}]

    assert not_judged(_job(worker={"containers": ssh, "hostNetwork": True})) == ["host ports of the worker"]
    assert not_judged(_job(worker={"containers": ssh})) == []


def test_preferences_are_not_rules() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]}
    spread = [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]

    job = _job(worker={"affinity": {"podAffinity": preferred}, "topologySpreadConstraints": spread})

    assert not_judged(job) == []


def _of(*documents: Object) -> Job:
    return from_manifest(yaml.safe_dump_all(documents), "--manifest")


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        pytest.param(
            [mx_job(servers=2, workers=2)],
            "fits: 2 workers of 4 nvidia.com/gpu each, 2 servers of 1 cpu each and 1 scheduler of 100m cpu; "
            "8 of 8 GPUs free",
            id="mxnet",
        ),
        pytest.param(
            [tf_job(servers=1, workers=2)],
            "fits: 2 workers of 4 nvidia.com/gpu each, 1 ps of 1 cpu and 1 chief of 100m cpu and 2Gi memory; "
            "8 of 8 GPUs free",
            id="tensorflow",
        ),
        pytest.param(
            plain(workers=2),
            "fits: 2 workers of 4 nvidia.com/gpu each, 1 launcher of 100m cpu and 1 keygen of 50m cpu; "
            "8 of 8 GPUs free",
            id="plain",
        ),
        pytest.param(
            [pytorch_job(workers=2)], "fits: 2 workers of 4 nvidia.com/gpu each; 8 of 8 GPUs free", id="torch"
        ),
    ],
)
def test_every_kind_of_job_is_judged_with_all_its_pods(documents: list[Object], words: str) -> None:
    job = _of(*documents)

    assert summary(_report(job, [node("a", gpu="8")]), job) == [words]


@pytest.mark.parametrize(
    ("job", "cluster", "words"),
    [
        pytest.param(
            mx_job(servers=2, workers=3),
            [node("a", gpu="8")],
            "workers.replicas: 3 workers of 4 nvidia.com/gpu each do not fit, even on empty nodes; these hold 2. "
            "Lower workers.replicas to 2.",
            id="workers",
        ),
        pytest.param(
            mx_job(servers=9, workers=1, server_cpu="4"),
            [node("a", gpu="8")],
            "servers.replicas: 9 servers of 4 cpu each do not fit, even on empty nodes; these hold 4. "
            "Lower servers.replicas to 4.",
            id="servers",
        ),
        pytest.param(
            tf_job(servers=2, workers=1),
            [node("a", gpu="8", memory="1Gi")],
            "launcher.memory: 2Gi memory asked, but no node has more than 1Gi. Lower launcher.memory to 1Gi or less.",
            id="chief-is-the-launcher",
        ),
        pytest.param(
            mx_job(servers=1, workers=1, server_cpu="32"),
            [node("a", gpu="8")],
            "servers.cpu: 32 cpu asked, but no node has more than 16. Lower servers.cpu to 16 or less.",
            id="server-too-large",
        ),
        pytest.param(
            mpi_job(version="v1"),
            [node("a", gpu="8", **{"ephemeral-storage": "2Gi"})],
            "launcher: 5Gi ephemeral-storage asked, but no node has more than 2Gi. Lower the request to 2Gi or less.",
            id="what-the-operator-adds-has-no-value",
        ),
        pytest.param(
            pytorch_job(workers=3, master=True),
            [node("a", gpu="8")],
            "workers.replicas: 3 workers of 50m cpu, 10Mi memory and 4 nvidia.com/gpu each do not fit, even on "
            "empty nodes; these hold 2. Lower workers.replicas to 2.",
            id="master-is-one-of-the-workers",
        ),
        pytest.param(
            of_another_tool(mpi_job(workers=3)),
            [node("a", gpu="8")],
            "worker: 3 workers of 4 nvidia.com/gpu each do not fit, even on empty nodes; these hold 2. "
            "Lower the number to 2.",
            id="job-of-another-tool-has-no-values",
        ),
        pytest.param(
            of_another_tool(mpi_job(gpus=16)),
            [node("a", gpu="8")],
            "worker: 16 nvidia.com/gpu asked, but no node has more than 8. Lower the request to 8 or less.",
            id="gpus-of-another-tool",
        ),
        pytest.param(
            of_another_tool(mpi_job(gpus=0)),
            [node("a", memory="256Mi")],
            "launcher: 512Mi memory asked, but no node has more than 256Mi. Lower the request to 256Mi or less.",
            id="memory-of-another-tool",
        ),
        pytest.param(
            tf_job(servers=17, workers=1),
            [node("a", gpu="8")],
            "servers.replicas: 17 ps of 1 cpu each do not fit, even on empty nodes; these hold 16. "
            "Lower servers.replicas to 16.",
            id="tensorflows-servers",
        ),
    ],
)
def test_impossible_job_names_the_role_in_the_way(job: Object, cluster: list[Object], words: str) -> None:
    answer = _report(_of(job), cluster)

    assert (answer.verdict, answer.next) == ("impossible", words)


def test_servers_in_the_way_of_a_worker_leave_it_open() -> None:
    worker = {"containers": [{"name": "worker", "resources": {"requests": {"cpu": "16"}}}]}
    job = mx_job(servers=2, workers=1, gpus=0)
    job["spec"]["mxReplicaSpecs"]["Worker"]["template"]["spec"] = worker

    answer = _report(_of(job), [node("a"), node("b")])

    assert answer.verdict == "depends"
    assert answer.next == (
        "workers.replicas: 1 worker, 2 servers and the scheduler fit, but not in every order and place that the "
        "scheduler may choose. Free some room to be sure."
    )


def test_master_is_counted_among_the_workers_that_may_not_fit_in_every_order() -> None:
    job = pytorch_job(workers=2, master=True)
    cpu = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]}
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"] = cpu

    # The Master may take the cpu on the only node that has GPUs.
    answer = _report(_of(job), [node("a", gpu="4", cpu="1"), node("b", cpu="1")])

    assert answer.verdict == "depends"
    assert answer.next == (
        "workers.replicas: 2 workers fit, but not in every order and place that the scheduler may choose. "
        "Free some room to be sure."
    )


FULL = Judgement(2, sure=0, most=1)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([Judgement(2, sure=0, most=2, undecided=True)], id="order"),
        pytest.param([Judgement(2, sure=0, most=None, undecided=True), FULL], id="now"),
        pytest.param([FULL, Judgement(2, sure=0, most=1, undecided=True)], id="emptied"),
    ],
)
def test_search_that_was_cut_short_is_said_to_be(monkeypatch: pytest.MonkeyPatch, found: list[Judgement]) -> None:
    monkeypatch.setattr(check.capacity, "judge", lambda *_: found.pop(0))

    answer = _report(_of(mx_job(servers=2, workers=2)), [node("a", gpu="8")])

    assert (answer.verdict, answer.exit_code) == ("depends", 12)
    assert answer.next == (
        "workers.replicas: undecided whether 2 workers, 2 servers and the scheduler fit: the search among their "
        "placements ended after 1000000 steps. Free some room, or lower workers.replicas, to be sure."
    )


def _own(name: str, release: str, **fields: Any) -> Object:
    own = pod(name, on="a", **fields)
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": release}
    own["metadata"]["labels"] = labels
    return own


def _of_run1(running: list[Object]) -> Report:
    job = _job(workers=2, gpus=4)
    return report(job, take(nodes(node("a", gpu="8")), pods(*running), "team", "run1"), GPU, unseen=[])


def test_pods_of_the_run_itself_make_room_and_are_named() -> None:
    answer = _of_run1([_own("p", "run1", gpu="4"), _own("q", "run1", gpu="4")])

    assert answer.verdict == "fits"
    assert answer.assumed == ["the run's own 2 pods count as free, since the run keeps or replaces them"]
    assert summary(answer, _job())[1] == f"  assumed: {answer.assumed[0]}"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_own("p", "run2", gpu="4"), id="another-release"),
        pytest.param(pod("p", on="a", gpu="4"), id="no-label"),
        pytest.param(
            {
                **(leaving := _own("p", "run1", gpu="4")),
                "metadata": {**leaving["metadata"], "deletionTimestamp": "2026"},
            },
            id="leaving-but-not-gone",
        ),
        pytest.param(
            {**(foreign := _own("p", "run1", gpu="4")), "metadata": {**foreign["metadata"], "namespace": "other"}},
            id="another-namespace",
        ),
    ],
)
def test_other_pods_keep_their_room(other: Object) -> None:
    answer = _of_run1([other])

    assert (answer.verdict, answer.assumed) == ("busy", [])


def test_pod_that_runs_the_check_makes_room_without_a_word() -> None:
    preflight = _own("p", "run1", gpu="4")
    preflight["metadata"]["labels"]["app.kubernetes.io/component"] = "preflight"

    answer = _of_run1([preflight])

    assert (answer.verdict, answer.assumed) == ("fits", [])


def test_own_pods_that_hold_no_node_change_nothing() -> None:
    waiting = _own("p", "run1", gpu="4", phase="Pending")
    waiting["spec"]["nodeName"] = ""

    assert take(nodes(node("a")), pods(waiting), "team", "run1").own == 0


def test_answer_may_stand_last_where_a_logs_end_is_kept() -> None:
    job = _job(workers=1, gpus=16)

    lines = summary(_report(job, [node("a", gpu="8")]), job, answer_last=True)

    assert lines[0] == "  on the nodes: 1 Insufficient nvidia.com/gpu"
    assert lines[-1].startswith("impossible: workers.gpus: 16 nvidia.com/gpu asked")


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        ("amd.com/gpu", "amd.com/gpu"),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("rdma/hca", "nvidia.com/gpu"),
    ],
)
def test_gpus_of_a_manifest_are_known_by_their_name(resource: str, found: str) -> None:
    job = _job(worker={"containers": [{"name": "w", "resources": {"limits": {resource: 1}}}]})

    assert check._gpu_resource(job) == found
