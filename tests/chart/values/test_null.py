"""Test which values may be null, and that null has the same effect as an empty value or a missing key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas import build
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import refusal, render, render_with, set_arguments
from tests.chart.values.schema_entries import LEAVES, SOURCE, Schema, resolved


def test_helm_accepts_null_where_it_means_none_or_empty(helm: Path) -> None:
    nullable = [path for path, entry in LEAVES.items() if isinstance(entry["default"], (list, dict))]
    nullable += [path for path, entry in LEAVES.items() if "null" in resolved(entry)["type"]]

    rendered = render(helm, *set_arguments(*(f"{path}=null" for path in nullable)))

    assert rendered.mpirun == []
    assert rendered.container("Launcher")["resources"]["limits"] == {"memory": "512Mi"}


def optional_paths(schema: Schema = SOURCE, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the keys that values.yaml leaves out, at every depth of the chart's own maps."""
    for name, entry in schema["properties"].items():
        if build.is_optional(entry):
            yield f"{prefix}{name}"
        known = resolved(entry) if entry.get("$ref", "").rpartition("/")[2] in build.OPTIONAL_MAPS else entry
        if "properties" in known:
            yield from optional_paths(known, f"{prefix}{name}.")


@every_kind
def test_null_of_a_key_that_values_yaml_leaves_out_is_no_key(helm: Path, kind: str) -> None:
    # The chart refuses an empty s3.caBundle, so its keys are left out.
    paths = [path for path in optional_paths() if not path.startswith("s3.caBundle.")]
    keys = [path for path in paths if not any(other.startswith(f"{path}.") for other in paths)]
    maps = [path for path in paths if not any(path.startswith(f"{other}.") for other in paths)]

    for nulls in (keys, maps):
        rendered = render_with(helm, (*KINDS[kind], *(f"{path}=null" for path in nulls)))
        assert rendered.documents == render_with(helm, KINDS[kind]).documents
    assert {"launcher.env", "resources", "job.managedBy", "s3.caBundle"} <= set(maps)
    assert {"launcher.resources.limits", "podSpec.dnsConfig", "networkPolicy.enabled"} <= set(keys)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("launcher.env=7", "at '/launcher/env': got number, want null or array"),
        ("s3.addressingStyle=host", "at '/s3/addressingStyle': value must be one of 'path', 'virtual', <nil>"),
        ("runtimeClassName=A_b", "at '/runtimeClassName': 'A_b' does not match pattern"),
        ("launcher.resources.limits.cpu=true", "at '/launcher/resources/limits/cpu': got boolean, want"),
        ("launcher.securityContext.fsgroup=1", "at '/launcher/securityContext': additional properties 'fsgroup'"),
    ],
)
def test_message_about_a_key_that_may_be_null_says_what_it_may_be(helm: Path, assignment: str, words: str) -> None:
    message = refusal(helm, *set_arguments(assignment))

    assert words in message
