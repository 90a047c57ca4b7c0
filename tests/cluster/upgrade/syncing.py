"""Apply the chart as Argo CD does: render it with `helm template`, apply the pre-sync hooks, then everything else.

Argo CD documents how it treats Helm's hooks: https://argo-cd.readthedocs.io/en/stable/user-guide/helm/#helm-hooks
"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import client
from lab.errors import LabError
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace

Object = dict[str, Any]
BEFORE_A_SYNC = {"pre-install", "pre-upgrade"}


def sync(namespace: Namespace, helm: Path, *arguments: str) -> bool:
    """Apply a release. Return False if a hook has failed. In this case the other objects are not changed."""
    rendered = _rendered(namespace, helm, *arguments)
    hooks = sorted((each for each in rendered if _events(each) & BEFORE_A_SYNC), key=_weight)
    for _, group in itertools.groupby(hooks, key=_weight):
        if not _run_hooks(namespace, [*group]):
            _delete(namespace, hooks, "hook-failed")
            return False
    _delete(namespace, hooks, "hook-succeeded")
    _apply(namespace, [each for each in rendered if not _events(each)])
    return True


def _rendered(namespace: Namespace, helm: Path, *arguments: str) -> list[Object]:
    versions = client.kubectl("api-versions").split()
    kubeflow = client.kubectl("api-resources", "--api-group=kubeflow.org", "--no-headers").splitlines()
    kinds = ["/".join(line.split()[-3::2]) for line in kubeflow]
    served = [f"--api-versions={name}" for name in (*versions, *kinds)]
    done = subprocess.run(
        [helm, "template", *arguments, *served, "--namespace", namespace.name],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(done.stderr)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def _annotation(each: Object, name: str) -> str:
    return str(each["metadata"].get("annotations", {}).get(f"helm.sh/{name}", ""))


def _events(each: Object) -> set[str]:
    return {*filter(None, _annotation(each, "hook").split(","))}


def _weight(each: Object) -> int:
    return int(_annotation(each, "hook-weight") or 0)


def _run_hooks(namespace: Namespace, hooks: list[Object]) -> bool:
    """Create the hooks, and return whether all their Pods have succeeded."""
    _delete(namespace, hooks, "before-hook-creation")
    _apply(namespace, hooks)
    pods = {each["metadata"]["name"] for each in hooks if each["kind"] == "Pod"}

    def phases() -> set[str]:
        return {pod["status"]["phase"] for pod in namespace.get("pods") if pod["metadata"]["name"] in pods}

    wait_until("the hooks", lambda: phases() <= {"Succeeded", "Failed"}, seconds=180, pause=0.5)
    return phases() <= {"Succeeded"}


def _delete(namespace: Namespace, hooks: list[Object], policy: str) -> None:
    if doomed := [each for each in hooks if policy in _annotation(each, "hook-delete-policy").split(",")]:
        _kubectl(namespace, doomed, "delete", "--ignore-not-found")


def _apply(namespace: Namespace, objects: list[Object]) -> None:
    _kubectl(namespace, objects, "apply")


def _kubectl(namespace: Namespace, objects: list[Object], *words: str) -> None:
    client.kubectl("-n", namespace.name, *words, "-f", "-", stdin=yaml.safe_dump_all(objects))
