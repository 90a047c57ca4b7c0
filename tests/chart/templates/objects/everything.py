"""Render every object of a release: the job's, the hooks', and objects that only few users enable."""

from __future__ import annotations

from pathlib import Path

from tests.chart.documents import documents
from tests.chart.expansion import templates
from tests.chart.kinds import KINDS
from tests.chart.rendering import Yaml

EVERYTHING = (
    "preflight.enabled=true", "monitoring.podMonitor=true", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}",
    "networkPolicy.enabled=true",
)  # fmt: skip


def everything(helm: Path, kind: str, *values: str) -> list[Yaml]:
    """Return every object that the chart can render for a kind, including the items of Lists."""
    found = documents(helm, *KINDS[kind], *EVERYTHING, *values)
    return [one for document in found for one in (document["items"] if document["kind"] == "List" else [document])]


def pods(found: list[Yaml]) -> list[Yaml]:
    """Return every pod and pod template in these objects.

    ConfigMaps are left out, because the preflight check's ConfigMap contains the job as text.
    """
    return [template for one in found if one["kind"] != "ConfigMap" for template in templates(one)]
