"""Test job.suspend: the field that each kind uses, and what does not change while the job is suspended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import HOOK, annotation, documents, hooks, of_kind
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Yaml, render_with

CANNOT = ("mpijob-v1alpha2", "mxjob-v1beta1")
SUSPENDABLE = [kind for kind in KINDS if kind not in CANNOT]
every_suspendable = pytest.mark.parametrize("kind", SUSPENDABLE)
SUSPEND = "job.suspend=true"


def suspended(spec: Yaml) -> list[str]:
    """Return the paths of the fields named `suspend` that are true in the spec of a Job or Kubeflow job."""
    found = {"suspend": spec.get("suspend"), "runPolicy.suspend": (spec.get("runPolicy") or {}).get("suspend")}
    return [path for path, value in found.items() if value is True]


@every_suspendable
def test_each_kind_is_suspended_by_its_own_field(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], SUSPEND))

    found = {one["metadata"]["name"]: suspended(one["spec"]) for one in rendered.documents if one["kind"] == "Job"}
    if rendered.is_plain:
        # The Job that creates the SSH key is not suspended, so the pods find the key when the job is resumed.
        assert found == {"run1-plain-launcher": ["suspend"], "run1-plain-worker": ["suspend"], "run1-plain-keygen": []}
    else:
        assert suspended(rendered.job["spec"]) == ["runPolicy.suspend"]


@every_kind
def test_field_is_written_only_if_it_is_true(helm: Path, kind: str) -> None:
    assert "suspend" not in render_with(helm, (*KINDS[kind], "job.suspend=false")).text


@every_suspendable
def test_running_job_is_suspended_in_place(helm: Path, kind: str) -> None:
    runs, waits = render_with(helm, KINDS[kind]), render_with(helm, (*KINDS[kind], SUSPEND))

    assert waits.content == runs.content
    assert waits.text.replace("\n    suspend: true", "").replace("\n  suspend: true", "") == runs.text


@pytest.mark.parametrize("kind", ["mpijob-v2beta1", "mpijob-v1", "pytorchjob-elastic", "plain"])
def test_job_of_helm_test_runs_while_the_release_is_suspended(helm: Path, kind: str) -> None:
    found = documents(helm, *KINDS[kind], SUSPEND)

    own = [one for one in found if not annotation(one, HOOK) and "spec" in one and suspended(one["spec"])]
    tested = [one for each in hooks(found, "test") for one in (each.get("items") or [each])]
    assert own
    assert [one for one in tested if "spec" in one and suspended(one["spec"])] == []
    assert of_kind(tested, own[0]["kind"])


@pytest.mark.parametrize("kind", SUSPENDABLE)
def test_nothing_has_to_fit_while_the_job_is_suspended(helm: Path, kind: str) -> None:
    on = (*KINDS[kind], "preflight.enabled=true")

    assert hooks(documents(helm, *on), "pre-install")
    assert hooks(documents(helm, *on, SUSPEND), "pre-install") == []
