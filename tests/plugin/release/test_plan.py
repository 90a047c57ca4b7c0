"""Test the plan of an upgrade: the effect of each change, the refusals, and the lost progress."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from distrain.check.gpus import Gpus
from distrain.errors import RefusedError, ValuesError
from distrain.progress.steps import Training, duration, last_steps, seconds_since
from distrain.release import changes, resume
from distrain.release.changes import IGNORED, LIVE, REPLACED, Change
from distrain.release.plan import Before, Next, Plan, freed, lines, plan, refuse_ended, refuse_traps
from distrain.release.size import reused, with_gpus, with_workers
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from distrain_trainer.checkpoint.manifest import Subject
from tests.plugin.objects import JOB, Object, mpi_job, plain, pytorch_job

SERVICE_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "run1"}}
FLAGS = "--namespace team --kube-context lab"


def _manifest(*objects: Object) -> str:
    return yaml_writer.dump(*objects)


def _before(*objects: Object, end: str | None = None, is_there: bool = True) -> Before:
    manifest = _manifest(*objects)
    return Before(3, manifest, from_manifest(manifest, "run1"), {"a": 1}, end, is_there, FLAGS)


def _next(*objects: Object, **values: Any) -> Next:
    manifest = _manifest(*objects)
    return Next(manifest, from_manifest(manifest, "run1"), {"a": 1, **values})


def _with(job: Object, path: str, value: Any) -> Object:
    """Return the job with one more field at the path."""
    changed = copy.deepcopy(job)
    *parents, last = path.split(".")
    at = changed
    for key in parents:
        at = at.setdefault(key, {})
    at[last] = value
    return changed


def _renamed(job: Object) -> Object:
    return {**job, "metadata": {**job["metadata"], "name": "run1-ffffffff"}}


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
    found = plan("run1", _before(job), _next(_with(job, path, "x" if "template" in path or "labels" in path else 9)))

    assert [change.effect for change in found.changes] == [effect]


def test_job_of_another_size_goes_on() -> None:
    before = _before(mpi_job(workers=2), SERVICE_ACCOUNT)

    found = plan("run1", before, _next(mpi_job(workers=3), SERVICE_ACCOUNT, workers={"replicas": 3}))

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
    before = _before(mpi_job(), end=end, is_there=is_there)

    told = list(lines(plan("run1", before, _next(mpi_job(), SERVICE_ACCOUNT)), before, has_trainer=True))

    assert told[-1] == f"  lost      {lost}"


@pytest.mark.parametrize(
    ("value", "before", "after", "found"),
    [
        pytest.param(("trainer", "learningRate"), 5e-05, "0.00005", {}, id="file-and-set"),
        pytest.param(("data", "maxBadShare"), "0.10", "0.1", {}, id="two-spellings"),
        pytest.param(("workers", "cpu"), 2.5, "2.50", {}, id="cpu"),
        pytest.param(("workers", "cpu"), 2, "2m", {"workers.cpu": "2 -> 2m"}, id="unit"),
        pytest.param(("trainer", "learningRate"), 0.1, None, {"trainer.learningRate": "0.1 -> unset"}, id="unset"),
        pytest.param(("mpi", "mca"), {"a": 1.1}, {"a": "1.10"}, {"mpi.mca.a": "1.1 -> 1.10"}, id="word"),
    ],
)
def test_same_number_spelt_otherwise_is_no_change(
    value: tuple[str, str], before: object, after: object, found: dict[str, str]
) -> None:
    group, key = value

    assert changes.of_values({group: {key: before}}, {group: {key: after}}) == found


def test_section_that_becomes_a_text_or_was_one_is_one_change() -> None:
    section, text = {"global": {"a": {"b": 1}}}, {"global": {"a": "c"}}

    assert changes.of_values(section, text) == changes.of_values(text, section) == {"global.a": "changed"}


def test_job_of_another_name_is_replaced_by_helm_itself() -> None:
    before = _before(mpi_job(), SERVICE_ACCOUNT)

    found = plan("run1", before, _next(_renamed(mpi_job(gpus=2))))

    assert [(change.effect, change.what, change.how) for change in found.changes] == [
        (REPLACED, f"MPIJob {JOB}", "by MPIJob run1-ffffffff"),
        (LIVE, "ServiceAccount run1", "deleted"),
    ]
    refuse_traps(found, before)


def test_each_job_of_plain_is_replaced_by_the_one_of_its_part() -> None:
    old = plain(workers=2)
    new = [{**one, "metadata": {**one["metadata"], "name": one["metadata"]["name"].replace(JOB, "b")}} for one in old]

    found = plan("run1", _before(*old), _next(*new))

    parts = ("launcher", "worker")
    replaced = [(change.what, change.how) for change in found.changes if change.effect == REPLACED]
    assert [(f"Job {JOB}-{part}", f"by Job b-{part}") for part in parts] == [
        each for part in parts for each in replaced if each[0].endswith(part)
    ]


@pytest.mark.parametrize("kind", ["Service", "ServiceAccount"])
@pytest.mark.parametrize("how", ["created", "changed", "deleted"])
def test_objects_beside_the_job_are_changes_of_their_own(kind: str, how: str) -> None:
    # A Service with the job's name belongs to the job.
    name = "other" if kind == "Service" else JOB
    own = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
    afters: dict[str, list[Object]] = {"created": [own], "changed": [{**own, "x": 1}], "deleted": []}

    found = plan("run1", _before(mpi_job(), *([] if how == "created" else [own])), _next(mpi_job(), *afters[how]))

    assert [(change.effect, change.what, change.how) for change in found.changes] == [(LIVE, f"{kind} {name}", how)]


@pytest.mark.parametrize(
    ("effect", "suspended", "ends"),
    [
        pytest.param(LIVE, (False, False), False, id="goes on"),
        pytest.param(REPLACED, (False, False), True, id="is replaced"),
        pytest.param(REPLACED, (True, True), False, id="has no pods"),
        pytest.param(LIVE, (False, True), True, id="is suspended"),
    ],
)
def test_only_pods_that_run_are_ended(effect: str, suspended: tuple[bool, bool], ends: bool) -> None:
    was, will_be = suspended

    found = Plan("run1", 3, {}, [Change(effect, "a", "b")], was_suspended=was, is_suspended=will_be)

    assert found.ends_pods == ends


def test_changes_of_a_plan_stand_in_columns() -> None:
    before = _before(mpi_job(workers=2))
    planned = plan("run1", before, _next(mpi_job(workers=3), workers={"replicas": 3}))

    assert list(lines(planned, before, has_trainer=True))[:3] == [
        "run1: revision 3 -> 4",
        "  value     workers.replicas: unset -> 3",
        f"  live      MPIJob {JOB}: spec.mpiReplicaSpecs.Worker.replicas: 2 -> 3",
    ]


def test_values_keep_their_letters_in_a_plan() -> None:
    found = changes.of_values({"podLabels": {"team": "A"}, "x": True}, {"podLabels": {"team": "B"}, "x": None})

    assert found == {"podLabels.team": "A -> B", "x": "true -> unset"}


def test_job_of_another_content_is_replaced_under_its_name() -> None:
    before = _before(*(_annotated(job, "old") for job in plain(workers=2)), SERVICE_ACCOUNT)

    found = plan("run1", before, _next(*(_annotated(job, "new") for job in plain(workers=2)), SERVICE_ACCOUNT))

    assert {(change.effect, change.how) for change in found.changes} == {(REPLACED, "ended, then created anew")}
    assert found.replaces
    refuse_traps(found, before)


def _annotated(job: Object, content: str) -> Object:
    changed = copy.deepcopy(job)
    changed["metadata"].setdefault("annotations", {})["distrain/content"] = content
    return changed


def test_hooks_and_what_stays_the_same_are_no_change() -> None:
    hook = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"helm.sh/hook": "test"}}}

    found = plan("run1", _before(mpi_job()), _next(mpi_job(), hook))

    assert found.is_empty


POD_LABELS = "spec.mpiReplicaSpecs.Worker.template.metadata.labels.x"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        pytest.param(
            _before(mpi_job()),
            _next(_with(mpi_job(), POD_LABELS, "y")),
            rf"^podLabels: MPIJob {JOB}: {POD_LABELS} would change \(unset -> y\), but nothing applies that to pods",
            id="ignored-value",
        ),
        pytest.param(
            _before(mpi_job()),
            _next(_with(mpi_job(), "spec.slotsPerWorker", 4)),
            r"^spec.slotsPerWorker: MPIJob .* would change \(unset -> 4\)",
            id="ignored-field",
        ),
        pytest.param(
            _before(mpi_job(), end="Succeeded"),
            _next(mpi_job(workers=3)),
            "^run1: its job has succeeded already, and an upgrade does not run it again. "
            f"`helm uninstall run1 {FLAGS}`",
            id="finished",
        ),
        pytest.param(
            _before(mpi_job(), is_there=False),
            _next(mpi_job(), SERVICE_ACCOUNT),
            f"^run1: MPIJob {JOB} is gone, by its ttlSecondsAfterFinished or by hand. `helm uninstall run1 {FLAGS}`",
            id="deleted-by-ttl",
        ),
    ],
)
def test_silent_trap_is_refused(before: Before, after: Next, words: str) -> None:
    found = plan("run1", before, after)

    with pytest.raises(RefusedError, match=words):
        _refuse(found, before)


def _refuse(planned: Plan, before: Before) -> None:
    refuse_ended(planned, before)
    refuse_traps(planned, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_before(mpi_job()), _next(_renamed(_with(mpi_job(), POD_LABELS, "y"))), id="labels-of-a-new-job"),
        pytest.param(_before(mpi_job(), end="Failed"), _next(_renamed(mpi_job())), id="finished-and-replaced"),
        pytest.param(_before(mpi_job(), end="Failed"), _next(mpi_job()), id="finished-and-unchanged"),
        pytest.param(_before(mpi_job(), is_there=False), _next(_renamed(mpi_job())), id="gone-and-replaced"),
    ],
)
def test_what_does_as_it_says_is_not(before: Before, after: Next) -> None:
    _refuse(plan("run1", before, after), before)


def test_server_of_s3_is_shown_without_a_login() -> None:
    old = {"s3": {"endpoint": "http://minio:9000", "region": "eu-central-1"}}
    new = {"s3": {"endpoint": "https://s3.example.com", "region": "us-east-1"}}
    with_login = {"s3": {"endpoint": "https://me:password@s3.example.com", "region": "us-east-1"}}

    region = {"s3.region": "eu-central-1 -> us-east-1"}
    assert changes.of_values(old, new) == {"s3.endpoint": "http://minio:9000 -> https://s3.example.com", **region}
    assert changes.of_values(old, with_login) == {"s3.endpoint": "changed", **region}
    assert changes.of_values(with_login, old)["s3.endpoint"] == "changed"
    assert changes.settings(old, with_login)["s3.endpoint"] == "s3.endpoint: ..."
    assert changes.settings(old, new)["s3.endpoint"] == 's3.endpoint: "https://s3.example.com"'


def test_values_that_may_be_secret_or_long_are_not_shown() -> None:
    old = {"env": [], "s3": {"secretName": "a"}, "trainer": {"steps": 10}, "image": {"tag": "x" * 99}}
    new = {
        "env": [{"name": "KEY", "value": "s3cret"}],
        "s3": {"secretName": "b"},
        "trainer": {"steps": 20},
        "image": {},
    }

    assert changes.of_values(old, new) == {
        "env": "changed",
        "s3.secretName": "changed",
        "trainer.steps": "10 -> 20",
        "image.tag": "changed",
    }


@pytest.mark.parametrize(
    "path", ["global.apiToken", "global.db.PASSWORD", "x-clientSecret", "podAnnotations.example.com/key"]
)
def test_value_under_a_telling_name_is_not_shown(path: str) -> None:
    assert changes.of_values(_at(path, "old"), _at(path, "new")) == {path: "changed"}


def test_login_in_a_url_is_not_shown() -> None:
    uri = "https://me:pass@host/x"

    assert changes.of_values({"global": {"uri": uri}}, {"global": {"uri": "x"}}) == {"global.uri": "changed"}


def _at(path: str, value: str) -> dict[str, Any]:
    """Return values that set only this path."""
    first, _, rest = path.partition(".")
    if first != "global":
        return {first: {rest: value} if rest else value}
    for name in reversed(path.split(".")[1:]):
        value = {name: value}  # type: ignore[assignment]
    return {first: value}


def _priced(lost: Training | None, before: Before, **values: Any) -> Plan:
    planned = plan("run1", before, _next(_renamed(mpi_job()), **values))
    cost = Gpus("nvidia.com/gpu", needed=8, free=8, total=16)
    return replace(planned, gpus=cost, freed=freed(planned, before, "nvidia.com/gpu"), lost=lost)


@pytest.mark.parametrize(
    ("end", "is_there", "words"),
    [
        (None, True, None),
        ("Succeeded", True, None),
        ("Failed", True, "its job has failed already, and an upgrade does not run it again"),
        (None, False, f"MPIJob {JOB} is gone, by its ttlSecondsAfterFinished or by hand"),
    ],
)
@pytest.mark.parametrize(
    ("values", "then"),
    [
        ({"checkpoint": {"uri": "s3://runs"}}, "it goes on from its last checkpoint"),
        ({"checkpoint": {"uri": ""}}, "it trains from the start, as no checkpoint outlives its pods"),
        ({"command": ["a"]}, "it runs your command again"),
    ],
)
def test_job_that_has_ended_is_not_left_at_nothing_changes(
    end: str | None, is_there: bool, words: str | None, values: Object, then: str
) -> None:
    before = replace(_before(mpi_job(), end=end, is_there=is_there), values=values)

    told = list(lines(plan("run1", before, replace(_next(mpi_job()), values=values)), before, has_trainer=True))

    again = f"run1: {words}. `helm uninstall run1 {FLAGS}` and install it anew, under the same name: {then}"
    assert told == ["run1: nothing changes", *([again] if words else [])]


S3 = {"uri": "s3://runs", "resume": "auto"}
PODS_ALONE = {"uri": "", "resume": "auto"}


@pytest.mark.parametrize(
    ("lost", "old", "new", "words"),
    [
        pytest.param(
            Training(240, 600),
            PODS_ALONE,
            PODS_ALONE,
            "all 240 steps, 10 min of training: the new job trains from the start, as no checkpoint outlives its pods",
            id="no-uri",
        ),
        pytest.param(
            Training(None, 45),
            PODS_ALONE,
            S3,
            "all steps, of which the log tells none yet, 45 s of training: the new job trains from the start, as no "
            "checkpoint outlives its pods",
            id="no-step-yet",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            {**S3, "uri": "s3://others"},
            "all 240 steps, 10 min of training: the new job trains from the start, as checkpoint.uri changes",
            id="another-uri",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            {**S3, "resume": "never"},
            "all 240 steps, 10 min of training: the new job trains from the start, as checkpoint.resume is never",
            id="never",
        ),
        pytest.param(
            Training(240, 600, 200),
            S3,
            S3,
            "at most 40 steps: the job saves when it is stopped, and the new one goes on from there",
            id="checkpoint",
        ),
        pytest.param(
            Training(240, 600, 239),
            S3,
            S3,
            "at most 1 step: the job saves when it is stopped, and the new one goes on from there",
            id="one-step",
        ),
        pytest.param(
            Training(240, 600),
            S3,
            S3,
            "at most 240 steps: the job saves when it is stopped, and the new one goes on from there",
            id="no-checkpoint-yet",
        ),
        pytest.param(
            Training(None, None),
            S3,
            S3,
            "at most the steps since the last checkpoint: the job saves when it is stopped, and the new one goes on "
            "from there",
            id="log-of-a-new-launcher",
        ),
    ],
)
def test_plan_says_what_is_lost(lost: Training, old: Object, new: Object, words: str) -> None:
    before = replace(_before(mpi_job()), values={"checkpoint": old})

    told = list(lines(_priced(lost, before, checkpoint=new), before, has_trainer=True))

    assert told[0] == "run1: revision 3 -> 4"
    assert told[-2] == "  gpus      8 freed, 8 needed, 8 of 16 free for it (nvidia.com/gpu)"
    assert told[-1] == f"  lost      {words}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"command": ["a"]}, {"command": ["b"]}, "what your command has not saved itself: 45 s of training since its"),
        ({"command": ["a"]}, {}, "what your command has not saved itself: 45 s of training since its pods' start"),
        ({}, {"command": ["b"]}, "all 9 steps, 45 s of training: the new job runs your command anew"),
    ],
)
def test_only_a_command_knows_what_of_it_is_lost(old: Object, new: Object, words: str) -> None:
    before = replace(_before(mpi_job()), values={"checkpoint": S3, **old})

    priced = _priced(Training(9, 45, 8), before, checkpoint=S3, **new)
    told = list(lines(priced, before, has_trainer=not new))

    assert told[-1].startswith(f"  lost      {words}")


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

    # The arrays tell the trainer the strategy and the shapes; the data tells it the number of samples.
    assert compared - {"strategy"} == {each.name for each in fields(Subject)} - {"epoch_samples", "shapes"}


def test_job_that_stays_starts_nothing_over() -> None:
    before = replace(_before(mpi_job()), values={"checkpoint": PODS_ALONE})

    assert plan("run1", before, _next(mpi_job(workers=3), checkpoint=PODS_ALONE)).starts_over == ""


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
    before = replace(_before(mpi_job(), end=end), values=old)

    def planned(new: Object) -> Plan:
        return plan(
            "run1", before, Next(before.manifest.replace("run1", "run1-f"), before.job, _with(new, path, value))
        )

    refused = planned(old)
    words = rf"^{path}: \S+ -> {value}: run1's checkpoints are of another training then"

    with pytest.raises(RefusedError, match=words):
        refuse_traps(refused, before)
    for anew in ({"uri": "s3://others", "resume": "auto"}, {**S3, "resume": "never"}):
        refuse_traps(planned({**old, "checkpoint": anew}), before)
    failed = replace(before, end="Failed")
    refuse_traps(
        plan("run1", failed, Next(before.manifest.replace("run1", "f"), before.job, _with(old, path, value))), failed
    )


@pytest.mark.parametrize(
    ("checkpoint", "has_trainer", "words"),
    [
        (S3, True, "the new job goes on from the last checkpoint"),
        (PODS_ALONE, True, "the new job trains from the start, as no checkpoint outlives its pods"),
        ({**S3, "resume": "never"}, True, "the new job trains from the start, as checkpoint.resume is never"),
        (S3, False, "the new job runs your command anew"),
    ],
)
def test_finished_job_frees_and_loses_nothing(checkpoint: Object, has_trainer: bool, words: str) -> None:
    before = replace(_before(mpi_job(), end="Failed"), values={"checkpoint": checkpoint})

    told = list(lines(_priced(None, before, checkpoint=checkpoint), before, has_trainer=has_trainer))

    assert told[-2].startswith("  gpus      0 freed")
    assert told[-1] == f"  lost      nothing that still runs: the job has failed; {words}"


def test_last_step_is_read_from_the_trainers_lines() -> None:
    log = (
        "TensorFlow: 2.16\n10\timages/sec: 813.1 +/- 4.6 (jitter = 29.8)\t7.593\n20\timages/sec: 814.0 +/- 1\t7\nbye\n"
    )

    assert last_steps(["", log]) == (20, None)
    assert last_steps(["total images/sec: 651.2\n"]) == (None, None)
    assert last_steps([f"{log}checkpoint: saved 3-640 at step 10 (640 samples), 0.8 s, next in 95 s\n"]) == (20, 10)
    assert last_steps(["resumed from 3-640: step 10, 640 samples, on 3 ranks (before 2)\n"]) == (None, 10)


@pytest.mark.parametrize(
    ("progress", "saved"),
    [
        ('{"step": 1000, "samples": 64000, "checkpoint": "1-62080", "checkpoint_samples": 62080}', 970),
        ('{"step": 1000, "samples": 63999, "checkpoint_samples": 62080}', 970),
        ('{"step": 1000, "samples": 64000, "checkpoint": null, "checkpoint_samples": null}', None),
        ('{"step": 1000}', None),
        ('{"step": "x"}', None),
        ("{", None),
    ],
)
def test_last_saved_step_of_a_long_log_is_read_from_the_line_for_programs(progress: str, saved: int | None) -> None:
    log = f"1000\timages/sec: 813.1 +/- 4.6 (jitter = 29.8)\t7.593\ndistrain-progress: {progress}\n"

    assert last_steps([log]) == (1000, saved)


def test_time_since_the_start_is_reported_in_its_largest_units() -> None:
    now = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)

    assert seconds_since("2026-01-01T11:58:00Z", now) == 120
    assert seconds_since(None, now) is None
    assert [duration(seconds) for seconds in (45, 120, 11100)] == ["45 s", "2 min", "3 h 5 min"]


FULL = {"workers": {"replicas": 2, "gpus": 8}}
Resize = Callable[[], dict[str, Any]]


@pytest.mark.parametrize(
    ("resize", "values"),
    [
        pytest.param(lambda: with_workers({}, FULL, 4), {"workers": {"replicas": 4}}, id="workers"),
        pytest.param(
            lambda: with_workers({"gpus": 16, "x": 1}, FULL, 4),
            {"gpus": 32, "x": 1, "workers": {"replicas": 4}},
            id="total",
        ),
        pytest.param(
            lambda: with_gpus({"gpus": 16, "workers": {"cpu": 4, "gpus": 8}}, FULL, 32),
            {"gpus": 32, "workers": {"cpu": 4, "gpus": 8, "replicas": 4}},
            id="more-of-the-same",
        ),
        pytest.param(
            lambda: with_gpus({"gpus": 16, "workers": {"replicas": 2, "cpu": 4, "gpus": 8}}, FULL, 12),
            {"gpus": 12, "workers": {"cpu": 4}},
            id="left-to-derive",
        ),
        pytest.param(lambda: with_gpus({"workers": {"gpus": 8}}, FULL, 4), {"gpus": 4}, id="no-section-left"),
    ],
)
def test_release_at_another_size_keeps_its_other_values(resize: Resize, values: dict[str, Any]) -> None:
    assert resize() == values


def test_gpus_of_a_run_on_the_cpu_are_refused() -> None:
    with pytest.raises(ValuesError, match=r"^--gpus: the run trains on the CPU, as workers.gpus is 0; say --workers N"):
        with_gpus({}, {"workers": {"replicas": 2, "gpus": 0}}, 8)


def test_reused_values_merge_as_helm_merges_them() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": [1], "e": {"f": 1}, "g": 1}
    given = {"a": {"b": 3}, "d": [2], "e": None}

    assert reused(given, old) == {"a": {"b": 3, "c": 2}, "d": [2], "g": 1}
