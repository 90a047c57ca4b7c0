"""Compare the answers of `check` and `check --snapshot` with what the lab's kube-scheduler does, for random gangs.

The nodes are only API objects: no kubelet runs on them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from pykube import HTTPClient, Job, Pod

from distrain import cli
from lab.cluster import client
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace

# The test's pods never run, so the namespace need not restrict them.
POD_SECURITY = "privileged"
CARD = "example.com/card"
MARK = "distrain.dev/scheduler-test"
TAINT = {"key": MARK, "value": "true", "effect": "NoSchedule"}
# If a node's lease is not renewed for 50 s, the node controller marks the node as lost. So the tests renew the leases
# of their nodes more often.
HEARTBEAT = 15
SAME_GANG = {"labelSelector": {"matchLabels": {"gang": "own"}}}

Object = dict[str, Any]
Check = Callable[..., Object]


@dataclass
class FakeNodes:
    """Nodes without a kubelet. A taint on these nodes keeps the pods of other tests away."""

    names: tuple[str, ...]
    _alive: float = 0

    def create(self) -> None:
        """Create the nodes, and wait until the scheduler may place pods on them."""
        amounts = (
            {"cpu": "4", CARD: "2"},
            {"cpu": "6", CARD: "0"},
            {"cpu": "3500m"},
            {"cpu": "8", CARD: "4"},
            {"cpu": "2"},
        )
        nodes = [
            _node(name, number, **more) for number, (name, more) in enumerate(zip(self.names, amounts, strict=True))
        ]
        client.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(nodes))
        self.keep_alive()
        wait_until("the fake nodes", self._are_ready, pause=0.5)

    def keep_alive(self) -> None:
        """Renew the nodes' leases, as kubelets would, if HEARTBEAT seconds have passed."""
        if time.monotonic() - self._alive > HEARTBEAT:
            self._alive = time.monotonic()
            client.apply(*(_lease(name) for name in self.names))

    def delete(self) -> None:
        client.kubectl("delete", "nodes", "--wait=false", *self.names)
        client.kubectl("-n", "kube-node-lease", "delete", "leases", *self.names)

    def _are_ready(self) -> bool:
        """Return whether each node has only the taint of these tests.

        Until the node controller removes it, a new node also has the taint `not-ready`.
        """
        found = json.loads(client.kubectl("get", "nodes", *self.names, "-o", "json"))["items"]
        return all(node["spec"]["taints"] == [TAINT] for node in found)


@pytest.fixture
def nodes(lab: None) -> Iterator[FakeNodes]:
    fake = FakeNodes(tuple(f"fake-{os.getpid()}-{number}" for number in range(5)))
    try:
        fake.create()
        yield fake
    finally:
        fake.delete()


@pytest.fixture
def check(tmp_path: Path, module_namespace: Namespace, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that writes a gang to a file, runs `check` with these arguments, and returns its answer."""
    manifest = tmp_path / "gang.yaml"

    def answer(gang: list[Object], *arguments: str) -> Object:
        manifest.write_text(yaml.safe_dump_all(gang))
        namespace = f"--namespace={module_namespace.name}"
        cli.run(["check", f"--manifest={manifest}", "-o", "json", namespace, *arguments])
        found: Object = json.loads(capsys.readouterr().out)
        return found

    return answer


@pytest.mark.parametrize("gangs", [24, pytest.param(200, marks=pytest.mark.full)])
def test_check_predicts_what_the_scheduler_does(
    module_namespace: Namespace, nodes: FakeNodes, tmp_path: Path, check: Check, gangs: int
) -> None:
    lab = Lab(module_namespace, nodes)
    snapshot = str(tmp_path / "cluster.json")
    found = []
    for seed in range(gangs):
        nodes.keep_alive()
        gang = _gang(seed)
        cli.run(["snapshot", "-o", snapshot, "--force"])
        live = check(gang)
        assert _comparable(check(gang, f"--snapshot={snapshot}"), live) == _comparable(live, live), seed
        placed = lab.places(gang, seconds=120 if live["verdict"] == "fits" else 0)
        found.append((live["verdict"], placed))
        # Pods that were placed keep their resources, so later gangs find less free capacity. After a gang that found no
        # place, and after every third gang, the test deletes all pods.
        if not placed or seed % 3 == 2:
            lab.clear()
    lab.clear()

    print(found)
    wrong = [(seed, outcome) for seed, outcome in enumerate(found) if _contradicts(*outcome)]
    assert not wrong, found
    assert {("fits", True), ("busy", False), ("impossible", False)} <= set(found), found


def _comparable(answer: Object, live: Object) -> Object:
    """Return an answer without the fields that may differ between `check` and `check --snapshot`.

    Also leave out pods that wait for a node: other tests create and delete pods between the two answers.
    """
    left_out = {"unseen", "reasons"} if any(line.startswith("pods on the") for line in live["unseen"]) else set()
    unseen = [line for line in answer["unseen"] if not line.startswith("pods that wait for a node")]
    return {key: value for key, value in {**answer, "unseen": unseen}.items() if key not in left_out}


def _contradicts(verdict: str, placed: bool) -> bool:
    return placed if verdict in ("busy", "impossible") else verdict == "fits" and not placed


class Lab:
    """A namespace of the lab.

    The tests send requests directly to its API server, because starting kubectl for each one would be slow.
    """

    def __init__(self, namespace: Namespace, nodes: FakeNodes) -> None:
        api = namespace.cluster.kube_client
        assert api is not None
        self.namespace = namespace.name
        self._api: HTTPClient = api
        self._nodes = nodes

    def places(self, gang: list[Object], *, seconds: float) -> bool:
        """Create the gang, and return whether all its pods get a node within the time limit.

        The scheduler retries pods that it cannot place at first.
        """
        for job in gang:
            Job(self._api, {**job, "metadata": {**job["metadata"], "namespace": self.namespace}}).create()
        names = {job["metadata"]["name"] for job in gang}
        expected = sum(job["spec"]["parallelism"] for job in gang)
        deadline = time.monotonic() + seconds

        def decided() -> bool:
            self._nodes.keep_alive()
            pods = self._pods(names)
            tried = len(pods) == expected and all("conditions" in pod["status"] for pod in pods)
            return tried and (time.monotonic() > deadline or all(map(_has_node, pods)))

        wait_until("the scheduler's answer", decided, seconds=seconds + 180)
        return all(map(_has_node, self._pods(names)))

    def clear(self) -> None:
        """Delete all gangs, and wait until their pods are gone."""
        for job in Job.objects(self._api, namespace=self.namespace):
            job.delete(propagation_policy="Background")
        wait_until("the pods' end", lambda: not list(Pod.objects(self._api, namespace=self.namespace)))

    def _pods(self, jobs: set[str]) -> list[Object]:
        pods = [pod.obj for pod in Pod.objects(self._api, namespace=self.namespace)]
        return [pod for pod in pods if pod["metadata"]["labels"]["job-name"] in jobs]


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _gang(seed: int) -> list[Object]:
    random = Random(seed)
    return [_job(random, f"gang-{seed}-{number}") for number in range(random.choice([1, 1, 2]))]


def _job(random: Random, name: str) -> Object:
    amounts = {"cpu": random.choice(["500m", "1", "1500m", "3"])}
    if random.random() < 0.3:
        amounts[CARD] = random.choice(["1", "2"])
    resources = {"requests": amounts, "limits": amounts}
    spec = {
        "restartPolicy": "Never",
        # No kubelet runs on the node, so nothing would end a pod that has a grace period.
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {MARK: "true"},
        "tolerations": [{**TAINT, "operator": "Equal"}],
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        **_rule(random),
    }
    template = {"metadata": {"labels": {"gang": "own"}}, "spec": spec}
    count = random.randint(1, 5)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def _rule(random: Random) -> Object:
    """Return a random affinity, anti-affinity or topology spread, or {}."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **SAME_GANG}
    rules: list[Object] = [
        {},
        {"nodeSelector": {MARK: "true", "zone": random.choice(["a", "b"])}},
        {"affinity": {"podAntiAffinity": {required: [{"topologyKey": "kubernetes.io/hostname", **SAME_GANG}]}}},
        {"affinity": {"podAffinity": {required: [{"topologyKey": "zone", **SAME_GANG}]}}},
        {"topologySpreadConstraints": [spread]},
    ]
    return random.choice(rules)


def _node(name: str, number: int, **amounts: str) -> Object:
    held = {"memory": "16Gi", "pods": "6", **amounts}
    labels = {"kubernetes.io/hostname": name, "zone": "ab"[number % 2], MARK: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [TAINT]},
        "status": {
            "capacity": held,
            "allocatable": held,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Fake", "message": "", **_now("lastHeartbeatTime")}
            ],
        },
    }


def _lease(name: str) -> Object:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, **_now("renewTime")}
    metadata = {"name": name, "namespace": "kube-node-lease"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _now(key: str) -> dict[str, str]:
    return {key: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
