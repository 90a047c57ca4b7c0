"""Test the parts of a Markdown plan that follow from the Plan object alone: heading, refusals and long lists."""

from __future__ import annotations

import pytest
from msgspec import structs

from distrain.release.changes import IGNORED, LIVE, REPLACED, Change
from distrain.release.plan import Before, Plan
from distrain.release.plan_markdown import MOST, lines, sizes
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.objects import mpi_job

MANIFEST = yaml_writer.dump(mpi_job())
JOB = from_manifest(MANIFEST, "run1")
BEFORE = Before(3, MANIFEST, JOB, {}, None, True, "--namespace team")
SIZES = sizes(JOB, JOB, "nvidia.com/gpu")


CHANGED = Plan("run1", 3, {}, [Change(LIVE, "a", "b")])
REPLACES = Plan("run1", 3, {}, [Change(REPLACED, "MPIJob run1", "ended, then created anew")])


def _told(planned: Plan, before: Before = BEFORE, verdict: str = "") -> list[str]:
    return list(lines(planned, before, SIZES, verdict, has_trainer=True))


def test_plan_without_a_change_says_so_and_no_more() -> None:
    told = ["### `run1`: nothing changes", "", "- The rendered objects and the values are the same."]

    assert _told(Plan("run1", 3, {}, [])) == told


@pytest.mark.parametrize(("verdict", "last"), [("", []), ("fits", ["- **Verdict:** fits"])])
def test_plan_ends_with_what_is_lost_and_with_the_verdict_if_there_is_one(verdict: str, last: list[str]) -> None:
    told = _told(CHANGED, verdict=verdict)

    assert [line.startswith("- **Lost:** ") for line in told[4:6]] == [False, True]
    assert told[6:] == last


@pytest.mark.parametrize(
    ("before", "words"),
    [
        pytest.param(BEFORE, "a new job replaces the running one", id="runs"),
        pytest.param(structs.replace(BEFORE, end="Succeeded"), "a new job", id="has ended"),
        pytest.param(structs.replace(BEFORE, is_there=False), "a new job", id="is gone"),
    ],
)
def test_heading_says_whether_a_job_that_runs_is_replaced(before: Before, words: str) -> None:
    assert _told(REPLACES, before)[0] == f"### `run1`: {words}"


@pytest.mark.parametrize(("number", "more"), [(MOST, []), (MOST + 2, ["  - and 2 more"])])
def test_values_beyond_the_most_are_counted(number: int, more: list[str]) -> None:
    values = {f"x{each}": "1 -> 2" for each in range(number)}

    told = _told(Plan("run1", 3, values, []))

    listed = [f"  - `x{each}`: `1 -> 2`" for each in range(MOST)]
    assert [line for line in told if line.startswith("  - ")] == [*listed, *more]


@pytest.mark.parametrize(
    ("was", "will_be", "words"),
    [
        pytest.param(False, True, "suspends the job", id="suspends"),
        pytest.param(True, False, "resumes the job", id="resumes"),
        pytest.param(False, False, "stays as it is", id="neither"),
    ],
)
def test_heading_says_whether_the_job_is_suspended_or_resumed(was: bool, will_be: bool, words: str) -> None:
    planned = Plan("run1", 3, {}, [Change(LIVE, "a", "b")], was_suspended=was, is_suspended=will_be)

    assert _told(planned)[0] == f"### `run1`: {words}"


def test_each_change_is_listed_with_its_effect() -> None:
    changes = [Change(effect, "a", "b") for effect in (LIVE, REPLACED, IGNORED)]

    told = _told(Plan("run1", 3, {}, changes))

    listed = [line for line in told if line.startswith("  - ")]
    assert listed == ["  - live: `a`: `b`", "  - replaced: `a`: `b`", "  - never applied: `a`: `b`"]


def test_each_refusal_is_a_line() -> None:
    ignored = [Change(IGNORED, f"MPIJob run1: spec.{field}", "1 -> 2") for field in ("a", "b")]

    told = _told(Plan("run1", 3, {}, ignored))

    assert told[0] == "### `run1`: would be refused"
    refused = [line.partition(" MPIJob")[0] for line in told if line.startswith("- **Refused:**")]
    assert refused == ["- **Refused:** spec.a:", "- **Refused:** spec.b:"]
