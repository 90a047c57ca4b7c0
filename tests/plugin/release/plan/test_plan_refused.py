"""Test which upgrades are refused: those without any change, and those whose job would train from the beginning."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from msgspec.structs import replace

from distrain.errors import RefusedError
from distrain.release import changes, resume
from distrain.release.changes import REPLACED
from distrain.release.plan import RESUMES, Before, Next, Plan, plan, refuse_ended, refuse_traps
from distrain_trainer.checkpoint.manifest import Subject
from tests.plugin.objects import JOB, Object, mpi_job, mx_job, plain, pytorch_job, tf_job
from tests.plugin.release.plan.planning import FLAGS, S3, SERVICE_ACCOUNT, before_of, next_of, renamed, with_field

POD_LABELS = "spec.mpiReplicaSpecs.Worker.template.metadata.labels.x"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        pytest.param(
            before_of(mpi_job()),
            next_of(with_field(mpi_job(), POD_LABELS, "y"), podLabels={"x": "y"}),
            rf"^podLabels\.x: MPIJob {JOB}: {POD_LABELS} would change \(unset -> y\), but nothing applies the "
            r"change to running pods",
            id="ignored-value",
        ),
        pytest.param(
            before_of(mpi_job()),
            next_of(with_field(mpi_job(), "spec.slotsPerWorker", 4)),
            r"^spec.slotsPerWorker: MPIJob .* would change \(unset -> 4\)",
            id="ignored-field",
        ),
        pytest.param(
            before_of(mpi_job(), end="Succeeded"),
            next_of(mpi_job(workers=3)),
            "^run1: its job has succeeded already, and this upgrade does not run it again. "
            f"`helm uninstall run1 {FLAGS}`",
            id="finished",
        ),
        pytest.param(
            replace(before_of(mpi_job(), end="Succeeded"), values={"checkpoint": {"uri": "s3://runs"}}),
            next_of(mpi_job(workers=3)),
            "To train on, upgrade it with more trainer.steps or trainer.epochs: it goes on from its last checkpoint$",
            id="finished-on-s3",
        ),
        pytest.param(
            before_of(mpi_job(), is_there=False),
            next_of(mpi_job(), SERVICE_ACCOUNT),
            f"^run1: MPIJob {JOB} is gone: its ttlSecondsAfterFinished or a user has deleted it. "
            f"`helm uninstall run1 {FLAGS}`",
            id="deleted-by-ttl",
        ),
    ],
)
def test_silent_trap_is_refused(before: Before, after: Next, words: str) -> None:
    found = plan("run1", before, after)

    with pytest.raises(RefusedError, match=words):
        _refuse(found, before)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([mpi_job()], id="MPIJob"),
        pytest.param([pytorch_job(workers=2)], id="elastic PyTorchJob"),
        pytest.param([pytorch_job(workers=2, master=True)], id="PyTorchJob with a Master"),
        pytest.param([mx_job(servers=1, workers=2)], id="MXJob"),
        pytest.param([tf_job(servers=1, workers=2)], id="TFJob"),
        pytest.param(plain(workers=2), id="Plain"),
    ],
)
@pytest.mark.parametrize("is_replaced", [False, True], ids=["live", "replaced"])
@pytest.mark.parametrize("end", [None, "Succeeded", "Failed"])
@pytest.mark.parametrize("more", [{}, {"trainer": {"epochs": 9}}], ids=["size", "size-and-epochs"])
def test_run_of_any_kind_that_has_succeeded_is_not_replaced_for_another_size(
    objects: list[Object], is_replaced: bool, end: str | None, more: Object
) -> None:
    before = replace(before_of(*objects, end=end), values={"workers": {"replicas": 2}, "checkpoint": S3})
    new = [renamed(each) if is_replaced else {**each, "spec": {**each.get("spec", {}), "x": 1}} for each in objects]
    found = plan("run1", before, replace(next_of(*new), values={**before.values, "workers": {"replicas": 3}, **more}))

    words = ""
    try:
        refuse_ended(found, before)
    except RefusedError as error:
        words = str(error)

    ended, then = f"run1: its job has {str(end).lower()} already, and this upgrade does not run it again. ", ""
    if end == "Succeeded" and not (is_replaced and more):
        then = f"{ended}To train on, upgrade it with more trainer.steps or trainer.epochs: {RESUMES}"
    elif end == "Failed" and not is_replaced:
        then = f"{ended}`helm uninstall run1 {FLAGS}` and install the release again under the same name: {RESUMES}"
    assert words == then


def marked(job: Object, label: str, annotation: str) -> Object:
    """Return the job with the label and annotation that `serviceMesh` sets on the workers."""
    metadata = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), "istio.io/dataplane-mode": label}
    metadata["annotations"] = {**metadata.get("annotations", {}), "linkerd.io/inject": annotation}
    return job


def test_marks_against_service_meshes_that_earlier_charts_lack_change_nothing() -> None:
    before = before_of(mpi_job())

    found = plan("run1", before, next_of(marked(mpi_job(workers=3), "none", "disabled")))

    _refuse(found, before)
    assert found.keeps_pods
    assert found.resizes


@pytest.mark.parametrize(
    ("job", "mark", "change"),
    [
        pytest.param(marked(mpi_job(), "none", "disabled"), "enabled", "disabled -> enabled", id="joins"),
        pytest.param(marked(mpi_job(), "none", "enabled"), "disabled", "enabled -> disabled", id="leaves"),
        pytest.param(mpi_job(), "enabled", "unset -> enabled", id="unmarked-joins"),
    ],
)
def test_mesh_for_pods_that_run_is_refused_by_its_value(job: Object, mark: str, change: str) -> None:
    before = before_of(job)

    found = plan("run1", before, next_of(marked(mpi_job(), "none", mark)))

    with pytest.raises(RefusedError, match=rf"^serviceMesh: MPIJob .* would change \({change}\)"):
        _refuse(found, before)


def _refuse(planned: Plan, before: Before) -> None:
    refuse_ended(planned, before)
    refuse_traps(planned, before)


@pytest.mark.parametrize(
    ("before", "job", "replaces"),
    [
        pytest.param(
            before_of(mpi_job()), renamed(with_field(mpi_job(), POD_LABELS, "y")), True, id="labels-of-a-new-job"
        ),
        pytest.param(before_of(mpi_job(), end="Failed"), renamed(mpi_job()), True, id="finished-and-replaced"),
        pytest.param(before_of(mpi_job(), end="Failed"), mpi_job(), False, id="finished-and-unchanged"),
        pytest.param(before_of(mpi_job(), is_there=False), renamed(mpi_job()), True, id="gone-and-replaced"),
    ],
)
def test_what_does_as_it_says_is_not(before: Before, job: Object, replaces: bool) -> None:
    found = plan("run1", before, next_of(job))

    _refuse(found, before)

    assert [change.effect for change in found.changes] == [REPLACED] * replaces


ON_S3: dict[str, Any] = {"checkpoint": S3, "s3": {"endpoint": "https://a"}, "framework": "pytorch"}
ON_A_VOLUME: dict[str, Any] = {"checkpoint": {"uri": "/runs"}, "volumes": [{"name": "a"}], "s3": {"endpoint": ""}}


@pytest.mark.parametrize(
    ("old", "changed", "reason"),
    [
        (ON_S3, {}, ""),
        (ON_S3, {"volumes": [{"name": "b"}]}, ""),
        (ON_S3, {"s3": {"endpoint": "https://b"}}, "s3.endpoint changes"),
        (ON_A_VOLUME, {"s3": {"endpoint": "https://b"}}, ""),
        (ON_A_VOLUME, {"volumes": [{"name": "b"}]}, "volumes changes"),
        (ON_A_VOLUME, {"volumeMounts": [{"name": "a"}]}, "volumeMounts changes"),
        ({**ON_S3, "command": ["a"]}, {"command": None}, "the trainer does not read what your command has saved"),
    ],
)
def test_new_job_starts_over_where_it_does_not_find_the_checkpoints(old: Object, changed: Object, reason: str) -> None:
    assert resume.obstacle(old, {**old, **changed}) == reason


def test_plan_compares_what_the_trainer_compares() -> None:
    compared = {path.rpartition(".")[2] for path in resume.SUBJECT}

    # The trainer finds the strategy and the shapes in the checkpoint's arrays, and the number of samples in the data.
    assert compared - {"strategy"} == {each.name for each in fields(Subject)} - {"epoch_samples", "shapes"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("framework", "mxnet"),
        ("strategy", "parameter-server"),
        ("trainer.model", "vgg16"),
        ("trainer.optimizer", "adam"),
        ("trainer.seed", 2),
    ],
)
@pytest.mark.parametrize("end", [None, "Succeeded"])
def test_upgrade_whose_job_would_refuse_the_checkpoints_is_refused(path: str, value: object, end: str | None) -> None:
    trainer = {"model": "mnist", "optimizer": "sgd", "seed": 1}
    old = {**ON_S3, "strategy": "allreduce", "trainer": trainer}
    before = replace(before_of(mpi_job(), end=end), values=old)

    def planned(new: Object) -> Plan:
        return plan(
            "run1", before, Next(before.manifest.replace("run1", "run1-f"), before.job, with_field(new, path, value))
        )

    refused = planned(old)
    words = rf"^{path}: \S+ -> {value}: run1's checkpoints do not fit the run after this change"

    with pytest.raises(RefusedError, match=words):
        refuse_traps(refused, before)
    for anew in ({"uri": "s3://others", "resume": "auto"}, {**S3, "resume": "never"}):
        refuse_traps(planned({**old, "checkpoint": anew}), before)
    failed = replace(before, end="Failed")
    refuse_traps(
        plan("run1", failed, Next(before.manifest.replace("run1", "f"), before.job, with_field(old, path, value))),
        failed,
    )


@pytest.mark.parametrize(
    ("path", "changed", "named"),
    [
        ("labels.team", ["workers.labels.team", "trainer.steps"], "workers.labels.team"),
        ("labels.team", ["podLabels.team", "podLabels.other"], "podLabels.team"),
        (
            "labels.team",
            ["launcher.labels.team", "workers.labels.team"],
            "launcher.labels.team and workers.labels.team",
        ),
        ("labels.example.com/team", ["commonLabels.example.com/team"], "commonLabels.example.com/team"),
        ("labels.team", ["podAnnotations.team"], "labels.team"),
        ("annotations.a", ["podAnnotations.a", "podLabels.a"], "podAnnotations.a"),
        ("annotations.a", ["workers.annotations.a"], "workers.annotations.a"),
        ("annotations.a", ["commonAnnotations.a"], "commonAnnotations.a"),
        ("annotations.prometheus.io/port", ["monitoring.port", "podLabels.a"], "monitoring.port"),
        ("labels.sidecar.istio.io/inject", ["trainer.steps"], "serviceMesh"),
        ("labels.team", ["trainer.steps"], "labels.team"),
    ],
)
def test_refusal_names_the_value_that_the_user_has_changed(path: str, changed: list[str], named: str) -> None:
    start = "spec.mpiReplicaSpecs.Worker.template.metadata."

    assert changes.value_of(f"{start}{path}", changed).removeprefix(start) == named
