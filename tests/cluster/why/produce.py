"""Produce a cause on the lab, and run `status` as a user who may only read the namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.cluster import client
from lab.errors import LabError
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import VALUES, Namespace, digits_on_s3, settings
from tests.cluster.why.case import PROGRAM, Case, Said, masked

USER = "reader"
# An ordinary user of a namespace may read these resources.
READABLE = (
    ("", ["pods", "pods/log", "events", "persistentvolumeclaims"]),
    ("batch", ["jobs"]),
    ("kubeflow.org", ["mpijobs", "pytorchjobs", "tfjobs", "mxjobs"]),
    ("scheduling.x-k8s.io", ["podgroups"]),
)


def said_of(case: Case, namespace: Namespace, helm: Path, folder: Path) -> Said:
    """Install a run that is blocked by the cause.

    Return the expected report of `status`, or its last report before the time limit.
    """
    flags = _as_reader(namespace, folder)
    with case.stage(namespace) as more:
        _install(namespace, helm, case, {**case.values, **more})
        with case.deed(namespace):
            return _awaited(namespace, flags, case)


def _install(namespace: Namespace, helm: Path, case: Case, values: Mapping[str, Any]) -> None:
    base: Mapping[str, Any] = {"workers.replicas": 1, **digits_on_s3()} if case.trains else PROGRAM
    file = ["-f", str(VALUES / "mnist.yaml")] if case.trains else []
    done = namespace.helm(helm, "install", "run1", str(CHART), *file, *settings({**base, **values}))
    assert done.returncode == 0, done.stderr


def _awaited(namespace: Namespace, flags: list[str], case: Case) -> Said:
    """Run `status` until two reports in a row are as expected. Return the last report."""
    seen: list[Said] = []

    def is_said() -> bool:
        seen.append(_said(namespace, flags))
        return seen[-2:] == [case.said] * 2

    try:
        wait_until(f"status to name the cause: {case.name}", is_said, seconds=case.seconds, pause=2)
    except LabError:
        print(namespace.story())
    return seen[-1]


def _said(namespace: Namespace, flags: list[str]) -> Said:
    shown = namespace.distrain("status", "run1", "-o", "json", *flags)
    assert shown.returncode in (0, 4), shown.stderr
    answer = json.loads(shown.stdout)
    # Without the values, `status` does not know where the run's record is. Helm stores the release's values in a
    # Secret, which this user may not read.
    unread = [words for words in answer["unread"] if not words.startswith("the run's record: ")]
    words = [masked(answer[name] or "", namespace.name) for name in ("phase", "why", "next")]
    return Said(*(each.replace(f" {' '.join(flags)}", "") for each in [*words, "; ".join(unread)]))


def _as_reader(namespace: Namespace, folder: Path) -> list[str]:
    """Create a ServiceAccount that may only read runs in the namespace.

    Return the flags that make a command use this account.
    """
    flags = namespace.kubeconfig_of(USER, folder)
    metadata = {"name": USER, "namespace": namespace.name}
    rules = [{"apiGroups": [group], "resources": kinds, "verbs": ["get", "list", "watch"]} for group, kinds in READABLE]
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": namespace.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER}
    api = "rbac.authorization.k8s.io/v1"
    client.apply(
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules},
        {"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": [subject]},
    )
    return flags
