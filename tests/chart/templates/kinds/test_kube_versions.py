"""Test that every template works in the oldest Kubernetes that kubeVersion in Chart.yaml allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import CHART, refusal, render, render_with

# Maps a field to the first Kubernetes version that enables this field by default, according to
# https://github.com/kubernetes/enhancements.
FIRST = {
    ".topologySpreadConstraints.nodeTaintsPolicy": 26,
    ".podFailurePolicy": 26,
    ".selector.batch.kubernetes.io/job-name": 27,
    # In an Indexed Job, completions may change together with parallelism.
    ".completionMode": 27,
}
MORE = ("workers.topology.policy=spread", "preflight.enabled=true")


def oldest() -> int:
    """Return the oldest minor version that Chart.yaml allows."""
    found = re.fullmatch(r">=1\.([0-9]+)-0", yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"])
    assert found
    return int(found[1])


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every field. The path of a list's item contains no index."""
    if isinstance(value, list):
        for one in value:
            yield from fields(one, path)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from fields(inner, f"{path}.{key}")


@every_kind
def test_every_field_is_in_the_oldest_kubernetes(helm4: Path, kind: str) -> None:
    rendered = render_with(helm4, (*KINDS[kind], *MORE))

    found = {field for document in [*rendered.documents, *rendered.hooks] for field in fields(document)}

    late = [field for field in found for end, first in FIRST.items() if field.endswith(end) and first > oldest()]
    assert late == []


def test_what_is_looked_for_is_rendered(helm4: Path) -> None:
    documents = [one for kind in KINDS for one in render_with(helm4, (*KINDS[kind], *MORE)).documents]

    found = {end for document in documents for field in fields(document) for end in FIRST if field.endswith(end)}

    assert found == set(FIRST)


def test_older_kubernetes_is_refused(helm: Path) -> None:
    words = refusal(helm, "--kube-version", f"1.{oldest() - 1}.9")

    assert "chart requires kubeVersion" in words
    render(helm, "--kube-version", f"1.{oldest()}.0")
