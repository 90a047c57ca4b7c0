"""Test random values: both Helms render the same, the APIs know every field, pods meet their Pod Security Standard.


`make bench` tests 10,000 values files (RANDOM_VALUES). A failure names the seed. Call random_request(seed) to get the
values.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
import pytest

from tests.chart import api_schemas
from tests.chart.expansion import documents, templates
from tests.chart.many import Pod, Rendering, Request, render_many, violations
from tests.chart.mutations import SCHEMA
from tests.chart.random_values import careless_values, random_requests

COUNT = int(os.environ.get("RANDOM_VALUES", "150"))
CARELESS = COUNT // 2
# Every fourth request is rendered a second time. A difference shows that the output depends on Go's random order of map
# keys.
AGAIN = 4


@dataclass
class Findings:
    """The mistakes that were found, and the number of rendered objects of each kind.

    Each mistake is one line, which begins with the seed of the random values.
    """

    refused: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    insecure: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def findings() -> Findings:
    found = Findings()
    pods: list[tuple[str, Pod]] = []
    for request, answer in render_all():
        found.keys |= set(paths(request.values))
        errors = [f"{request.name}: {helm}: {one.error}" for helm, one in answer.items() if one.error]
        found.refused += errors
        if not errors:
            pods += look_at(request, answer, found)
    for (seed, _), broken in zip(pods, violations(pod for _, pod in pods), strict=True):
        found.insecure += [f"{seed}: {broken}"] if broken else []
    return found


def render_all() -> Iterator[tuple[Request, dict[str, Rendering]]]:
    requests = list(random_requests(COUNT))
    sent = (dataclasses.replace(one, again=int(one.name) % AGAIN == 0) for one in requests)
    return zip(requests, render_many(sent), strict=True)


def paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{name}.")


def look_at(request: Request, answer: dict[str, Rendering], found: Findings) -> list[tuple[str, Pod]]:
    """Record the mistakes in one rendering. Return its pods."""
    three, four = (lines_of(answer[helm].manifest) for helm in ("helm3", "helm4"))
    if three != four:
        found.different.append(
            f"{request.name}: {next(pair for pair in zip(three, four, strict=False) if len(set(pair)) > 1)}"
        )
    level = request.values.get("podSecurity", "restricted")
    pods = []
    for document in documents(answer["helm3"].manifest):
        found.kinds[api_schemas.version_of(document)] += 1
        found.unknown += [f"{request.name}: {document['kind']}: {error}" for error in complaints(document)]
        pods += [(request.name, Pod(level, one["spec"], one.get("metadata", {}))) for one in templates(document)]
    return pods


def lines_of(manifest: str) -> list[str]:
    """Return the lines that are not empty. Helm 4 ends each document with one more empty line than Helm 3."""
    return [line.rstrip() for line in manifest.splitlines() if line.strip()]


@functools.cache
def validator(kind: str, group: str) -> jsonschema_rs.Draft4Validator:
    """Return a validator for a kind such as "Job v1" from the API group that serves it."""
    if kind in api_schemas.CRDS:
        return jsonschema_rs.Draft4Validator(api_schemas.crd_schema(kind))
    name, version = kind.split()
    package = {"": "core", "rbac.authorization.k8s.io": "rbac", "networking.k8s.io": "networking"}.get(group, group)
    schema = {"$ref": f"#/definitions/io.k8s.api.{package}.{version}.{name}", **api_schemas.native_schema()}
    return jsonschema_rs.Draft4Validator(schema)


def complaints(document: dict[str, Any]) -> Iterator[str]:
    """Yield the fields that the API server would refuse or drop, and fields that only a controller would reject."""
    kind, group = api_schemas.version_of(document), document["apiVersion"].rpartition("/")[0]
    if group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "monitoring.coreos.com"):
        return
    if kind in api_schemas.FIELDS_OF_GO_TYPES:
        yield from set(document["spec"]) - api_schemas.FIELDS_OF_GO_TYPES[kind]
    if kind not in api_schemas.FIELDS_OF_GO_TYPES or kind in api_schemas.CRDS:
        yield from (str(error) for error in validator(kind, group).iter_errors(document))
    if group == "kubeflow.org":
        for one in templates(document):
            yield from (str(error) for error in validator("PodTemplateSpec v1", "").iter_errors(one))


def test_valid_values_render(findings: Findings) -> None:
    assert findings.refused == []


def test_both_helms_render_the_same(findings: Findings) -> None:
    assert findings.different == []


def test_apis_know_every_field(findings: Findings) -> None:
    assert findings.unknown == []


def test_pods_keep_to_their_security_standard(findings: Findings) -> None:
    assert findings.insecure == []


def test_every_kind_and_key_is_met(findings: Findings) -> None:
    def keys(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
        for name, entry in schema["properties"].items():
            yield f"{prefix}{name}"
            if "properties" in entry and "default" not in entry:
                yield from keys(entry, f"{prefix}{name}.")

    kinds = {kind for kind in findings.kinds if kind.split()[0] in ("MPIJob", "PyTorchJob", "MXJob", "TFJob", "Job")}

    assert set(keys(SCHEMA)) - findings.keys == set()
    assert kinds == {*api_schemas.CRDS, *api_schemas.FIELDS_OF_GO_TYPES, "Job v1"}
    assert min(findings.kinds[kind] for kind in kinds) >= COUNT // 50


def test_careless_values_are_refused_in_our_own_words() -> None:
    requests = [Request(str(seed), careless_values(seed), helms=("helm4",)) for seed in range(CARELESS)]

    errors = [answer["helm4"].error for answer in render_many(requests)]

    assert [f"{seed}: {error}" for seed, error in enumerate(errors) if error and "): distrain: " not in error] == []
    assert sum(1 for error in errors if error) > CARELESS // 10
