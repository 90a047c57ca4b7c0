"""Test jobs whose user the cluster chooses, as on OpenShift.

The user id does not exist in the image, and the group is 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.paths import CHART
from tests.cluster.testbed import LAUNCHER_JOB, PROBE_VALUES, Namespace, settings

USER = 1000660000
VALUES = {**PROBE_VALUES, "runAsUser": "cluster", "workers.replicas": 2, "workers.gpus": 2}
# This script changes rendered pods as OpenShift's admission changes them. Helm 3 runs the script as a post-renderer.
OPENSHIFT = f"""#!{sys.executable}
import sys
import yaml

def admit(node):
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        admit(inner)
    if isinstance(node, dict) and "containers" in node:
        node["securityContext"].update(runAsUser={USER}, runAsGroup=0, fsGroup={USER})

documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
admit(documents)
yaml.safe_dump_all(documents, sys.stdout)
"""


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param({}, "mpijobs", id="mpijob"),
        pytest.param({"job.kind": "Plain"}, LAUNCHER_JOB, id="plain", marks=pytest.mark.full),
    ],
)
def test_user_without_a_name_trains(
    namespace: Namespace, helm3: Path, tmp_path: Path, values: dict[str, str], kind: str
) -> None:
    openshift = tmp_path / "openshift"
    openshift.write_text(OPENSHIFT)
    openshift.chmod(0o755)
    namespace.put_probe()

    admitted = ["--post-renderer", str(openshift)]
    installed = namespace.helm(helm3, "install", "run1", str(CHART), *settings({**VALUES, **values}), *admitted)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=120) == "Succeeded", namespace.story()
    reports = namespace.reports()
    assert sorted(report["rank"] for report in reports) == [0, 1, 2, 3]
    assert {report["uid"] for report in reports} == {USER}
