"""Render an import's values with the chart, in a process that handles one request at a time."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import yaml

from distrain.errors import ValuesError
from distrain.imports.accepted import Judge
from distrain.values.schema import check
from distrain.workload.kinds import KUBEFLOW
from tests.chart.many import Request
from tests.chart.rendering import CHART, start_renderer

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
REAL = ("apiregistration.k8s.io/v1",)


@functools.cache
def _renderer() -> Any:
    return start_renderer()


def rendered(values: dict[str, Any], kind: str = "", version: str = "") -> dict[str, Any]:
    """Return what Helm 4 renders: the manifest, the notes and the error.

    With `version`, render for a cluster that serves this API version, otherwise without a cluster.
    """
    group = KUBEFLOW[kind].group if kind else ""
    apis = (*REAL, f"{group}/{version}", f"{group}/{version}/{kind}") if version else ()
    process = _renderer()
    process.stdin.write(Request("one", values, api_versions=apis, helms=("helm4",)).line() + "\n")
    process.stdin.flush()
    found: dict[str, Any] = json.loads(process.stdout.readline())["helm4"]
    return found


def judge_for(kind: str, version: str) -> Judge:
    """Return a function that accepts or refuses values in the same way as the `import` command.

    The function renders the values for the newest API version and for the source's API version.
    """

    def judge(values: dict[str, Any]) -> Sequence[str]:
        for served in ("", version):
            if error := rendered(values, kind if served else "", served).get("error"):
                return _refusals(values, str(error))
        return ()

    return judge


def _refusals(values: dict[str, Any], error: str) -> Sequence[str]:
    """Return the lines of a refusal: for schema errors the plugin's messages, otherwise the chart's own messages."""
    try:
        check(_merged(DEFAULTS, values), CHART)
    except ValuesError as refusal:
        return refusal.messages
    lines = error.partition("\n\nUse --debug")[0].partition("): ")[2].split("\n")
    return [line.removeprefix("distrain: ") for line in lines]


def _merged(below: Any, over: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(over, dict):
        return over
    return {**below, **{key: _merged(below.get(key), value) for key, value in over.items()}}


def job_of(values: dict[str, Any], kind: str, version: str) -> dict[str, Any]:
    """Return the rendered job."""
    found = rendered(values, kind, version)
    assert not found.get("error"), found["error"]
    documents = [each for each in yaml.load_all(found["manifest"], yaml.CSafeLoader) if each]
    jobs = [each for each in documents if each["kind"] == kind]
    # Exactly one job must remain. The job of `helm test` has the same kind, but it is a hook and is skipped.
    [job] = [each for each in jobs if "helm.sh/hook" not in each["metadata"].get("annotations", {})]
    return dict(job)
