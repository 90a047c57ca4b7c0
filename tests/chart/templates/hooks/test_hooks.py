"""Test whether Helm prints the logs of hook Pods."""

from __future__ import annotations

from pathlib import Path

from tests.chart.documents import OUTPUT, annotation, documents, of_kind
from tests.chart.kinds import KINDS, every_kind

PREFLIGHT = "preflight.enabled=true"


@every_kind
def test_no_annotation_ends_flux_unless_a_value_asks_for_it(helm: Path, kind: str) -> None:
    # https://github.com/fluxcd/helm-controller/issues/1562
    found = documents(helm, *KINDS[kind], PREFLIGHT)

    assert OUTPUT not in str(found)


def test_people_at_a_terminal_can_have_every_log_printed(helm: Path) -> None:
    pods = of_kind(documents(helm, PREFLIGHT, "hooks.printLog=true"), "Pod")

    assert [annotation(pod, OUTPUT) for pod in pods] == ["hook-failed,hook-succeeded"] * 3
