"""Test rules on the containers of a role's pods (_validate-containers.tpl): each refusal, and a similar valid case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import refusal
from tests.chart.templates.validation.neighbours import assert_refused_and_neighbour_accepted

VOLUME = "volumes: [{name: a, emptyDir: {}}]"
MOUNTING = "{name: x, image: i, restartPolicy: Always, volumeMounts: [{name: a, mountPath: /a}]}"
ROOT = "podSecurity baseline makes the pods' user root; --set runAsUser=1000 or another user of the image"

CASES = {
    "root-that-must-not-be": (
        "{podSecurity: baseline, securityContext: {runAsNonRoot: true}}",
        f"securityContext.runAsNonRoot: is true, but {ROOT}",
        "{podSecurity: baseline, securityContext: {runAsNonRoot: true}, runAsUser: 1000}",
    ),
    "root-of-a-container": (
        "{podSecurity: privileged, runAsUser: 0, workers: {containerSecurityContext: {runAsNonRoot: true}}}",
        "workers.containerSecurityContext.runAsNonRoot: is true, but runAsUser is 0, which is root; --set "
        "runAsUser=1000",
        "{podSecurity: privileged, runAsUser: cluster, workers: {containerSecurityContext: {runAsNonRoot: true}}}",
    ),
    "root-of-a-role": (
        "{podSecurity: baseline, launcher: {securityContext: {runAsNonRoot: true}}}",
        f"launcher.securityContext.runAsNonRoot: is true, but {ROOT}",
        "{podSecurity: baseline, securityContext: {runAsNonRoot: true}, "
        "containerSecurityContext: {runAsNonRoot: false}}",
    ),
    "root-of-an-init-container": (
        "{podSecurity: baseline, initContainers: [{name: a, image: b, securityContext: {runAsNonRoot: true}}]}",
        "initContainers[0].securityContext: runAsNonRoot is true, but the container's user is 0, which is root; set "
        "runAsUser there to another user, or runAsNonRoot to false",
        "{podSecurity: baseline, initContainers: [{name: a, image: b, securityContext: "
        "{runAsNonRoot: true, runAsUser: 7}}]}",
    ),
    "root-of-a-sidecar-in-a-pod-without-root": (
        "{podSecurity: baseline, runAsUser: 5, securityContext: {runAsNonRoot: true}, "
        "workers: {sidecars: [{name: a, image: b, securityContext: {runAsUser: 0}}]}}",
        "workers.sidecars[0].securityContext: runAsNonRoot is true, but the container's user is 0, which is root",
        "{podSecurity: baseline, runAsUser: 5, securityContext: {runAsNonRoot: true}, "
        "workers: {sidecars: [{name: a, image: b, securityContext: {runAsUser: 0, runAsNonRoot: false}}]}}",
    ),
    "volume-that-the-launcher-lacks": (
        f"{{{VOLUME}, initContainers: [{MOUNTING}]}}",
        'initContainers[0]: mounts the volume "a", which the pods of launcher lack; add it to launcher.volumes, or',
        f"{{{VOLUME}, launcher: {{{VOLUME}}}, initContainers: [{MOUNTING}]}}",
    ),
    "volume-that-the-launcher-of-another-kind-lacks": (
        f"{{job: {{kind: Plain}}, {VOLUME}, sidecars: [{MOUNTING}]}}",
        'sidecars[0]: mounts the volume "a", which the pods of launcher lack; add it to launcher.volumes, or move',
        f"{{job: {{kind: Plain}}, {VOLUME}, workers: {{sidecars: [{MOUNTING}]}}}}",
    ),
    "volume-that-the-servers-lack": (
        f"{{strategy: parameter-server, {VOLUME}, podSpec: {{initContainers: [{MOUNTING}]}}}}",
        'podSpec.initContainers[0]: mounts the volume "a", which the pods of servers lack; add it to servers.volumes',
        f"{{framework: pytorch, {VOLUME}, podSpec: {{initContainers: [{MOUNTING}]}}}}",
    ),
    "volume-that-nobody-has": (
        f"workers: {{sidecars: [{MOUNTING}]}}",
        'workers.sidecars[0]: mounts the volume "a", which is not in workers.volumes; add it there',
        "workers: {sidecars: [{name: x, image: i, volumeMounts: [{name: shm, mountPath: /dev/shm}]}]}",
    ),
    "device-that-nobody-has": (
        "workers: {sidecars: [{name: x, image: i, volumeDevices: [{name: a, devicePath: /dev/a}]}]}",
        'workers.sidecars[0]: mounts the volume "a", which is not in workers.volumes; add it there',
        "workers: {volumes: [{name: a, persistentVolumeClaim: {claimName: b}}], "
        "sidecars: [{name: x, image: i, volumeDevices: [{name: a, devicePath: /dev/a}]}]}",
    ),
    "key-that-the-chart-does-not-mount": (
        "{framework: pytorch, workers: "
        "{sidecars: [{name: x, image: i, volumeMounts: [{name: ssh-auth, mountPath: /s}]}]}}",
        'workers.sidecars[0]: mounts the volume "ssh-auth", which is not in workers.volumes',
        "workers: {sidecars: [{name: x, image: i, volumeMounts: [{name: ssh-auth, mountPath: /s}]}]}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule_refuses_and_accepts_a_neighbour(helm: Path, tmp_path: Path, case: str) -> None:
    assert_refused_and_neighbour_accepted(helm, tmp_path, *CASES[case])


def test_value_at_the_top_is_named_once_for_all_roles(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("{podSecurity: baseline, containerSecurityContext: {runAsNonRoot: true}}", encoding="utf-8")

    assert refusal(helm, "--values", str(values)).count("distrain: containerSecurityContext.runAsNonRoot: ") == 1
