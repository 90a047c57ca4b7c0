"""Test the import's notes on fields that it leaves out.

If a note says that the chart has no such value, the chart must really have none. If a note names a value of the chart,
this value must exist.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from distrain.imports import arena
from distrain.imports.elsewhere import VALUES, why_left_out
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.launch.replaced_options import WHY
from distrain.imports.slurm import replaced
from tests.plugin.imports.chart import DEFAULTS, SCHEMA
from tests.plugin.imports.drafts import drafted, mpi_job

# Top-level values of the chart that correspond to no field of any source.
OWN = {"enabled", "framework", "strategy", "job", "gpus", "workers", "launcher", "servers", "scheduler", "trainer"} | {
    *("serviceMesh", "networkPolicy", "serviceAccount", "podSecurity", "data", "output", "checkpoint", "rescale", "s3"),
    *("network", "mpi", "ssh", "gang", "preflight", "replace", "test", "hooks", "rbac", "monitoring", "global"),
    *("nameOverride", "fullnameOverride", "commonLabels", "commonAnnotations", "resources"),
}


def _has(path: str) -> bool:
    """Tell whether the chart has a value at this path."""
    found: Any = SCHEMA
    for part in path.split("."):
        found = _resolved(found)
        if part not in found.get("properties", {}):
            return bool(found.get("additionalProperties")) or found.get("type") != "object" or "properties" not in found
        found = found["properties"][part]
    return True


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Follow the schema's $ref, if it has one."""
    if "$ref" not in schema:
        return schema
    found: Any = SCHEMA
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


@pytest.mark.parametrize("value", sorted({*VALUES.values()}))
def test_chart_has_the_value_that_is_named(value: str) -> None:
    assert _has(value)


def test_each_value_of_pods_that_the_chart_has_is_named() -> None:
    named = {value.partition(".")[0] for value in VALUES.values()}

    assert {*SCHEMA["properties"]} - OWN - named == set()


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("nodeSelector.a", {"nodeSelector": {"a": "b"}}, "nodeSelector"),
        ("imagePullSecrets[0].name", {"imagePullSecrets": [{"name": "a"}]}, "image.pullSecrets"),
        ("hostNetwork", {"hostNetwork": True}, "podSpec.hostNetwork"),
        ("resources.limits.cpu", {"resources": {"limits": {"cpu": 1}}}, "workers.resources"),
    ],
)
def test_field_at_a_place_that_is_not_read_names_the_value(place: str, value: Any, named: str) -> None:
    draft = drafted(mpi_job(spec={"unknown": value, "other": 1}))

    assert dict(draft.lost) == {
        f"spec.unknown.{place}": f"the import does not read it there; set {named}",
        "spec.other": NO_VALUE,
    }
    assert why_left_out(("spec", "other", 0)) == NO_VALUE


def test_values_that_the_reasons_name_are_values_of_the_chart() -> None:
    reasons = [
        *arena.WHY.values(),
        *replaced.INSTEAD.values(),
        *(why for each in WHY.values() for why in each.values()),
    ]
    pattern = rf"\b(?:{'|'.join(DEFAULTS)})\.[A-Za-z.]+"

    named = {word.rstrip(".") for reason in reasons for word in re.findall(pattern, reason)}

    assert len(named) > 10
    assert [word for word in sorted(named) if not _has(word)] == []
