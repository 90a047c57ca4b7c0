"""Create random pod specs: containers with resources in many notations, and rules about nodes and other pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from distrain import kube
from distrain.pods.pod_requests import pod_request

Object = dict[str, Any]
MEBI, GI = 2**20, 2**30
GPU = "nvidia.com/gpu"
NAMESPACES = ("team", "other", "third")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Names of claims. The first are already bound, the second are bound after the scheduler has chosen the pod's node, and
# the third can never be bound.
BOUND_CLAIMS = ("c0", "c1", "c2", "c3")
LATE_CLAIMS = ("late0", "late1", "dynamic")
UNBOUND_CLAIMS = ("unbound", "missing")
# A claim that is created for a single pod has one of these storage classes.
OWN_CLASSES = ("own", "own", "other")
KEYS = ("kubernetes.io/hostname", "zone", "rack")


@dataclass(frozen=True)
class Labels:
    """Maps each label key to the values from which random labels are chosen."""

    values: dict[str, tuple[str, ...]]

    def pick(self, random: Random, keys: Sequence[str], share: float) -> dict[str, str]:
        return {key: random.choice(self.values[key]) for key in keys if random.random() < share}


LABELS = Labels(
    {
        "zone": ("za", "zb", "zc"),
        "rack": ("1", "2"),
        "model": ("a100", "h100"),
        "gen": ("1", "2", "03", "x"),
        "app": ("x", "y"),
        "tier": ("1", "2"),
    }
)


def cpu_of(random: Random, millis: int) -> str:
    """Write an amount of CPU in one of the notations that Kubernetes accepts."""
    ways = [f"{millis}m", f"{millis}m", f"{millis / 1000:.3f}", f"{millis}e-3", f"{millis * 1000}u"]
    return random.choice(ways + [str(millis // 1000)] * (millis % 1000 == 0))


def bytes_of(random: Random, amount: int) -> str:
    """Write a number of bytes in one of the notations that Kubernetes accepts."""
    ways = [str(amount), f"{amount}000m", f"{amount}e0"]
    suffixes = {"Ki": 2**10, "Mi": MEBI, "Gi": GI, "k": 10**3, "M": 10**6, "E3": 10**3}
    ways += [f"{amount // size}{suffix}" for suffix, size in suffixes.items() if amount % size == 0]
    return random.choice(ways + [f"{amount / GI:g}Gi"] * (amount * 4 % GI == 0))


def made(kind: str, name: str, **metadata: Any) -> Object:
    """Return an object without a spec, as if Kubernetes' core API group served it."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def requested(spec: Object) -> dict[str, int]:
    """Estimate a pod's requests, so that a case can be created in which the gang barely fits.

    The estimate may differ from what Kubernetes computes.
    """
    return pod_request(msgspec.convert(spec, kube.PodSpec))


def as_stored(spec: Object, labels: dict[str, str]) -> None:
    """Complete a pod spec as the API server does.

    Set missing requests and host ports, and add the pod's labels to selectors.
    """
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    for resources in [spec.get("resources", {}), *(container["resources"] for container in containers)]:
        resources["requests"] = {**resources.get("limits", {}), **resources.get("requests", {})}
    for port in spec["containers"][0].get("ports", ()) if spec.get("hostNetwork") else ():
        port["hostPort"] = port["containerPort"]
    for volume in spec.get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            volume["persistentVolumeClaim"]["claimName"] = BOUND_CLAIMS[0]
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in spec.get("affinity", {}).get(kind, {}).get(REQUIRED, ()):
            for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                own = [
                    {"key": key, "operator": operator, "values": [labels[key]]}
                    for key in term.get(keys, ())
                    if key in labels
                ]
                if own:
                    selector = term["labelSelector"]
                    term["labelSelector"] = {
                        **selector,
                        "matchExpressions": [*selector.get("matchExpressions", ()), *own],
                    }


@dataclass(frozen=True)
class Maker:
    """Creates random parts of pods. Only the features in `features` can occur."""

    random: Random
    features: frozenset[str]

    def has(self, feature: str) -> bool:
        return feature in self.features

    def labels(self) -> dict[str, str]:
        return LABELS.pick(self.random, ("app", "tier"), share=0.8)

    def spec(self, share: float) -> Object:
        """Return a pod's spec. `share` is the probability of each kind of rule in the spec."""
        random = self.random
        containers = [self._container(f"c{number}") for number in range(random.choice([1, 1, 2]))]
        spec: Object = {"containers": containers}
        if self.has("init-containers") and random.random() < 0.6:
            spec["initContainers"] = [self._init_container(f"i{number}") for number in range(random.randint(1, 3))]
        if self.has("pod-level") and random.random() < 0.5:
            spec["resources"] = self._pod_level(spec)
        if self.has("overhead") and random.random() < 0.5:
            spec["overhead"] = {"cpu": cpu_of(random, 250), "memory": bytes_of(random, 128 * MEBI)}
            spec["runtimeClassName"] = "kata"
        if self.has("host-ports") and random.random() < share:
            self._host_ports(spec)
        self._node_rules(spec, share)
        self._pod_rules(spec, share)
        claims = BOUND_CLAIMS * self.has("claims") + LATE_CLAIMS * self.has("late-claims")
        if claims and random.random() < share:
            name = random.choice(claims if random.random() < 0.9 else UNBOUND_CLAIMS)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        if (self.has("own-claims") or self.has("attach-limits")) and random.random() < share:
            spec.setdefault("volumes", []).append(self.own_volume())
        return spec

    def own_volume(self) -> Object:
        """Return an ephemeral volume, for which each pod gets its own claim."""
        return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": self.own_claim()}}}

    def own_claim(self) -> Object:
        """Return the spec of a claim that is created for one pod. In a few cases, its storage class does not exist."""
        classes = [*OWN_CLASSES, *(["late"] if self.has("late-claims") else [])]
        name = self.random.choice(classes) if self.random.random() < 0.95 else "no-such-class"
        resources = {"requests": {"storage": "1Gi"}}
        return {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": resources}

    def resize(self, spec: Object, status: Object) -> None:
        """Show in the pod's status that some containers are being resized: requested, in progress or infeasible."""
        random = self.random
        states = []
        for container in spec["containers"]:
            old = {"cpu": cpu_of(random, random.choice([100, 1000, 2500])), "memory": bytes_of(random, GI)}
            state: Object = {"name": container["name"], "resources": {"requests": old}}
            if random.random() < 0.7:
                state["allocatedResources"] = {"cpu": cpu_of(random, random.choice([500, 1500])), "memory": "512Mi"}
            states.append(state)
        if random.random() < 0.6:
            status["containerStatuses"] = states
            reason = random.choice(["Infeasible", "Deferred", None])
            if reason:
                condition = {"type": "PodResizePending", "status": "True", "reason": reason}
                status["conditions"] = [condition]

    def _container(self, name: str) -> Object:
        resources = self._resources([500, 1000, 1500, 2000])
        return {"name": name, "image": "image", "resources": resources}

    def _init_container(self, name: str) -> Object:
        container = {"name": name, "image": "image", "resources": self._resources([100, 1500, 3000])}
        return {**container, "restartPolicy": "Always"} if self.random.random() < 0.5 else container

    def _resources(self, millis: Sequence[int]) -> Object:
        """Return requests, limits, or both.

        If a container has only limits, Kubernetes sets its requests to the same amounts.
        """
        random = self.random
        amounts: Object = {}
        if random.random() < 0.8:
            amounts["cpu"] = cpu_of(random, random.choice(millis))
            # Kubernetes rounds a pod-level amount and each container's amount separately. Because of the rounding, it
            # would refuse some pod-level amounts that are exactly the sum of the containers' amounts.
            if random.random() < 0.05 and not self.has("pod-level"):
                amounts["cpu"] = random.choice(["1000100u", "0.3334", "100n"])
        if random.random() < 0.7:
            amounts["memory"] = bytes_of(random, random.choice([512 * MEBI, GI, GI + 1, 1500 * 10**6]))
        exact: Object = {}
        if self.has("extended") and random.random() < 0.5:
            exact[GPU] = str(random.choice([0, 1, 1, 2]))
        if self.has("extended") and random.random() < 0.2:
            exact["example.com/nic"] = "1"
        if self.has("ephemeral") and amounts and random.random() < 0.3:
            exact["hugepages-2Mi"] = random.choice(["2Mi", "4Mi", "8388608"])
        if self.has("ephemeral") and random.random() < 0.5:
            amounts["ephemeral-storage"] = bytes_of(random, random.choice([GI, 2 * GI]))
        if random.random() < 0.5:
            return {"limits": {**amounts, **exact}}
        return {"requests": {**amounts, **exact}, "limits": exact}

    def _pod_level(self, spec: Object) -> Object:
        """Return pod-level resources.

        The pod-level amounts are at least as large as the sum of the containers' amounts.
        """
        found = requested({key: spec[key] for key in ("containers", "initContainers") if key in spec})
        more = self.random.choice([0, 500])
        amounts = {"cpu": cpu_of(self.random, found.get("cpu", 0) + more)}
        if self.random.random() < 0.5:
            amounts["memory"] = bytes_of(self.random, found.get("memory", 0) + more * MEBI)
        return {self.random.choice(["requests", "limits"]): amounts}

    def _host_ports(self, spec: Object) -> None:
        random = self.random
        number = random.choice([8080, 9090])
        port: Object = {"containerPort": number, "protocol": random.choice(["TCP", "TCP", "UDP"])}
        if random.random() < 0.4:
            spec["hostNetwork"] = True
        else:
            port["hostPort"] = number
            if random.random() < 0.4:
                port["hostIP"] = random.choice(["0.0.0.0", "10.0.0.1", "10.0.0.2"])
        spec["containers"][0]["ports"] = [port]

    def _node_rules(self, spec: Object, share: float) -> None:
        random = self.random
        if self.has("taints") and random.random() < share:
            spec["tolerations"] = [self._toleration() for _ in range(random.randint(1, 2))]
        if self.has("cordon") and random.random() < 0.3:
            cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
            spec.setdefault("tolerations", []).append(cordon)
        if self.has("node-affinity") and random.random() < share:
            spec["nodeSelector"] = LABELS.pick(random, ("zone", "rack", "model"), share=0.3)
        if self.has("node-affinity") and random.random() < share:
            terms = [self._node_term() for _ in range(random.randint(1, 2))]
            required = {"nodeSelectorTerms": terms}
            spec["affinity"] = {"nodeAffinity": {REQUIRED: required}}

    def _toleration(self) -> Object:
        random = self.random
        effect = random.choice([{}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}])
        key = random.choice(["gpu", "team", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/not-ready"])
        kinds: list[Object] = [
            {"key": key, "operator": "Exists"},
            {"key": key, "operator": "Equal", "value": random.choice(["a", "b"])},
            {"key": key, "value": "a"},
        ]
        return {**random.choice(kinds if random.random() < 0.9 else [{"operator": "Exists"}]), **effect}

    def _node_term(self) -> Object:
        random = self.random
        if random.random() < 0.05:
            return {}
        term: Object = {}
        if random.random() < 0.85:
            term["matchExpressions"] = [self._node_expression() for _ in range(random.randint(1, 2))]
        if random.random() < 0.2:
            name = {"key": "metadata.name", "operator": random.choice(["In", "NotIn"])}
            term["matchFields"] = [{**name, "values": [random.choice(["n0", "n1", "n2"])]}]
        return term

    def _node_expression(self) -> Object:
        random = self.random
        operator = random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Gt", "Lt"):
            return {"key": random.choice(["gen", "rack"]), "operator": operator, "values": [random.choice("0123")]}
        key = random.choice(["zone", "rack", "model", "gen"])
        return self._expression(key, operator)

    def _expression(self, key: str, operator: str) -> Object:
        values = self.random.sample(LABELS.values[key], self.random.randint(1, 2))
        return {"key": key, "operator": operator, **({"values": values} if operator in ("In", "NotIn") else {})}

    def _pod_rules(self, spec: Object, share: float) -> None:
        random = self.random
        affinity = spec.get("affinity", {})
        for feature, kind in (("affinity", "podAffinity"), ("anti-affinity", "podAntiAffinity")):
            if self.has(feature) and random.random() < share:
                terms = [self._pod_term() for _ in range(random.choice([1, 1, 2]))]
                affinity[kind] = {REQUIRED: terms}
        if affinity:
            spec["affinity"] = affinity
        if self.has("spread") and random.random() < share:
            keys = random.sample(KEYS, random.choice([1, 1, 2]))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]

    def _pod_term(self) -> Object:
        random = self.random
        term: Object = {"topologyKey": random.choice(KEYS), "labelSelector": self._selector()}
        if random.random() < 0.2:
            term["namespaces"] = random.sample(NAMESPACES, random.randint(1, 2))
        if random.random() < 0.2:
            term["namespaceSelector"] = random.choice([{}, {"matchLabels": {"of": "t"}}, {"matchLabels": {"of": "o"}}])
        if "tier" not in str(term["labelSelector"]) and random.random() < 0.2:
            term[random.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["tier"]
        return term

    def _selector(self) -> Object:
        random = self.random
        if random.random() < 0.1:
            return {}
        if random.random() < 0.6:
            return {"matchLabels": {"app": random.choice(LABELS.values["app"])}}
        operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        return {"matchExpressions": [self._expression(random.choice(["app", "app", "tier"]), operator)]}

    def _spread(self, key: str) -> Object:
        random = self.random
        constraint: Object = {
            "topologyKey": key,
            "maxSkew": random.choice([1, 1, 2, 3]),
            "whenUnsatisfiable": random.choice(["DoNotSchedule"] * 4 + ["ScheduleAnyway"]),
            "labelSelector": self._selector(),
        }
        if random.random() < 0.3 and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = random.randint(1, 4)
        if "tier" not in str(constraint["labelSelector"]) and random.random() < 0.2:
            constraint["matchLabelKeys"] = ["tier"]
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if random.random() < 0.3:
                constraint[policy] = random.choice(["Honor", "Ignore"])
        return constraint
