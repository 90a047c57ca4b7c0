"""Provide a release that is recorded in the fake API as if Helm had installed it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import yaml

from distrain.release.plan import Plan
from distrain.release.size import reused
from distrain.release.transaction import Release
from lab.paths import CHART
from tests.chart.rendering import parse
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import Object
from tests.plugin.program import SECRETS

JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"
PODS = "/api/v1/namespaces/team/pods"
VALUES = {"gpus": 2, "workers": {"replicas": 2, "gpus": 1}, "trainer": {"steps": 600}}


@functools.cache
def chart_values() -> Object:
    """Return values.yaml of the chart."""
    found: Object = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


@functools.cache
def own_objects(printed: str) -> str:
    """Return a printed manifest without its hooks, because Helm records hooks separately."""
    objects = (item for item in parse(printed) if "helm.sh/hook" not in (item["metadata"].get("annotations") or {}))
    manifest: str = yaml.dump_all(objects, Dumper=yaml.CSafeDumper)
    return manifest


@dataclass
class Recorded:
    """A recorded release run1, its job, and the changes that the program has requested from Helm."""

    api: FakeApi
    manifest: str
    upgrades: list[tuple[Release, Plan]] = field(default_factory=list)

    @property
    def job(self) -> Object:
        found: Object = next(item for item in parse(self.manifest) if item["kind"] == "MPIJob")
        return found

    def be(
        self,
        status: str = "deployed",
        *,
        chart: str = "0.1.0",
        version: int = 3,
        apply_method: str = "csa",
        values: Object = VALUES,
    ) -> None:
        """Set the last revision that Helm has recorded for the release."""
        self._record(status, version, chart, values, chart_values(), apply_method)

    def be_after(self, *statuses: str) -> None:
        """Set the statuses of all revisions, from the first to the last."""
        self.be(statuses[-1], version=len(statuses))
        revisions = (
            release_secret("run1", status, version=number, manifest=self.manifest)
            for number, status in enumerate(statuses, 1)
        )
        self.api.answers[SECRETS] = releases(*revisions)

    def be_of_values_files(self, chart: str) -> None:
        """Set the last revision to one that Flux has created. Flux merges the values into the chart's defaults."""
        self._record("deployed", 3, chart, {}, reused(VALUES, chart_values()), "ssa")

    def _record(
        self, status: str, version: int, chart: str, values: Object, defaults: Object, apply_method: str
    ) -> None:
        made_of = {"metadata": {"name": "distrain", "version": chart}, "values": defaults}
        more: dict[str, Any] = {"values": values, "chart": made_of, "apply_method": apply_method}
        secret = release_secret("run1", status, version=version, manifest=self.manifest, **more)
        self.api.answers[SECRETS] = releases(secret)
        self.api.answers[f"{SECRETS}/{secret['metadata']['name']}"] = secret

    def show(self, **more: Any) -> None:
        """Make the API serve the job of the manifest, with these additional fields."""
        name = self.job["metadata"]["name"]
        self.api.answers[f"{JOBS}/{name}"] = {**self.job, **more}
