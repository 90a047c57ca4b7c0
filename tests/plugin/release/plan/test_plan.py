"""Test the plan of an upgrade: the effect of each change in a manifest, and the lines of the plan."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from msgspec.structs import replace

from distrain.release import changes
from distrain.release.changes import IGNORED, LIVE, REPLACED, Change
from distrain.release.plan import Plan, lines, plan, refuse_traps
from distrain.workload.manifest import from_manifest
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import set_arguments, template
from tests.plugin.objects import JOB, Object, mpi_job, plain, pytorch_job
from tests.plugin.release.plan.planning import (
    FLAGS,
    PODS_ALONE,
    SERVICE_ACCOUNT,
    before_of,
    next_of,
    renamed,
    with_field,
)


@pytest.mark.parametrize(
    ("job", "path", "effect"),
    [
        pytest.param(mpi_job(), "metadata.labels.x", LIVE, id="labels-of-the-job"),
        pytest.param(mpi_job(), "spec.runPolicy.cleanPodPolicy", LIVE, id="mpi-v2-clean-pod-policy"),
        pytest.param(mpi_job(), "spec.runPolicy.backoffLimit", IGNORED, id="mpi-v2-backoff-limit"),
        pytest.param(mpi_job(), "spec.slotsPerWorker", IGNORED, id="slots"),
        pytest.param(mpi_job(version="v1"), "spec.runPolicy.backoffLimit", LIVE, id="mpi-v1-backoff-limit"),
        pytest.param(mpi_job(), "spec.mpiReplicaSpecs.Worker.replicas", LIVE, id="mpi-size"),
        pytest.param(mpi_job(), "spec.mpiReplicaSpecs.Worker.template.spec.nodeName", IGNORED, id="mpi-template"),
        pytest.param(mpi_job(), "spec.mpiReplicaSpecs.Worker.template.metadata.labels.x", IGNORED, id="pod-labels"),
        pytest.param(pytorch_job(workers=2), "spec.runPolicy.ttlSecondsAfterFinished", LIVE, id="pytorch-ttl"),
        pytest.param(pytorch_job(workers=2), "spec.elasticPolicy.maxReplicas", IGNORED, id="pytorch-elastic"),
        pytest.param(pytorch_job(workers=2), "spec.pytorchReplicaSpecs.Worker.replicas", LIVE, id="pytorch-size"),
        pytest.param(plain(workers=2)[2], "spec.parallelism", LIVE, id="plain-size"),
        pytest.param(plain(workers=2)[2], "spec.activeDeadlineSeconds", LIVE, id="plain-deadline"),
        pytest.param(plain(workers=2)[2], "spec.template.spec.nodeName", IGNORED, id="plain-template"),
    ],
)
def test_change_of_a_running_job_has_the_effect_that_its_operator_gives_it(job: Object, path: str, effect: str) -> None:
    found = plan(
        "run1", before_of(job), next_of(with_field(job, path, "x" if "template" in path or "labels" in path else 9))
    )

    assert [change.effect for change in found.changes] == [effect]


@every_kind
def test_new_labels_of_pods_replace_only_a_plain_job(helm4: Path, kind: str) -> None:
    """docs/rescale.md says what an upgrade does with new labels."""
    old, new = (
        template(helm4, *set_arguments(*KINDS[kind], *more)).stdout
        for more in ((), ("podLabels.team=x", "podAnnotations.team=x"))
    )
    jobs = [from_manifest(manifest, "--chart").resources for manifest in (old, new)]

    found = changes.of_objects(changes.objects(old), changes.objects(new), *jobs)

    assert {change.effect for change in found} == {REPLACED if kind == "plain" else IGNORED}


def test_job_of_another_size_goes_on() -> None:
    before = before_of(mpi_job(workers=2), SERVICE_ACCOUNT)

    found = plan("run1", before, next_of(mpi_job(workers=3), SERVICE_ACCOUNT, workers={"replicas": 3}))

    assert found.values == {"workers.replicas": "unset -> 3"}
    assert [(change.effect, change.how) for change in found.changes] == [(LIVE, "2 -> 3")]
    assert (found.replaces, found.resizes) == (False, True)
    refuse_traps(found, before)


@pytest.mark.parametrize(
    ("end", "is_there", "lost"),
    [
        pytest.param(None, True, "nothing: the job goes on", id="runs"),
        pytest.param("Succeeded", True, "nothing", id="has-ended"),
        pytest.param(None, False, "nothing", id="is-gone"),
    ],
)
def test_only_a_job_that_runs_goes_on(end: str | None, is_there: bool, lost: str) -> None:
    before = before_of(mpi_job(), end=end, is_there=is_there)

    told = list(lines(plan("run1", before, next_of(mpi_job(), SERVICE_ACCOUNT)), before, has_trainer=True))

    assert told[-1] == f"  lost      {lost}"


def test_job_of_another_name_is_replaced_by_helm_itself() -> None:
    before = before_of(mpi_job(), SERVICE_ACCOUNT)

    found = plan("run1", before, next_of(renamed(mpi_job(gpus=2))))

    assert [(change.effect, change.what, change.how) for change in found.changes] == [
        (REPLACED, f"MPIJob {JOB}", "by MPIJob run1-ffffffff"),
        (LIVE, "ServiceAccount run1", "deleted"),
    ]
    refuse_traps(found, before)


def test_each_job_of_plain_is_replaced_by_the_one_of_its_part() -> None:
    old = plain(workers=2)
    new = [{**one, "metadata": {**one["metadata"], "name": one["metadata"]["name"].replace(JOB, "b")}} for one in old]

    found = plan("run1", before_of(*old), next_of(*new))

    parts = ("launcher", "worker")
    replaced = [(change.what, change.how) for change in found.changes if change.effect == REPLACED]
    assert [(f"Job {JOB}-{part}", f"by Job b-{part}") for part in parts] == [
        each for part in parts for each in replaced if each[0].endswith(part)
    ]


@pytest.mark.parametrize("kind", ["Service", "ServiceAccount"])
@pytest.mark.parametrize("how", ["created", "changed", "deleted"])
def test_objects_beside_the_job_are_changes_of_their_own(kind: str, how: str) -> None:
    # A Service with the job's name would count as part of the job, so a Service gets another name here.
    name = "other" if kind == "Service" else JOB
    own = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
    afters: dict[str, list[Object]] = {"created": [own], "changed": [{**own, "x": 1}], "deleted": []}

    found = plan("run1", before_of(mpi_job(), *([] if how == "created" else [own])), next_of(mpi_job(), *afters[how]))

    assert [(change.effect, change.what, change.how) for change in found.changes] == [(LIVE, f"{kind} {name}", how)]


@pytest.mark.parametrize(
    ("effect", "suspended", "ends", "keeps"),
    [
        pytest.param(LIVE, (False, False), False, True, id="goes on"),
        pytest.param(REPLACED, (False, False), True, False, id="is replaced"),
        pytest.param(REPLACED, (True, True), False, False, id="has no pods"),
        pytest.param(LIVE, (False, True), True, False, id="is suspended"),
        pytest.param(LIVE, (True, False), False, False, id="is resumed"),
    ],
)
def test_only_pods_that_run_are_ended_or_kept(
    effect: str, suspended: tuple[bool, bool], ends: bool, keeps: bool
) -> None:
    was, will_be = suspended

    found = Plan("run1", 3, {}, [Change(effect, "a", "b")], was_suspended=was, is_suspended=will_be)

    assert (found.ends_pods, found.keeps_pods) == (ends, keeps)


def test_changes_of_a_plan_stand_in_columns() -> None:
    before = before_of(mpi_job(workers=2))
    planned = plan("run1", before, next_of(mpi_job(workers=3), workers={"replicas": 3}))

    assert list(lines(planned, before, has_trainer=True))[:3] == [
        "run1: revision 3 -> 4",
        "  value     workers.replicas: unset -> 3",
        f"  live      MPIJob {JOB}: spec.mpiReplicaSpecs.Worker.replicas: 2 -> 3",
    ]


def test_job_of_another_content_is_replaced_under_its_name() -> None:
    before = before_of(*(_annotated(job, "old") for job in plain(workers=2)), SERVICE_ACCOUNT)

    found = plan("run1", before, next_of(*(_annotated(job, "new") for job in plain(workers=2)), SERVICE_ACCOUNT))

    assert {(change.effect, change.how) for change in found.changes} == {(REPLACED, "ended, then created anew")}
    assert found.replaces
    refuse_traps(found, before)


def _annotated(job: Object, content: str) -> Object:
    changed = copy.deepcopy(job)
    changed["metadata"].setdefault("annotations", {})["distrain/content"] = content
    return changed


def test_hooks_and_what_stays_the_same_are_no_change() -> None:
    hook = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"helm.sh/hook": "test"}}}

    found = plan("run1", before_of(mpi_job()), next_of(mpi_job(), hook))

    assert found.is_empty


@pytest.mark.parametrize(
    ("end", "is_there", "words"),
    [
        (None, True, None),
        ("Succeeded", True, None),
        ("Failed", True, "its job has failed already, and this upgrade does not run it again"),
        (None, False, f"MPIJob {JOB} is gone: its ttlSecondsAfterFinished or a user has deleted it"),
    ],
)
@pytest.mark.parametrize(
    ("values", "then"),
    [
        ({"checkpoint": {"uri": "s3://runs"}}, "it goes on from its last checkpoint"),
        ({"checkpoint": {"uri": ""}}, "the new job trains from the start, because no checkpoint outlives its pods"),
        ({"command": ["a"]}, "the new job runs your command again"),
    ],
)
def test_job_that_has_ended_is_not_left_at_nothing_changes(
    end: str | None, is_there: bool, words: str | None, values: Object, then: str
) -> None:
    before = replace(before_of(mpi_job(), end=end, is_there=is_there), values=values)

    told = list(lines(plan("run1", before, replace(next_of(mpi_job()), values=values)), before, has_trainer=True))

    again = f"run1: {words}. `helm uninstall run1 {FLAGS}` and install the release again under the same name: {then}"
    assert told == ["run1: nothing changes", *([again] if words else [])]


def test_job_that_stays_starts_nothing_over() -> None:
    before = replace(before_of(mpi_job()), values={"checkpoint": PODS_ALONE})

    assert plan("run1", before, next_of(mpi_job(workers=3), checkpoint=PODS_ALONE)).starts_over == ""
