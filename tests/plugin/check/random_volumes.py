"""Create random claims and volumes: bound to a zone or node, bound after the pod has a node, or never bound."""

from __future__ import annotations

from tests.plugin.check.random_pods import LABELS, LATE_CLAIMS, Maker, Object, made

NAMESPACE = "team"


def objects(maker: Maker) -> list[Object]:
    """Return the claims that pods may name, with their volumes and classes."""
    found = []
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
    return [claim, volume]


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
