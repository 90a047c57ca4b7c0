"""Test that a top-level CPU limit reaches every pod, because a quota on limits.cpu refuses pods without a limit."""

from __future__ import annotations

from pathlib import Path

from tests.chart.kinds import every_kind
from tests.chart.templates.objects.everything import everything, pods


@every_kind
def test_limit_at_the_top_is_on_every_container(helm: Path, kind: str) -> None:
    found = pods(everything(helm, kind, "resources.limits.cpu=2"))

    containers = [one for pod in found for one in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))]
    assert len(containers) >= 3
    assert [one["name"] for one in containers if str(one["resources"]["limits"].get("cpu")) != "2"] == []
