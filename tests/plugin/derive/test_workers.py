"""Test how `derive` computes workers from a total number of GPUs, for nodes from a flag, a snapshot or a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain import cli
from tests.plugin.derive.deriving import Derive
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, node, pod
from tests.plugin.program import Outcome


@pytest.fixture
def snapshot(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes nodes and pods to a file in kubectl's format, and returns the file's path."""

    def write(nodes: list[Object], pods: list[Object] | None = None) -> str:
        items = [{"kind": "Node", **one} for one in nodes] + [{"kind": "Pod", **one} for one in pods or []]
        path = tmp_path / "nodes.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return str(path)

    return write


def test_total_that_fills_no_whole_nodes_is_said_to(derive: Derive) -> None:
    outcome = derive("gpus: 30\n", "--node-gpus", "8")

    assert outcome.err == (
        "distrain: gpus: 30 fill no whole nodes of 8 GPUs, so there are 5 workers of 6 each; 24 or 32 would\n"
    )
    assert (outcome.workers["replicas"], outcome.workers["gpus"]) == (5, 6)
    assert derive("gpus: 32\n", "--node-gpus", "8").err == ""


def test_users_own_values_stay_and_are_reported_where_they_contradict(derive: Derive) -> None:
    outcome = derive("gpus: 32\nworkers: {gpus: 16, shm: 2Gi}\n", "--node-gpus", "8")

    assert outcome.workers == {"replicas": 2, "gpus": 16, "shm": "2Gi"}
    assert outcome.err == (
        "distrain: workers.gpus: 16 is set and kept, but the nodes hold no 2 workers of 16; `helm distrain check` "
        "says why\n"
        "distrain: workers.shm: 2Gi is set and kept; it is less than 16Gi, 1Gi for each of 16 ranks\n"
    )


def test_users_own_number_of_workers_is_kept_as_it_is_written(derive: Derive) -> None:
    outcome = derive("gpus: 8\nworkers:\n  replicas: 2  # mine\n", "--node-gpus", "8")

    lines = ["  replicas: 2  # mine", "  gpus: 4  # derived: gpus / workers.replicas = 8 / 2"]
    assert outcome.out.splitlines()[2:4] == lines


def test_parts_of_a_core_are_compared(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="5", memory="512Gi")])

    outcome = derive("gpus: 8\nworkers: {replicas: 8, gpus: 1, cpu: 650m}\n", "--snapshot", nodes)

    assert "workers.cpu: 650m is set and kept; it is more than 600m, " in outcome.err


@pytest.mark.parametrize(
    "resources",
    ["workers: {GPUS, resources: {limits: {memory: 8Gi}}}", "resources: {limits: {memory: 8Gi}}\nworkers: {GPUS}"],
)
def test_shared_memory_is_half_of_a_limit_in_resources(derive: Derive, resources: str) -> None:
    outcome = derive(resources.replace("GPUS", "replicas: 1, gpus: 8") + "\n")

    assert outcome.workers["shm"] == "4Gi"
    assert "# derived: half of the workers' memory limit" in outcome.out


def test_null_in_resources_is_no_limit(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="16", memory="512Gi")])
    values = "gpus: 8\nworkers: {replicas: 1, gpus: 8}\nresources: {limits: {cpu: AMOUNT}}\n"

    limited, free = (derive(values.replace("AMOUNT", amount), "--snapshot", nodes) for amount in ("9", "null"))

    assert "cpu" not in limited.workers
    assert "cpu" in free.workers


def test_null_of_the_users_is_a_choice(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="64", memory="512Gi")])

    outcome = derive("gpus: 8\nworkers: {cpu: null}\n", "--snapshot", nodes)

    assert outcome.workers == {"replicas": 1, "gpus": 8, "cpu": None, "memory": "511Gi", "shm": "8Gi"}


@pytest.mark.parametrize("place", ["workers: {resources: {limits: {cpu: 8}}}", "resources: {requests: {cpu: 8}}"])
def test_cpu_in_resources_is_the_users_choice(derive: Derive, snapshot: Callable[..., str], place: str) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="64", memory="512Gi")])

    outcome = derive(f"gpus: 8\n{place}\n", "--snapshot", nodes)

    assert (outcome.code, outcome.err) == (0, "")
    assert "cpu" not in outcome.workers
    assert outcome.workers["memory"] == "511Gi"


def test_memory_may_be_a_number_of_bytes(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="64", memory="512Gi")])

    outcome = derive("gpus: 8\nworkers: {memory: 8589934592}\n", "--snapshot", nodes)

    assert (outcome.code, outcome.err) == (0, "")
    assert (outcome.workers["memory"], outcome.workers["shm"]) == (8589934592, "4Gi")


def test_total_follows_from_free_gpus_first(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = [node(name, gpu="8") for name in "abcd"]
    full = derive("gpus: 32\n", "--snapshot", snapshot(nodes))
    used = derive("gpus: 24\n", "--snapshot", snapshot(nodes, [pod("p", on="a", gpu="1"), pod("q", on="b", gpu="2")]))
    busy = derive("gpus: 32\n", "--snapshot", snapshot(nodes, [pod("p", on="a", gpu="8")]))

    assert (full.workers["replicas"], full.workers["gpus"], full.err) == (4, 8, "")
    # In the second snapshot, two nodes have all 8 GPUs free, and the other two nodes have 7 and 6 free GPUs. So
    # `derive` chooses 4 workers of 6 GPUs.
    assert (used.workers["replicas"], used.workers["gpus"]) == (4, 6)
    assert used.err == "distrain: gpus: 24 on whole nodes of 8 GPUs do not fit, so there are 4 workers of 6 each\n"
    assert (busy.workers["replicas"], busy.workers["gpus"]) == (4, 8)
    assert busy.err.startswith("distrain: gpus: 4 workers of 8 GPUs fit only once other pods end")
    # `derive` computes CPU and memory as if the pod that occupies a node had ended.
    assert (busy.workers["cpu"], busy.workers["memory"]) == (full.workers["cpu"], full.workers["memory"])


def test_single_worker_of_one_gpu_fits_only_later(derive: Derive, snapshot: Callable[..., str]) -> None:
    busy = derive("gpus: 1\n", "--snapshot", snapshot([node("a", gpu="1")], [pod("p", on="a", gpu="1")]))

    assert busy.err.startswith("distrain: gpus: 1 worker of 1 GPU fits only once other pods end")


@pytest.mark.parametrize(
    ("nodes", "total", "fits"),
    [
        pytest.param([node("a", gpu="8"), node("b", gpu="4")], 16, "12 (3 workers of 4)", id="nodes"),
        pytest.param([node("a", gpu="8")], 13, "8 (1 worker of 8)", id="one-node"),
    ],
)
def test_total_beyond_the_cluster_is_refused_with_what_fits(
    derive: Derive, snapshot: Callable[..., str], nodes: list[Object], total: int, fits: str
) -> None:
    outcome = derive(f"gpus: {total}\n", "--snapshot", snapshot(nodes))

    words = f"gpus: workers with {total} GPUs in total do not fit: no node has more than 8 GPUs"
    assert outcome == Outcome(2, "", f"distrain: {words}; set gpus to {fits}\n")


@pytest.mark.parametrize(("namespace", "is_apart"), [("other", False), ("team", True)])
def test_pods_of_the_namespace_that_helm_names_keep_workers_away(
    derive: Derive, snapshot: Callable[..., str], monkeypatch: pytest.MonkeyPatch, namespace: str, is_apart: bool
) -> None:
    avoided = pod("p", on="a")
    avoided["metadata"]["labels"] = {"app": "noisy"}
    term = {"topologyKey": "name", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    values = json.dumps({"gpus": 8, "workers": {"affinity": affinity}})
    monkeypatch.setenv("HELM_NAMESPACE", namespace)

    outcome = derive(values, "--snapshot", snapshot([node("a", labels={"name": "a"}, gpu="8")], [avoided]))

    assert outcome.code == 0
    assert ("fits only once other pods end" in outcome.err) == is_apart


def test_nodes_that_do_not_admit_the_workers_do_not_count(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="4", labels={"pool": "x"}), node("b", gpu="8")])

    chosen = derive("gpus: 4\nworkers: {nodeSelector: {pool: x}}\n", "--snapshot", nodes)
    refused = derive("gpus: 4\nworkers: {nodeSelector: {pool: z}}\n", "--snapshot", nodes)

    assert "# derived: gpus 4 on whole nodes of 4\n" in chosen.out
    assert refused.code == 2
    assert refused.err.startswith(
        "distrain: workers.gpuResource: no node on which the workers may run offers nvidia.com/gpu"
    )


def test_worker_gets_its_share_of_the_nodes_cpus_and_memory(derive: Derive, snapshot: Callable[..., str]) -> None:
    # The node has 64 CPUs and 512Gi of memory. On each node, a pod of a DaemonSet requests 2 CPUs and 2Gi of memory.
    # The launcher requests 100m CPU and 512Mi of memory.
    pods = [pod(name, on=name, owner="DaemonSet", cpu="2", memory="2Gi") for name in "ab"]
    nodes = snapshot([node(name, gpu="8", cpu="64", memory="512Gi") for name in "ab"], pods)

    whole = derive("gpus: 16\n", "--snapshot", nodes)
    half = derive("gpus: 4\n", "--snapshot", nodes)

    assert (whole.workers["cpu"], whole.workers["memory"]) == (61, "509Gi")
    assert (half.workers["cpu"], half.workers["memory"]) == (30, "254Gi")
    assert "  cpu: 61  # derived: a node's share for 8 GPUs\n" in whole.out
    assert derive(whole.out, "--snapshot", nodes).out == whole.out


def test_share_goes_by_gpus_on_a_node_that_others_use(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = [node("a", gpu="8", cpu="64", memory="512Gi")]
    little = pod("p", on="a", gpu="4", cpu="1", memory="1Gi")
    much = pod("p", on="a", gpu="4", cpu="50", memory="400Gi")

    beside_little = derive("gpus: 4\n", "--snapshot", snapshot(nodes, [little]))
    beside_much = derive("gpus: 4\n", "--snapshot", snapshot(nodes, [much]))

    assert (beside_little.workers["cpu"], beside_little.workers["memory"]) == (31, "255Gi")
    assert (beside_much.workers["cpu"], beside_much.workers["memory"]) == (13, "111Gi")


def test_share_is_that_of_the_smallest_node_with_a_worker(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node(name, gpu="8", cpu=cpu) for name, cpu in (("a", "64"), ("b", "32"), ("c", "16"))])

    assert derive("gpus: 8\n", "--snapshot", nodes).workers["cpu"] == 63
    assert derive("gpus: 16\n", "--snapshot", nodes).workers["cpu"] == 31
    assert derive("gpus: 24\n", "--snapshot", nodes).workers["cpu"] == 15


def test_share_below_one_core_is_rounded_to_tenths(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node("a", gpu="8", cpu="4", memory="32Gi")])

    # The launcher requests 100m CPU and 512Mi of memory.
    assert derive("gpus: 1\n", "--snapshot", nodes).workers["cpu"] == "400m"


def test_master_of_a_pytorch_job_is_one_of_the_workers(derive: Derive, snapshot: Callable[..., str]) -> None:
    nodes = snapshot([node(name, gpu="8") for name in "abc"])

    outcome = derive("gpus: 24\nframework: pytorch\njob: {elastic: false}\n", "--snapshot", nodes)

    assert (outcome.workers["replicas"], outcome.workers["gpus"], outcome.err) == (3, 8, "")
    # The Master and the two workers use one node each, so each of them gets the CPUs of a whole node.
    assert outcome.workers["cpu"] == 16
    assert "#   world size        24 = 3 workers x 8 ranks\n" in outcome.out


def test_shm_leaves_half_of_the_memory(derive: Derive) -> None:
    assert derive("workers: {gpus: 8, memory: 10Gi}\n").workers["shm"] == "5Gi"
    assert derive("workers: {gpus: 8, memory: 16Gi}\n").workers["shm"] == "8Gi"
    # `derive` does not set workers.shm to less than 1Gi, which is the chart's default.
    assert "shm" not in derive("workers: {gpus: 8, memory: 2Gi}\n").workers


def test_what_is_derived_from_a_cluster_fits_it(
    derive_with_each: Derive,
    api: FakeApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.serve_mpi_jobs()
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    nodes = [node(name, gpu="8", cpu="32", memory="256Gi") for name in "ab"]
    api.answers |= {"/api/v1/nodes": nodes, "/api/v1/pods": [pod("p", on="a", gpu="2", cpu="8", memory="64Gi")]}
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}

    outcome = derive_with_each("gpus: 12\n")

    assert outcome.workers == {"replicas": 2, "gpus": 6, "cpu": 23, "memory": "191Gi", "shm": "6Gi"}
    path = tmp_path / "derived.yaml"
    path.write_text(outcome.out)
    assert cli.run(["check", "-f", str(path)]) == 0


def test_cluster_is_asked_only_where_the_nodes_decide(derive: Derive) -> None:
    settled = derive("gpus: 32\nworkers: {gpus: 8}\n")
    asked = derive("gpus: 32\n")

    assert settled.workers["replicas"] == 4
    assert (asked.code, asked.out) == (3, "")
    assert asked.err.startswith("distrain: KUBECONFIG: there is no file ")
    assert asked.err.endswith("; or add --node-gpus N, the GPUs of a node, or --snapshot FILE\n")


def test_chief_led_workers_get_the_one_gpu_that_they_use(derive: Derive) -> None:
    trainer = derive("gpus: 4\nstrategy: parameter-server\n", "--node-gpus", "8")
    more = derive("strategy: parameter-server\nworkers: {gpus: 2}\n")
    own = derive("gpus: 4\nstrategy: parameter-server\ncommand: [python3, train.py]\n", "--node-gpus", "8")

    assert (trainer.workers["replicas"], trainer.workers["gpus"], trainer.err) == (4, 1, "")
    assert "#   learning rate     0.00125 = trainer.learningRate 0.01 x 32 / 256, as each worker's" in trainer.out
    assert (own.workers["replicas"], own.workers["gpus"]) == (1, 4)
    assert (more.code, more.out) == (2, "")
    assert more.err.startswith("distrain: workers.gpus: is 2, but the trainer uses one GPU in each worker of a TFJob; ")
    # TF_CONFIG contains one task for each worker, so the world size is 1. The plugin cannot know how many of its GPUs
    # the user's own program uses.
    assert own.out.endswith("#   world size        1 = 1 worker x 1 rank\n")


def test_share_of_another_size_is_left_out_where_no_nodes_are_known(
    derive: Derive, snapshot: Callable[..., str]
) -> None:
    derived = derive("gpus: 8\n", "--snapshot", snapshot([node("a", gpu="8")])).out

    kept = derive(derived, "--node-gpus", "8")
    smaller = derive(derived, "--node-gpus", "4")

    assert kept.out == derived
    assert "cpu" not in smaller.workers
    assert "workers.cpu: 15 was a node's share for 8 GPUs, and is left out for workers of 4" in smaller.err
