"""Check the ClusterConfig against eksctl's own schema, from the Go module that lab/builds/go/eksctl pins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema.validators import Draft7Validator

from lab.builds import golang
from tests.plugin.cloud.making import PARTS, PROFILES, WHOLE, Make, config_of, workers

SCHEMA = "pkg/apis/eksctl.io/v1alpha5/assets/schema.json"


@pytest.fixture(scope="module")
def eksctl() -> Draft7Validator:
    path = golang.module_dir("eksctl", "github.com/weaveworks/eksctl") / SCHEMA
    return Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def _mistakes(eksctl: Draft7Validator, config: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in eksctl.iter_errors(config)]


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        pytest.param(WHOLE, [], id="plain"),
        pytest.param(WHOLE, ["--efa", "--placement-group", "--zone", "us-east-1a,us-east-1b"], id="every-field"),
        pytest.param("gpus: 32\n", ["--instance", "p5.48xlarge"], id="total"),
        pytest.param(PARTS, ["--name", "own", "--region", "eu-central-1"], id="parts"),
        pytest.param(workers(nodeSelector={"pool": "gpu"}) + "launcher: {nodeSelector: {pool: cpu}}", [], id="labels"),
        pytest.param((PROFILES / "eks-p4d-efa.yaml").read_text(), [], id="p4d"),
        pytest.param((PROFILES / "eks-p5-efa.yaml").read_text(), [], id="p5"),
    ],
)
def test_eksctls_schema_takes_the_configuration(
    make: Make, eksctl: Draft7Validator, values: str, arguments: list[str]
) -> None:
    assert _mistakes(eksctl, config_of(make(values, *arguments))) == []


def test_eksctls_schema_refuses_a_field_that_it_does_not_know(make: Make, eksctl: Draft7Validator) -> None:
    config = config_of(make(WHOLE))
    config["managedNodeGroups"][1] |= {"efa": True, "minSize": "0"}

    found = _mistakes(eksctl, config)

    assert len(found) == 2
    assert any("'efa' was unexpected" in each for each in found)
