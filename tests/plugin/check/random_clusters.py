"""Create random small clusters and gangs for which the verdict is not obvious. The same seed gives the same case.

The cluster's objects look as the API server returns them. The gang looks as in a manifest. random_pods.py creates the
pods' specs. In half of the cases, the nodes have just the capacity that the gang requests, or slightly less.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from tests.plugin.check import random_volumes
from tests.plugin.check.random_pods import (
    GI,
    GPU,
    LABELS,
    NAMESPACES,
    Maker,
    Object,
    as_stored,
    bytes_of,
    cpu_of,
    made,
    requested,
)

NAMESPACE = "team"
PRIORITIES = {"low": -10, "high": 100, "standard": 50}
CONDITION_TAINTS = ("not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
MOST_PODS = 8

# Features of a case. A random case has each of these features with a probability of about one sixth.
FEATURES = frozenset(
    {
        "init-containers",
        "pod-level",
        "overhead",
        "resize",
        "terminating",
        "finished",
        "nominated",
        "priority",
        "pod-slots",
        "taints",
        "node-affinity",
        "cordon",
        "host-ports",
        "affinity",
        "anti-affinity",
        "spread",
        "gates",
        "extended",
        "claims",
        "late-claims",
        "own-claims",
        "attach-limits",
        "daemons",
        "quotas",
        "ephemeral",
        "reserved-volumes",
        "left-claims",
        "capacities",
        "ordinals",
        "namespaces",
        "brought",
    }
)


@dataclass(frozen=True)
class Case:
    """A cluster, a gang, and its namespace. `gang` may also contain claims, volumes and storage classes.

    Some policies in `items` are created by the gang's manifest. `of_manifest` contains their names.
    """

    items: list[Object]
    gang: list[Object]
    namespace: str = NAMESPACE
    of_manifest: frozenset[str] = frozenset()

    @property
    def cluster(self) -> bytes:
        there = [item for item in self.items if item not in self.policies]
        # If the manifest contains the gang's Namespace with labels, the cluster contains it without labels.
        bare = [made("Namespace", name_of(item)) for item in self.policies if item["kind"] == "Namespace"]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*there, *bare]}).encode()

    @property
    def manifest(self) -> str:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*self.policies, *self.gang]})

    @property
    def policies(self) -> list[Object]:
        """Return the policies that the manifest creates."""
        return [item for item in self.items if name_of(item) in self.of_manifest]

    def request(self, budget: int, *, explain: bool = False) -> str:
        """Return the case as the JSON that lab/builds/go/schedule reads."""
        cluster = {"items": [*self.items, *self._brought()]}
        asked = {"cluster": cluster, "gang": self._workloads(), "namespace": self.namespace, "budget": budget}
        return json.dumps({**asked, "explain": explain, "created": self._created()})

    def _created(self) -> Object | None:
        """For quota admission, return the existing objects and the new ones. Return None if the case has no quota."""
        new: list[Object] = []
        for workload in self._workloads():
            pods = created_pods(workload, replicas(workload), self.namespace)
            new += [*pods, *created_claims(workload, pods)]
        there = {_key(item) for item in self.items}
        new = [each for each in (*new, *self._brought()) if _key(each) not in there]
        has_quotas = any(item["kind"] == "ResourceQuota" for item in self.items)
        return {"objects": self.items, "new": new} if has_quotas else None

    def _workloads(self) -> list[Object]:
        return [item for item in self.gang if item["kind"] in ("Job", "StatefulSet")]

    def _brought(self) -> list[Object]:
        """Return the manifest's objects other than Jobs and StatefulSets, as the API server stores them."""
        others = [item for item in self.gang if item["kind"] not in ("Job", "StatefulSet")]
        return [_placed(item, self.namespace) for item in others]

    def used(self, amounts: Mapping[str, Object]) -> Case:
        """Return the case with this usage in the quotas' status. `amounts` is keyed by "namespace/name" of a quota."""
        return replace(self, items=[with_usage(item, amounts) for item in self.items])


def _key(item: Object) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def _placed(item: Object, namespace: str) -> Object:
    if item["kind"] != "PersistentVolumeClaim":
        return item
    return {**item, "metadata": {"namespace": namespace, **item["metadata"]}}


def random_case(seed: int, features: frozenset[str] = FEATURES) -> Case:
    """Return the random case that this seed always gives."""
    random = Random(seed)
    share = random.choice([0.05, 0.15, 0.3])
    maker = Maker(random, frozenset(each for each in sorted(features) if random.random() < share))
    nodes = [_node(maker, f"n{number}") for number in range(random.randint(2, 7))]
    pods = [_pod(maker, f"p{number}", nodes) for number in range(random.choice([0, 2, 5, 9, 15]))]
    gang = _gang(maker)
    if random.random() < 0.5:
        _shape(random, nodes, pods, gang)
    volumes = random_volumes.objects(maker, [node["metadata"]["name"] for node in nodes], pods, gang)
    stored, brought = random_volumes.shared_out(maker, volumes)
    others = [*_namespaces(), *_priorities(maker), *_quotas(maker, gang), *stored]
    case = Case([*nodes, *pods, *others], [*gang, *brought])
    return replace(case, of_manifest=_of_manifest(random, case))


def _node(maker: Maker, name: str) -> Object:
    random = maker.random
    labels = {"kubernetes.io/hostname": name, **LABELS.pick(random, ("zone", "rack", "model", "gen"), share=0.85)}
    amounts = {
        "cpu": cpu_of(random, random.choice([2000, 4000, 6500, 8000, 16000])),
        "memory": bytes_of(random, random.choice([4, 8, 12, 16]) * GI),
        "pods": str(random.randint(1, 5) if maker.has("pod-slots") else 110),
    }
    if maker.has("extended"):
        amounts |= {GPU: str(random.choice([0, 1, 2, 4])), "example.com/nic": str(random.randint(0, 2))}
    if maker.has("ephemeral"):
        amounts |= {"ephemeral-storage": bytes_of(random, 4 * GI), "hugepages-2Mi": f"{random.randint(0, 64) * 2}Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": _node_spec(maker),
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _node_spec(maker: Maker) -> Object:
    random = maker.random
    taints = []
    if maker.has("taints") and random.random() < 0.5:
        effect = random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        taints.append({"key": random.choice(["gpu", "team"]), "value": random.choice(["a", "b"]), "effect": effect})
    if maker.has("taints") and random.random() < 0.15:
        effect = random.choice(["NoSchedule", "NoExecute"])
        taints.append({"key": f"node.kubernetes.io/{random.choice(CONDITION_TAINTS)}", "effect": effect})
    cordoned = maker.has("cordon") and random.random() < 0.3
    if cordoned and random.random() < 0.8:
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    return {**({"taints": taints} if taints else {}), **({"unschedulable": True} if cordoned else {})}


def _pod(maker: Maker, name: str, nodes: list[Object]) -> Object:
    random = maker.random
    node = random.choice(nodes)["metadata"]["name"]
    metadata: Object = {"name": name, "namespace": random.choice(NAMESPACES), "labels": maker.labels()}
    spec, status = maker.spec(share=0.3), {"phase": "Running"}
    as_stored(spec, metadata["labels"])
    if maker.has("attach-limits") and random.random() < 0.5:
        spec.setdefault("volumes", []).append(maker.own_volume())
    if maker.has("priority"):
        spec["priority"] = random.choice([0, *PRIORITIES.values()])
    if maker.has("daemons") and random.random() < 0.3:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
        metadata |= random.choice([{"ownerReferences": [owner]}, {"annotations": {"kubernetes.io/config.mirror": "1"}}])
    if maker.has("terminating") and random.random() < 0.3:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if maker.has("finished") and random.random() < 0.3:
        status["phase"] = random.choice(["Succeeded", "Failed"])
    if maker.has("nominated") and random.random() < 0.3:
        status = {"phase": "Pending", "nominatedNodeName": node}
    elif random.random() < 0.05:
        status = {"phase": "Pending"}
    else:
        spec["nodeName"] = node
        if maker.has("resize"):
            maker.resize(spec, status)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _gang(maker: Maker) -> list[Object]:
    random = maker.random
    roles = random.choice([1, 1, 2, 2, 3])
    counts = [random.randint(1, random.choice([4, MOST_PODS]) // roles) for _ in range(roles)]
    return [_workload(maker, f"r{number}", count) for number, count in enumerate(counts)]


def _workload(maker: Maker, name: str, count: int) -> Object:
    random = maker.random
    labels = maker.labels() | {"role": name}
    spec = maker.spec(share=0.5)
    if maker.has("priority") and random.random() < 0.7:
        spec["priorityClassName"] = random.choice(list(PRIORITIES))
    if maker.has("gates") and random.random() < 0.1:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    template: Object = {"metadata": {"labels": labels}, "spec": spec}
    metadata: Object = {"name": name}
    if maker.has("namespaces") and random.random() < 0.5:
        metadata["namespace"] = random.choice(NAMESPACES[:2])
    if random.random() < 0.7:
        spec["restartPolicy"] = "Never"
        kinds = {"apiVersion": "batch/v1", "kind": "Job"}
        return {**kinds, "metadata": metadata, "spec": {"parallelism": count, "template": template}}
    selector = {"matchLabels": {"role": name}}
    kinds = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    wanted: Object = {"replicas": count, "selector": selector, "serviceName": name, "template": template}
    if maker.has("own-claims") and random.random() < 0.5:
        wanted["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": maker.own_claim()}]
    if maker.has("ordinals") and random.random() < 0.5:
        wanted["ordinals"] = {"start": random.choice([0, 1, 3])}
    return {**kinds, "metadata": metadata, "spec": wanted}


def replicas(workload: Object) -> int:
    """Return the number of pods that the workload requests."""
    spec = workload["spec"]
    return int(spec["parallelism"] if workload["kind"] == "Job" else spec["replicas"])


def resized(workload: Object, count: int) -> Object:
    """Return the workload with another number of pods."""
    key = "parallelism" if workload["kind"] == "Job" else "replicas"
    return {**workload, "spec": {**workload["spec"], key: count}}


def _shape(random: Random, nodes: list[Object], pods: list[Object], gang: list[Object]) -> None:
    """Place the gang's pods at random, and reduce each node's capacity to what the pods on it request."""
    needs = [_needs(pods, node) for node in nodes]
    for workload in gang:
        asked = requested(workload["spec"]["template"]["spec"])
        for _ in range(replicas(workload)):
            need = random.choice(needs)
            for resource, amount in asked.items():
                need[resource] = need.get(resource, 0) + amount
    short = random.random() < 0.3
    for node, need in zip(nodes, needs, strict=True):
        amounts = node["status"]["allocatable"]
        for resource in sorted(set(need) & set(amounts)):
            if resource == "pods" and amounts["pods"] == "110":
                continue
            less = int(short and need[resource] > 0 and random.random() < 0.2)
            amounts[resource] = _written(random, resource, need[resource] - less)


def _needs(pods: list[Object], node: Object) -> dict[str, int]:
    need: dict[str, int] = {}
    for pod in pods:
        on = pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName")
        if on == node["metadata"]["name"] and pod["status"]["phase"] in ("Running", "Pending"):
            for resource, amount in requested(pod["spec"]).items():
                need[resource] = need.get(resource, 0) + amount
    return need


def _written(random: Random, resource: str, amount: int) -> str:
    if resource == "cpu":
        return cpu_of(random, amount)
    return bytes_of(random, amount) if resource in ("memory", "ephemeral-storage") else str(amount)


def _namespaces() -> list[Object]:
    return [made("Namespace", name, labels={"kubernetes.io/metadata.name": name, "of": name[0]}) for name in NAMESPACES]


def _priorities(maker: Maker) -> list[Object]:
    group = "scheduling.k8s.io/v1"
    found: list[Object] = [
        {**made("PriorityClass", name), "apiVersion": group, "value": value} for name, value in PRIORITIES.items()
    ]
    found[-1]["globalDefault"] = maker.random.random() < 0.5
    return found if maker.has("priority") else []


def _quotas(maker: Maker, gang: list[Object]) -> list[Object]:
    """Return quotas that are exactly as large as the gang needs, or a little too small."""
    if not maker.has("quotas"):
        return []
    need: Counter[str] = Counter()
    for workload in gang:
        for resource, amount in requested(workload["spec"]["template"]["spec"]).items():
            need[resource] += amount * replicas(workload)
        for claim in created_claims(workload, created_pods(workload, replicas(workload), NAMESPACE)):
            suffix = f"{claim['spec']['storageClassName']}.storageclass.storage.k8s.io/"
            amounts = {"persistentvolumeclaims": 1, "requests.storage": GI}
            need.update({f"{each}{name}": amount for each in ("", suffix) for name, amount in amounts.items()})
    return [_quota(maker.random, f"q{number}", need) for number in range(maker.random.randint(1, 2))]


def _quota(random: Random, name: str, need: Mapping[str, int]) -> Object:
    resource = random.choice(sorted(need))
    amount = max(0, need[resource] + random.choice([-1, 0, 0, 1, need[resource]]))
    is_whole = resource == "pods" or resource.endswith(("persistentvolumeclaims", "requests.storage"))
    spec: Object = {"hard": {resource if is_whole else f"requests.{resource}": _written(random, resource, amount)}}
    if is_whole and resource != "pods":
        return {**made("ResourceQuota", name, namespace=NAMESPACE), "spec": spec}
    if random.random() < 0.4:
        scopes = ["NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"]
        spec["scopes"] = [random.choice(scopes)]
    elif random.random() < 0.3:
        scope = {"scopeName": "PriorityClass", "operator": random.choice(["In", "NotIn"])}
        classes = random.sample(list(PRIORITIES), random.randint(1, 2))
        spec["scopeSelector"] = {"matchExpressions": [{**scope, "values": classes}]}
    return {**made("ResourceQuota", name, namespace=NAMESPACE), "spec": spec}


def _of_manifest(random: Random, case: Case) -> frozenset[str]:
    """In a third of the cases, return the names of quotas, PriorityClass and namespace that the manifest creates."""
    if random.random() < 2 / 3:
        return frozenset()
    quotas = [name_of(item) for item in case.items if item["kind"] == "ResourceQuota" and not _counts_claims(item)]
    # Keep some PriorityClasses in the cluster: a snapshot without any counts as if the user could not read them.
    return frozenset(name for name in (*quotas, "high", NAMESPACE) if random.random() < 0.7)


def _counts_claims(quota: Object) -> bool:
    """Tell whether the quota counts persistent volume claims.

    If the manifest creates a quota that counts claims, the check cannot know the quota's usage.
    """
    return any(name.endswith(("persistentvolumeclaims", "requests.storage")) for name in quota["spec"]["hard"])


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def with_usage(item: Object, used: Mapping[str, Object]) -> Object:
    """Return the object. If it is a quota, set its usage from `used`, which is keyed by "namespace/name"."""
    if item["kind"] != "ResourceQuota":
        return item
    name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
    return {**item, "status": {"hard": item["spec"]["hard"], "used": used.get(name) or {}}}


def created_pods(workload: Object, count: int, namespace: str) -> list[Object]:
    """Return the pods that the controller creates. These pods have only the fields that quotas and LimitRanges read."""
    metadata, template = workload["metadata"], workload["spec"]["template"]
    first = workload["spec"].get("ordinals", {}).get("start", 0)
    names = (f"{metadata['name']}-{first + number}" for number in range(count))
    where = metadata.get("namespace", namespace)
    return [{"kind": "Pod", "metadata": {"name": name, "namespace": where}, "spec": template["spec"]} for name in names]


def created_claims(workload: Object, pods: list[Object]) -> list[Object]:
    """Return the persistent volume claims that controllers create for the workload's pods."""
    templates = workload["spec"].get("volumeClaimTemplates", ())
    volumes = workload["spec"]["template"]["spec"].get("volumes", ())
    own = [(each["name"], each["ephemeral"]["volumeClaimTemplate"]) for each in volumes if "ephemeral" in each]
    found = []
    for name, where in ((pod["metadata"]["name"], pod["metadata"]["namespace"]) for pod in pods):
        for each in templates:
            claim = made("PersistentVolumeClaim", f"{each['metadata']['name']}-{name}", namespace=where)
            found.append({**claim, "spec": each["spec"]})
        for volume, each in own:
            claim = made("PersistentVolumeClaim", f"{name}-{volume}", namespace=where)
            found.append({**claim, "spec": each["spec"]})
    return found
