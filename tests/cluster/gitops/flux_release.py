"""Drive the Flux HelmRelease of a run: commit changes, let Flux reconcile at once, and read the status."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import yaml

from lab.cluster import client
from lab.cluster.client import kubectl
from lab.gitops.git import Repository
from lab.waiting import wait_until
from tests.cluster.gitops.commits import DOCS, VALUES, manifest, repository_with_chart
from tests.cluster.testbed import Namespace

# The first version of helm-controller that reads healthCheckExprs.
WITH_HEALTH_CHECKS = "1.6"
# Flux may take this many seconds to apply a commit on a busy machine.
SECONDS = 300


@dataclass(frozen=True)
class Release:
    """The HelmRelease `run1`, and the git repository that contains the chart and the run's values."""

    namespace: Namespace
    repository: Repository

    @classmethod
    def new(cls, namespace: Namespace, values: str, helm_controller: str, **more: Any) -> Release:
        """Commit the chart and these values, and apply the examples from docs/flux.

        The fields in `more` are added to the HelmRelease's spec.
        """
        repository = repository_with_chart("distrain")
        repository.commit({VALUES: values})
        release = manifest("flux/helmrelease.yaml", namespace)
        release["spec"] |= more
        if helm_controller == WITH_HEALTH_CHECKS:
            release["spec"] |= yaml.safe_load((DOCS / "flux" / "health-checks.yaml").read_text(encoding="utf-8"))
        client.apply(manifest("flux/gitrepository.yaml", namespace, [repository]), release)
        return cls(namespace, repository)

    def commit(self, values: str | None = None) -> dict[str, str]:
        """Commit these values, or make an empty commit if `values` is None.

        Return the release's condition Ready once Flux has applied or refused this commit.
        """
        commit = self.push(values)
        wait_until(f"commit {commit}", lambda: bool(self._ready(commit)), seconds=SECONDS, pause=0.5)
        return self._ready(commit)

    def push(self, values: str | None = None) -> str:
        """Commit these values, or make an empty commit if `values` is None.

        Tell Flux to fetch the commit, and return the commit's hash.
        """
        commit = self.repository.commit({VALUES: values} if values else None)
        self.look_at_git()
        return commit

    def look_at_git(self) -> None:
        self._request("gitrepositories", "distrain", str(time.time()))

    def suspend(self, suspended: bool) -> None:
        patch = json.dumps({"spec": {"suspend": suspended}})
        kubectl("-n", self.namespace.name, "patch", "helmreleases", "run1", "--type=merge", f"--patch={patch}")

    def refresh(self) -> str:
        """Let Flux compare the release with the cluster, and return the status of its condition Ready."""
        stamp = str(time.time())
        self._request("helmreleases", "run1", stamp)
        wait_until("the refresh", lambda: self._status().get("lastHandledReconcileAt") == stamp, seconds=SECONDS)
        return condition(self._status()).get("status", "")

    def drifts(self) -> list[str]:
        """Return Flux's messages about drift between this release and the cluster."""
        get = ("-n", self.namespace.name, "get")
        uid = kubectl(*get, "helmrelease", "run1", "-o", "jsonpath={.metadata.uid}")
        # The namespace also contains events of releases from earlier tests, so select them by this release's uid.
        selector = f"reason=DriftDetected,involvedObject.uid={uid}"
        events = json.loads(kubectl(*get, "events", f"--field-selector={selector}", "-o", "json"))["items"]
        return [event["message"] for event in events]

    def delete(self) -> None:
        """Delete the HelmRelease and the GitRepository, and wait until Flux has uninstalled the release."""
        delete_all(self.namespace)

    def _request(self, kind: str, name: str, stamp: str) -> None:
        """Let Flux reconcile an object at once."""
        words = ("annotate", "--overwrite", kind, name, f"reconcile.fluxcd.io/requestedAt={stamp}")
        kubectl("-n", self.namespace.name, *words)

    def _ready(self, commit: str) -> dict[str, str]:
        """Return the release's condition Ready for a commit, or {} until Flux has applied or refused the commit."""
        status = self._status()
        ready = condition(status)
        # Flux composes a revision from the chart's version and the commit, for example 0.1.0+1234567890ab.1.
        tried = f"+{commit[:12]}" in status.get("lastAttemptedRevision", "")
        return ready if tried and ready.get("status") in ("True", "False") else {}

    def _status(self) -> dict[str, Any]:
        found = kubectl("-n", self.namespace.name, "get", "helmreleases", "run1", "-o", "json")
        status: dict[str, Any] = json.loads(found).get("status", {})
        return status


def delete_all(namespace: Namespace) -> None:
    """Delete all HelmReleases and their sources, and wait until Flux has uninstalled the releases."""
    kinds = "helmreleases,gitrepositories,ocirepositories"
    kubectl("-n", namespace.name, "delete", kinds, "--all", "--timeout=120s")


def condition(status: dict[str, Any]) -> dict[str, str]:
    """Return the condition Ready from an object's status, or {} if the status has none."""
    return next((one for one in status.get("conditions", []) if one["type"] == "Ready"), {})
