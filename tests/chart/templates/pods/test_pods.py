"""Test the pods of every kind and role: environment variables, volumes, resources and containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, MPI, SIDE, TRAINS, every_kind
from tests.chart.rendering import ENV_OF_RANKS, Yaml, containers, render, render_with


@every_kind
def test_env_reaches_every_role(helm: Path, kind: str) -> None:
    values = ("env[0].name=MINE", "env[0].value=x", "data.source=s3", "data.uri=s3://d", "network.ncclDebug=INFO")
    rendered = render_with(helm, (*KINDS[kind], *values, "network.interface=eth0"))

    for role in rendered.replicas:
        if role == "Keygen":
            assert rendered.env(role) == {}
            continue
        env = {name: variable["value"] for name, variable in rendered.env(role).items()}
        assert {"MINE": "x", "AWS_REGION": "us-east-1"}.items() <= env.items()
        network = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}
        assert role == "Launcher" or network.items() <= env.items()
        assert ("DMLC_INTERFACE" in env) == kind.startswith("mxjob")


@every_kind
def test_ranks_know_their_job_and_pod(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    for role in rendered.replicas:
        env = {one["name"]: one for one in rendered.container(role).get("env", []) if one["name"] in ENV_OF_RANKS}
        if role in ("Launcher", "Keygen"):
            assert env == {}
            continue
        assert env["DISTRAIN_JOB"]["value"] == f"{rendered.name}-{rendered.content}"
        assert env["DISTRAIN_POD_UID"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}


@every_kind
def test_checkpoints_without_a_place_lie_in_the_pods(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])
    placed = render_with(helm, (*KINDS[kind], "checkpoint.uri=s3://c"))

    assert "--checkpoint=/checkpoints/default/run1" in rendered.text
    assert "--checkpoint=s3://c/default/run1" in placed.text
    assert "/checkpoints" not in placed.text
    assert "/checkpoints" not in render_with(helm, (*KINDS[kind], "command={train}")).text
    for role in rendered.replicas:
        mounts = [mount for mount in rendered.container(role)["volumeMounts"] if mount["name"] == "checkpoints"]
        trains = role not in ("Launcher", "Keygen")
        assert mounts == ([{"name": "checkpoints", "mountPath": "/checkpoints"}] if trains else [])
        assert ({"name": "checkpoints", "emptyDir": {}} in rendered.pod(role)["volumes"]) == trains


@every_kind
def test_ranks_have_the_time_that_the_values_give(helm: Path, kind: str) -> None:
    asked = (*KINDS[kind], "workers.podSpec.terminationGracePeriodSeconds=20")

    for seconds, rendered in ((40, render_with(helm, KINDS[kind])), (20, render_with(helm, asked))):
        pods = {role: pod for role, pod in rendered.pods().items() if role != "Keygen"}
        assert {pod["terminationGracePeriodSeconds"] for pod in pods.values()} == {seconds + 15}
        if kind in MPI:
            assert f"--grace={seconds + 15}" in rendered.container("Worker")["args"]
            assert f"--grace={seconds}" in rendered.container("Launcher")["args"]


@every_kind
def test_first_container_has_the_name_that_the_operator_looks_for(helm: Path, kind: str) -> None:
    names = {"pytorchjob": "pytorch", "mxjob": "mxnet", "tfjob": "tensorflow"}

    for role, pod in render_with(helm, (*KINDS[kind], *SIDE)).pods().items():
        assert pod["containers"][0]["name"] == names.get(kind.split("-")[0], role.lower())


@every_kind
def test_training_pods_have_shared_memory_and_the_users_volumes(helm: Path, kind: str) -> None:
    values = ("workers.shm=8Gi", "volumes[0].name=v", "volumeMounts[0].name=v", "volumeMounts[0].mountPath=/v")

    for role, pod in render_with(helm, (*KINDS[kind], *values)).pods().items():
        mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert ("/dev/shm" in mounts) == (role in TRAINS)
        assert ("/v" in mounts) == (role in (*TRAINS, "Chief"))
        assert mounts >= {"/tmp"}
        names = [volume["name"] for volume in pod["volumes"]]
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == set(names)


@every_kind
def test_priority_and_pull_secrets_are_on_every_pod(helm: Path, kind: str) -> None:
    values = ("priorityClassName=high", "image.pullSecrets={login}")

    for pod in render_with(helm, (*KINDS[kind], *values)).pods().values():
        assert (pod["priorityClassName"], pod["imagePullSecrets"]) == ("high", [{"name": "login"}])


ROLE_DEFAULTS = {
    ("mpijob-v2beta1", "Launcher"): ("100m", "512Mi"),
    ("plain", "Launcher"): ("100m", "512Mi"),
    ("plain", "Keygen"): ("100m", "128Mi"),
    ("tfjob", "Chief"): ("100m", "2Gi"),
    ("tfjob", "PS"): ("1", "2Gi"),
    ("mxjob-v1", "Server"): ("1", "2Gi"),
    ("mxjob-v1", "Scheduler"): ("100m", "1Gi"),
}


@pytest.mark.parametrize(("kind", "role"), ROLE_DEFAULTS, ids="-".join)
def test_roles_without_gpus_have_resources_by_default(helm: Path, kind: str, role: str) -> None:
    cpu, memory = ROLE_DEFAULTS[kind, role]

    assert render_with(helm, KINDS[kind]).container(role)["resources"] == {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"memory": memory},
    }


def test_servers_and_scheduler_follow_their_values(helm: Path) -> None:
    values = ("servers.replicas=3", "servers.cpu=4", "scheduler.memory=3Gi", "servers.nodeSelector.pool=cpu")

    rendered = render_with(helm, (*KINDS["mxjob-v1"], *values))

    assert rendered.replicas["Server"]["replicas"] == 3
    assert rendered.container("Server")["resources"]["requests"] == {"cpu": "4", "memory": "2Gi"}
    assert rendered.container("Scheduler")["resources"]["limits"] == {"memory": "3Gi"}
    assert rendered.pod("Server")["nodeSelector"] == {"pool": "cpu"}
    assert "nodeSelector" not in rendered.pod("Worker")


def test_podspec_fields_reach_the_training_pods(helm: Path) -> None:
    values = ("workers.podSpec.runtimeClassName=nvidia", "workers.podSpec.terminationGracePeriodSeconds=1000000")

    rendered = render_with(helm, (*KINDS["pytorchjob-master"], *values))

    for role in TRAINS:
        pod = rendered.pod(role)
        assert (pod["runtimeClassName"], pod["terminationGracePeriodSeconds"]) == ("nvidia", 1000015)
    assert "runtimeClassName" not in render_with(helm, values).pod("Launcher")


def test_pod_on_the_nodes_network_still_knows_the_clusters_names(helm: Path) -> None:
    values = ("podSecurity=privileged", "workers.podSpec.hostNetwork=true")

    ours = render_with(helm, values).pod("Worker")
    theirs = render_with(helm, (*values, "workers.podSpec.dnsPolicy=Default")).pod("Worker")

    assert (ours["hostNetwork"], ours["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert theirs["dnsPolicy"] == "Default"


@pytest.mark.parametrize("kind", MPI)
def test_ssh_port_on_the_nodes_network_is_told_to_the_scheduler(helm: Path, kind: str) -> None:
    network = ("podSecurity=privileged", "workers.podSpec.hostNetwork=true", "monitoring.podMonitor=true")
    uses_ssh = kind in ("mpijob-v2beta1", "plain")
    port = ("ssh.port=2022",) if uses_ssh else ()

    rendered = render_with(helm, (*KINDS[kind], *network, *port))

    ssh = [{"name": "ssh", "containerPort": 2022}] if uses_ssh else []
    assert rendered.container("Worker")["ports"] == [*ssh, {"name": "metrics", "containerPort": 9400}]
    assert "ports" not in rendered.container("Launcher")
    assert "ports" not in render_with(helm, (*KINDS[kind], *port)).container("Worker")


def test_training_container_has_the_pods_resource_claims(helm: Path) -> None:
    values = ("workers.gpus=0", "workers.podSpec.resourceClaims[0].name=gpu", *SIDE)

    rendered = render_with(helm, (*values, "workers.podSpec.resourceClaims[0].resourceClaimName=gpus"))

    worker, side = rendered.pod("Worker")["containers"]
    assert worker["resources"]["claims"] == [{"name": "gpu"}]
    assert "resources" not in side
    assert "claims" not in rendered.container("Launcher")["resources"]


def test_large_numbers_of_a_values_file_stay_whole(helm: Path, tmp_path: Path) -> None:
    # Helm reads every number as a float. Without a conversion, it would print the number as 2e+09.
    values = tmp_path / "values.yaml"
    values.write_text(
        """runAsUser: 2000000000
job: {activeDeadlineSeconds: 31000000}
workers:
  evictAfterSeconds: 3600000
  podSpec: {terminationGracePeriodSeconds: 1000000}
  sidecars: [{name: side, image: side, securityContext: {runAsUser: 1000650000}}]
"""
    )

    rendered = render(helm, "--values", str(values))

    pod = rendered.pod("Worker")
    assert pod["securityContext"]["runAsUser"] == 2000000000
    assert pod["terminationGracePeriodSeconds"] == 1000015
    assert pod["containers"][1]["securityContext"]["runAsUser"] == 1000650000
    assert {one["tolerationSeconds"] for one in pod["tolerations"]} == {3600000}
    assert rendered.job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 31000000
    assert "e+" not in rendered.text


NULLS = (
    "workers.podSpec", "workers.sidecars", "workers.affinity", "workers.tolerations", "workers.nodeSelector",
    "workers.evictAfterSeconds", "image.pullSecrets", "volumes", "volumeMounts", "env", "podLabels", "podAnnotations",
    "mpi.mca", "mpi.env", "mpi.flags", "network.excludeInterfaces",
)  # fmt: skip


@every_kind
def test_null_is_as_good_as_empty(helm3: Path, kind: str) -> None:
    rendered = render_with(helm3, (*KINDS[kind], *(f"{path}=null" for path in NULLS)))

    for pod in rendered.pods().values():
        assert not {"tolerations", "affinity", "nodeSelector", "initContainers", "imagePullSecrets"} & set(pod)
        assert len(pod["containers"]) == 1


@every_kind
def test_ranks_are_told_how_many_gpus_their_pod_asked_for(helm: Path, kind: str) -> None:
    # In a TFJob the trainer uses one GPU per worker.
    gpus = "1" if kind == "tfjob" else "3"
    with_gpus = render_with(helm, (*KINDS[kind], f"workers.gpus={gpus}")).pods()
    without = render_with(helm, (*KINDS[kind], "workers.gpus=0")).pods()

    told = {role: told_gpus(pod) for role, pod in with_gpus.items()}
    assert told == {role: {gpus} if role in TRAINS else set() for role in with_gpus}
    assert not [role for role, pod in without.items() if told_gpus(pod)]


def told_gpus(pod: Yaml) -> set[str]:
    return {
        each["value"]
        for container in containers(pod)
        for each in container.get("env", [])
        if each["name"] == "DISTRAIN_GPUS"
    }
