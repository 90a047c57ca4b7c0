"""Measure the objects in a namespace, and compare their sizes with the limits of Kubernetes and etcd."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.cluster.client import kubectl
from lab.errors import LabError
from lab.waiting import wait_until

Object = dict[str, Any]

# Events are not counted, because they are not objects of the run and expire.
EVENTS = ("events", "events.events.k8s.io")
OF_DATA, OF_OTHERS = 2**20, 3 * 2**19
LABEL = 63


class Objects(NamedTuple):
    """The objects in a namespace: their number, the largest one, and the sizes of the largest hostfile and record."""

    number: int
    largest: tuple[str, int]
    hostfile: int
    record: int


def objects(namespace: str) -> Objects:
    """Return the namespace's objects. Raises LabError if an object is larger than the limit for its kind.

    The size of a Secret or ConfigMap is the size of its data. The size of any other object is the length of its JSON
    from the API server.
    """
    found = list(_all(namespace))
    sizes = {f"{each['kind']} {each['metadata']['name']}": size_of(each) for each in found}
    for each in found:
        _check(each)
    return Objects(
        len(found),
        max(sizes.items(), key=lambda pair: pair[1]),
        max((size_of(each) for each in found if "hostfile" in (each.get("data") or {})), default=0),
        max((size_of(each) for each in found if each.get("type") == "helm.sh/release.v1"), default=0),
    )


def size_of(item: Object) -> int:
    if item["kind"] in ("ConfigMap", "Secret"):
        texts = [*(item.get("data") or {}).values(), *(item.get("binaryData") or {}).values()]
        is_encoded = item["kind"] == "Secret"
        return sum(len(text.encode()) * (3 if is_encoded else 4) // 4 for text in texts)
    return len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode())


def running(namespace: str) -> int:
    """Return the number of running pods."""
    return [line.split()[2] for line in _pods(namespace)].count("Running")


def wait_for_pods(namespace: str, number: int, limit: float = 1800) -> float:
    """Wait until exactly `number` pods run. If `number` is 0, wait until no pod exists. Return the seconds.

    Raises LabError if that takes longer than the time limit.
    """
    started = time.monotonic()
    count = running if number else lambda name: len(_pods(name))
    wait_until(f"{number} pods in {namespace}", lambda: count(namespace) == number, seconds=limit, pause=1)
    return round(time.monotonic() - started, 1)


def _pods(namespace: str) -> list[str]:
    return kubectl("-n", namespace, "get", "pods", "--no-headers", "--ignore-not-found").splitlines()


def _all(namespace: str) -> Iterator[Object]:
    kinds = kubectl("api-resources", "--verbs=list,get", "--namespaced", "-o", "name").split()
    asked = ",".join(kind for kind in kinds if kind not in EVENTS)
    yield from json.loads(kubectl("-n", namespace, "get", asked, "-o", "json", "--show-managed-fields"))["items"]


def _check(item: Object) -> None:
    most = OF_DATA if item["kind"] in ("ConfigMap", "Secret") else OF_OTHERS
    labels = (item["metadata"].get("labels") or {}).values()
    if size_of(item) > most or any(len(value) > LABEL for value in labels):
        raise LabError(f"{item['kind']} {item['metadata']['name']}: {size_of(item)} bytes, labels {list(labels)}")
