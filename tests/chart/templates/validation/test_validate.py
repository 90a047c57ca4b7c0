"""Test rules on data, volumes and MPI (_validate.tpl, _validate-volumes.tpl): each error, and a similar valid case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.rendering import refusal, render, set_arguments

S3 = ["data.source=s3", "data.uri=s3://digits"]
DERIVE = "or leave out workers.replicas and workers.gpus, which `helm distrain derive` then sets"
MOUNT = ["volumes[0].name=disk", "volumeMounts[0].name=disk", "volumeMounts[0].mountPath=/disk"]
TFJOB = ["framework=tensorflow", "strategy=parameter-server", "workers.gpus=0"]
VOLUME = [*MOUNT, "volumes[0].persistentVolumeClaim.claimName=disk"]
SIDECAR = ["workers.sidecars[0].name=side", "workers.sidecars[0].image=side"]
INNER = ["volumeMounts[1].name=a", "volumeMounts[1].mountPath=/disk/inner"]
ON_THE_WAY = ["volumeMounts[1].name=a", "volumeMounts[1].mountPath=/disk/default"]
READ_ONLY = [*VOLUME, "volumeMounts[0].readOnly=true"]


CASES = [
    pytest.param(
        ["gpus=32", "workers.gpus=8"],
        "gpus: 32 differs from workers.replicas * workers.gpus = 2 * 8 = 16; "
        f"--set workers.replicas=4 or --set gpus=16; {DERIVE}",
        ["gpus=32", "workers.gpus=8", "workers.replicas=4"],
        id="gpus",
    ),
    pytest.param(
        ["gpus=5", "workers.gpus=2"],
        f"gpus: 5 differs from workers.replicas * workers.gpus = 2 * 2 = 4; --set gpus=4; {DERIVE}\n",
        ["gpus=4", "workers.gpus=2"],
        id="gpus-no-multiple",
    ),
    pytest.param(
        ["gpus=4", "workers.gpus=0"],
        f"gpus: 4 differs from workers.replicas * workers.gpus = 2 * 0 = 0; --set gpus=0; {DERIVE}\n",
        ["gpus=0", "workers.gpus=0"],
        id="gpus-on-the-cpu",
    ),
    pytest.param(
        [*S3, "trainer.steps=100", "trainer.epochs=20"],
        "trainer.steps: 100 steps and trainer.epochs: 20 epochs are both set; drop one, with --set trainer.steps=null",
        [*S3, "trainer.steps=null", "trainer.epochs=20"],
        id="steps-and-epochs",
    ),
    pytest.param(
        ["trainer.epochs=20"],
        "trainer.epochs: is 20, but random data has no epochs; set data.uri, or trainer.steps instead",
        ["trainer.steps=20"],
        id="epochs-of-synthetic-data",
    ),
    pytest.param(
        ["data.source=synthetic", "data.uri=s3://digits"],
        'data.source: is `synthetic`, but data.uri "s3://digits" means `s3`; correct data.uri, or set data.source',
        ["data.uri=s3://digits"],
        id="uri-of-synthetic-data",
    ),
    pytest.param(
        [*VOLUME, "data.source=synthetic", "data.uri=/disk/digits"],
        'data.source: is `synthetic`, but data.uri "/disk/digits" means `volume`; correct data.uri, or set data.source',
        [*VOLUME, "data.uri=/disk/digits"],
        id="folder-of-synthetic-data",
    ),
    pytest.param(
        ["data.source=s3"],
        'data.source: is `s3`, but data.uri "" means `synthetic`; correct data.uri, or set data.source to null',
        ["data.source=s3", "command={train}"],
        id="s3-without-uri",
    ),
    pytest.param(
        ["data.source=volume"],
        'data.source: is `volume`, but data.uri "" means `synthetic`; correct data.uri, or set data.source to null',
        [*VOLUME, "data.source=volume", "data.uri=/disk/digits"],
        id="volume-without-uri",
    ),
    pytest.param(
        ["data.source=s3", "data.uri=/digits"],
        'data.source: is `s3`, but data.uri "/digits" means `volume`; correct data.uri, or set data.source to null',
        S3,
        id="folder-for-s3",
    ),
    pytest.param(
        ["data.source=volume", "data.uri=s3://digits"],
        'data.source: is `volume`, but data.uri "s3://digits" means `s3`; correct data.uri, or set data.source to null',
        [*VOLUME, "data.source=volume", "data.uri=/disk/digits"],
        id="s3-for-volume",
    ),
    pytest.param(
        [*VOLUME, "data.uri=/disks/digits"],
        'data.uri: "/disks/digits" is not on a volume; mount a volume there with volumes and volumeMounts, '
        "or use s3://",
        [*READ_ONLY, "data.uri=/disk/digits"],
        id="data-on-no-volume",
    ),
    pytest.param(
        [*VOLUME, "data.cache.folder=/disks/cache"],
        'data.cache.folder: "/disks/cache" is not on a volume; mount a volume there with volumes and '
        "volumeMounts, or leave",
        [*MOUNT, "data.cache.folder=/disk/cache"],
        id="cache-on-no-volume",
    ),
    pytest.param(
        [*READ_ONLY, "data.cache.folder=/disk/cache"],
        'data.cache.folder: "/disk/cache" is on volume "disk", which is mounted read-only; mount a writable volume',
        [*VOLUME, "data.cache.folder=/disk/cache"],
        id="cache-on-a-read-only-mount",
    ),
    pytest.param(
        [*READ_ONLY, "checkpoint.uri=/disk/checkpoints"],
        'checkpoint.uri: "/disk/checkpoints" is on volume "disk", which is mounted read-only; mount a writable volume',
        [*VOLUME, "checkpoint.uri=/disk/checkpoints"],
        id="checkpoints-on-a-read-only-mount",
    ),
    pytest.param(
        [*VOLUME, "volumes[0].persistentVolumeClaim.readOnly=true", "output.uri=/disk"],
        'output.uri: "/disk" is on volume "disk", which is mounted read-only; mount a writable volume there',
        [*VOLUME, "output.uri=/disk"],
        id="output-on-a-read-only-claim",
    ),
    pytest.param(
        [*MOUNT, "volumes[0].secret.secretName=disk", "checkpoint.uri=/disk/checkpoints"],
        'checkpoint.uri: "/disk/checkpoints" is on volume "disk", which is mounted read-only',
        [*MOUNT, "volumes[0].csi.driver=disk", "checkpoint.uri=/disk/checkpoints"],
        id="checkpoints-in-a-secret",
    ),
    pytest.param(
        [*MOUNT, "checkpoint.uri=/disk/checkpoints"],
        'checkpoint.uri: "/disk/checkpoints" is on volume "disk", whose kind is emptyDir: its files are '
        "lost with the pod",
        [*VOLUME, "checkpoint.uri=/disk/checkpoints"],
        id="checkpoints-on-a-volume-without-a-kind",
    ),
    pytest.param(
        [*MOUNT, "volumes[0].emptyDir.medium=Memory", "checkpoint.uri=/disk/checkpoints", *SIDECAR],
        'checkpoint.uri: "/disk/checkpoints" is on volume "disk", whose kind is emptyDir: its files are '
        "lost with the pod",
        [*VOLUME, "checkpoint.uri=/disk/checkpoints", *SIDECAR],
        id="checkpoints-on-an-empty-dir",
    ),
    pytest.param(
        [*MOUNT, "output.uri=/disk"],
        'output.uri: "/disk" is on volume "disk", whose kind is emptyDir: its files are lost with the pod',
        [*MOUNT, "output.uri=/disk", *SIDECAR],
        id="output-that-nothing-carries-away",
    ),
    pytest.param(
        [*VOLUME, "volumes[1].name=a", *INNER, "checkpoint.uri=/disk/inner/checkpoints"],
        'checkpoint.uri: "/disk/inner/checkpoints" is on volume "a", whose kind is emptyDir',
        [*VOLUME, "volumes[1].name=a", *INNER, "checkpoint.uri=/disk/checkpoints"],
        id="checkpoints-on-the-innermost-mount",
    ),
    pytest.param(
        [*VOLUME, "volumes[1].name=a", *ON_THE_WAY, "checkpoint.uri=/disk"],
        'checkpoint.uri: "/disk" is on volume "a", whose kind is emptyDir',
        [*VOLUME, "volumes[1].name=a", *INNER, "checkpoint.uri=/disk"],
        id="the-runs-own-folder-on-another-mount",
    ),
    pytest.param(
        ["test.timeoutSeconds=60", "strategy=parameter-server"],
        "test.timeoutSeconds: 60 is set, but strategy parameter-server has no test; --set test.timeoutSeconds=300",
        ["test.timeoutSeconds=60"],
        id="test-of-servers",
    ),
    pytest.param(
        ["trainer.tensorboard=true"],
        "trainer.tensorboard: is true, but output.uri, below which the event files go, is empty; set output.uri",
        ["trainer.tensorboard=true", "output.uri=s3://models"],
        id="event-files-without-a-place",
    ),
    pytest.param(
        ["trainer.tensorboard=true", "output.uri=s3://models", "command={/train}"],
        "trainer.tensorboard: is true, but only the trainer's own programs write event files, and command is set",
        ["trainer.tensorboard=false", "output.uri=s3://models", "command={/train}"],
        id="event-files-of-a-command",
    ),
    pytest.param(
        [*VOLUME, "output.uri=/disks/results"],
        'output.uri: "/disks/results" is not on a volume and would be lost; mount a volume there with volumes and',
        [*VOLUME, "output.uri=/disk/results"],
        id="output-on-no-volume",
    ),
    pytest.param(
        [*VOLUME, "checkpoint.uri=/disks/checkpoints"],
        'checkpoint.uri: "/disks/checkpoints" is not on a volume and would be lost; mount a volume there '
        "with volumes and",
        [*VOLUME, "checkpoint.uri=/disk/checkpoints"],
        id="checkpoints-on-no-volume",
    ),
    pytest.param(
        [*TFJOB, *(f"workers.{value}" for value in VOLUME), "checkpoint.uri=/disk/a"],
        'checkpoint.uri: "/disk/a" is not on a volume of the Chief, which writes it, and would be lost; mount a volume',
        [*TFJOB, *(f"launcher.{value}" for value in VOLUME), "checkpoint.uri=/disk/a"],
        id="checkpoints-on-a-volume-of-the-workers-of-a-tfjob",
    ),
    pytest.param(
        [*VOLUME, "volumeMounts[0].mountPath=/checkpoints"],
        'volumeMounts[0].mountPath: "/checkpoints" is a path that the job itself mounts; choose another path',
        [*VOLUME, "volumeMounts[0].mountPath=/checkpoints", "checkpoint.uri=/checkpoints"],
        id="mount-where-checkpoints-are",
    ),
    pytest.param(
        ["volumes[0].name=tmp"],
        'volumes[0].name: "tmp" is the name of a volume that the job itself has; choose another name',
        ["volumes[0].name=temp"],
        id="volume-of-the-chart",
    ),
    pytest.param(
        ["volumes[0].name=ssh-auth"],
        'volumes[0].name: "ssh-auth" is the name of a volume that the job itself has; choose another name',
        ["volumes[0].name=ssh"],
        id="volume-of-the-operator",
    ),
    pytest.param(
        ["volumeMounts[0].name=disk", "volumeMounts[0].mountPath=/disk"],
        'volumeMounts[0].name: "disk" is not in volumes; add it there',
        VOLUME,
        id="mount-of-no-volume",
    ),
    pytest.param(
        [*VOLUME, "volumeMounts[0].mountPath=/tmp/"],
        'volumeMounts[0].mountPath: "/tmp/" is a path that the job itself mounts; choose another path',
        [*VOLUME, "volumeMounts[0].mountPath=/tmp/cache"],
        id="mount-of-the-chart",
    ),
    pytest.param(
        [*VOLUME, "volumeMounts[0].mountPath=/home/distrain/.ssh"],
        'volumeMounts[0].mountPath: "/home/distrain/.ssh" is a path that the job itself mounts; choose another path',
        [*VOLUME, "volumeMounts[0].mountPath=/home/distrain"],
        id="mount-of-the-operator",
    ),
    pytest.param(
        [*S3, "env[0].name=AWS_REGION"],
        "env[0].name: AWS_REGION is already set, from s3.*; remove it in one place",
        [*S3, "env[0].name=AWS_ACCESS_KEY_ID"],
        id="env-of-s3",
    ),
    pytest.param(
        ["mpi.env.A=1", "env[0].name=B", "env[1].name=A"],
        "env[1].name: A is already set, from mpi.env; remove it in one place",
        ["mpi.env.A=1", "env[0].name=B"],
        id="env-of-mpi-env",
    ),
    pytest.param(
        ["mpi.env.OMPI_MCA_plm_rsh_args=-4"],
        "mpi.env.OMPI_MCA_plm_rsh_args: is already set, from distrain-launch; remove it",
        ["mpi.env.OMPI_MCA_btl_base_verbose=10"],
        id="mpi-env-of-the-launcher",
    ),
    pytest.param(
        ["podLabels.app\\.kubernetes\\.io/instance=mine"],
        "podLabels: app.kubernetes.io/instance is a label that the job itself sets; remove it",
        ["podLabels.app\\.kubernetes\\.io/part-of=mine"],
        id="label-of-the-chart",
    ),
    pytest.param(
        ["podLabels.distrain/instance=mine"],
        "podLabels: distrain/instance is a label that the job itself sets; remove it",
        ["podLabels.instance=mine"],
        id="own-label-of-the-chart",
    ),
    pytest.param(
        ["podLabels.training\\.kubeflow\\.org/job-name=mine"],
        "podLabels: training.kubeflow.org/job-name is a label that the job itself sets; remove it",
        ["podLabels.job-name=mine"],
        id="label-of-the-operator",
    ),
    pytest.param(
        ["podAnnotations.sidecar\\.istio\\.io/inject=mine"],
        "podAnnotations: sidecar.istio.io/inject is an annotation that the job itself sets; remove it",
        ["podAnnotations.sidecar\\.istio\\.io/logLevel=mine"],
        id="annotation-of-the-chart",
    ),
    pytest.param(
        ["mpi.mca.plm_rsh_args=-4"],
        "mpi.mca.plm_rsh_args: distrain-launch sets it, for the SSH key and hosts of this job; remove it",
        ["mpi.mca.plm_rsh_num_concurrent=4"],
        id="mca-of-the-launcher",
    ),
    pytest.param(
        ["mpi.flags={--tag-output,-np,8}"],
        "mpi.flags[1]: -np is computed from workers.replicas and workers.gpus; remove the flag and its number",
        ["mpi.flags={--tag-output}"],
        id="number-of-ranks",
    ),
    pytest.param(
        ["mpi.flags={--hostfile,/hosts}"],
        "mpi.flags[0]: --hostfile is set by distrain-launch, from the operator's list of hosts; remove it",
        ["mpi.flags={--display-map}"],
        id="hosts",
    ),
]


@pytest.mark.parametrize(("refused", "words", "accepted"), CASES)
def test_rule_refuses_and_accepts_a_neighbour(helm: Path, refused: list[str], words: str, accepted: list[str]) -> None:
    message = refusal(helm, *set_arguments(*refused))

    assert f"distrain: {words}" in message
    render(helm, *set_arguments(*accepted))


@pytest.mark.parametrize(
    ("refused", "accepted"),
    [pytest.param("1run", "run1", id="starts-with-a-digit"), pytest.param("run.1", "run-1", id="has-a-dot")],
)
def test_release_name_that_is_no_host_name_is_refused(helm: Path, refused: str, accepted: str) -> None:
    message = refusal(helm, release=refused)

    assert f'distrain: release name: "{refused}" cannot be the host name of a pod; start it with a letter' in message
    render(helm, release=accepted)


def test_all_broken_rules_are_reported_in_one_answer(helm: Path) -> None:
    wrong = ["framework=pytorch", "gpus=5", "data.source=s3", "launcher.memory=1Gi", "runAsUser=0"]

    message = refusal(helm, *set_arguments(*wrong))

    lines = [line for line in message.splitlines() if "distrain: " in line]
    assert [line.split("distrain: ", 1)[1].split(": ")[0] for line in lines] == [
        "launcher.memory", "gpus", "data.source", "runAsUser",
    ]  # fmt: skip


def test_rules_on_a_kind_that_cannot_be_are_left_out(helm: Path) -> None:
    wrong = ["framework=pytorch", "job.kind=MXJob", "launcher.memory=1Gi", "gpus=5"]

    lines = refusal(helm, *set_arguments(*wrong)).splitlines()

    told = [line.split("distrain: ", 1)[1].split(": ")[0] for line in lines if "distrain: " in line]
    assert told == ["job.kind", "gpus"]


@pytest.mark.parametrize("path", ["workers.memory", "workers.shm", "launcher.memory"])
@pytest.mark.parametrize(
    ("refused", "number", "accepted"),
    [("16", "16", "1048576"), ("1023Ki", "1023", "1024Ki"), ("1048k", "1048", "1049k"), ("900.5k", "900.5", "1.1M")],
)
def test_memory_without_its_unit_is_refused(helm4: Path, path: str, refused: str, number: str, accepted: str) -> None:
    small = ("--set-string", "workers.shm=1048576") if path == "workers.memory" else ()

    message = refusal(helm4, "--set-string", f"{path}={refused}")

    assert f'distrain: {path}: "{refused}" is less than 1Mi; did you mean {number}Gi or {number}Mi?' in message
    render(helm4, "--set-string", f"{path}={accepted}", *small)
