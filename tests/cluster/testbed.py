"""A namespace of the lab, as the cluster tests use it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_helm_charts.clusters import Cluster

from lab.paths import REPOSITORY
from lab.waiting import wait_until

VALUES = REPOSITORY / "values"
SECRET = "s3"
WRONG_KEY = "s3-wrong-key"
BUCKET = "cluster-tests"

_LAUNCHER = "app.kubernetes.io/component=launcher"


def settings(values: dict[str, Any]) -> list[str]:
    """Return Helm's --set arguments for these values."""
    return [argument for key, value in values.items() for argument in ("--set", f"{key}={value}")]


@dataclass(frozen=True)
class Namespace:
    """A namespace that enforces Pod Security `restricted` and holds the S3 server's keys."""

    name: str
    cluster: Cluster

    def get(self, kinds: str) -> list[dict[str, Any]]:
        """Return every object of these kinds, by kubectl's names for them."""
        found = self.cluster.kubectl(f"get {kinds} --namespace {self.name}")
        assert isinstance(found, list)
        return found

    def helm(self, helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Helm here."""
        return _run([str(helm), *arguments, "--namespace", self.name])

    def distrain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the plugin's program here."""
        return _run([sys.executable, "-m", "distrain", *arguments, "--namespace", self.name])

    def outcome(self) -> str:
        """Return how the namespace's one MPIJob ended, Succeeded or Failed; an empty string while it runs."""
        conditions = self.get("mpijobs")[0].get("status", {}).get("conditions", [])
        ends = [item["type"] for item in conditions if item["status"] == "True"]
        return next((end for end in ends if end in ("Succeeded", "Failed")), "")

    def wait_for_end(self, *, seconds: float) -> str:
        """Wait until the job ended, and return how. Raises LabError after the limit."""
        wait_until("the job's end", lambda: bool(self.outcome()), seconds=seconds, pause=1)
        return self.outcome()

    def launcher_log(self) -> str:
        log = self.cluster.kubectl(f"logs -l {_LAUNCHER} --tail=-1 --namespace {self.name}", output_format="")
        return str(log)

    def launcher_end(self) -> dict[str, Any]:
        """Return the end of the launcher's container: its exit code and message."""
        pods = self.cluster.kubectl(f"get pods -l {_LAUNCHER} --namespace {self.name}")
        end: dict[str, Any] = pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]
        return end


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
