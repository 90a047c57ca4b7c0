"""Test how the values and the cluster determine the job's kind and API version, and test features of single kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, MPI, REPLACED, every_kind
from tests.chart.rendering import refusal, render, render_with, set_arguments

REAL_CLUSTER = ("--api-versions", "apiregistration.k8s.io/v1")
PS = "strategy=parameter-server"


def serving(*kinds: str) -> list[str]:
    return [word for kind in kinds for word in ("--api-versions", f"kubeflow.org/{kind}")]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param((), "MPIJob", id="tensorflow"),
        pytest.param(("framework=mxnet",), "MPIJob", id="mxnet"),
        pytest.param(("framework=pytorch",), "PyTorchJob", id="pytorch"),
        pytest.param(("framework=pytorch", "job.kind=MPIJob"), "MPIJob", id="pytorch-with-horovod"),
        pytest.param(("framework=pytorch", "job.kind=Plain"), "Job", id="pytorch-without-operators"),
        pytest.param((PS,), "TFJob", id="tensorflow-with-servers"),
        pytest.param(("framework=mxnet", PS), "MXJob", id="mxnet-with-servers"),
    ],
)
def test_kind_follows_framework_and_strategy(helm: Path, values: tuple[str, ...], kind: str) -> None:
    assert render_with(helm, values).job["kind"] == kind


@every_kind
def test_image_and_trainer_follow_the_framework(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])
    framework = "pytorch" if "pytorch" in kind else "mxnet" if "mxjob" in kind else "tensorflow"

    assert {pod["containers"][0]["image"] for pod in rendered.pods().values()} == {f"distrain/{framework}:0.1.0"}
    assert f"--framework={framework}" in rendered.text


@pytest.mark.parametrize(
    ("values", "newest"),
    [
        pytest.param((), "v2beta1", id="mpijob"),
        pytest.param(("framework=pytorch",), "v1", id="pytorchjob"),
        pytest.param(("framework=mxnet", PS), "v1", id="mxjob"),
        pytest.param((PS,), "v1", id="tfjob"),
    ],
)
def test_offline_the_newest_version_is_rendered(helm: Path, values: tuple[str, ...], newest: str) -> None:
    assert render_with(helm, values).job["apiVersion"] == f"kubeflow.org/{newest}"


@pytest.mark.parametrize("real", [(), REAL_CLUSTER], ids=["offline", "cluster"])
@pytest.mark.parametrize(
    ("values", "served"),
    [
        pytest.param((), "v2beta1/MPIJob", id="mpi-operator"),
        pytest.param((), "v1/MPIJob", id="training-operator"),
        pytest.param((), "v1alpha2/MPIJob", id="old-mpi-operator"),
        pytest.param(("framework=mxnet", PS), "v1beta1/MXJob", id="mxnet-operator"),
        pytest.param(("framework=pytorch",), "v1/PyTorchJob", id="pytorch"),
    ],
)
def test_version_that_is_served_is_rendered(
    helm: Path, real: tuple[str, ...], values: tuple[str, ...], served: str
) -> None:
    version, kind = served.split("/")

    job = render(helm, *set_arguments(*values), *serving(served), *real).job

    assert (job["apiVersion"], job["kind"]) == (f"kubeflow.org/{version}", kind)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(
            (),
            "job.kind: this cluster does not serve MPIJob; install mpi-operator 0.4.0 or newer "
            "(https://github.com/kubeflow/mpi-operator), or --set job.kind=Plain\n",
            id="mpijob",
        ),
        pytest.param(
            ("framework=pytorch",),
            "job.kind: this cluster does not serve PyTorchJob; install the training-operator 1.8.1 or 1.9 "
            "(https://github.com/kubeflow/trainer/tree/release-1.9), or --set job.kind=Plain with an image that has "
            "Horovod, Open MPI and an SSH server\n",
            id="pytorchjob",
        ),
        pytest.param(
            ("framework=mxnet", PS),
            "job.kind: this cluster does not serve MXJob; install the training-operator 1.8.1, the last that has it",
            id="mxjob",
        ),
        pytest.param(
            (PS,), "job.kind: this cluster does not serve TFJob; install the training-operator 1.8.1 or 1.9", id="tfjob"
        ),
    ],
)
def test_cluster_without_the_operator_is_refused(helm: Path, values: tuple[str, ...], words: str) -> None:
    message = refusal(helm, *set_arguments(*values), *REAL_CLUSTER, *serving("v1/XGBoostJob"))

    assert f"distrain: {words}" in message
    assert ("Plain" in message) == (PS not in values)


@pytest.mark.parametrize("real", [(), REAL_CLUSTER], ids=["offline", "cluster"])
def test_of_two_versions_of_mpijob_none_is_guessed(helm: Path, real: tuple[str, ...]) -> None:
    both = (*real, *serving("v1/MPIJob", "v2beta1/MPIJob"))

    message = refusal(helm, *both)

    assert "distrain: job.apiVersion: this cluster serves MPIJob in v2beta1, v1 and does not tell which" in message
    assert render(helm, *both, "--set", "job.apiVersion=v1").job["apiVersion"] == "kubeflow.org/v1"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_version_that_is_named_is_not_looked_for(helm: Path, kind: str) -> None:
    version = render_with(helm, KINDS[kind]).job["apiVersion"].split("/")[1]

    rendered = render(helm, *set_arguments(*KINDS[kind], f"job.apiVersion={version}"), *REAL_CLUSTER)

    assert rendered.name == render_with(helm, KINDS[kind]).name


def test_plain_needs_no_operator(helm: Path) -> None:
    assert render(helm, *set_arguments(*KINDS["plain"]), *REAL_CLUSTER).is_plain


def test_without_a_job_nothing_of_it_is_there(helm: Path) -> None:
    rendered = render_with(helm, ("job.enabled=false", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}"))

    assert set(rendered.kinds()) <= {"ClusterRole"}


@every_kind
def test_scripts_are_those_that_the_pods_start_with(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    assert ("distrain-launch: |" in rendered.text) == (kind in MPI)
    assert ("distrain-run: |" in rendered.text) == (kind in REPLACED)
    assert ("distrain-torchrun: |" in rendered.text) == (kind == "pytorchjob-elastic")
    for role, pod in rendered.pods().items():
        (path,) = rendered.container(role)["command"]
        assert path.removeprefix("/opt/distrain/bin/") in rendered.scripts["data"]
        assert rendered.scripts["metadata"]["name"] in str(pod["volumes"])


@pytest.mark.parametrize("kind", [*REPLACED, "pytorchjob-elastic"])
def test_program_is_started_again_in_its_pod(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], "job.maxRestarts=3", "job.restartWindow=60"))

    # The user's image may lack torchrun. The script's message about this names the image, so the script gets `--image`.
    image = ["--image=distrain/pytorch:0.1.0"] if kind.startswith("pytorchjob") else []
    for role in rendered.replicas:
        args = rendered.container(role)["args"]
        assert args[: args.index("--")] == ["--max-restarts=3", "--restart-window=60", *image]


@pytest.mark.parametrize("kind", ["mpijob-v1", "mpijob-v1alpha2"])
def test_older_mpijobs_start_their_ranks_with_kubectl(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    args = rendered.container("Launcher")["args"]
    assert args[:2] == ["--rsh=kubexec", "--workers-timeout=1800"]
    assert rendered.container("Worker")["args"] == ["--no-sshd", "--grace=55"]
    assert rendered.job["spec"]["mainContainer"] == rendered.container("Worker")["name"]
    assert "ssh" not in str(rendered.pod("Worker")["volumes"])


def test_mpijob_v2beta1_and_plain_start_them_through_ssh(helm: Path) -> None:
    for kind in ("mpijob-v2beta1", "plain"):
        args = render_with(helm, KINDS[kind]).container("Launcher")["args"]
        assert args[:2] == ["--rsh=ssh", "--ssh-port=2222"]


@pytest.mark.parametrize("kind", ["mpijob-v2beta1", "mpijob-v1", "mpijob-v1alpha2", "plain"])
def test_launcher_waits_as_long_as_asked(helm: Path, kind: str) -> None:
    values = (*KINDS[kind], "launcher.workersTimeout=1000000")

    assert "--workers-timeout=1000000" in render_with(helm, values).container("Launcher")["args"]


RUN_POLICY = ("job.maxRestarts=1", "job.activeDeadlineSeconds=1000000")


@pytest.mark.parametrize("kind", ["pytorchjob-elastic", "pytorchjob-master", "mxjob-v1", "tfjob", "mpijob-v1"])
def test_training_operators_run_policy_has_no_limit_of_its_own(helm: Path, kind: str) -> None:
    spec = render_with(helm, (*KINDS[kind], "job.maxRestarts=1")).job["spec"]

    assert spec["runPolicy"] == {"cleanPodPolicy": "Running"}
    assert render_with(helm, KINDS[kind]).job["spec"]["runPolicy"] == {"cleanPodPolicy": "Running"}


def test_mpijob_v1_says_cleanpodpolicy_where_either_operator_reads_it(helm: Path) -> None:
    spec = render_with(helm, (*KINDS["mpijob-v1"], "job.cleanPodPolicy=All")).job["spec"]

    assert spec["cleanPodPolicy"] == spec["runPolicy"]["cleanPodPolicy"] == "All"


def test_mpijob_v1alpha2_has_its_run_policy_in_spec(helm: Path) -> None:
    spec = render_with(helm, (*KINDS["mpijob-v1alpha2"], *RUN_POLICY)).job["spec"]

    assert (spec["cleanPodPolicy"], spec["backoffLimit"], spec["activeDeadlineSeconds"]) == ("Running", 1, 1000000)
    assert "runPolicy" not in spec


def test_mxjob_v1beta1_has_its_clean_pod_policy_in_spec(helm: Path) -> None:
    spec = render_with(helm, KINDS["mxjob-v1beta1"]).job["spec"]

    assert set(spec) == {"jobMode", "cleanPodPolicy", "mxReplicaSpecs"}
    assert spec["jobMode"] == "MXTrain"


def test_ended_launcher_of_v2beta1_is_deleted_when_asked(helm: Path) -> None:
    spec = render_with(helm, ("job.ttlSecondsAfterFinished=0",)).job["spec"]

    assert spec["runPolicy"]["ttlSecondsAfterFinished"] == 0


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param("pytorchjob-elastic", {"Worker": 3}, id="elastic"),
        pytest.param("pytorchjob-master", {"Master": 1, "Worker": 2}, id="master"),
        pytest.param("mxjob-v1", {"Scheduler": 1, "Server": 1, "Worker": 3}, id="mxjob"),
        pytest.param("tfjob", {"Chief": 1, "PS": 1, "Worker": 3}, id="tfjob"),
        pytest.param("mpijob-v1", {"Launcher": 1, "Worker": 3}, id="mpijob"),
    ],
)
def test_replicas_count_all_that_train(helm: Path, kind: str, size: dict[str, int]) -> None:
    rendered = render_with(helm, (*KINDS[kind], "workers.replicas=3"))

    assert {role: replica["replicas"] for role, replica in rendered.replicas.items()} == size


def test_master_may_be_alone(helm: Path) -> None:
    rendered = render_with(helm, (*KINDS["pytorchjob-master"], "workers.replicas=1"))

    assert set(rendered.replicas) == {"Master"}


def test_chief_servers_and_scheduler_have_no_gpus(helm: Path) -> None:
    for kind in ("tfjob", "mxjob-v1"):
        for role, pod in render_with(helm, KINDS[kind]).pods().items():
            assert ("nvidia.com/gpu" in str(pod)) == (role == "Worker")


def test_restarts_of_an_elastic_job_are_counted_by_the_pods(helm: Path) -> None:
    """torchrun counts a restart even if the ranks only stop at a step boundary."""
    rendered = render_with(helm, (*KINDS["pytorchjob-elastic"], "job.maxRestarts=3"))

    assert rendered.job["spec"]["elasticPolicy"]["maxRestarts"] == 1_000_000


def test_workers_that_come_later_learn_where_rank_0_is(helm: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/135712"""
    rendered = render_with(helm, KINDS["pytorchjob-elastic"])

    assert {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"} in rendered.container("Worker")["env"]


def test_pod_of_an_elastic_job_is_ready_for_sigterm_before_it_comes(helm: Path) -> None:
    """The operator of an elastic job may delete pods that it has just created.

    Pods of all other kinds of job are deleted only together with the job.
    """
    elastic, master = (render_with(helm, KINDS[kind]) for kind in ("pytorchjob-elastic", "pytorchjob-master"))

    assert "\n  distrain_sigterm.py: |" in elastic.text
    [worker] = elastic.job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert worker["lifecycle"]["preStop"]["exec"]["command"] == ["python3", "/opt/distrain/bin/distrain_sigterm.py"]
    for replica in master.job["spec"]["pytorchReplicaSpecs"].values():
        assert "lifecycle" not in replica["template"]["spec"]["containers"][0]


def test_elastic_policy_has_the_range_of_the_values(helm: Path) -> None:
    values = ("workers.minReplicas=2", "workers.maxReplicas=8", "workers.gpus=4")

    spec = render_with(helm, (*KINDS["pytorchjob-elastic"], *values)).job["spec"]

    policy = spec["elasticPolicy"]
    conf = {one["key"]: one["value"] for one in policy["rdzvConf"]}
    assert (policy["minReplicas"], policy["maxReplicas"], policy["rdzvBackend"]) == (2, 8, "c10d")
    assert (conf["last_call_timeout"], conf["join_timeout"]) == ("3", "1800")
    assert spec["nprocPerNode"] == "4"


COMMAND = "command={train,--epochs,10}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(
            ("framework=pytorch",), ["torchrun", "-m", "distrain_trainer", "--framework=pytorch"], id="trainer"
        ),
        pytest.param(
            ("framework=pytorch", COMMAND), ["torchrun", "--no-python", "train", "--epochs", "10"], id="own-command"
        ),
        pytest.param(
            ("framework=pytorch", "job.elastic=false"), ["python3", "-m", "distrain_trainer"], id="trainer-with-master"
        ),
        pytest.param(
            ("framework=pytorch", "job.elastic=false", "workers.gpus=2"),
            ["torchrun", "-m", "distrain_trainer"],
            id="trainer-with-master-and-two-ranks-per-pod",
        ),
        pytest.param(
            ("framework=pytorch", "job.elastic=false", COMMAND), ["train", "--epochs", "10"], id="one-rank-per-pod"
        ),
        pytest.param(
            ("framework=pytorch", "job.elastic=false", COMMAND, "workers.gpus=2"),
            ["torchrun", "--no-python", "train", "--epochs", "10"],
            id="two-ranks-per-pod",
        ),
        pytest.param((PS,), ["python3", "-m", "distrain_trainer", "--framework=tensorflow", f"--{PS}"], id="tfjob"),
        pytest.param((PS, COMMAND), ["train", "--epochs", "10"], id="own-command-of-a-tfjob"),
    ],
)
def test_ranks_are_started_as_the_operator_expects(helm: Path, values: tuple[str, ...], words: list[str]) -> None:
    rendered = render_with(helm, values)

    for role in rendered.replicas:
        container = rendered.container(role)
        started = [*container["command"], *container.get("args", [])]
        program = started[started.index("--") + 1 :] if "args" in container else started
        assert program[: len(words)] == words


GANGS = [kind for kind in KINDS if kind not in ("mpijob-v1alpha2", "mxjob-v1beta1", "plain")]


@pytest.mark.parametrize("kind", GANGS)
def test_gang_is_all_pods_of_the_job(helm: Path, kind: str) -> None:
    values = (*KINDS[kind], "gang.scheduler=volcano", "gang.queue=team", "gang.priorityClass=high")
    rendered = render_with(helm, values)

    pods = sum(replica["replicas"] for replica in rendered.replicas.values())
    policy = rendered.job["spec"]["runPolicy"]["schedulingPolicy"]
    assert policy == {"minAvailable": pods, "queue": "team", "priorityClass": "high"}
    # mpi-operator itself sets schedulerName in the pods, so the chart leaves it out.
    expected = None if kind == "mpijob-v2beta1" else "volcano"
    assert {pod.get("schedulerName") for pod in rendered.pods().values()} == {expected}


def test_gang_scheduler_may_have_another_name(helm: Path) -> None:
    values = ("framework=pytorch", "gang.scheduler=scheduler-plugins", "gang.schedulerName=mine")

    assert render_with(helm, values).pod("Worker")["schedulerName"] == "mine"


KUEUE = ("mpijob-v2beta1", "pytorchjob-elastic", "pytorchjob-master", "mxjob-v1", "tfjob")


@pytest.mark.parametrize("kind", KUEUE)
def test_job_of_another_size_is_replaced_under_kueue(helm: Path, kind: str) -> None:
    queue = (*KINDS[kind], "gang.scheduler=kueue", "gang.queue=team")

    contents = {render_with(helm, (*queue, f"workers.replicas={size}")).content for size in (2, 3)}

    assert len(contents) == 2


@pytest.mark.parametrize("kind", KUEUE)
def test_kueue_finds_its_queue_on_the_job(helm: Path, kind: str) -> None:
    values = (*KINDS[kind], "gang.scheduler=kueue", "gang.queue=team", "gang.priorityClass=high")
    rendered = render_with(helm, values)

    labels = rendered.job["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "team"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert "suspend" not in rendered.text
    assert "schedulingPolicy" not in rendered.text


def test_one_interface_is_for_all_traffic(helm: Path) -> None:
    one = render_with(helm, ("network.interface=eth0",)).mpirun
    several = render_with(helm, ("network.excludeInterfaces={lo,docker0}",)).mpirun
    none = render_with(helm, ("network.excludeInterfaces=null",)).mpirun

    assert [word for word in one if "_if_" in word] == ["btl_tcp_if_include", "oob_tcp_if_include"]
    assert one[one.index("oob_tcp_if_include") + 1] == "eth0"
    assert [word for word in several if "_if_" in word] == ["btl_tcp_if_exclude", "oob_tcp_if_exclude"]
    assert several[several.index("btl_tcp_if_exclude") + 1] == "lo,docker0"
    assert "_if_" not in str(none)
