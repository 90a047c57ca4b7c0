"""Check the rendered resources against the schemas that Kubernetes and the operators enforce."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tests.chart.api_schemas import all_complaints, complaints, crd_schema, version_of
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import VALUES, render, render_with

MORE_VALUES = (
    "workers.topology.policy=spread", "workers.podSpec.terminationGracePeriodSeconds=1000000",
    "workers.sidecars[0].name=side", "workers.sidecars[0].image=side", "priorityClassName=high",
    "image.pullSecrets={login}", "volumes[0].name=data", "volumes[0].persistentVolumeClaim.claimName=data",
    "volumeMounts[0].name=data", "volumeMounts[0].mountPath=/data",
)  # fmt: skip


@every_kind
def test_apis_know_every_field(helm: Path, kind: str) -> None:
    rendered = render_with(helm, KINDS[kind])

    assert list(all_complaints(rendered)) == []


@every_kind
def test_apis_know_every_field_that_a_user_may_add(helm3: Path, kind: str) -> None:
    rendered = render_with(helm3, (*KINDS[kind], *MORE_VALUES))

    assert list(all_complaints(rendered)) == []


@pytest.mark.parametrize("file", sorted(VALUES.glob("*.yaml")), ids=lambda file: file.stem)
def test_apis_know_every_field_of_the_files_to_start_from(helm: Path, file: Path) -> None:
    rendered = render(helm, "--values", str(file))

    assert list(all_complaints(rendered)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("plain", "mxjob-v1beta1", "mpijob-v1alpha2")])
def test_misspelt_field_would_be_found(helm3: Path, kind: str) -> None:
    rendered = copy.deepcopy(render_with(helm3, KINDS[kind]))
    rendered.container("Worker")["volumeMount"] = []

    found = complaints(crd_schema(version_of(rendered.job)), rendered.job)

    assert any("'volumeMount' was unexpected" in one for one in found)


def test_misspelt_field_of_a_native_kind_would_be_found(helm3: Path) -> None:
    rendered = copy.deepcopy(render_with(helm3, KINDS["plain"]))
    rendered.job["spec"]["parallelisms"] = 2

    assert any("'parallelisms' was unexpected" in one for one in all_complaints(rendered))
