"""Create the two states of a release that a plan compares."""

from __future__ import annotations

import copy
from typing import Any

from distrain.release.plan import Before, Next
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.objects import Object

SERVICE_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "run1"}}
FLAGS = "--namespace team --kube-context lab"
S3 = {"uri": "s3://runs", "resume": "auto"}
PODS_ALONE = {"uri": "", "resume": "auto"}


def _manifest(*objects: Object) -> str:
    return yaml_writer.dump(*objects)


def before_of(*objects: Object, end: str | None = None, is_there: bool = True) -> Before:
    manifest = _manifest(*objects)
    return Before(3, manifest, from_manifest(manifest, "run1"), {"a": 1}, end, is_there, FLAGS)


def next_of(*objects: Object, **values: Any) -> Next:
    manifest = _manifest(*objects)
    return Next(manifest, from_manifest(manifest, "run1"), {"a": 1, **values})


def with_field(job: Object, path: str, value: Any) -> Object:
    """Return a copy of the job in which the field at this path has this value."""
    changed = copy.deepcopy(job)
    *parents, last = path.split(".")
    at = changed
    for key in parents:
        at = at.setdefault(key, {})
    at[last] = value
    return changed


def renamed(job: Object) -> Object:
    return {**job, "metadata": {**job["metadata"], "name": "run1-ffffffff"}}
