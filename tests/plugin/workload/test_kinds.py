"""Test that the chart's and the plugin's facts about each job kind come from schemas/kinds.yaml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distrain.workload import kinds
from distrain.workload.wording import SECTIONS
from schemas.kinds import TARGETS, build


@pytest.mark.parametrize("target", TARGETS, ids=["chart", "plugin"])
def test_copies_have_the_facts_that_people_write(target: Path) -> None:
    assert target.read_text(encoding="utf-8") == build(), "run `make schema`"


def test_facts_of_a_version_win_over_those_of_its_kind_and_operator() -> None:
    first, second = (kinds.VERSIONS[f"kubeflow.org/{name}", "MPIJob"] for name in ("v1", "v1alpha2"))

    assert first.live == ("cleanPodPolicy", "runPolicy")
    assert kinds.VERSIONS["kubeflow.org/v1", "TFJob"].live == ("runPolicy",)
    assert (first.drops_fields_since, second.drops_fields_since) == ("1.32", "1.16")


def test_every_role_has_a_section_of_the_values() -> None:
    assert set(SECTIONS.values()) == {"launcher", "scheduler", "servers", "workers"}
    assert SECTIONS["ps"] == "servers"


def test_labels_name_nothing_but_kind_job_and_role() -> None:
    texts = [
        text for version in kinds.VERSIONS.values() for text in (*version.labels.values(), *version.creates.values())
    ]

    assert {name for text in texts for name in re.findall(r"\{(\w*)\}", text)} == {"kind", "job", "role"}
