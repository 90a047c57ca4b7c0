"""Test when `check` and `install` must derive values before they render the job."""

from __future__ import annotations

import pytest

from distrain.derive.complete import Given, leaves_open
from distrain.helm.program import Source
from distrain.helm.render import find
from lab.builds import golang
from lab.paths import CHART


@pytest.mark.parametrize(
    ("values", "is_final", "is_open"),
    [
        pytest.param("gpus: 8\n", False, True, id="total-alone"),
        pytest.param("gpus: 8\nworkers: {replicas: 2}\n", False, True, id="total-without-the-workers-size"),
        pytest.param("gpus: 8\nworkers: {replicas: 2, gpus: 4}\n", False, False, id="total-that-is-spread"),
        pytest.param("workers:\n  gpus: 1  # derived: gpus 2 on whole nodes of 1\n", False, True, id="derived-line"),
        pytest.param("workers: {gpus: 4}\n", True, True, id="shared-memory-of-a-release"),
        pytest.param("workers: {gpus: 4}\n", False, False, id="shared-memory-of-a-job-that-is-only-judged"),
        pytest.param("workers: {gpus: 1}\n", True, False, id="one-gpu"),
        pytest.param("workers: {gpus: 4, shm: 2Gi}\n", True, False, id="shared-memory-of-the-users"),
    ],
)
def test_values_are_derived_only_if_one_is_missing(
    monkeypatch: pytest.MonkeyPatch, values: str, is_final: bool, is_open: bool
) -> None:
    monkeypatch.setenv("HELM_BIN", str(golang.binary("helm4")))
    helm, source = find(), Source(CHART, ()).with_text(values)
    given = Given(helm, source, (values,), None)

    assert leaves_open(given, helm.merged_values(source), is_final=is_final) == is_open
