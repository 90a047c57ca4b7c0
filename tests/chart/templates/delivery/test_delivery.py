"""Test trainer.delivery: the chart delivers the trainer to every pod that trains, and changes no other job."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from schemas import trainer
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import CHART, Rendered, refusal, render, render_with, set_arguments

STOCK = ("image.repository=pytorch/pytorch", "image.tag=2.9.1-cuda12.8-cudnn9-runtime", "trainer.delivery=chart")
ARCHIVE = trainer.TARGET.read_bytes()
NAME = f"run1-trainer-{hashlib.sha256(ARCHIVE).hexdigest()[:8]}"
REAL = ("--api-versions", "apiregistration.k8s.io/v1", "--api-versions", "kubeflow.org/v1/PyTorchJob")
# `kubectl apply` and Argo CD store the whole object in one of its annotations. Kubernetes limits the total size of an
# object's annotations to 256 KiB (TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation/objectmeta.go).
MOST_BYTES = 256 * 1024


def of_ranks(rendered: Rendered) -> dict[str, list[str]]:
    """Return the container arguments of the pods that run the trainer, keyed by role."""
    return {role: rendered.container(role)["args"] for role in rendered.pods() if role not in ("Launcher", "Keygen")}


def has_trainer(rendered: Rendered, role: str) -> bool:
    mounts = {mount["mountPath"]: mount for mount in rendered.container(role)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in rendered.pod(role)["volumes"]}
    if "/opt/distrain/trainer" not in mounts:
        return False
    assert mounts["/opt/distrain/trainer"]["readOnly"]
    assert volumes["trainer"] == {"name": "trainer", "configMap": {"name": NAME}}
    return True


@every_kind
def test_chart_brings_the_trainer_to_every_pod_that_trains(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], *STOCK))

    content = rendered.find("ConfigMap", NAME)["binaryData"]
    assert base64.b64decode(content["trainer.tar.bz2"]) == ARCHIVE
    assert {role for role in rendered.pods() if has_trainer(rendered, role)} == set(of_ranks(rendered))
    assert "distrain-trainer" in rendered.scripts["data"]


@every_kind
def test_image_with_the_trainer_gets_nothing_of_it(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    assert "trainer.tar.bz2" not in rendered.text
    assert "distrain-trainer" not in rendered.scripts["data"]
    assert not any(has_trainer(rendered, role) for role in rendered.pods())


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        pytest.param("pytorchjob-elastic", ["torchrun"], id="torchrun"),
        pytest.param("pytorchjob-master", ["python3"], id="without-torchrun"),
    ],
)
def test_program_starts_the_delivered_trainer(helm: Path, kind: str, before: list[str]) -> None:
    rendered = render_with(helm, (*KINDS[kind], *STOCK, "trainer.install={boto3,pillow==12.0.0}"))

    args = rendered.container("Worker")["args"]
    installs = ["--install=boto3", "--install=pillow==12.0.0"]
    trainer_start = [*before, "/opt/distrain/bin/distrain-trainer", *installs, "distrain_trainer"]
    program = args[args.index("--") + 1 :]
    assert program[: len(trainer_start) + 1] == [*trainer_start, "--framework=pytorch"]


def test_mpirun_starts_the_delivered_trainer(helm: Path) -> None:
    rendered = render_with(helm, STOCK)

    assert rendered.program[:3] == ["python3", "/opt/distrain/bin/distrain-trainer", "distrain_trainer"]


def test_helm_test_uses_the_delivered_trainer_of_the_release(helm: Path) -> None:
    rendered = render(helm, *REAL, *set_arguments("framework=pytorch", *STOCK))

    (job,) = [hook for hook in rendered.hooks if hook["kind"] == "PyTorchJob"]
    pod = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    program = ["python3", "/opt/distrain/bin/distrain-trainer", "distrain_trainer.allreduce", "--backend=torch"]
    assert pod["containers"][0]["args"][-4:] == program
    assert {"name": "trainer", "configMap": {"name": NAME}} in pod["volumes"]
    # The archive of the trainer must be in one object only: it takes 130 KB, and Helm stores all objects in the
    # release's Secret.
    assert rendered.text.count("trainer.tar.bz2:") == 1


def test_another_trainer_replaces_only_jobs_to_which_the_chart_brings_it(helm: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(CHART, tmp_path / "distrain"))
    (changed / "files" / "trainer.tar.bz2").write_bytes(b"other")
    stock = set_arguments(*STOCK)

    assert render(helm, chart=changed).content == render(helm).content
    assert render(helm, *stock, chart=changed).content != render(helm, *stock).content


def test_objects_fit_into_their_limits(helm: Path) -> None:
    rendered = render_with(helm, STOCK)

    # The limit must leave room for a trainer that is a third larger than today's.
    assert len(json.dumps(rendered.find("ConfigMap", NAME))) * 4 / 3 < MOST_BYTES


def test_archive_is_what_the_trainer_builds() -> None:
    assert trainer.build() == ARCHIVE, "run `make schema`"


CASES = [
    pytest.param(
        ["trainer.install={boto3}"],
        'trainer.install: "boto3" can only be installed if the chart delivers the trainer, but trainer.delivery is '
        "image; set trainer.delivery to chart, or build an image that contains the package",
        [*STOCK, "trainer.install={boto3}"],
        id="install-into-an-image-with-the-trainer",
    ),
    pytest.param(
        [*STOCK, "command={python3}"],
        "trainer.delivery: is chart, but command is set and runs instead of the trainer, so there is nothing to "
        "deliver; set trainer.delivery to image",
        ["command={python3}"],
        id="own-program",
    ),
    pytest.param(
        ["trainer.delivery=chart"],
        "image.repository: is empty, but trainer.delivery=chart needs an image with the framework; set "
        "image.repository to one, such as pytorch/pytorch, and image.tag to its tag",
        STOCK,
        id="own-image",
    ),
    pytest.param(
        ["trainer.delivery=chart", "image.repository=pytorch/pytorch"],
        "image.tag: is empty, so the tag would be 0.1.0, a version of distrain; set it to a tag of pytorch/pytorch",
        ["trainer.delivery=chart", "image.repository=pytorch/pytorch", f"image.digest=sha256:{'0' * 64}"],
        id="own-tag",
    ),
    pytest.param(
        [*STOCK, "preflight.enabled=true"],
        "preflight.image: is empty, so preflight uses the job's image, and with trainer.delivery=chart "
        "that image does not contain distrain; set preflight.image to an image with distrain, or "
        "preflight.enabled to false",
        [*STOCK, "preflight.enabled=true", "preflight.image=distrain/tensorflow:0.1.0"],
        id="preflight",
    ),
    pytest.param(
        [*STOCK, "volumes[0].name=trainer"],
        'volumes[0].name: "trainer" is the name of a volume that the job itself has; choose another name',
        ["volumes[0].name=trainer"],
        id="name-of-the-volume",
    ),
]


@pytest.mark.parametrize(("values", "message", "accepted"), CASES)
def test_contradiction_is_refused(helm: Path, values: list[str], message: str, accepted: list[str]) -> None:
    assert f"distrain: {message}\n" in refusal(helm, *set_arguments(*values))
    assert render_with(helm, accepted).job
