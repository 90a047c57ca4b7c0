"""Test Plain: the chart creates the objects that an MPI operator would create, from built-in kinds only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chart.documents import RUN1
from tests.chart.kinds import KINDS
from tests.chart.rendering import Rendered, render, render_with

PLAIN = KINDS["plain"]


def plain(helm: Path, *more: str) -> Rendered:
    return render_with(helm, (*PLAIN, *more))


def test_all_that_the_job_needs_is_there(helm: Path) -> None:
    assert plain(helm).kinds() == [
        "ConfigMap", "ConfigMap", "Job", "Job", "Job", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount",
        "ServiceAccount",
    ]  # fmt: skip


def test_hostfile_names_every_worker_as_dns_does(helm: Path) -> None:
    rendered = render(helm, "--namespace", "team", "--set", "job.kind=Plain", "--set", "workers.gpus=4")
    job = rendered.name

    assert rendered.find("ConfigMap", "-hostfile")["data"]["hostfile"].splitlines() == [
        f"{job}-worker-0.{job}.team.svc slots=4",
        f"{job}-worker-1.{job}.team.svc slots=4",
    ]
    service = rendered.find("Service")
    assert service["metadata"]["name"] == job
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": f"{job}-worker"},
    }
    assert rendered.pod("Worker")["subdomain"] == job


def test_open_mpi_keeps_the_whole_host_name(helm: Path) -> None:
    rendered = plain(helm)

    assert rendered.env("Launcher")["OMPI_MCA_orte_keep_fqdn_hostnames"]["value"] == "true"
    assert "OMPI_MCA_orte_keep_fqdn_hostnames" not in rendered.env("Worker")


def test_launcher_finds_hostfile_and_key(helm: Path) -> None:
    rendered = plain(helm)

    mounts = {mount["name"]: mount["mountPath"] for mount in rendered.container("Launcher")["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in rendered.pod("Launcher")["volumes"]}
    assert volumes["mpi-job-config"]["configMap"]["name"] == f"{rendered.name}-hostfile"
    assert mounts["mpi-job-config"] == "/etc/mpi"
    assert mounts["ssh-auth"] == "/home/distrain/.ssh"
    assert "--ssh-folder=/home/distrain/.ssh" in rendered.container("Launcher")["args"]


@pytest.mark.parametrize(
    ("values", "mode", "folder"),
    [
        pytest.param((), 0o440, "/home/distrain/.ssh", id="user"),
        pytest.param(("podSecurity=baseline",), 0o400, "/root/.ssh", id="root"),
    ],
)
@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_key_is_accepted_by_ssh(helm: Path, values: tuple[str, ...], mode: int, folder: str, role: str) -> None:
    rendered = plain(helm, *values)

    (volume,) = [volume for volume in rendered.pod(role)["volumes"] if volume["name"] == "ssh-auth"]
    assert volume["secret"]["defaultMode"] == mode
    # The Secret's volume lists each file by name, so that kubelet starts the pod only when all files exist.
    assert [item["key"] for item in volume["secret"]["items"]] == ["id_rsa", "id_rsa.pub", "authorized_keys"]
    assert {"name": "ssh-auth", "mountPath": folder, "readOnly": True} in rendered.container(role)["volumeMounts"]
    # With fsGroup, kubelet would let a group read root's key.
    assert ("fsGroup" in rendered.pod(role)["securityContext"]) == (mode == 0o440)


def test_no_key_is_stored_by_helm(helm: Path) -> None:
    secret = plain(helm).find("Secret")

    assert secret["metadata"]["name"] == "run1-plain-ssh"
    assert not {"data", "stringData"} & set(secret)


def test_key_is_made_in_the_cluster_with_rights_on_that_secret_alone(helm: Path) -> None:
    rendered = plain(helm)

    container = rendered.container("Keygen")
    assert container["command"] == ["/opt/distrain/bin/distrain-keygen"]
    assert container["args"] == ["--secret=run1-plain-ssh"]
    # distrain-keygen imports distrain_kube.py.
    assert {"distrain-keygen", "distrain_kube.py"} <= set(rendered.scripts["data"])
    assert all(rendered.scripts["data"].values())
    (rule,) = rendered.find("Role")["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["run1-plain-ssh"],
        "verbs": ["get", "patch"],
    }
    binding = rendered.find("RoleBinding")
    assert binding["roleRef"]["name"] == rendered.find("Role")["metadata"]["name"] == f"run1-keygen-{RUN1}"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": f"run1-keygen-{RUN1}", "namespace": "default"}]


def test_own_secret_replaces_the_generated_one(helm: Path) -> None:
    rendered = plain(helm, "ssh.secretName=mine")

    assert not {"Secret", "Role", "RoleBinding"} & set(rendered.kinds())
    assert set(rendered.replicas) == {"Launcher", "Worker"}
    assert not {"distrain-keygen", "distrain_kube.py"} & set(rendered.scripts["data"])
    for role in rendered.replicas:
        (volume,) = [volume for volume in rendered.pod(role)["volumes"] if volume["name"] == "ssh-auth"]
        assert volume["secret"]["secretName"] == "mine"


def test_workers_are_as_many_pods_as_asked_with_an_index_each(helm: Path) -> None:
    spec = plain(helm, "workers.replicas=3").replicas["Worker"]

    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_workers_end_with_the_launcher(helm: Path) -> None:
    rendered = plain(helm, "job.maxRestarts=2", "job.activeDeadlineSeconds=60")

    launcher, worker = rendered.replicas["Launcher"], rendered.replicas["Worker"]
    args = rendered.container("Launcher")["args"]
    assert {"--rsh=ssh", "--end-workers", "--max-restarts=2"} <= set(args[: args.index("mpirun")])
    fails, killed, lost = worker["podFailurePolicy"]["rules"]
    assert fails == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "worker", "operator": "In", "values": [3]},
    }
    killed_or_deleted = {"containerName": "worker", "operator": "In", "values": [137, 143]}
    assert killed == {"action": "Ignore", "onExitCodes": killed_or_deleted}
    assert lost == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert launcher["activeDeadlineSeconds"] == worker["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize("restarts", [0, 10])
def test_launcher_is_recreated_by_kubernetes_only_when_it_was_killed_or_deleted(helm: Path, restarts: int) -> None:
    """If Kubernetes gave up after `restarts` killed launchers, nobody would tell the workers to end."""
    launcher = plain(helm, f"job.maxRestarts={restarts}").replicas["Launcher"]

    assert launcher["backoffLimit"] == 1000000
    assert launcher["template"]["spec"]["restartPolicy"] == "Never"
    pushed_out, failed = launcher["podFailurePolicy"]["rules"]
    assert pushed_out == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    others = {"containerName": "launcher", "operator": "NotIn", "values": [137, 143]}
    assert failed == {"action": "FailJob", "onExitCodes": others}


def test_volcanos_group_holds_all_pods_but_the_keys(helm: Path) -> None:
    values = ("gang.scheduler=volcano", "gang.queue=team", "gang.priorityClass=high", "workers.replicas=3")
    rendered = plain(helm, *values)

    group = rendered.find("PodGroup")
    assert group["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert group["spec"] == {"minMember": 4, "queue": "team", "priorityClassName": "high"}
    for role in ("Launcher", "Worker"):
        assert rendered.pod(role)["schedulerName"] == "volcano"
        annotation = rendered.metadata(role)["annotations"]["scheduling.k8s.io/group-name"]
        assert annotation == group["metadata"]["name"]
    assert "schedulerName" not in rendered.pod("Keygen")
    assert "scheduling" not in json.dumps(rendered.metadata("Keygen"))


def test_scheduler_plugins_group_is_found_by_a_label(helm: Path) -> None:
    rendered = plain(helm, "gang.scheduler=scheduler-plugins")

    group = rendered.find("PodGroup")
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert group["spec"] == {"minMember": 3}
    for role in ("Launcher", "Worker"):
        assert rendered.pod(role)["schedulerName"] == "scheduler-plugins-scheduler"
        assert rendered.metadata(role)["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert "scheduling" not in json.dumps(rendered.metadata("Keygen"))
