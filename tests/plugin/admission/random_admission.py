"""Create random test cases: new pods, and the quotas, LimitRanges, PriorityClasses and other pods of the cluster.

The same seed gives the same case. A case's quotas and limits are small and are chosen from few amounts, so many pods
just fit into a limit or just exceed it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.plugin.check.random_clusters import created_claims, created_pods, replicas
from tests.plugin.check.random_pods import cpu_of

Object = dict[str, Any]

NAMESPACES = ("team", "blue")
OWN = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
GPU, HUGE = "nvidia.com/gpu", "hugepages-2Mi"
GOLD = "gold.storageclass.storage.k8s.io/"
STORAGE_CLASSES = [{"kind": "StorageClass", "metadata": {"name": name}} for name in ("gold", "silver")]
CLASSES = ("high", "low", "standard")
SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity", "PriorityClass")
HARD = (
    *("pods", "count/pods", "count/jobs.batch", "cpu", "memory", "ephemeral-storage", HUGE, f"requests.{GPU}"),
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    *(f"requests.{HUGE}", "requests.example.com/nic"),
    *(f"{of}{name}" for of in ("", GOLD) for name in ("persistentvolumeclaims", "requests.storage")),
    "count/persistentvolumeclaims",
)
MEBIBYTES = (64, 128, 192, 256, 512)


@dataclass(frozen=True)
class Case:
    """A test case: the objects of a cluster and of a manifest, and the Jobs in the manifest. The quotas have no status.

    `of_manifest` contains the names of the policies (quotas, LimitRanges, PriorityClasses) that the manifest creates.
    `replaced` contains policies that the cluster already has under the same names. Applying the manifest replaces these
    policies.
    """

    objects: list[Object]
    jobs: list[Object]
    of_manifest: frozenset[str] = frozenset()
    replaced: tuple[Object, ...] = ()

    @property
    def cluster(self) -> list[Object]:
        """The objects that are in the cluster before the manifest is applied."""
        return [*(each for each in self.objects if each["metadata"]["name"] not in self.of_manifest), *self.replaced]

    @property
    def manifest(self) -> list[Object]:
        """The objects of the manifest. Some objects of the default namespace leave out the field `namespace`."""
        policies = [each for each in self.objects if each["metadata"]["name"] in self.of_manifest]
        return [*map(_versioned, policies), *self.jobs]

    def request(self) -> str:
        """Return the case as the JSON that lab/builds/go/schedule reads."""
        jobs = [{"kind": "Job", "metadata": {"namespace": NAMESPACES[0], **job["metadata"]}} for job in self.jobs]
        new = [*jobs]
        for job in self.jobs:
            pods = created_pods(job, replicas(job), NAMESPACES[0])
            new += [*pods, *created_claims(job, pods)]
        # In another namespace, a pod with the release's labels belongs to another release. So remove its labels.
        objects = [
            each if each["metadata"].get("namespace") == self.main else _unlabelled(each) for each in self.objects
        ]
        return json.dumps({"created": {"objects": objects, "own": OWN, "new": new}})

    @property
    def main(self) -> str:
        """Return the namespace of the Job with the most pods."""
        job = max(reversed(self.jobs), key=replicas)
        return str(job["metadata"].get("namespace", NAMESPACES[0]))

    @property
    def has_claims(self) -> bool:
        """Tell whether the controllers create claims for the new pods."""
        return any(job["spec"]["template"]["spec"].get("volumes") for job in self.jobs)

    @property
    def pods(self) -> int:
        """Return the number of new pods."""
        return sum(map(replicas, self.jobs))


def _versioned(policy: Object) -> Object:
    metadata = policy["metadata"]
    if metadata.get("namespace") == NAMESPACES[0] and metadata["name"].endswith("0"):
        metadata = {"name": metadata["name"]}
    version = "scheduling.k8s.io/v1" if policy["kind"] == "PriorityClass" else "v1"
    return {**policy, "apiVersion": version, "metadata": metadata}


def _unlabelled(item: Object) -> Object:
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "labels"}}


def random_case(seed: int) -> Case:
    """Return the random case that this seed always gives."""
    make = Maker(random.Random(seed))
    classes = make.classes()
    limits = [make.limit_range(f"l{number}") for number in range(make.random.choice([0, 0, 1, 1, 2]))]
    quotas = [make.quota(f"q{number}") for number in range(make.random.choice([0, 1, 1, 2, 3]))]
    there = [make.existing(f"p{number}") for number in range(make.random.choice([0, 0, 1, 3, 5]))]
    jobs = [make.job(f"j{number}") for number in range(make.random.choice([1, 1, 2, 3]))]
    names = make.of_manifest([*classes, *limits, *quotas])
    # The plugin applies the LimitRanges of the manifest last, so they come last here.
    limits.sort(key=lambda each: each["metadata"]["name"] in names)
    return Case([*classes, *limits, *quotas, *there], jobs, names, make.replaced([*limits, *quotas], names))


class Maker:
    """Makes random objects."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance

    def classes(self) -> list[Object]:
        """Return some of the PriorityClasses, chosen at random, and the two classes that every cluster has."""
        found = [self._class(name) for name in CLASSES if self.random.random() < 0.7]
        system = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
        return [*found, *(_object("PriorityClass", name, "", value=value) for name, value in system.items())]

    def _class(self, name: str) -> Object:
        policy = self.random.choice(
            [{}, {}, {"preemptionPolicy": "Never"}, {"preemptionPolicy": "PreemptLowerPriority"}]
        )
        value = CLASSES.index(name) * 10 - 5
        return _object("PriorityClass", name, "", value=value, globalDefault=self._is(0.2), **policy)

    def limit_range(self, name: str) -> Object:
        """Return a LimitRange."""
        limits = [self._limit(kind) for kind in self._some(("Container", "Pod", "PersistentVolumeClaim"))]
        return _object("LimitRange", name, self._namespace(), spec={"limits": limits})

    def _limit(self, kind: str) -> Object:
        keys = ("min", "max", "default", "defaultRequest") if kind == "Container" else ("min", "max")
        limit: Object = {"type": kind, **{key: self._amounts(0.3) for key in keys if self._is(0.4)}}
        if kind == "PersistentVolumeClaim":
            return {"type": kind, **{key: {"storage": self._bytes(2)} for key in keys if self._is(0.4)}}
        if self._is(0.3):
            ratio = self.random.choice(["1", "2", "1.5", "3300m", "4"])
            limit["maxLimitRequestRatio"] = dict.fromkeys(self._some(("cpu", "memory")), ratio)
        return limit

    def quota(self, name: str) -> Object:
        """Return a quota without status."""
        hard = {each: self._bound(each) for each in self._some(HARD, self.random.choice([1, 1, 2, 4]))}
        spec: Object = {"hard": hard}
        if self._is(0.3):
            spec["scopes"] = self._some(SCOPES, 2)
        if self._is(0.3):
            spec["scopeSelector"] = {"matchExpressions": [self._scope() for _ in range(self.random.choice([1, 1, 2]))]}
        return _object("ResourceQuota", name, self._namespace(), spec=spec)

    def _bound(self, name: str) -> str:
        if name.endswith("cpu"):
            return cpu_of(self.random, self.random.choice([250, 500, 1000, 1500, 2000, 4000]))
        if name.endswith(("memory", "storage")):
            return self._bytes(self.random.choice([1, 2, 4]))
        if name.endswith(HUGE):
            return f"{self.random.randrange(5)}Mi"
        return str(self.random.randrange(6))

    def _scope(self) -> Object:
        if self._is(0.4):
            return {"scopeName": self.random.choice(SCOPES), "operator": "Exists"}
        operator = self.random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = {"values": self._some((*CLASSES, "gone"), 2) or ["high"]} if operator in ("In", "NotIn") else {}
        return {"scopeName": "PriorityClass", "operator": operator, **values}

    def existing(self, name: str) -> Object:
        """Return an existing pod."""
        labels = self.random.choice([OWN, {**OWN, "app.kubernetes.io/instance": "run2"}, {}])
        spec, phase = (
            self.spec(),
            self.random.choice(["Running", "Running", "Running", "Pending", "Succeeded", "Failed"]),
        )
        pod = _object("Pod", name, self._namespace(), spec={**spec, "nodeName": "a"}, status={"phase": phase})
        pod["metadata"]["labels"] = labels
        if self._is(0.1):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def job(self, name: str) -> Object:
        """Return a Job without a namespace, or in one of the two namespaces."""
        metadata = {"name": name, **({"namespace": self._namespace()} if self._is(0.4) else {})}
        pods = self.random.choice([0, 1, 1, 1, 2, 3])
        template = self.spec()
        if self._is(0.3):
            template["volumes"] = [self._volume(f"v{number}") for number in range(self.random.choice([1, 1, 2]))]
        spec = {"parallelism": pods, "template": {"spec": template}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def of_manifest(self, policies: Sequence[Object]) -> frozenset[str]:
        """In half of the cases, return the names of the policies that the manifest creates. Otherwise, return none."""
        share = self.random.choice([0, 0, 0.5, 1])
        found = [each["metadata"]["name"] for each in policies if self._is(share)]
        return frozenset(name for name in found if not name.startswith("system-"))

    def replaced(self, policies: Sequence[Object], names: frozenset[str]) -> tuple[Object, ...]:
        """Return quotas and LimitRanges with the names of some policies of the manifest, but with other specs."""
        found = [each for each in policies if each["metadata"]["name"] in names and self._is(0.3)]
        others = [(each, self.quota if each["kind"] == "ResourceQuota" else self.limit_range) for each in found]
        return tuple({**make(each["metadata"]["name"]), "metadata": each["metadata"]} for each, make in others)

    def spec(self) -> Object:
        """Return the spec of a pod."""
        containers = [self._container(f"c{number}") for number in range(self.random.choice([1, 1, 2]))]
        init = [self._init_container(f"i{number}") for number in range(self.random.choice([0, 0, 0, 1, 2]))]
        spec: Object = {"containers": containers, "initContainers": init}
        classes = self.random.choice(["", *CLASSES, "system-node-critical", "gone"])
        optional: Object = {
            "priorityClassName": classes,
            "priority": self.random.choice([0, 5, 15, -5]),
            "preemptionPolicy": self.random.choice(["Never", "PreemptLowerPriority"]),
            "activeDeadlineSeconds": self.random.choice([1, 60]),
            "overhead": {"cpu": "100m", **self.random.choice([{}, {"memory": "64Mi"}])},
            "affinity": self._affinity(),
            "resources": self._pod_level(),
        }
        shares = dict(zip(optional, (0.4, 0.05, 0.05, 0.2, 0.1, 0.2, 0.1), strict=True))
        spec |= {key: value for key, value in optional.items() if self._is(shares[key])}
        return {**spec, "runtimeClassName": "kata"} if "overhead" in spec else spec

    def _volume(self, name: str) -> Object:
        """Return an ephemeral volume, for which each pod gets its own claim."""
        # The API server refuses claims of size 0.
        amount = self.random.choice(MEBIBYTES) * 2
        resources = {"requests": {"storage": self.random.choice([f"{amount}Mi", f"{amount}M", str(amount * 2**20)])}}
        storage_class = {"storageClassName": self.random.choice(["gold", "gold", "silver", ""])}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, **storage_class}
        return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}

    def _affinity(self) -> Object:
        term: Object = {"topologyKey": "zone", "labelSelector": {}}
        term |= self.random.choice([{}, {"namespaces": ["blue"]}, {"namespaceSelector": {}}, {"namespaces": []}])
        weighted = {"weight": 1, "podAffinityTerm": term}
        during = "DuringSchedulingIgnoredDuringExecution"
        rule = self.random.choice([{f"required{during}": [term]}, {f"preferred{during}": [weighted]}])
        return {self.random.choice(["podAffinity", "podAntiAffinity"]): rule}

    def _pod_level(self) -> Object:
        """Return pod-level resources.

        In most cases they are at least as large as the sum of the containers' resources.
        """
        amounts = {name: value for name, value in (("cpu", "8"), ("memory", "4Gi")) if self._is(0.7)}
        return self.random.choice([{"requests": amounts}, {"limits": amounts}, {}])

    def _container(self, name: str) -> Object:
        resources = self._resources() if self._is(0.8) else {}
        return {"name": name, "image": "a", "resources": resources}

    def _init_container(self, name: str) -> Object:
        return {**self._container(name), **({"restartPolicy": "Always"} if self._is(0.4) else {})}

    def _resources(self) -> Object:
        """Return resources. In most cases, no request is larger than its limit."""
        amounts = self._amounts(0.5)
        exact: Object = {GPU: self.random.choice(["1", "2", "0"])} if self._is(0.3) else {}
        exact |= (
            {HUGE: self.random.choice(["2Mi", "4Mi"])} if amounts.keys() & {"cpu", "memory"} and self._is(0.2) else {}
        )
        exact |= {"example.com/nic": "1"} if self._is(0.1) else {}
        if self._is(0.4):
            return {"requests": {**amounts, **exact}, "limits": exact}
        more = self._amounts(0.5) if self._is(0.3) else {}
        return {"limits": {**amounts, **exact}, **({"requests": {**more, **exact}} if more else {})}

    def _amounts(self, share: float) -> Object:
        found: Object = {}
        if self._is(share + 0.2):
            found["cpu"] = cpu_of(self.random, self.random.choice([0, 100, 250, 500, 1000, 1001]))
        if self._is(share):
            found["memory"] = self._bytes(1)
        if self._is(share / 2):
            found["ephemeral-storage"] = self._bytes(1)
        return found

    def _bytes(self, times: int) -> str:
        amount = self.random.choice(MEBIBYTES) * times
        return self.random.choice([f"{amount}Mi", f"{amount}M", str(amount * 2**20), f"{amount * 2**10}Ki", "0"])

    def _namespace(self) -> str:
        return self.random.choice([NAMESPACES[0], *NAMESPACES])

    def _is(self, share: float) -> bool:
        return self.random.random() < share

    def _some(self, choices: Sequence[str], most: int = 3) -> list[str]:
        return self.random.sample(choices, self.random.randint(min(1, most), min(most, len(choices))))


def _object(kind: str, name: str, namespace: str, **more: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}
