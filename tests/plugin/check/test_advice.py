"""Test the next step that a report advises."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.check.advice import next_step
from distrain.solver.capacity import Judgement
from distrain.verdict import Verdict
from tests.plugin.check.judging import GPU, GPU_TAINT, chart_job, examined, job_of, judged
from tests.plugin.objects import (
    Object,
    batch_job,
    mpi_job,
    mx_job,
    node,
    of_another_tool,
    pytorch_job,
    tainted,
    tf_job,
    with_images,
)


def test_taint_in_the_way_is_named() -> None:
    answer = judged(chart_job(workers=2, gpus=4), [node("cpu-only"), tainted(node("a", gpu="8"), GPU_TAINT)])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "workers.tolerations: 1 node would do, but for taints: nvidia.com/gpu=present:NoSchedule. Tolerate them, "
        "or add a node without."
    )
    assert (answer.gpus.free, answer.gpus.total) == (0, 8)


def test_taint_is_not_blamed_for_a_node_that_the_labels_keep_off_too() -> None:
    job = chart_job(workers=2, gpus=4, worker={"nodeSelector": {"pool": "gpu"}})
    cluster = [tainted(node("a", gpu="8"), GPU_TAINT), node("b", gpu="8"), node("c", gpu="8")]

    assert judged(job, cluster).next == (
        "workers.nodeSelector: 3 nodes would do, but for labels. Correct nodeSelector or affinity."
    )


def test_only_nodes_that_the_taint_alone_keeps_off_are_counted() -> None:
    job = chart_job(workers=2, gpus=4, worker={"nodeSelector": {"pool": "gpu"}})
    cluster = [tainted(node("a", gpu="8", labels={"pool": "gpu"}), GPU_TAINT), node("b", gpu="8")]

    assert judged(job, cluster).next == (
        "workers.tolerations: 1 node would do, but for taints: nvidia.com/gpu=present:NoSchedule. Tolerate them, "
        "or add a node without."
    )


def test_tolerated_taint_is_not_in_the_way() -> None:
    job = chart_job(workers=2, gpus=4, worker={"tolerations": [{"key": GPU, "operator": "Exists"}]})

    assert judged(job, [node("cpu-only"), tainted(node("a", gpu="8"), GPU_TAINT)]).verdict == "fits"


def test_label_in_the_way_is_named() -> None:
    job = chart_job(workers=1, gpus=8, worker={"nodeSelector": {"pool": "gpu"}})

    assert judged(job, [node("a", gpu="8", labels={"pool": "gpu"})]).verdict == "fits"
    assert judged(job, [node("a", gpu="8")]).next == (
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
                    "containers": [{"name": "w", "resources": {"limits": {GPU: 4, "memory": "2Gi"}}}],
                }
            },
            "workers: no node has 2Gi memory and 4 nvidia.com/gpu at once. Lower one of them.",
            id="never-together",
        ),
    ],
)
def test_impossible_job_gets_the_step_that_fixes_it(cluster: list[Object], job: dict[str, Any], words: str) -> None:
    answer = judged(chart_job(**job), cluster)

    assert answer.verdict == "impossible"
    assert answer.next == words


def test_launcher_that_every_taint_keeps_off_is_named() -> None:
    job = chart_job(workers=2, gpus=4, worker={"tolerations": [{"operator": "Exists"}]})

    answer = judged(job, [tainted(node("a", gpu="8"), GPU_TAINT)])

    assert answer.verdict == "impossible"
    assert answer.next == (
        "launcher.tolerations: 1 node would do, but for taints: nvidia.com/gpu=present:NoSchedule. Tolerate them, "
        "or add a node without."
    )


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
            [node("a", {"ephemeral-storage": "2Gi"}, gpu="8")],
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
    answer = judged(job_of(job), cluster)

    assert (answer.verdict, answer.next) == ("impossible", words)


def test_rules_in_the_way_of_all_pods_are_not_said_to_be_in_the_way_of_each() -> None:
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "j"}}}
    rules = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    pods = {
        "metadata": {"labels": {"app": "j"}},
        "spec": with_images({"containers": [{"name": "c"}], "affinity": rules}),
    }
    prepared, state = examined(
        job_of(batch_job("j", pods, parallelism=4, completions=4)), [node("a", labels={"zone": "1"})], [], []
    )
    # In this test, 4 pods do not fit, and the search has not found out whether fewer pods would fit.
    found = Judgement(count=4, sure=0, most=None)

    assert next_step(Verdict.IMPOSSIBLE, prepared.job, state, found, found, GPU) == (
        "j: 4 pods of j do not fit under its rules about other pods (affinity, topology spread), even on empty nodes. "
        "Correct the rules, or first start the pods that they select."
    )
