"""The rendered MPIJob against the schema that the real operator's API enforces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from lab import golang
from tests.chart.rendering import VALUES, render

Schema = dict[str, Any]
FILES = [Path(__file__).parent / "golden" / "values.yaml", *sorted(VALUES.glob("*.yaml"))]


@pytest.fixture(scope="session")
def mpijob_schema() -> Schema:
    """Return the OpenAPI schema of MPIJob v2beta1, from the operator's source that the lab builds."""
    source = golang.module_dir("mpi-operator", "github.com/kubeflow/mpi-operator")
    crd = yaml.load((source / "manifests/base/kubeflow.org_mpijobs.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    (version,) = [version for version in crd["spec"]["versions"] if version["name"] == "v2beta1"]
    return closed(version["schema"]["openAPIV3Schema"])


def closed(schema: Any) -> Any:
    """Refuse unknown fields: the API server drops them in silence, or with a warning that few see."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    return {"additionalProperties": False, **inner} if is_object else inner


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_operator_knows_every_field(helm: Path, mpijob_schema: Schema, file: Path) -> None:
    job = render(helm, "--values", str(file)).job

    errors = [
        f"{error.json_path}: {error.message}" for error in jsonschema.Draft4Validator(mpijob_schema).iter_errors(job)
    ]

    assert errors == []


def test_misspelt_field_would_be_found(helm3: Path, mpijob_schema: Schema) -> None:
    job = yaml.safe_load(yaml.safe_dump(render(helm3).job))
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["volumeMount"] = []

    errors = [error.message for error in jsonschema.Draft4Validator(mpijob_schema).iter_errors(job)]

    assert any("'volumeMount' was unexpected" in error for error in errors)
