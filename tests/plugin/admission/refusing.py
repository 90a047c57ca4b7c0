"""Change one field of a valid object, and assert that the check refuses it as the API server does."""

from __future__ import annotations

import copy
from typing import Any

from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object, batch_job, node, template

Path = tuple[str | int, ...]
ROOM = [node("a")]
POD: Path = ("spec", "template", "spec")
MAIN: Path = (*POD, "containers", 0)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def valid_job() -> Object:
    return batch_job("a", template("web", {}))


def valid_set() -> Object:
    pod = template("web", {})
    spec = {"replicas": 1, "selector": {"matchLabels": pod["metadata"]["labels"]}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": spec}


def changed(item: Object, path: Path, value: Any) -> Object:
    """Return the object with another value in one field. If the value is None, remove the field."""
    changed = copy.deepcopy(item)
    *parents, key = path
    place: Any = changed
    for each in parents:
        place = place[each]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return changed


def mounted(*mounts: Object) -> Object:
    containers = [{"name": "web", "image": "busybox", "volumeMounts": list(mounts)}]
    return {"restartPolicy": "Never", "containers": containers, "volumes": [{"name": "data"}]}


def assert_refused(item: Object, words: str) -> None:
    answer = judged(job_of(item), ROOM)

    reasons = [each.reason for each in answer.reasons if f"{item['kind']} is invalid: " in each.reason]
    assert answer.verdict == "impossible"
    assert len(reasons) == 1
    assert words in reasons[0]
