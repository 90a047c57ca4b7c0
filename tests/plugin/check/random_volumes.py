"""Create random claims and volumes: bound to a zone or node, bound after the pod has a node, or never bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.plugin.check.random_pods import LABELS, LATE_CLAIMS, Maker, Object, made

NAMESPACE = "team"
DRIVERS = ("example.com", "other.com", "ebs.csi.aws.com")
# The plugin of Kubernetes that the last driver replaces.
IN_TREE = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def objects(maker: Maker, nodes: Sequence[str], pods: Sequence[Object]) -> list[Object]:
    """Return the claims that pods may name, with their volumes and classes, and what the nodes attach."""
    found = []
    if maker.has("own-claims") or maker.has("attach-limits"):
        found += _own_classes(maker)
    if maker.has("attach-limits"):
        found += _attached(maker, nodes, pods)
    if maker.has("claims"):
        places = [("zone", zone) for zone in LABELS.values["zone"]] + [("kubernetes.io/hostname", "n1")]
        for number, (key, value) in enumerate(places):
            found += _bound(maker, number, key, value)
        found += [_class("fast", provisioner="example.com"), _claim("unbound", "fast")]
    if maker.has("late-claims"):
        found += _late(maker)
    return found


def _bound(maker: Maker, number: int, key: str, value: str) -> list[Object]:
    mode = maker.random.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
    claim = _claim(f"c{number}", "fast", mode)
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["spec"]["volumeName"] = f"v{number}"
    claim["status"] = {"phase": "Bound"}
    volume = _volume(f"v{number}", "fast", key, value, mode)
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": f"c{number}"}
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
    """Return the nodes' limits, the claims of existing pods' ephemeral volumes, and volumes that are attached."""
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
    """Yield the claim of an existing pod's ephemeral volume, and mostly its volume; rarely there is no claim."""
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
        *(_claim(name, "dynamic" if name == "dynamic" else "late") for name in LATE_CLAIMS),
        *(_late_volume(number, *place) for number, place in enumerate(random.sample(volumes, 2))),
    ]


def _late_volume(number: int, key: str, value: str) -> Object:
    """Return a volume with a unique size, because the scheduler may choose any of several volumes of the same size."""
    volume = _volume(f"late-v{number}", "late", key, value)
    volume["spec"]["capacity"] = {"storage": f"{number + 1}Gi"}
    return volume


def _class(name: str, **fields: object) -> Object:
    return {**made("StorageClass", name), "apiVersion": "storage.k8s.io/v1", **fields}


def _claim(name: str, storage_class: str, mode: str = "ReadWriteOnce") -> Object:
    spec = {"accessModes": [mode], "storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
    return {**made("PersistentVolumeClaim", name, namespace=NAMESPACE), "spec": spec, "status": {"phase": "Pending"}}


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
