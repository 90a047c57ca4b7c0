"""Return the warnings about a run from its values merged with the chart's defaults. Helm renders the workers."""

from __future__ import annotations

from typing import Any

import yaml

from distrain.lint.rules import warnings
from distrain.workload.manifest import from_manifest
from tests.chart.rendering import CHART, ask
from tests.plugin.objects import Object, nodes

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def over(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Merge two maps of values as Helm does. If the new value is a list or a scalar, it replaces the former value."""
    both = {key: over(values[key], each) for key, each in more.items() if isinstance(each, dict) and key in values}
    return {**values, **more, **both}


def warned(text: str, *cluster: Object, with_size: bool = False) -> list[str]:
    values = over(DEFAULTS, yaml.safe_load(text))
    job = from_manifest(rendered(text), "run1")
    return [str(warning) for warning in warnings(values, job, nodes(*cluster), with_size=with_size)]


def rendered(text: str) -> str:
    asked = {"values": yaml.safe_load(text), "release": "run1", "namespace": "default", "helms": ["helm4"]}
    answer = ask(asked)["helm4"]
    assert "error" not in answer, answer
    return str(answer["manifest"])
