"""Test which changes of the lab's operators end running jobs, and which programs each choice of operators needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.cluster import operators
from lab.cluster.operators import DEFAULT, NONE, Operators


@pytest.mark.parametrize(
    ("installed", "chosen", "ends"),
    [
        pytest.param(Operators(training=False), DEFAULT, False, id="training-operator-is-added"),
        pytest.param(NONE, DEFAULT, False, id="all-are-added"),
        pytest.param(DEFAULT, NONE, True, id="all-go"),
        pytest.param(DEFAULT, DEFAULT, False, id="the-same"),
        pytest.param(DEFAULT, Operators(training=False), True, id="training-operator-goes"),
        pytest.param(Operators(mpijob="v1"), DEFAULT, True, id="another-version-of-mpijob"),
        pytest.param(Operators(training=False), Operators(gang=True), True, id="a-gang-scheduler-comes-too"),
        pytest.param(None, DEFAULT, True, id="unknown"),
    ],
)
def test_only_added_operators_end_no_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed: Operators | None, chosen: Operators, ends: bool
) -> None:
    record = tmp_path / "operators.json"
    if installed:
        record.write_text(json.dumps(asdict(installed)))
    monkeypatch.setattr(operators, "_INSTALLED", record)

    assert operators.ends_jobs(chosen) is ends


def test_each_choice_names_the_programs_that_it_needs() -> None:
    assert operators.programs(Operators(training=False)) == ["mpi-operator"]
    assert operators.programs(DEFAULT) == ["training-operator.v1", "mpi-operator", "nslookup"]
