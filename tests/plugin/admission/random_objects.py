"""Create random Jobs, StatefulSets, Pods and MPIJobs, valid or with mistakes. The same seed gives the same object."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.plugin.admission.random_containers import Containers
from tests.plugin.admission.random_placement import Placement
from tests.plugin.admission.random_texts import KEYS, LONG, NAMES, RESOURCES, VOLUMES, Object

NAMESPACE = "team"
KINDS = {"Job": "batch/v1", "StatefulSet": "apps/v1", "Pod": "v1", "MPIJob": "kubeflow.org/v2beta1"}
OBJECTS = ("run1", "a", "run-1"), ("", "Run", "run.1", "a..b", LONG, "x" * 254, "a_b")
ADDRESSES = ("10.0.0.1", "2001:db8::1", "010.0.0.1"), ("", "10.0.0", "10.0.0.256", "a", "fe80::1%eth0", "1.2.3.4.5")
DOMAINS = ("example.com", "a"), ("", "A.b", "a..b", LONG, "x" * 254)
SEARCHES = ("example.com.", "_a.b", "."), ("", "A", "-a", "a_", "..")
SYSCTLS = (
    ("net.core.somaxconn", "kernel.shm_rmid_forced", "net/ipv4/tcp.a"),
    ("", "Net.a", "a..b", "fs/mqueue/a", "x" * 254),
)
IDS = (0, 1000, 2**31 - 1), (-1, 2**31)


@dataclass(frozen=True)
class Case:
    """An object of a manifest, and the object that the API server validates.

    The validated object is the same object, or the pod that an operator creates from it.
    """

    item: Object
    validated: Object

    def request(self) -> str:
        """Return the case as the JSON that lab/builds/go/schedule reads."""
        return json.dumps({"validate": [self.validated]})


def random_case(seed: int) -> Case:
    """Return the random case that this seed always gives."""
    make = Maker(random.Random(seed))
    kind = make.random.choice([*KINDS, "Job"])
    item = {"apiVersion": KINDS[kind], "kind": kind, **make.object_of(kind)}
    if kind == "MPIJob":
        template = item["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        return Case(item, _operators_pod(template))
    metadata = {"namespace": NAMESPACE, **item["metadata"]}
    return Case(item, {**item, "metadata": metadata})


def _operators_pod(template: Object) -> Object:
    """Return the pod that the MPIJob operator creates from the template."""
    metadata = {**template["metadata"], "name": "run1-worker-0", "namespace": NAMESPACE}
    added: list[Object] = [{"name": name, "emptyDir": {}} for name in ("ssh-auth", "mpi-job-config")]
    spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *added], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# The random cases change only the workers of an MPIJob, so the launcher is always the same.
LAUNCHER = {"template": {"spec": {"containers": [{"name": "launcher", "image": "busybox"}]}}}


def _sized(spec: Object) -> Object:
    """Return the spec of a Job or StatefulSet. If a Job or StatefulSet creates no pods, remove its pod-level resources.

    The API server completes pod-level resources only in pods. Without pods, the template's resources stay incomplete.
    """
    if 0 in (spec.get("parallelism"), spec.get("completions"), spec.get("replicas")):
        spec["template"]["spec"].pop("resources", None)
    return spec


class Maker(Placement, Containers):
    """Makes random objects."""

    def object_of(self, kind: str) -> Object:
        """Return the metadata and spec of an object."""
        metadata = {"name": self._of(OBJECTS), **self._metadata()}
        match kind:
            case "Pod":
                return {"metadata": metadata, "spec": self._spec(("Always", "Never", "OnFailure"))}
            case "Job":
                return {"metadata": metadata, "spec": self._job()}
            case "StatefulSet":
                return {"metadata": metadata, "spec": self._stateful_set()}
        roles = {"Worker": {"replicas": 1, "template": self._template()}, "Launcher": LAUNCHER}
        return {"metadata": {"name": "run1"}, "spec": {"mpiReplicaSpecs": roles}}

    def _job(self) -> Object:
        numbers = ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
        spec: Object = {key: self._of(((0, 1, 3), (-1, 100_001))) for key in numbers if self._is(0.3)}
        if self._is(0.4):
            spec["completionMode"] = self._of((("NonIndexed",), ("Indexed", "Sorted")))
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            spec |= {key: self._of(((1,), (0, -1)))} if self._wrong() else {}
        if self._is(0.1):
            spec |= {"completionMode": "Indexed", "completions": self.random.choice([1, 3, 1000])}
        template = self._template(("Never", "OnFailure"))
        if self._is(0.2):
            labels = template["metadata"].setdefault("labels", {"app": "x"})
            spec |= {"manualSelector": True, **self._selector_of(labels)}
        elif self._wrong():
            spec["selector"] = self._selector()
        if self._wrong():
            template["metadata"].setdefault("labels", {})["job-name"] = self._of(OBJECTS)
        return _sized({**spec, "template": template})

    def _stateful_set(self) -> Object:
        template = self._template(("Always",))
        labels = template["metadata"].setdefault("labels", {"app": "x"})
        spec: Object = {"replicas": self._of(((0, 1, 3), (-1,))), "serviceName": "a", **self._selector_of(labels)}
        if self._is(0.3):
            claim = self._claim()
            names = dict.fromkeys(self._of(VOLUMES) for _ in range(self.random.choice([1, 1, 2])))
            spec["volumeClaimTemplates"] = [{"metadata": {"name": name}, "spec": claim} for name in names]
        if self._is(0.2):
            spec["podManagementPolicy"] = self._of((("Parallel", "OrderedReady"), ("parallel",)))
        if self._wrong():
            template["spec"]["activeDeadlineSeconds"] = 60
        return _sized({**spec, "template": template})

    def _selector_of(self, labels: Object) -> Object:
        """Return a label selector that matches these labels in most cases."""
        if self._wrong():
            return self.random.choice([{}, {"selector": {}}, {"selector": self._selector()}])
        return {"selector": {"matchLabels": {key: labels[key] for key in list(labels)[:1]} or {"app": "x"}}}

    def _template(self, policies: Sequence[str] = ("",)) -> Object:
        return {"metadata": self._metadata(), "spec": self._spec(policies)}

    def _metadata(self) -> Object:
        found: Object = {}
        if self._is(0.5):
            found["labels"] = self._labels()
        if self._is(0.2):
            found["annotations"] = {self._of(KEYS): "anything at all"}
        return found

    def _spec(self, policies: Sequence[str]) -> Object:
        names = ("tolerations", "affinity", "topologySpreadConstraints", "nodeSelector", "volumes")
        makers = (self._tolerations, self._affinity, self._spread, self._labels, self._volumes)
        spec: Object = {name: make() for name, make in zip(names, makers, strict=True) if self._is(0.4)}
        # In a real cluster, the API server's ServiceAccount admission plugin sets this field. The comparison only
        # validates the pod and runs no admission plugin, so set the field here.
        spec["serviceAccountName"] = "default"
        volumes = [volume.get("name", "") for volume in spec.get("volumes", ())]
        uses = {"containers": self.random.choice([1, 1, 2]), "initContainers": self.random.choice([0, 0, 1, 2])}
        numbers = iter(range(5))
        for field, number in uses.items():
            spec[field] = [self._container(f"c{next(numbers)}", volumes) for _ in range(number)]
        if self._wrong():
            spec["containers"] = []
        if self._is(0.2):
            spec["hostNetwork"] = True
        if self._is(0.1):
            spec["resources"] = self._resources((RESOURCES[0][:2], (*RESOURCES[0], *RESOURCES[1])))
        if self._is(0.1):
            spec |= {"overhead": self._amounts(RESOURCES), "runtimeClassName": "kata"}
        spec |= self._names() if self._is(0.2) else {}
        if self._is(0.2):
            spec["securityContext"] = self._security()
        spec |= {"hostIPC": True} if self._wrong() else {}
        # The pods of a StatefulSet get no hostname here, because the controller would replace it.
        if self._is(0.1) and policies != ("Always",):
            spec["hostname"] = self._of(NAMES)
        if self._is(0.1) and "Always" not in policies:
            spec["activeDeadlineSeconds"] = self._of(((1, 60), (0, -1, 2**31)))
        policy = self._of((tuple(policies), ("", "Always", "Never", "Sometimes")))
        return {**spec, **({"restartPolicy": policy} if policy else {})}

    def _names(self) -> Object:
        """Return the fields for a pod's name resolution."""
        config: Object = {"nameservers": [self._of(ADDRESSES) for _ in range(self._of(((1, 2, 3), (0, 4))))]}
        if self._is(0.5):
            config["searches"] = [self._of(SEARCHES) for _ in range(self._of(((1, 2), (33,))))]
        if self._is(0.3):
            config["options"] = [{"name": self._of((("ndots",), ("",)))}]
        found: Object = {"dnsPolicy": self._of((("ClusterFirst", "Default", "None"), ("", "none")))}
        found |= {} if self._wrong() else {"dnsConfig": config}
        if self._is(0.4):
            found["hostAliases"] = [{"ip": self._of(ADDRESSES), "hostnames": [self._of(DOMAINS)]}]
        return found

    def _security(self) -> Object:
        found: Object = {key: self._of(IDS) for key in ("fsGroup", "runAsGroup", "runAsUser") if self._is(0.4)}
        if self._is(0.4):
            found["supplementalGroups"] = [self._of(IDS) for _ in range(2)]
        if self._is(0.2):
            found["fsGroupChangePolicy"] = self._of((("Always", "OnRootMismatch"), ("", "always")))
        if self._is(0.4):
            names = self.random.sample(SYSCTLS[0], 2)
            found["sysctls"] = [
                {"name": self._of(((name,), (*SYSCTLS[0], *SYSCTLS[1]))), "value": "1"} for name in names
            ]
        return found
