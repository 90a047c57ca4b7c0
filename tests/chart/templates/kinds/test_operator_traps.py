"""Test known traps of the operators: the chart sets the correct field, refuses the values, or prints a note.

Each trap has one test. A test's name contains the number and the name of the trap. If an issue reports the trap, the
test's docstring links to it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, MPI, TRAINING_OPERATOR, every_kind
from tests.chart.notes import notes
from tests.chart.rendering import CHART, REPOSITORY, refusal, render, render_with, set_arguments

GANG = "gang.scheduler=volcano"


def test_01_two_mpijob_versions_are_never_guessed(helm: Path) -> None:
    """https://github.com/kubeflow/trainer/issues/1930, https://github.com/kubernetes-sigs/kueue/issues/13035"""
    both = ("--api-versions", "kubeflow.org/v1/MPIJob", "--api-versions", "kubeflow.org/v2beta1/MPIJob")

    assert "job.apiVersion: this cluster serves MPIJob in v2beta1, v1" in refusal(helm, *both)
    queue = ("job.apiVersion=v1", "gang.scheduler=kueue", "gang.queue=team")
    assert "kueue manages only MPIJob v2beta1" in refusal(helm, *set_arguments(*queue))


@pytest.mark.parametrize("values", [(), (GANG,)], ids=["alone", "gang"])
def test_02_launcher_of_a_gang_does_not_wait_for_ready_workers(helm: Path, values: tuple[str, ...]) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/608"""
    assert render_with(helm, values).job["spec"]["launcherCreationPolicy"] == "AtStartup"


def test_03_open_mpi_5_gets_its_hosts_by_its_own_names(helm: Path) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/842"""
    script = render(helm).scripts["data"]["distrain-launch"]

    assert "PRTE_MCA_prte_default_hostfile" in script
    assert "PRTE_MCA_prte_keep_fqdn_hostnames" in script


@pytest.mark.parametrize("kind", MPI)
def test_04_launcher_waits_until_the_workers_have_their_names(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/481"""
    container = render_with(helm, KINDS[kind]).container("Launcher")

    assert container["command"] == ["/opt/distrain/bin/distrain-launch"]
    assert "--workers-timeout=1800" in container["args"]


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        pytest.param((), "/home/distrain/.ssh", id="user"),
        pytest.param(("podSecurity=baseline",), "/root/.ssh", id="root"),
        pytest.param(("podSecurity=baseline", "runAsUser=7"), "/home/distrain/.ssh", id="another-user"),
    ],
)
def test_05_key_is_mounted_where_ssh_accepts_its_mode(helm: Path, values: tuple[str, ...], folder: str) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/429, https://github.com/kubeflow/mpi-operator/issues/472"""
    rendered = render_with(helm, values)

    assert rendered.job["spec"]["sshAuthMountPath"] == folder
    for role in ("Launcher", "Worker"):
        assert f"--ssh-folder={folder}" in rendered.container(role)["args"]
        assert ("fsGroup" in rendered.pod(role)["securityContext"]) == (folder != "/root/.ssh")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mpijob-v2beta1"])
def test_06_time_to_live_does_not_run_a_job_again(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/644"""
    message = refusal(helm, *set_arguments(*KINDS[kind], "job.ttlSecondsAfterFinished=60"))

    assert "job.ttlSecondsAfterFinished: 60 is set, but it would delete the whole" in message


def test_07_clean_all_is_not_promised_where_the_launcher_stays(helm: Path) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/643"""
    message = refusal(helm, "--set", "job.cleanPodPolicy=All")

    assert "job.cleanPodPolicy: is `All`, but mpi-operator never deletes the launcher" in message


@pytest.mark.parametrize("kind", TRAINING_OPERATOR)
def test_08_failed_pod_and_its_log_stay(helm3: Path, kind: str) -> None:
    """With backoffLimit, failed pods and their logs are deleted: https://github.com/kubeflow/trainer/issues/3419."""
    assert "backoffLimit" not in render_with(helm3, KINDS[kind]).job["spec"]["runPolicy"]


@pytest.mark.parametrize("kind", MPI)
def test_09_restarts_are_counted_by_the_launcher(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/trainer/issues/2045, https://github.com/kubeflow/trainer/issues/2342"""
    args = render_with(helm, (*KINDS[kind], "job.maxRestarts=3", "job.restartWindow=60")).container("Launcher")["args"]

    assert {"--max-restarts=3", "--restart-window=60"} <= set(args)
    # After a launcher has failed, its Job creates another launcher pod. The new launcher learns from the workers that
    # the run has ended.
    assert ("--keep-outcome" in args) == (kind in ("mpijob-v2beta1", "mpijob-v1alpha2"))


POLICIES = {
    # A failed launcher or a deleted worker makes training-operator fail the job, unless that role's restartPolicy is
    # ExitCode.
    "mpijob-v1": {"Launcher": "Never", "Worker": "ExitCode"},
    "mpijob-v1alpha2": {"Launcher": "Never", "Worker": "OnFailure"},
    "mpijob-v2beta1": {"Launcher": "Never", "Worker": "OnFailure"},
}


@pytest.mark.parametrize("limit", [0, 3])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_10_restart_policy_is_always_said(helm3: Path, kind: str, limit: int) -> None:
    """https://github.com/kubeflow/trainer/issues/2127"""
    rendered = render_with(helm3, (*KINDS[kind], f"job.maxRestarts={limit}"))

    policies = {role: replica["restartPolicy"] for role, replica in rendered.replicas.items()}
    made_anew = "ExitCode" if limit and kind != "mxjob-v1beta1" else "Never"
    assert policies == POLICIES.get(kind, dict.fromkeys(policies, made_anew))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_11_failed_job_gives_its_gpus_back(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/trainer/issues/1579"""
    spec = render_with(helm, KINDS[kind]).job["spec"]

    assert spec.get("runPolicy", spec)["cleanPodPolicy"] == "Running"
    assert spec.get("cleanPodPolicy", "Running") == "Running"


@every_kind
def test_12_mesh_leaves_the_pods_alone(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/mpi-operator/issues/407, https://github.com/kubeflow/trainer/issues/1681"""
    rendered = render_with(helm, KINDS[kind])

    for role in rendered.replicas:
        metadata = rendered.metadata(role)
        assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
        assert metadata["annotations"]["sidecar.istio.io/inject"] == "false"


@pytest.mark.parametrize(
    ("kind", "flag"),
    [("mpijob-v1", "--mpi-kubectl-delivery-image"), ("pytorchjob-master", "--pytorch-init-container-image")],
)
def test_13_image_that_the_operator_adds_is_reported(
    helm: Path, chart_with_visible_notes: Path, kind: str, flag: str
) -> None:
    """https://github.com/kubeflow/trainer/issues/1696"""
    text = notes(helm, chart_with_visible_notes, *KINDS[kind])

    assert "a node without a way to the internet does not get its image" in text
    assert f"{flag} names another." in text
    assert "does not get its image" not in notes(helm, chart_with_visible_notes, "framework=pytorch")


@every_kind
def test_14_chart_brings_no_crd(helm: Path, kind: str) -> None:
    """https://github.com/kubeflow/trainer/pull/3552"""
    assert "CustomResourceDefinition" not in render_with(helm, KINDS[kind]).text
    assert not (CHART / "crds").exists()


def test_15_rescale_of_an_elastic_job_is_reported_and_not_left_to_an_autoscaler(
    helm: Path, chart_with_visible_notes: Path
) -> None:
    """https://github.com/kubeflow/trainer/issues/1509, https://github.com/kubeflow/trainer/issues/1751"""
    policy = render_with(helm, KINDS["pytorchjob-elastic"]).job["spec"]["elasticPolicy"]

    assert "metrics" not in policy
    text = notes(helm, chart_with_visible_notes, "framework=pytorch")
    assert "\nA change of workers.replicas stops the ranks at a step boundary, and starts them at the new size" in text


def test_16_kubeflow_edit_may_use_the_jobs(helm: Path) -> None:
    """https://github.com/kubeflow/community-distribution/issues/1107"""
    role = render_with(helm, ("rbac.aggregateToKubeflowEdit=true",)).find("ClusterRole")

    assert role["metadata"]["labels"]["rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit"] == "true"
    assert role["metadata"]["name"] != "kubeflow-edit"


def test_17_no_empty_list_reaches_the_elastic_policy(helm: Path) -> None:
    """training-operator crashes if a job contains `rdzvConf: []`."""
    policy = render_with(helm, KINDS["pytorchjob-elastic"]).job["spec"]["elasticPolicy"]

    assert set(policy) == {"minReplicas", "maxReplicas", "rdzvBackend", "rdzvConf", "maxRestarts"}
    assert len(policy["rdzvConf"]) > 0


@pytest.mark.parametrize("kind", MPI)
def test_18_launcher_has_no_gpu_and_so_is_no_host(helm: Path, kind: str) -> None:
    """If the limits of an MPIJob v1's launcher contain a GPU, the operator adds the launcher to the hostfile."""
    limits = render_with(helm, (*KINDS[kind], "workers.gpus=8")).container("Launcher")["resources"]["limits"]

    assert set(limits) == {"memory"}


def test_19_failed_mpijob_whose_launcher_goes_on_is_explained_where_one_looks_for_it() -> None:
    """mpi-operator sets the condition Failed after an eviction of a worker."""
    page = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

    assert "| an MPIJob with the condition Failed while its launcher trains | mpi-operator sets this condition" in page


def test_20_launcher_is_no_worker(helm: Path) -> None:
    """With runLauncherAsWorker, mpi-operator deletes one worker too many when it scales down."""
    assert "runLauncherAsWorker" not in render(helm).text


@pytest.mark.parametrize("release", ["1run", "run.1"])
@pytest.mark.parametrize("kind", KINDS)
def test_21_release_that_makes_no_host_name_is_refused(helm3: Path, kind: str, release: str) -> None:
    """If the release's name makes no valid host name, mpi-operator only writes an event.

    test_names.py tests names that are too long.
    """
    message = refusal(helm3, *set_arguments(*KINDS[kind]), release=release)

    assert f'distrain: release name: "{release}" cannot be the host name of a pod' in message
