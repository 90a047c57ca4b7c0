"""Define the fixtures of the tests in `release`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.changes import change as command
from distrain.progress import hostfile
from distrain.release.plan import Plan
from distrain.release.transaction import Release
from lab.paths import CHART
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import pod
from tests.plugin.program import Run
from tests.plugin.release.recorded import PODS, VALUES, Recorded, own_objects


@pytest.fixture
def running(run: Run, cluster: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    values = tmp_path / "old.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    found = Recorded(cluster, own_objects(run("template", "run1", "--chart", str(CHART), "-f", str(values)).out))
    found.be()
    found.show()
    words = {"name": "distrain", "component": "launcher", "instance": "run1"}
    labels = {f"app.kubernetes.io/{key}": word for key, word in words.items()}
    launcher = pod("launcher-x", on="a", owner="Job")
    launcher["metadata"]["labels"] = labels
    state = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    launcher["status"]["containerStatuses"] = [state]
    cluster.answers[PODS] = [launcher]
    monkeypatch.setattr(hostfile, "SECONDS_FOR_PODS", 0)

    def fake_upgrade(
        _: Any, release: Release, __: Any, planned: Plan, *___: Any, refresh: Callable[[], None], **____: Any
    ) -> None:
        found.upgrades.append((release, planned))
        refresh()

    monkeypatch.setattr(command, "upgrade", fake_upgrade)
    cluster.requests.clear()
    return found
