"""Test runAsUser: cluster. Pods with SSH get an /etc/passwd that contains the user chosen by the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS
from tests.chart.rendering import Yaml, render_with

WITH_SSH = ("mpijob-v2beta1", "plain")
CLUSTER = "runAsUser=cluster"


def user_container(pod: Yaml) -> Yaml:
    (container,) = [one for one in pod.get("initContainers", []) if one["name"] == "distrain-user"]
    return container


@pytest.mark.parametrize("kind", WITH_SSH)
def test_every_pod_mounts_an_etc_passwd_that_an_init_container_writes(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], CLUSTER))

    assert "distrain-user" in rendered.scripts["data"]
    for role, pod in rendered.pods().items():
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        container, init = rendered.container(role), user_container(pod)
        assert init["command"] + init["args"] == ["/opt/distrain/bin/distrain-user", "/run/distrain/passwd"]
        assert (init["image"], init["securityContext"]) == (container["image"], container["securityContext"])
        assert {"name": "user", "mountPath": "/run/distrain"} in init["volumeMounts"]
        mount = {"name": "user", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True}
        assert mount in container["volumeMounts"]
        assert {"name": "user", "emptyDir": {}} in pod["volumes"]


def test_init_container_has_the_cpu_and_memory_of_the_main_one_but_no_devices(helm: Path) -> None:
    values = ("workers.gpus=8", "workers.cpu=4", "workers.memory=64Gi", "workers.resources.limits.cpu=4")

    pod = render_with(helm, (CLUSTER, *values)).pod("Worker")

    both = {"cpu": "4", "memory": "64Gi"}
    assert user_container(pod)["resources"] == {"limits": both, "requests": both}


def test_users_init_containers_come_after_it(helm: Path) -> None:
    values = (CLUSTER, "initContainers[0].name=mine", "initContainers[0].image=a")

    pods = render_with(helm, values).pods().values()

    assert {tuple(one["name"] for one in pod["initContainers"]) for pod in pods} == {("distrain-user", "mine")}


def test_home_is_a_folder_that_the_user_may_write_to(helm: Path) -> None:
    assert render_with(helm, (CLUSTER,)).env("Worker")["HOME"]["value"] == "/tmp"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(("framework=pytorch", CLUSTER), id="without-ssh"),
        pytest.param(("job.apiVersion=v1", CLUSTER), id="kubectl-exec"),
        pytest.param(("runAsUser=2000",), id="chosen-user"),
        pytest.param((), id="default"),
    ],
)
def test_other_pods_stay_as_they_are(helm: Path, values: tuple[str, ...]) -> None:
    rendered = render_with(helm, values)

    assert "distrain-user" not in rendered.scripts["data"]
    for role, pod in rendered.pods().items():
        assert "initContainers" not in pod
        assert not [mount for mount in rendered.container(role)["volumeMounts"] if mount["name"] == "user"]
        assert "HOME" not in rendered.env(role)
