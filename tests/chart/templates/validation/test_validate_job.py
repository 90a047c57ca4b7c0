"""Test rules on the job and its kind (templates/validate): the message of each refusal, and a similar accepted case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import CHART
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import refusal, render_with, set_arguments

PYTORCH = "framework=pytorch"
MASTER = "job.elastic=false"
PLAIN = "job.kind=Plain"
V1 = "job.apiVersion=v1"
MXJOB = KINDS["mxjob-v1"]
BETA = KINDS["mxjob-v1beta1"]
TFJOB = KINDS["tfjob"]
QUEUE = ("gang.scheduler=kueue", "gang.queue=team")

CASES = {
    "parameter-server-of-pytorch": (
        (PYTORCH, "strategy=parameter-server"),
        "strategy: parameter-server is for tensorflow and mxnet, not for pytorch; --set strategy=allreduce",
        (PYTORCH,),
    ),
    "pytorchjob-of-tensorflow": (
        ("job.kind=PyTorchJob",),
        "job.kind: PyTorchJob does not run tensorflow with strategy allreduce; "
        "--set job.kind=auto or --set job.kind=MPIJob",
        ("job.kind=PyTorchJob", PYTORCH),
    ),
    "mpijob-with-servers": (
        ("job.kind=MPIJob", *TFJOB),
        "job.kind: MPIJob does not run tensorflow with strategy parameter-server; "
        "--set job.kind=auto or --set job.kind=TFJob",
        ("job.kind=TFJob", *TFJOB),
    ),
    "tfjob-without-servers": (
        ("job.kind=TFJob",),
        "--set job.kind=MPIJob or --set job.kind=Plain, or --set strategy=parameter-server",
        ("job.kind=TFJob", *TFJOB),
    ),
    "mxjob-of-tensorflow": (
        ("job.kind=MXJob", *TFJOB),
        "job.kind: MXJob does not run tensorflow with strategy parameter-server",
        ("job.kind=MXJob", *MXJOB),
    ),
    "plain-with-servers": (
        (PLAIN, *MXJOB),
        "job.kind: Plain does not run mxnet with strategy parameter-server; "
        "--set job.kind=auto or --set job.kind=MXJob",
        (PLAIN, "framework=mxnet"),
    ),
    "version-of-another-kind": (
        (PYTORCH, "job.apiVersion=v2beta1"),
        "job.apiVersion: v2beta1 is not a version of PyTorchJob; --set job.apiVersion=v1 or auto",
        (PYTORCH, V1),
    ),
    "version-of-plain": (
        (PLAIN, V1),
        "job.apiVersion: v1 is not a version of Plain; --set job.apiVersion=auto",
        (PLAIN,),
    ),
    "range-of-no-elastic-job": (
        ("workers.minReplicas=2",),
        "workers.minReplicas: 2 is set, but this MPIJob is not elastic (it rescales live without this value); --set "
        "workers.minReplicas=null, or use a",
        ("workers.minReplicas=2", PYTORCH),
    ),
    "range-of-master-and-workers": (
        (PYTORCH, MASTER, "workers.maxReplicas=4"),
        "workers.maxReplicas: 4 is set, but this PyTorchJob is not elastic; --set",
        (PYTORCH, "workers.maxReplicas=4"),
    ),
    "below-the-range": (
        (PYTORCH, "workers.minReplicas=3"),
        "workers.replicas: 2 is not between workers.minReplicas (3) and workers.maxReplicas (1000); change one",
        (PYTORCH, "workers.minReplicas=2"),
    ),
    "above-the-range": (
        (PYTORCH, "workers.maxReplicas=1"),
        "workers.replicas: 2 is not between workers.minReplicas (1) and workers.maxReplicas (1); change one",
        (PYTORCH, "workers.maxReplicas=2"),
    ),
    "launcher-of-pytorchjob": (
        (PYTORCH, "launcher.memory=1Gi"),
        "launcher.memory: is set, but this job is a PyTorchJob, which has no launcher; --set launcher.memory=null",
        (PYTORCH, "job.kind=MPIJob", "launcher.memory=1Gi"),
    ),
    "servers-of-mpijob": (
        ("servers.replicas=2",),
        "servers.replicas: is set, but this job is an MPIJob, which has no server; --set servers.replicas=null",
        (*TFJOB, "servers.replicas=2"),
    ),
    "scheduler-of-tfjob": (
        (*TFJOB, "scheduler.nodeSelector.pool=cpu"),
        "scheduler.nodeSelector: is set, but this job is a TFJob, which has no scheduler",
        (*MXJOB, "scheduler.nodeSelector.pool=cpu"),
    ),
    "tolerations-of-a-role-that-is-not-there": (
        (PYTORCH, "launcher.tolerations[0].operator=Exists"),
        "launcher.tolerations: is set, but this job is a PyTorchJob",
        ("launcher.tolerations[0].operator=Exists",),
    ),
    "timeout-of-a-chief": (
        (*TFJOB, "launcher.workersTimeout=60"),
        "launcher.workersTimeout: 60 is set, but the Chief of a TFJob waits for its workers without a limit",
        ("launcher.workersTimeout=60",),
    ),
    "gpus-that-a-tfjob-leaves-idle": (
        (*TFJOB, "workers.gpus=4", "workers.replicas=3", "gpus=12"),
        "workers.gpus: is 4, but the trainer uses one GPU in each worker of a TFJob; --set "
        "workers.gpus=1,workers.replicas=12",
        (*TFJOB, "workers.gpus=1", "workers.replicas=12", "gpus=12"),
    ),
    "gpus-that-a-large-tfjob-leaves-idle": (
        (*TFJOB, "workers.gpus=2", "workers.replicas=501"),
        "workers.gpus: is 2, but the trainer uses one GPU in each worker of a TFJob; --set "
        "workers.gpus=1,workers.replicas=1000, as 1000 workers are the most; or --set strategy=allreduce",
        (*TFJOB, "workers.gpus=4", "command={train}"),
    ),
    "time-to-live": (
        (PYTORCH, "job.ttlSecondsAfterFinished=60"),
        "job.ttlSecondsAfterFinished: 60 is set, but it would delete the whole PyTorchJob v1, so the next helm",
        ("job.ttlSecondsAfterFinished=60",),
    ),
    "time-to-live-of-plain": (
        (PLAIN, "job.ttlSecondsAfterFinished=60"),
        "job.ttlSecondsAfterFinished: 60 is set, but it would delete the whole Plain, so the next helm upgrade",
        (PLAIN,),
    ),
    "clean-all-of-v2beta1": (
        ("job.cleanPodPolicy=All",),
        "job.cleanPodPolicy: is `All`, but mpi-operator never deletes the launcher of an MPIJob v2beta1; --set",
        (V1, "job.cleanPodPolicy=All"),
    ),
    "suspended-v1alpha2": (
        ("job.apiVersion=v1alpha2", "job.suspend=true"),
        "job.suspend: is true, but an MPIJob v1alpha2 cannot be suspended; --set job.suspend=false, or helm uninstall",
        (V1, "job.suspend=true"),
    ),
    "suspended-v1beta1": (
        (*BETA, "job.suspend=true"),
        "job.suspend: is true, but an MXJob v1beta1 cannot be suspended; --set job.suspend=false",
        (*MXJOB, "job.suspend=true"),
    ),
    "suspended-without-restarts": (
        ("job.suspend=true", "job.maxRestarts=0"),
        "job.suspend: is true, but job.maxRestarts is 0, so the job would fail, because Kubernetes "
        "counts the end of the launcher's pod as a failure",
        (V1, "job.suspend=true", "job.maxRestarts=0"),
    ),
    "suspended-v2beta1-without-restarts": (
        ("job.suspend=true", "job.maxRestarts=0"),
        "as a failure; --set job.maxRestarts=1 or more",
        (PLAIN, "job.suspend=true", "job.maxRestarts=0"),
    ),
    "suspended-in-a-queue": (
        (*QUEUE, "job.suspend=true"),
        "job.suspend: is true, but gang.scheduler is kueue, which itself suspends and resumes the job; --set "
        "job.suspend=false, and stop the LocalQueue team instead, with its field stopPolicy",
        ("gang.scheduler=volcano", "job.suspend=true"),
    ),
    "clean-none-of-plain": (
        (PLAIN, "job.cleanPodPolicy=None"),
        "job.cleanPodPolicy: is `None`, but job.kind Plain supports only `Running`: the workers always",
        ("job.cleanPodPolicy=None",),
    ),
    "live-tfjob": (
        ("strategy=parameter-server", "rescale.mode=live"),
        "rescale.mode: is `live`, but the pods of this TFJob read the number of workers only at their start; --set",
        ("rescale.mode=live",),
    ),
    "live-master": (
        (PYTORCH, "job.elastic=false", "rescale.mode=live"),
        "rescale.mode: is `live`, but the pods of this PyTorchJob read the number of workers only at their "
        "start; --set "
        "rescale.mode=auto, or job.elastic=true",
        (PYTORCH, "rescale.mode=live"),
    ),
    "deadline-of-v1beta1": (
        (*BETA, "job.activeDeadlineSeconds=60"),
        "job.activeDeadlineSeconds: 60 is set, but an MXJob v1beta1 has no deadline",
        (*BETA, "job.activeDeadlineSeconds=null"),
    ),
    "deadline-of-pytorchjob": (
        (PYTORCH, "job.activeDeadlineSeconds=60"),
        "job.activeDeadlineSeconds: 60 is set, but the operator of PyTorchJob v1 does not end jobs at their deadline; "
        "--set job.activeDeadlineSeconds=null, or --set job.kind=Plain",
        (PYTORCH, "job.kind=Plain", "job.activeDeadlineSeconds=60"),
    ),
    "deadline-of-tfjob": (
        ("strategy=parameter-server", "job.activeDeadlineSeconds=60"),
        "job.activeDeadlineSeconds: 60 is set, but the operator of TFJob v1 does not end jobs at their deadline; "
        "--set job.activeDeadlineSeconds=null",
        ("job.activeDeadlineSeconds=60",),
    ),
    "deadline-of-mxjob": (
        (*MXJOB, "job.activeDeadlineSeconds=60"),
        "job.activeDeadlineSeconds: 60 is set, but the operator of MXJob v1 does not end jobs at their deadline; ",
        MXJOB,
    ),
    "deadline-of-mpijob-v1": (
        (V1, "job.activeDeadlineSeconds=60"),
        "job.activeDeadlineSeconds: 60 is set, but the operator of MPIJob v1 does not end jobs at their deadline; ",
        ("job.apiVersion=v1alpha2", "job.activeDeadlineSeconds=60"),
    ),
    "gang-of-v1alpha2": (
        ("job.apiVersion=v1alpha2", "gang.scheduler=volcano"),
        "gang.scheduler: volcano, but the operator of MPIJob v1alpha2 supports only kube-batch",
        (V1, "gang.scheduler=volcano"),
    ),
    "gang-of-v1beta1": (
        (*BETA, "gang.scheduler=scheduler-plugins"),
        "gang.scheduler: scheduler-plugins, but the operator of MXJob v1beta1 supports only kube-batch",
        (*MXJOB, "gang.scheduler=scheduler-plugins"),
    ),
    "queue-without-a-gang": (
        ("gang.queue=team",),
        'gang.queue: "team" is set, but gang.scheduler none does not use it; --set gang.queue="", or choose another',
        ("gang.queue=team", "gang.scheduler=volcano"),
    ),
    "queue-of-scheduler-plugins": (
        ("gang.queue=team", "gang.scheduler=scheduler-plugins"),
        'gang.queue: "team" is set, but gang.scheduler scheduler-plugins does not use it',
        ("gang.schedulerName=mine", "gang.scheduler=scheduler-plugins"),
    ),
    "priority-of-scheduler-plugins": (
        ("gang.priorityClass=high", "gang.scheduler=scheduler-plugins"),
        'gang.priorityClass: "high" is set, but gang.scheduler scheduler-plugins does not use it',
        ("gang.priorityClass=high", "gang.scheduler=volcano"),
    ),
    "scheduler-of-kueue": (
        (*QUEUE, "gang.schedulerName=mine"),
        'gang.schedulerName: "mine" is set, but gang.scheduler kueue does not use it',
        QUEUE,
    ),
    "kueue-without-a-queue": (
        ("gang.scheduler=kueue",),
        "gang.queue: is empty, but gang.scheduler is kueue; set it to the LocalQueue in the job's namespace",
        QUEUE,
    ),
    "kueue-of-plain": (
        (PLAIN, *QUEUE),
        "gang.scheduler: kueue admits the two Jobs of job.kind Plain separately, and each could wait for the other",
        (PLAIN, "gang.scheduler=volcano"),
    ),
    "kueue-of-mpijob-v1": (
        (V1, *QUEUE),
        "gang.scheduler: kueue manages only MPIJob v2beta1, not v1; --set gang.scheduler=none, or install",
        (PYTORCH, *QUEUE),
    ),
    "mpi-env-without-mpi": (
        (PYTORCH, "mpi.env.A=1"),
        "mpi.env.A: is set, but a PyTorchJob does not use MPI; put it under env",
        (PYTORCH, "mpi.env.A=null"),
    ),
    "mpi-parameter-without-mpi": (
        (PYTORCH, "mpi.mca.pml=ucx"),
        "mpi.mca.pml: is set, but a PyTorchJob does not use MPI; --set mpi.mca.pml=null",
        (PYTORCH, "mpi.mca.pml=null"),
    ),
    "new-mpi-parameter-without-mpi": (
        (*TFJOB, "mpi.mca.coll=tuned"),
        "mpi.mca.coll: is set, but a TFJob does not use MPI; --set mpi.mca.coll=null",
        ("mpi.mca.coll=tuned",),
    ),
    "mpirun-arguments-without-mpi": (
        (*MXJOB, "mpi.flags={--tag-output}"),
        "mpi.flags: is set, but an MXJob does not use MPI; --set mpi.flags=null",
        (*MXJOB, "mpi.flags=null"),
    ),
    "interfaces-without-mpi": (
        (PYTORCH, "network.excludeInterfaces={lo,docker0}"),
        "network.excludeInterfaces: is set, but only MPI uses it, and a PyTorchJob has no MPI; --set",
        (PYTORCH, "network.interface=eth0"),
    ),
    "ssh-port-without-mpi": (
        (PYTORCH, "ssh.port=2022"),
        "ssh.port: 2022 is set, but a PyTorchJob v1 starts its ranks without SSH; --set ssh.port=2222",
        (PYTORCH, "ssh.port=2222"),
    ),
    "ssh-port-with-kubectl": (
        (V1, "ssh.port=2022"),
        "ssh.port: 2022 is set, but an MPIJob v1 starts its ranks without SSH; --set ssh.port=2222",
        ("ssh.port=2022",),
    ),
    "lost-workers-without-a-launcher": (
        (PYTORCH, "rescale.lostWorkerTimeout=5"),
        "rescale.lostWorkerTimeout: 5 is set, but a PyTorchJob has no launcher that waits for lost workers; --set",
        (PLAIN, "rescale.lostWorkerTimeout=5"),
    ),
    "form-of-another-kind": (
        (MASTER,),
        "job.elastic: is false, but only a PyTorchJob uses this value, and this job is an MPIJob; --set job",
        (PYTORCH, MASTER),
    ),
    "live-under-kueue": (
        (*QUEUE, "rescale.mode=live"),
        "rescale.mode: is `live`, but Kueue ends a job whose size changes and queues it again; --set rescale.mode=auto",
        (*QUEUE, "rescale.mode=replace"),
    ),
    "key-that-nothing-makes": (
        (PLAIN, "rbac.create=false"),
        "ssh.secretName: is empty, but with rbac.create=false no ServiceAccount may store a new SSH key; "
        "name a Secret with",
        (PLAIN, "rbac.create=false", "ssh.secretName=keys"),
    ),
    "interface-in-two-places": (
        ("mpi.mca.btl_tcp_if_include=eth0",),
        "mpi.mca.btl_tcp_if_include: network.interface, network.subnets and network.excludeInterfaces set "
        "this parameter; set",
        ("network.interface=eth0",),
    ),
    "ssh-secret-of-an-operator": (
        ("ssh.secretName=keys",),
        'ssh.secretName: "keys" is set, but an MPIJob does not use it, because its operator creates the key',
        (PLAIN, "ssh.secretName=keys"),
    ),
    "low-port": (
        ("ssh.port=22",),
        "ssh.port: 22 is below 1024, which only root may use, but the pods run as user 1000; set ssh.port to 2222, or",
        ("ssh.port=22", "podSecurity=baseline"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule_refuses_and_accepts_a_neighbour(helm: Path, case: str) -> None:
    refused, words, accepted = CASES[case]

    message = refusal(helm, *set_arguments(*refused))

    assert "distrain: " in message
    assert words in message
    render_with(helm, accepted)


def test_without_a_job_no_rule_on_jobs_applies(helm: Path) -> None:
    wrong = CASES["below-the-range"][0]

    others = ("job.enabled=false", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}")
    rendered = render_with(helm, (*others, *wrong))

    assert not {"PyTorchJob", "Job", "ServiceAccount", "ConfigMap"} & set(rendered.kinds())


@every_kind
def test_kind_has_the_right_article_in_messages(helm: Path, kind: str) -> None:
    """Messages write "an MPIJob" and "an MXJob", because M is spoken with a vowel first, but "a" before other kinds."""
    roles = ("launcher.cpu=1", "servers.cpu=1", "scheduler.cpu=1")
    without_mpi = ("mpi.flags={--x}", "ssh.secretName=keys", "ssh.port=2022", "network.subnets={10.0.0.0/8}")

    message = refusal(helm, *set_arguments(*KINDS[kind], *roles, *without_mpi))

    found = re.findall(r"\b(an?) (\w*Job|Plain job)\b", message)
    assert [words for words in found if words[0] != ("an" if words[1].startswith("M") else "a")] == []
    assert found


def test_no_template_writes_an_article_before_a_kind() -> None:
    """distrain.text.aKind and distrain.text.aVersion choose the article."""
    texts = [path.read_text(encoding="utf-8") for path in (CHART / "templates").rglob("*") if path.is_file()]

    assert [match for text in texts for match in re.findall(r"\ban? %s[^\n]{0,40}", text)] == []
