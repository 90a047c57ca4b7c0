"""Test `upgrade --dry-run --from`: the plan of a change in git without a cluster, in every output format."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab.paths import CHART
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Outcome, Run

pytestmark = pytest.mark.either_helm

BEFORE: Object = {"workers": {"replicas": 2, "gpus": 4}, "trainer": {"steps": 600}}
SECRET = "hunter2-hunter2"
PlanOf = Callable[..., Outcome]


@pytest.fixture
def plan_of(run: Run, cluster: FakeApi, tmp_path: Path) -> PlanOf:
    """Return a function that plans a change of values, and asserts that no request went to a cluster."""

    def plan_of(after: Object, *flags: str, before: Object | None = None) -> Outcome:
        for name, values in (("before", BEFORE if before is None else before), ("after", after)):
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(values))
        files = ["--from", str(tmp_path / "before.yaml"), "-f", str(tmp_path / "after.yaml")]
        outcome = run("upgrade", "run1", "--dry-run", *files, *flags)
        assert cluster.requests == []
        return outcome

    return plan_of


def _with(**sections: Object) -> Object:
    return {**BEFORE, **{key: {**BEFORE.get(key, {}), **section} for key, section in sections.items()}}


def test_rescale_is_a_comment_with_values_effect_and_gpus(plan_of: PlanOf) -> None:
    outcome = plan_of(_with(workers={"replicas": 4}), "-o", "markdown")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "### `run1`: rescales live",
        "",
        "- **Values:**",
        "  - `workers.replicas`: `2 -> 4`",
        "- **Effect:**",
        "  - live: `MPIJob run1: spec.mpiReplicaSpecs.Worker.replicas`: `2 -> 4`",
        "- **GPUs:** 8 before, 16 after, `nvidia.com/gpu`",
        "- **Lost:** nothing: the job goes on",
    ]


def test_replaced_job_is_a_comment_with_the_steps_that_are_lost(plan_of: PlanOf) -> None:
    outcome = plan_of(_with(trainer={"steps": 900}), "-o", "markdown")

    lines = outcome.out.splitlines()
    lost = "all steps made so far: the new job trains from the start, because no checkpoint outlives its pods"
    assert lines[0] == "### `run1`: a new job replaces the running one"
    assert lines[-2:] == ["- **GPUs:** 8 before, 8 after (unchanged), `nvidia.com/gpu`", f"- **Lost:** {lost}"]


def test_replaced_job_with_checkpoints_loses_the_steps_since_the_last_one(plan_of: PlanOf) -> None:
    saved = {"checkpoint": {"uri": "s3://runs"}, "s3": {"endpoint": "http://s3:9000", "secretName": "s3"}}

    outcome = plan_of({**_with(trainer={"steps": 900}), **saved}, "-o", "markdown", before={**BEFORE, **saved})

    assert "- **Lost:** at most the steps since the last checkpoint: the job saves when it is stopped" in outcome.out


@pytest.mark.parametrize(
    ("values", "has_hook"),
    [
        ({}, True),
        ({"replace": {"enabled": False}}, False),
        ({"rbac": {"create": False}}, False),
        ({"rbac": {"create": False}, "replace": {"serviceAccountName": "ender"}}, True),
    ],
    ids=["hook", "disabled", "no-role", "own-account"],
)
def test_job_that_no_hook_ends_is_to_be_deleted_by_hand(
    helm: Path, plan_of: PlanOf, tmp_path: Path, values: Object, has_hook: bool
) -> None:
    """Depending on the values, the chart has a replace hook that deletes the job, or has none.

    If it has none, the plan must tell the user to delete the job by hand.
    """
    outcome = plan_of({**_with(trainer={"steps": 900}), **values}, "-o", "markdown", before={**BEFORE, **values})
    real = ["--api-versions", "apiregistration.k8s.io/v1", "--api-versions", "kubeflow.org/v2beta1/MPIJob"]
    command = [str(helm), "template", "run1", str(CHART), "-f", str(tmp_path / "after.yaml"), *real]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    by_hand = "- **By hand:** delete MPIJob run1 before the change is applied: no hook ends a running job, "
    assert ("distrain-replace" in rendered) == has_hook
    assert (by_hand in outcome.out) != has_hook
    assert ("`created anew, once someone has deleted it`" in outcome.out) != has_hook
    assert outcome.out.startswith(f"### `run1`: a new job replaces the running one{'' if has_hook else ', once '}")


@pytest.mark.parametrize(
    ("suspends", "line", "lost"),
    [
        (True, "**Suspended:** the job's pods end, and it waits until job.suspend is false", "all steps made so far"),
        (False, "**Resumed:** the job's pods are created; it trains from the start", "nothing: a suspended job has no"),
    ],
    ids=["suspended", "resumed"],
)
def test_suspension_is_a_comment_with_what_happens_to_the_pods(
    plan_of: PlanOf, suspends: bool, line: str, lost: str
) -> None:
    before, after = (_with(job={"suspend": value}) for value in (not suspends, suspends))

    outcome = plan_of(after, "-o", "markdown", before=before)

    assert outcome.out.startswith(f"### `run1`: {'suspends' if suspends else 'resumes'} the job\n")
    assert f"- **GPUs:** {'8 before, 0' if suspends else '0 before, 8'} after, `nvidia.com/gpu`" in outcome.out
    assert f"- {line}" in outcome.out
    assert f"- **Lost:** {lost}" in outcome.out


@pytest.mark.parametrize(
    ("was", "will_be", "head", "gpus"),
    [
        (True, True, "a new, suspended job replaces the suspended one", "0 before, 0 after (unchanged)"),
        (True, False, "a new job replaces the suspended one", "0 before, 8 after"),
        (False, True, "a new, suspended job replaces the running one", "8 before, 0 after"),
    ],
)
def test_comment_does_not_call_a_suspended_job_running(
    plan_of: PlanOf, was: bool, will_be: bool, head: str, gpus: str
) -> None:
    after = _with(job={"suspend": will_be}, trainer={"steps": 900})

    outcome = plan_of(after, "-o", "markdown", before=_with(job={"suspend": was}))

    assert outcome.out.startswith(f"### `run1`: {head}\n")
    assert f"- **GPUs:** {gpus}, `nvidia.com/gpu`" in outcome.out


@pytest.mark.parametrize("shm", ["", "  shm: 9Gi  # derived: 1Gi for each of 9 ranks\n"], ids=["unset", "stale"])
def test_value_that_the_files_do_not_change_is_not_in_the_plan(run: Run, tmp_path: Path, shm: str) -> None:
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    for file, gpus in ((before, 4), (after, 8)):
        file.write_text(f"workers:\n  gpus: {gpus}\n{shm}")

    outcome = run("upgrade", "run1", "--dry-run", "--from", str(before), "-f", str(after), "-o", "json")

    assert json.loads(outcome.out)["values"] == {"workers.gpus": "4 -> 8"}


def test_same_values_change_nothing(plan_of: PlanOf) -> None:
    outcome = plan_of(BEFORE, "-o", "markdown")

    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "### `run1`: nothing changes")


def test_change_that_nothing_applies_is_refused_in_the_comment_too(plan_of: PlanOf) -> None:
    outcome = plan_of({**BEFORE, "podLabels": {"team": "a"}}, "-o", "markdown")

    assert (outcome.code, outcome.out.splitlines()[0]) == (2, "### `run1`: would be refused")
    assert "- **Refused:** podLabels.team: MPIJob run1: " in outcome.out
    told = outcome.err.replace("or remove", "Remove")
    assert "Remove the release from git, wait until the tool that applies it has deleted it" in told


def test_plan_is_also_text_and_json(plan_of: PlanOf) -> None:
    after = _with(workers={"replicas": 4})

    assert plan_of(after).out.startswith("run1: values before -> values after\n  value     workers.replicas: 2 -> 4\n")
    answer = json.loads(plan_of(after, "-o", "json").out)
    assert (answer["values"], answer["replaces"], answer["verdict"]) == ({"workers.replicas": "2 -> 4"}, False, None)


@pytest.mark.parametrize("form", ["markdown", "text", "json"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"env": [{"name": "A", "value": SECRET}]}, id="environment"),
        pytest.param({"command": ["train", f"--token={SECRET}"]}, id="command"),
        pytest.param({"podAnnotations": {"apiToken": SECRET}}, id="name-of-a-secret"),
        pytest.param({"output": {"uri": f"https://me:{SECRET}@files.example/out"}}, id="login"),
        pytest.param({"output": {"uri": f"https://files.example/out?signature={SECRET}"}}, id="query"),
    ],
)
def test_no_secret_is_in_the_plan(plan_of: PlanOf, form: str, values: Object) -> None:
    for outcome in (
        plan_of({**BEFORE, **values}, "-o", form),
        plan_of(BEFORE, "-o", form, before={**BEFORE, **values}),
    ):
        assert SECRET not in outcome.out + outcome.err


def test_special_characters_of_a_value_stay_words(plan_of: PlanOf) -> None:
    outcome = plan_of(
        {**BEFORE, "priorityClassName": "a", "podAnnotations": {"note": "[x](y) `b` @all"}}, "-o", "markdown"
    )

    assert "  - `podAnnotations.note`: ``unset -> [x](y) `b` @all``" in outcome.out.splitlines()


def test_files_of_from_are_merged_in_order(run: Run, cluster: FakeApi, tmp_path: Path) -> None:
    for name, replicas in (("base", 1), ("before", 2), ("after", 3)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"workers": {"replicas": replicas, "gpus": 1}}))
    base, before, after = (str(tmp_path / f"{name}.yaml") for name in ("base", "before", "after"))

    outcome = run("upgrade", "run1", "--dry-run", "--from", base, "--from", before, "-f", after)

    assert "workers.replicas: 2 -> 3" in outcome.out


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        pytest.param({"wrokers": {}}, BEFORE, "--from: wrokers: ", id="values-before-that-the-schema-refuses"),
        pytest.param(BEFORE, {"wrokers": {}}, "wrokers: ", id="values-after-that-the-schema-refuses"),
        pytest.param(BEFORE, {"gpus": 32}, "gpus: the total cannot be divided among workers", id="total-to-derive"),
        pytest.param(BEFORE, {"job": {"enabled": False}}, "job.enabled: is false", id="job-turned-off"),
    ],
)
def test_values_that_give_no_job_are_refused(plan_of: PlanOf, before: Object, after: Object, words: str) -> None:
    outcome = plan_of(after, before=before)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: {words}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-f", "a.yaml"], "works only with --dry-run, because it shows a plan without"),
        (["-f", "a.yaml", "--dry-run=server"], "works only with --dry-run, because it shows a plan without"),
        (
            ["--dry-run", "-f", "a.yaml", "--reuse-values"],
            "already gives the values before the change; leave out --reuse-",
        ),
        (["--dry-run"], "gives only the values before the change; give the values after the change with -f"),
    ],
)
def test_from_is_refused_with_what_contradicts_it(run: Run, arguments: list[str], words: str) -> None:
    outcome = run("upgrade", "run1", "--from", "b.yaml", *arguments)

    assert (outcome.code, outcome.err.startswith(f"distrain: --from: {words}")) == (2, True), outcome.err
