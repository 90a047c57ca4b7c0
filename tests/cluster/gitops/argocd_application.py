"""Drive the Argo CD Application of a run: commit changes, let Argo CD refresh at once, and read the status."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lab.cluster import client
from lab.cluster.client import kubectl
from lab.gitops import argocd
from lab.gitops.git import Repository
from lab.waiting import wait_until
from tests.cluster.gitops.commits import VALUES, manifest, repository_with_chart
from tests.cluster.testbed import Namespace

REFRESH = "argocd.argoproj.io/refresh"
# Argo CD may take this many seconds to apply a commit on a busy machine.
SECONDS = 300

Operation = dict[str, Any]


@dataclass(frozen=True)
class Application:
    """The Application `run1`, with the git repository of the run's values.

    The chart comes from a second git repository (`chart`), or from a registry (None).
    """

    runs: Repository
    chart: Repository | None = None

    @classmethod
    def new(cls, namespace: Namespace, values: str, example: str = "application.yaml") -> Application:
        """Commit the chart and these values, and apply an example from docs/argocd."""
        chart, runs = repository_with_chart("distrain"), Repository.new("runs")
        chart.commit()
        runs.commit({VALUES: values})
        client.apply(manifest(f"argocd/{example}", namespace, [chart, runs]))
        return cls(runs, chart)

    @classmethod
    def from_registry(cls, namespace: Namespace, values: str, registry: str) -> Application:
        """Commit these values, and apply the example whose Application gets the chart from a registry."""
        runs = Repository.new("runs")
        runs.commit({VALUES: values})
        client.apply(manifest("argocd/application-oci.yaml", namespace, [runs], registry))
        return cls(runs)

    def commit(self, values: str) -> Operation:
        """Commit values, wait until Argo CD has synced this commit, and return the sync operation."""
        revision = self.runs.commit({VALUES: values})
        self.refresh()
        wait_until("the sync's end", lambda: "finishedAt" in self.operation(revision), seconds=SECONDS, pause=0.5)
        return self.operation(revision)

    def commit_unchanged(self, values: str) -> tuple[str, str]:
        """Commit values that change nothing in the rendered manifests.

        Return the sync status and health once Argo CD has read the commit.
        """
        revision = self.runs.commit({VALUES: values})
        self.refresh()
        wait_until("the commit", lambda: self.is_compared(revision), seconds=SECONDS, pause=0.5)
        return self.state()

    def refresh(self, how: str = "normal") -> tuple[str, str]:
        """Let Argo CD compare git with the cluster, and return the sync status and health that it finds.

        With `hard`, Argo CD also renders the manifests again instead of using its cache.
        """
        kubectl("-n", argocd.NAMESPACE, "annotate", "--overwrite", "applications", "run1", f"{REFRESH}={how}")
        wait_until("the refresh", lambda: REFRESH not in read()["metadata"].get("annotations", {}), seconds=SECONDS)
        return self.state()

    def state(self) -> tuple[str, str]:
        found = read()
        return _sync(found).get("status", ""), found.get("status", {}).get("health", {}).get("status", "")

    def is_compared(self, revision: str) -> bool:
        """Return whether Argo CD has compared this commit with the cluster."""
        return revision in _sync(read()).get("revisions", [])

    def operation(self, revision: str) -> Operation:
        """Return the sync operation of a commit, or {} if Argo CD has not started it."""
        found: Operation = read().get("status", {}).get("operationState", {})
        return found if revision in found.get("syncResult", {}).get("revisions", []) else {}

    def patch(self, *operations: dict[str, Any]) -> None:
        """Apply a JSON patch to the Application."""
        words = ("patch", "applications", "run1", "--type=json", f"--patch={json.dumps(operations)}")
        kubectl("-n", argocd.NAMESPACE, *words)


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("-n", argocd.NAMESPACE, "get", "applications", "run1", "-o", "json"))
    return found


def conditions() -> dict[str, str]:
    """Return the Application's conditions: type -> message."""
    return {found["type"]: found["message"] for found in read().get("status", {}).get("conditions", [])}


def _sync(application: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = application.get("status", {}).get("sync", {})
    return found


def names() -> list[str]:
    """Return the names of all Applications."""
    found = kubectl("-n", argocd.NAMESPACE, "get", "applications", "-o", "jsonpath={.items[*].metadata.name}")
    return found.split()


def delete_all() -> None:
    """Delete all ApplicationSets and Applications, and wait until Argo CD has removed their objects."""
    kubectl("-n", argocd.NAMESPACE, "delete", "applicationsets,applications", "--all", "--timeout=120s")
