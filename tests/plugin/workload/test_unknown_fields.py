"""Test that unknown pod fields are reported. Kubernetes would drop a misspelt field without an error."""

from __future__ import annotations

import pytest

from distrain.workload.manifest import from_manifest
from distrain.workload.unknown_fields import CONTAINER_FIELDS, POD_FIELDS
from distrain.yaml.yaml_writer import dump
from tests.chart.api_schemas import native_schema
from tests.plugin.objects import mx_job

CONTAINER = {"name": "other", "image": "other"}


@pytest.mark.parametrize(("kind", "fields"), [("PodSpec", POD_FIELDS), ("Container", CONTAINER_FIELDS)])
def test_fields_are_those_of_kubernetes(kind: str, fields: frozenset[str]) -> None:
    assert fields == set(native_schema()["definitions"][f"io.k8s.api.core.v1.{kind}"]["properties"])


def test_unknown_fields_are_not_judged() -> None:
    job = mx_job(servers=1, workers=2)
    for role in ("Server", "Worker"):
        spec = job["spec"]["mxReplicaSpecs"][role]["template"]["spec"]
        spec["nodeSelecter"] = {"pool": "gpu"}
        spec["initContainers"] = [{**CONTAINER, "resource": {}, "7": 1}]

    assert from_manifest(dump(job), "--manifest", judges_all=True).left_out == (
        "nodeSelecter of MXJob run1-1234abcd: a pod has no such field; did you mean nodeSelector?",
        "resource of MXJob run1-1234abcd: a container has no such field; did you mean resources?",
        "7 of MXJob run1-1234abcd: a container has no such field",
    )


def test_objects_of_other_kinds_may_have_any_fields() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"containers": "a"}}

    assert from_manifest(dump(mx_job(servers=1, workers=2), other), "--manifest", judges_all=True).left_out == ()
