"""Test a user's own image and command.

The user is root, sshd listens on port 22, and the image contains no part of distrain.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import CHART
from tests.cluster.testbed import PROBE_VALUES, Namespace, settings

POD_SECURITY = "baseline"
VALUES = {
    **PROBE_VALUES,
    "podSecurity": "baseline",
    "ssh.port": 22,
    "workers.replicas": 2,
    "workers.gpus": 2,
    "env[0].name": "PROBE_WORD",
    "env[0].value": "hello",
}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param({}, "mpijobs", id="mpijob"),
        pytest.param(
            {"job.kind": "Plain"}, "jobs -l app.kubernetes.io/component=launcher", id="plain", marks=pytest.mark.full
        ),
    ],
)
def test_root_image_runs_its_own_command(
    namespace: Namespace, helm4: Path, own_image: str, values: dict[str, str], kind: str
) -> None:
    namespace.put_probe()
    repository, _, tag = own_image.rpartition(":")
    image = {"image.repository": repository.removeprefix("docker.io/"), "image.tag": tag}

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *settings({**VALUES, **values, **image}))

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=300) == "Succeeded", namespace.story()
    reports = namespace.reports()
    assert sorted(report["rank"] for report in reports) == [0, 1, 2, 3]
    assert {(report["size"], report["uid"], report["root_is_writable"]) for report in reports} == {(4, 0, True)}
    assert {report["env"]["PROBE_WORD"] for report in reports} == {"hello"}
