"""Test the parts of a plan in Markdown that depend on the plan alone: its heading, its refusals and its long lists."""

from __future__ import annotations

import pytest

from distrain.release.changes import IGNORED, LIVE, Change
from distrain.release.plan import Before, Plan
from distrain.release.plan_markdown import MOST, lines, sizes
from distrain.workload.manifest import from_manifest
from distrain.yaml import yaml_writer
from tests.plugin.objects import mpi_job

MANIFEST = yaml_writer.dump(mpi_job())
JOB = from_manifest(MANIFEST, "run1")
BEFORE = Before(3, MANIFEST, JOB, {}, None, True, "--namespace team")
SIZES = sizes(JOB, JOB, "nvidia.com/gpu")


def _told(planned: Plan) -> list[str]:
    return list(lines(planned, BEFORE, SIZES, "", has_trainer=True))


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


def test_each_refusal_is_a_line() -> None:
    ignored = [Change(IGNORED, f"MPIJob run1: spec.{field}", "1 -> 2") for field in ("a", "b")]

    told = _told(Plan("run1", 3, {}, ignored))

    assert told[0] == "### `run1`: would be refused"
    refused = [line.partition(" MPIJob")[0] for line in told if line.startswith("- **Refused:**")]
    assert refused == ["- **Refused:** spec.a:", "- **Refused:** spec.b:"]
