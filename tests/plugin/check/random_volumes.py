"""Create random claims and volumes: bound to a zone or node, bound after the pod has a node, or never bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.plugin.check.random_pods import LABELS, LATE_CLAIMS, Maker, Object, made

NAMESPACE = "team"
KINDS = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass")
ONE_POD = ["ReadWriteOncePod"]
DRIVERS = ("example.com", "other.com", "ebs.csi.aws.com")
# A volume of Kubernetes' in-tree plugin for EBS. The CSI driver ebs.csi.aws.com has replaced this plugin.
IN_TREE = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


# The manifest may create objects whose names begin with these prefixes. Claims that must already be bound when their
# pod is scheduled have other names.
BROUGHT = ("late", "dynamic", "own", "other")


def objects(maker: Maker, nodes: Sequence[str], pods: Sequence[Object], gang: Sequence[Object]) -> list[Object]:
    """Return claims that pods may use, their volumes and classes, and the nodes' attachments and attach limits."""
    found = []
    if maker.has("left-claims") or maker.has("reserved-volumes"):
        found += [each for workload in gang for each in _of_set(maker, workload)]
    if maker.has("capacities"):
        found += _capacities(maker)
    if maker.has("own-claims") or maker.has("attach-limits"):
        found += _own_classes(maker)
    if maker.has("attach-limits"):
        found += _attached(maker, nodes, pods)
    if maker.has("claims"):
        places = [("zone", zone) for zone in LABELS.values["zone"]] + [("kubernetes.io/hostname", "n1")]
        for number, (key, value) in enumerate(places):
            found += _bound(maker, number, key, value)
            if maker.has("namespaces"):
                found += _bound(maker, number, key, value, "other")
        found += [_class("fast", provisioner="example.com"), _claim("unbound", "fast")]
    if maker.has("late-claims"):
        found += _late(maker)
    return found


def shared_out(maker: Maker, found: list[Object]) -> tuple[list[Object], list[Object]]:
    """Divide the objects into two lists: objects in the cluster, and objects that the manifest creates."""
    if not maker.has("brought"):
        return found, []
    # If a snapshot contains no object of a kind, the check assumes that the user could not read this kind. So add a
    # spare object.
    stored = [_class("spare"), _claim("spare", "spare"), _volume("spare", "spare", "zone", "za")]
    brought: list[Object] = []
    for item in found:
        may_be_brought = item["metadata"]["name"].startswith(BROUGHT) and item["kind"] in KINDS
        (brought if may_be_brought and maker.random.random() < 0.5 else stored).append(item)
    for item in brought:
        if item["kind"] == "PersistentVolumeClaim" and maker.random.random() < 0.5:
            del item["metadata"]["namespace"]
    return stored, brought


def _of_set(maker: Maker, workload: Object) -> Iterator[Object]:
    """Yield a claim left over from an earlier StatefulSet with one pod, and a volume reserved for this claim."""
    random, spec = maker.random, workload["spec"]
    if not spec.get("volumeClaimTemplates") or spec["replicas"] > 1 or random.random() < 0.3:
        return
    name = f"data-{workload['metadata']['name']}-{random.choice([0, spec.get('ordinals', {}).get('start', 0)])}"
    namespace, storage_class = workload["metadata"].get("namespace", NAMESPACE), _class_of_set(spec)
    volume = _volume(f"of-{name}", storage_class, "zone", random.choice(LABELS.values["zone"]))
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    if maker.has("left-claims"):
        claim = _claim(name, storage_class, namespace=namespace)
        if random.random() < 0.7:
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            claim["spec"]["volumeName"] = volume["metadata"]["name"]
        yield claim
    yield volume


def _class_of_set(spec: Object) -> str:
    return str(spec["volumeClaimTemplates"][0]["spec"]["storageClassName"])


def _capacities(maker: Maker) -> Iterator[Object]:
    """Yield CSI drivers that report their free storage, and their CSIStorageCapacity objects."""
    random = maker.random
    group = {"apiVersion": "storage.k8s.io/v1"}
    for driver in DRIVERS[:2]:
        yield {**made("CSIDriver", driver), **group, "spec": {"storageCapacity": random.random() < 0.7}}
    yield {**made("CSIStorageCapacity", "spare", namespace="csi"), **group, "storageClassName": "spare"}
    for number in range(random.choice([1, 3, 6])):
        topology = random.choice([{"matchLabels": {"zone": random.choice(LABELS.values["zone"])}}] * 4 + [{}])
        amounts = {key: random.choice(["512Mi", "1Gi", "2Gi"]) for key in ("capacity", "maximumVolumeSize")}
        amounts = {key: amount for key, amount in amounts.items() if random.random() < 0.6}
        name = {"storageClassName": random.choice(["own", "own", "other", "dynamic"])}
        found = {**made("CSIStorageCapacity", f"s{number}", namespace="csi"), **group, **name, **amounts}
        yield {**found, "nodeTopology": topology} if random.random() < 0.9 else found


def _bound(maker: Maker, number: int, key: str, value: str, namespace: str = NAMESPACE) -> list[Object]:
    name = f"v{number}" if namespace == NAMESPACE else f"{namespace}-v{number}"
    mode = maker.random.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
    claim = _claim(f"c{number}", "fast", mode, namespace)
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["spec"]["volumeName"] = name
    claim["status"] = {"phase": "Bound"}
    volume = _volume(name, "fast", key, value, mode)
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": f"c{number}"}
    volume["status"] = {"phase": "Bound"}
    if maker.has("attach-limits") and maker.random.random() < 0.2:
        del volume["spec"]["csi"]
        volume["spec"] |= IN_TREE
    return [claim, volume]


def _own_classes(maker: Maker) -> list[Object]:
    random = maker.random
    wait = {"volumeBindingMode": "WaitForFirstConsumer"}
    expressions = [{"key": "zone", "values": random.sample(LABELS.values["zone"], 2)}]
    allowed = random.choice([{}, {"allowedTopologies": [{"matchLabelExpressions": expressions}]}])
    own, other = _class("own", provisioner=DRIVERS[0], **wait), _class("other", provisioner=DRIVERS[1], **wait)
    return [{**own, **allowed}, other]


def _attached(maker: Maker, nodes: Sequence[str], pods: Sequence[Object]) -> list[Object]:
    """Return attach limits of nodes, claims for ephemeral volumes of existing pods, and attached volumes."""
    random = maker.random
    found = [_csi_node(maker, name) for name in nodes if random.random() < 0.85]
    found += [each for pod in pods for each in _ephemeral_claim(maker, pod)]
    volumes = [each["metadata"]["name"] for each in found if each["kind"] == "PersistentVolume"]
    found.append(_volume("stale", "own", "zone", "za"))
    for number in range(random.choice([0, 1, 3])):
        source = {"persistentVolumeName": random.choice([*volumes, "stale", "v0", "v1", "gone"])}
        spec = {"attacher": random.choice(DRIVERS[:2]), "nodeName": random.choice(nodes), "source": source}
        found.append({**made("VolumeAttachment", f"a{number}"), "apiVersion": "storage.k8s.io/v1", "spec": spec})
    return found


def _csi_node(maker: Maker, name: str) -> Object:
    random = maker.random
    drivers = []
    for driver in DRIVERS:
        limit = {"allocatable": {"count": random.choice([0, 1, 1, 2, 3])}} if random.random() < 0.8 else {}
        drivers.append({"name": driver, "nodeID": name, **limit})
    return {**made("CSINode", name), "apiVersion": "storage.k8s.io/v1", "spec": {"drivers": drivers}}


def _ephemeral_claim(maker: Maker, pod: Object) -> Iterator[Object]:
    """Yield the claim for the ephemeral volume of an existing pod. In most cases, also yield the claim's volume.

    With a small probability, yield nothing, as if the claim were missing.
    """
    templates = [each["ephemeral"] for each in pod["spec"].get("volumes", ()) if "ephemeral" in each]
    if not templates or maker.random.random() < 0.1:
        return
    spec = templates[0]["volumeClaimTemplate"]["spec"]
    namespace, name = pod["metadata"]["namespace"], f"{pod['metadata']['name']}-scratch"
    uid = f"{namespace}/{pod['metadata']['name']}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
    claim = {**made("PersistentVolumeClaim", name, namespace=namespace, ownerReferences=[owner]), "spec": {**spec}}
    if maker.random.random() < 0.7:
        volume = _volume(f"of-{name}", spec["storageClassName"], "zone", "za")
        volume["spec"]["csi"]["driver"] = "other.com" if spec["storageClassName"] == "other" else "example.com"
        volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        yield volume
    yield claim


def _late(maker: Maker) -> list[Object]:
    random = maker.random
    wait = {"volumeBindingMode": "WaitForFirstConsumer"}
    zones = random.sample(LABELS.values["zone"], 2)
    expressions = [{"key": "zone", "values": zones}]
    allowed = random.choice([{}, {"allowedTopologies": [{"matchLabelExpressions": expressions}]}])
    volumes = [("zone", random.choice(zones)), ("zone", random.choice(zones)), ("kubernetes.io/hostname", "n0")]
    return [
        _class("late", provisioner="kubernetes.io/no-provisioner", **wait),
        _class("dynamic", provisioner="example.com", **wait, **allowed),
        *(_late_claim(maker, name) for name in LATE_CLAIMS),
        *_reserved_once([_late_volume(maker, number, *at) for number, at in enumerate(random.sample(volumes, 2))]),
    ]


def _reserved_once(volumes: list[Object]) -> list[Object]:
    """Reserve at most one volume for each claim.

    If two volumes were reserved for one claim, the scheduler could choose either, and its answer could not be compared.
    """
    claims = set()
    for volume in volumes:
        reference = volume["spec"].get("claimRef", {})
        claim = reference.get("namespace"), reference.get("name")
        if claim in claims:
            volume["spec"].pop("claimRef", None)
        claims.add(claim)
    return volumes


def _late_claim(maker: Maker, name: str) -> Object:
    claim = _claim(
        name, "dynamic" if name == "dynamic" else "late", maker.random.choice(["ReadWriteOnce"] * 5 + ONE_POD)
    )
    if name == "dynamic" and maker.has("capacities") and maker.random.random() < 0.2:
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": maker.random.choice(["n0", "n1"])}
    return claim


def _late_volume(maker: Maker, number: int, key: str, value: str) -> Object:
    """Return a volume whose size no other volume has.

    If two volumes had the same size, the scheduler could choose either, and its answer could not be compared.
    """
    volume = _volume(f"late-v{number}", "late", key, value)
    volume["spec"]["capacity"] = {"storage": f"{number + 1}Gi"}
    volume["spec"]["accessModes"] += ONE_POD
    if maker.has("reserved-volumes") and maker.random.random() < 0.6:
        name = maker.random.choice(["late0", "late0", "late1", "gone"])
        uid = maker.random.choice([{}, {}, {"uid": f"{NAMESPACE}/{name}"}, {"uid": "of-a-claim-that-is-gone"}])
        namespace = maker.random.choice([NAMESPACE] * 4 + ["other"])
        volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, **uid}
    return volume


def _class(name: str, **fields: object) -> Object:
    return {**made("StorageClass", name), "apiVersion": "storage.k8s.io/v1", **fields}


def _claim(name: str, storage_class: str, mode: str = "ReadWriteOnce", namespace: str = NAMESPACE) -> Object:
    spec = {"accessModes": [mode], "storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
    found = made("PersistentVolumeClaim", name, namespace=namespace, uid=f"{namespace}/{name}")
    return {**found, "spec": spec, "status": {"phase": "Pending"}}


def _volume(name: str, storage_class: str, key: str, value: str, mode: str = "ReadWriteOnce") -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": storage_class,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "csi": {"driver": "example.com", "volumeHandle": name},
    }
    return {**made("PersistentVolume", name), "spec": spec, "status": {"phase": "Available"}}
