"""Create random Jobs, StatefulSets, Pods and MPIJobs, valid or with mistakes. The same seed gives the same object."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

NAMESPACE = "team"
KINDS = {"Job": "batch/v1", "StatefulSet": "apps/v1", "Pod": "v1", "MPIJob": "kubeflow.org/v2beta1"}
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
LONG = "x" * 64
# Of each kind of text: examples that are valid, and examples that are invalid in some places or in all.
NAMES = ("main", "a", "side-1"), ("", "Main", "a.b", "a_b", LONG, "-a", "a\n")
OBJECTS = ("run1", "a", "run-1"), ("", "Run", "run.1", "a..b", LONG, "x" * 254, "a_b")
KEYS = ("app", "example.com/tier", "a_b.C"), ("", "a b", "Example.com/x", "/x", "a/", "a/b/c", LONG, "-a", f"{LONG}/a")
VALUES = ("x", "", "A_b.c", "y"), ("a b", "-", LONG, "é")
VOLUMES = ("data", "cache", "tmp"), ("", "Data", "a.b", "gone", LONG)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist"), ("", "Gt", "Lt", "in", "Equals")
SCHEDULED = ("DoNotSchedule", "ScheduleAnyway"), ("", "Never")
PORTS = (80, 443, 8080), (0, -1, 65535, 65536, 70000)
VARIABLES = ("A", "a.b", "a b", "1"), ("", "a=", "é", "a\n")
RESOURCES = (
    ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"),
    ("pods", "gpu", "Memory", "nvidia.com/gpu/x", "requests.nvidia.com/gpu", "requests.cpu", "hugepages-2", "a b"),
)
COUNTS = ("1", "2"), ("0", "-1", "500m")
AMOUNTS = ("0", "4Mi", "2Gi"), ("-1", "500m", "3", "3Mi")
ADDRESSES = ("10.0.0.1", "2001:db8::1", "010.0.0.1"), ("", "10.0.0", "10.0.0.256", "a", "fe80::1%eth0", "1.2.3.4.5")
DOMAINS = ("example.com", "a"), ("", "A.b", "a..b", LONG, "x" * 254)
SEARCHES = ("example.com.", "_a.b", "."), ("", "A", "-a", "a_", "..")
SYSCTLS = (
    ("net.core.somaxconn", "kernel.shm_rmid_forced", "net/ipv4/tcp.a"),
    ("", "Net.a", "a..b", "fs/mqueue/a", "x" * 254),
)
IDS = (0, 1000, 2**31 - 1), (-1, 2**31)
SECONDS = (0, 1, 30), (-1,)
PROBED = (80, "http", 65535), (0, 65536, -1, "", "80", "Http")
FILES = ("a", "b/c", "d.txt"), ("", "/a", "../a", "..a", "a/../b", "a")
MODES = (0, 0o440, 0o777), (-1, 0o1000)
FIELDS = (
    ("metadata.name", "spec.host", "status.podIP", "metadata.labels['app']", "metadata.annotations['a/B']"),
    ("", "metadata.labels", "spec.nodename", "status.phase", "metadata.labels['a b']", "metadata.name['a']", "['a']"),
)
PORT_NAMES = ("http", "a1", ""), ("80", "a--b", "-a", "Http", "x" * 16)


@dataclass(frozen=True)
class Case:
    """An object of a manifest, and what the API server validates: the object, or the pod that an operator creates."""

    item: Object
    validated: Object

    def request(self) -> str:
        """Return the case in the format of lab/builds/go/schedule."""
        return json.dumps({"validate": [self.validated]})


def random_case(seed: int) -> Case:
    """Return the case of a seed."""
    make = Maker(random.Random(seed))
    kind = make.random.choice([*KINDS, "Job"])
    item = {"apiVersion": KINDS[kind], "kind": kind, **make.object_of(kind)}
    if kind == "MPIJob":
        template = item["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        return Case(item, _operators_pod(template))
    metadata = {"namespace": NAMESPACE, **item["metadata"]}
    return Case(item, {**item, "metadata": metadata})


def _operators_pod(template: Object) -> Object:
    """Return a pod of the template as the operator of MPIJobs creates it."""
    metadata = {**template["metadata"], "name": "run1-worker-0", "namespace": NAMESPACE}
    added: list[Object] = [{"name": name, "emptyDir": {}} for name in ("ssh-auth", "mpi-job-config")]
    spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *added], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# The launcher of an MPIJob is not judged here.
LAUNCHER = {"template": {"spec": {"containers": [{"name": "launcher", "image": "busybox"}]}}}


def _sized(spec: Object) -> Object:
    """Return the spec of a Job or StatefulSet; if it has no pods, without resources of the pod as a whole.

    The API server completes these resources in pods, but not in pod templates.
    """
    if 0 in (spec.get("parallelism"), spec.get("completions"), spec.get("replicas")):
        spec["template"]["spec"].pop("resources", None)
    return spec


class Maker:
    """Random objects; `share` of their fields may be wrong."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.share = chance.choice([0, 0, 0.01, 0.05, 0.2])

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

    def _claim(self) -> Object:
        modes = self._of(
            ((["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteMany"]), ([], ["RWO"], ["ReadWriteOncePod"] * 2))
        )
        storage = self._of((("1Gi", "500M"), ("0", "-1Gi")))
        claim: Object = {"accessModes": modes, "resources": {"requests": {"storage": storage}}}
        if self._is(0.2):
            claim["volumeMode"] = self._of((("Block", "Filesystem"), ("block", "File")))
        if self._wrong():
            claim["accessModes"] = ["ReadWriteOncePod", "ReadWriteOnce"]
        if self._wrong():
            claim["selector"] = self._selector()
        return {} if self._wrong() else claim

    def _selector_of(self, labels: Object) -> Object:
        """Return a selector that mostly matches the labels."""
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

    def _labels(self) -> dict[str, str]:
        return {self._of(KEYS): self._of(VALUES) for _ in range(self.random.choice([1, 1, 2]))}

    def _spec(self, policies: Sequence[str]) -> Object:
        names = ("tolerations", "affinity", "topologySpreadConstraints", "nodeSelector", "volumes")
        makers = (self._tolerations, self._affinity, self._spread, self._labels, self._volumes)
        spec: Object = {name: make() for name, make in zip(names, makers, strict=True) if self._is(0.4)}
        # In a Pod, the admission plugin ServiceAccount sets it, which the API server's validation does not run.
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
        # The controller of StatefulSets sets another hostname.
        if self._is(0.1) and policies != ("Always",):
            spec["hostname"] = self._of(NAMES)
        if self._is(0.1) and "Always" not in policies:
            spec["activeDeadlineSeconds"] = self._of(((1, 60), (0, -1, 2**31)))
        policy = self._of((tuple(policies), ("", "Always", "Never", "Sometimes")))
        return {**spec, **({"restartPolicy": policy} if policy else {})}

    def _container(self, name: str, volumes: Sequence[str]) -> Object:
        found: Object = {"name": self._of(((name,), (*NAMES[0], *NAMES[1])))}
        image = self._of((("busybox", "example.com/a:1"), ("", " a", "a\n")))
        found |= {"image": image} if image or self._is(0.5) else {}
        if self._is(0.3):
            found["env"] = [self._variable() for _ in range(self.random.choice([1, 2]))]
        for key in ("livenessProbe", "readinessProbe", "startupProbe"):
            found |= {key: self._probe()} if self._is(0.2 if name == "c0" else self.share / 2) else {}
        if self._is(0.4):
            found["resources"] = self._resources(RESOURCES)
        if self._is(0.4):
            found["ports"] = [self._port() for _ in range(self.random.choice([1, 1, 2]))]
        if self._is(0.4) and (volumes or self._wrong()):
            found["volumeMounts"] = [self._mount(number, volumes) for number in range(self.random.choice([1, 2]))]
        return found

    def _names(self) -> Object:
        """Return the fields that say where a pod looks names up."""
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

    def _variable(self) -> Object:
        ways: list[Object] = [
            {"fieldRef": {"fieldPath": self._of(FIELDS)}},
            {
                "resourceFieldRef": {
                    "resource": self._of((("limits.cpu", "requests.memory"), ("", "cpu", "limits.pods")))
                }
            },
            {"secretKeyRef": {"name": "conf", "key": self._of((("k",), ("",)))}},
        ]
        source: Object = self._of((ways, [{}, {**ways[0], **ways[1]}]))
        return {"name": self._of(VARIABLES), **({"valueFrom": source} if self._is(0.5) else {})}

    def _probe(self) -> Object:
        ways: Sequence[Object] = [
            {"exec": {"command": self._of(((["true"],), ([],)))}},
            {"tcpSocket": {"port": self._of(PROBED)}},
            {"httpGet": {"port": self._of(PROBED), "scheme": self._of((("", "HTTP", "HTTPS"), ("http",)))}},
            {"grpc": {"port": self._of(((80,), (0, -1, 65536)))}},
        ]
        numbers = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
        found = {key: self._of(SECONDS) for key in numbers if self._is(0.3)}
        if self._wrong():
            found["successThreshold"] = self.random.choice([-1, 0, 1, 2])
        if self._wrong():
            found["terminationGracePeriodSeconds"] = self.random.choice([-1, 0, 1, 60])
        chosen = self._of((ways, [{}, {**ways[0], **ways[1]}, {**ways[2], **ways[3]}]))
        return {**found, **chosen}

    def _resources(self, names: tuple[Sequence[str], Sequence[str]]) -> Object:
        """Return limits, and mostly the same requests."""
        limits = self._amounts(names)
        # Requests of huge pages need limits.
        requests = self._amounts((names[0][:4], names[0][:4])) if self._wrong() else limits
        return self.random.choice([{"limits": limits}, {"limits": limits, "requests": requests}])

    def _amounts(self, names: tuple[Sequence[str], Sequence[str]]) -> Object:
        chosen = [self._of(names) for _ in range(self.random.choice([1, 1, 2]))]
        found = {name: self._of(COUNTS if name.endswith(("cpu", "gpu")) else AMOUNTS) for name in chosen}
        return found if self._wrong() else {"cpu": "1", **found}

    def _port(self) -> Object:
        found: Object = {"containerPort": self._of(PORTS)}
        optional: Object = {
            "hostPort": self._of((tuple(range(9000, 9040)), PORTS[1])),
            "hostIP": self.random.choice(["", "127.0.0.1", "10.0.0.1"]),
            "protocol": self._of((("TCP", "UDP", "SCTP"), ("tcp", "HTTP"))),
            "name": self._of(PORT_NAMES),
        }
        shares = dict(zip(optional, (0.2, 0.2, 0.3, 0.1), strict=True))
        found |= {key: value for key, value in optional.items() if self._is(shares[key])}
        if self._wrong():
            found["hostPort"] = 9000
        return {} if self._wrong() else found

    def _mount(self, number: int, volumes: Sequence[str]) -> Object:
        found = {"name": self._of((tuple(volumes) or ("",), VOLUMES[1])), "mountPath": f"/{number}"}
        if self._wrong():
            found["mountPath"] = self.random.choice(["", "/0", "relative", "/a:b"])
        return {"mountPath": "/data"} if self._wrong() else found

    def _volumes(self) -> list[Object]:
        names = self.random.sample(VOLUMES[0], self.random.choice([1, 1, 2]))
        return [self._volume(self._of(((name,), (*VOLUMES[0], *VOLUMES[1])))) for name in names]

    def _volume(self, name: str) -> Object:
        claim = {"claimName": self._of((("claim", "c.1"), ("",)))}
        own = {"volumeClaimTemplate": {"spec": self._claim()}}
        sources: list[Object] = [{}, {"emptyDir": {}}, {"persistentVolumeClaim": claim}, {"ephemeral": own}]
        sources += [{"projected": self._projected()}, {"secret": self._files("secretName")}]
        sources += [{"configMap": self._files("name")}]
        more = self.random.choice([*sources, {"hostPath": {"path": "/x"}}]) if self._wrong() else {}
        return {"name": name, **self.random.choice(sources), **more}

    def _files(self, name: str) -> Object:
        found: Object = {name: self._of((("conf",), ("",)))}
        if self._is(0.3):
            found["defaultMode"] = self._of(MODES)
        return {**found, **self._items()}

    def _items(self) -> Object:
        items = [{"key": self._of((("k",), ("",))), "path": self._of(FILES), "mode": self._of(MODES)} for _ in range(2)]
        return {"items": items} if self._is(0.3) else {}

    def _projected(self) -> Object:
        name = self._of((("conf",), ("",)))
        token = {"path": self._of(FILES), "expirationSeconds": self._of(((600, 2**32), (0, 599, 2**32 + 1)))}
        ways: list[Object] = [
            {"secret": {"name": name, **self._items()}},
            {"configMap": {"name": name, **self._items()}},
            {"serviceAccountToken": token},
        ]
        sources = [{**self.random.choice(ways), **(ways[0] if self._wrong() else {})} for _ in range(2)]
        return {"sources": sources, **({"defaultMode": self._of(MODES)} if self._is(0.3) else {})}

    def _tolerations(self) -> list[Object]:
        return [self._toleration() for _ in range(self.random.choice([1, 1, 2]))]

    def _toleration(self) -> Object:
        ways: list[Object] = [
            {"operator": "Exists"},
            {"key": self._of(KEYS), "operator": "Exists"},
            {"key": self._of(KEYS), "operator": "Equal", "value": self._of(VALUES)},
            {"key": self._of(KEYS), "value": self._of(VALUES), "effect": "NoSchedule"},
            {"key": self._of(KEYS), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        ]
        wrong: Object = {
            "key": "",
            "operator": self.random.choice(["", "exists", "Equal", "In", "Exists"]),
            "effect": self.random.choice(["", "NoRun", "NoExecute", "PreferNoSchedule"]),
            "value": self._of(VALUES),
            "tolerationSeconds": self.random.choice([-1, 0, 60]),
        }
        return {**self.random.choice(ways), **{key: value for key, value in wrong.items() if self._wrong()}}

    def _spread(self) -> list[Object]:
        keys = self.random.sample(["zone", "rack", "example.com/row"], self.random.choice([1, 1, 2, 3]))
        return [self._constraint(key) for key in keys]

    def _constraint(self, key: str) -> Object:
        found: Object = {
            "maxSkew": self._of(((1, 2, 5), (0, -1))),
            "topologyKey": self._of(((key,), ("", "zone", "a b"))),
            "whenUnsatisfiable": self._of(SCHEDULED),
        }
        if self._is(0.3) and (found["whenUnsatisfiable"] == "DoNotSchedule" or self._wrong()):
            found["minDomains"] = self._of(((1, 3), (0, -1)))
        if self._is(0.4):
            found["labelSelector"] = self._selector()
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            found |= {name: self._of((("Honor", "Ignore"), ("", "honor")))} if self._is(0.2) else {}
        return {name: value for name, value in found.items() if not (name != "minDomains" and self._wrong())}

    def _selector(self) -> Object:
        found: Object = {}
        if self._is(0.5):
            found["matchLabels"] = self._labels()
        if self._is(0.5):
            found["matchExpressions"] = [self._requirement() for _ in range(self.random.choice([1, 2]))]
        return found

    def _requirement(self, *, compares: bool = False) -> Object:
        operator = "Gt" if compares and self._is(0.3) else self._of(OPERATORS)
        number = {"In": 2, "NotIn": 1, "Gt": 1, "Lt": 1}.get(operator, 0)
        if self._wrong():
            number = self.random.choice([0, 1, 2])
        values = {"values": [self._of(VALUES) for _ in range(number)]} if number or self._is(0.3) else {}
        return {"key": self._of(KEYS), "operator": operator, **values}

    def _affinity(self) -> Object:
        makers = {"nodeAffinity": self._nodes, "podAffinity": self._pods, "podAntiAffinity": self._pods}
        return {name: make() for name, make in makers.items() if self._is(0.4)}

    def _nodes(self) -> Object:
        terms = [] if self._wrong() else [self._node_term() for _ in range(self.random.choice([1, 1, 2]))]
        preferred = {"weight": self._weight(), "preference": self._node_term()}
        return self._some({REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [preferred]})

    def _node_term(self) -> Object:
        found: Object = {}
        if self._is(0.7):
            found["matchExpressions"] = [self._requirement(compares=True) for _ in range(self.random.choice([1, 2]))]
        if self._is(0.3):
            key = self._of((("metadata.name",), ("name", "")))
            operator = self._of((("In", "NotIn"), OPERATORS[1]))
            values = self._of(((["a"],), ([], ["a", "b"], ["A"], ["a_b"])))
            found["matchFields"] = [{"key": key, "operator": operator, "values": values}]
        return found

    def _pods(self) -> Object:
        weighted = {"weight": self._weight(), "podAffinityTerm": self._pod_term()}
        return self._some({REQUIRED: [self._pod_term()], PREFERRED: [weighted]})

    def _pod_term(self) -> Object:
        found: Object = {"topologyKey": self._of((("zone", "kubernetes.io/hostname"), ("", "a b", "/x")))}
        if self._is(0.5):
            found["labelSelector"] = self._selector()
        if self._is(0.2):
            found["namespaceSelector"] = self._selector()
        if self._is(0.2):
            found["namespaces"] = [self._of((("team", "blue"), ("", "Team", "a.b")))]
        return {} if self._wrong() else found

    def _weight(self) -> int:
        return int(self._of(((1, 50, 100), (0, -1, 101))))

    def _some(self, parts: Object) -> Object:
        return {key: value for key, value in parts.items() if self._is(0.6)}

    def _of(self, values: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        """Choose a right value, or one that may be wrong."""
        return self.random.choice(values[1] if self._wrong() else values[0])

    def _wrong(self) -> bool:
        return self._is(self.share / 2)

    def _is(self, share: float) -> bool:
        return self.random.random() < share
