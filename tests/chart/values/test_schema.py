"""Test the values schema: wrong values are refused, every limit refuses something, and values.yaml agrees with it.

test_mutations.py sets values that break every type, range, choice and key of the schema. This module tests the other
limits with hand-written values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.chart.rendering import CHART, refusal, render, set_arguments
from tests.chart.values.schema_entries import ENTRIES, LEAVES, OPTIONAL, SCHEMA, SOURCE, Schema, resolved

DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

# This module tests these keywords of the schema. test_mutations.py tests the other keywords.
LIMITS = {
    "minLength", "maxLength", "pattern", "required", "propertyNames", "additionalProperties", "minProperties",
    "maxProperties", "uniqueItems",
}  # fmt: skip


def with_our_limits(entry: Schema) -> Schema:
    """Merge a schema entry with the definition in distrain's own schema that the entry refers to.

    Definitions taken from Kubernetes have names that begin with a capital letter and are not merged.
    """
    name = entry.get("$ref", "/A").rpartition("/")[2]
    return entry if name[0].isupper() else with_our_limits({**SOURCE["definitions"][name], **without_ref(entry)})


def without_ref(entry: Schema) -> Schema:
    return {key: value for key, value in entry.items() if key != "$ref"}


def values_with(path: str, value: object) -> dict[str, Any]:
    """Return the chart's default values with one value changed."""
    values = copy.deepcopy(DEFAULTS)
    *parents, last = path.split(".")
    target = values
    for parent in parents:
        target = target[parent]
    target[last] = value
    return values


def broken_limits(path: str, value: object) -> set[tuple[str, str]]:
    """Return (path of the value, keyword) for each limit that the value breaks."""
    errors = jsonschema.Draft6Validator(SCHEMA).iter_errors(values_with(path, value))
    return {(path, keyword_of(error)) for error in errors}


def keyword_of(error: jsonschema.ValidationError) -> str:
    """Return the JSON Schema keyword, such as maximum, that the value breaks.

    If the broken limit is in a schema for a map's keys or values, return the keyword of the map instead: propertyNames
    or additionalProperties.
    """
    for on_map in ("propertyNames", "additionalProperties"):
        if on_map in error.absolute_schema_path:
            return on_map
    return str(error.validator)


def test_values_yaml_and_schema_have_the_same_keys_and_defaults() -> None:
    def default_at(path: str) -> Any:
        value: Any = DEFAULTS
        for key in path.split("."):
            value = value[key]
        return value

    def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
        for name, value in values.items():
            if f"{path}{name}" in LEAVES or not isinstance(value, dict):
                yield f"{path}{name}"
            else:
                yield from leaves(value, f"{path}{name}.")

    assert list(leaves(DEFAULTS)) == list(LEAVES)
    assert {path: default_at(path) for path in LEAVES} == {path: entry["default"] for path, entry in LEAVES.items()}


@pytest.mark.parametrize(("path", "entry"), LEAVES.items(), ids=LEAVES)
def test_examples_and_default_are_accepted(path: str, entry: Schema) -> None:
    for value in [entry["default"], *entry.get("examples", [])]:
        assert broken_limits(path, value) == set()


@pytest.mark.parametrize(("path", "entry"), OPTIONAL.items(), ids=OPTIONAL)
def test_value_that_few_need_has_an_example_that_is_accepted(path: str, entry: Schema) -> None:
    examples = resolved(entry)["examples"]

    assert examples
    for value in examples:
        assert broken_limits(path, value) == set()


def test_every_role_takes_the_same_values() -> None:
    taken = {role: set(SOURCE["properties"][role]["properties"]) for role in ROLES}

    shared = set.intersection(*taken.values())
    assert {*BY_ROLE, "cpu", "memory", "affinity", "topology", "securityContext", "containerSecurityContext"} == shared


# These keywords limit nothing. Two entries of the schema count as the same even if they differ in these keywords.
NOTES: Schema = {"description": "", "examples": [], "default": None}

# Each tuple has the keyword of a limit, a value that breaks this limit, and a similar value that is accepted.
QUANTITY = [("pattern", "16GB", "16G"), ("pattern", "0", "1"), ("pattern", "lots", "1.5Gi")]
AMOUNTS = [
    ("propertyNames", {"limits": {"a b": 1}}, {"limits": {"rdma/hca_a": 1}}),
    ("propertyNames", {"requests": {"-a": 1}}, {"requests": {"hugepages-2Mi": "1Gi"}}),
    ("additionalProperties", {"limits": {"cpu": "2 cores"}}, {"limits": {"cpu": "500m"}}),
    ("additionalProperties", {"limits": {"memory": "16GB"}}, {"limits": {"memory": 17179869184}}),
    ("additionalProperties", {"limit": {"cpu": 1}}, {"limits": {"cpu": 1}}),
]
NAME = [
    ("pattern", "My_Secret", "my-secret"), ("pattern", "a..b", "a.b"), ("pattern", "-a", "a"),
    ("maxLength", 254 * "a", 253 * "a"),
]  # fmt: skip
LABEL_KEY = [
    ("a b", "a-b"), ("Example.com/a", "example.com/a"), ("a./b", "a.b/b"), (64 * "a", 63 * "a"), ("a-", "a"),
]  # fmt: skip
LABEL_VALUE = [(True, "true"), ("b c", ""), ("-", "A_1.b"), (64 * "a", 63 * "a")]
LABELS = [
    *(("propertyNames", {bad: ""}, {good: ""}) for bad, good in LABEL_KEY),
    *(("additionalProperties", {"a": bad}, {"a": good}) for bad, good in LABEL_VALUE),
]  # fmt: skip
ROLES = ("workers", "launcher", "servers", "scheduler")
CONTAINER = {"name": "a", "image": "b"}
DNS_LABEL = [
    ("pattern", "A", "a"), ("pattern", "a.b", "a-b"), ("pattern", "-", "1"), ("maxLength", 64 * "a", 63 * "a"),
]  # fmt: skip
CONTAINERS = [
    *((keyword, [{"name": bad, "image": "b"}], [{"name": good, "image": "b"}]) for keyword, bad, good in DNS_LABEL),
    ("required", [{"name": "a"}], [CONTAINER]),
    ("minLength", [{"name": "a", "image": ""}], [CONTAINER]),
]
ENV = [
    ("minLength", [{"name": ""}], [{"name": "x.y"}]),
    ("maxProperties", [{"name": "x", "value": "", "valueFrom": {}}], [{"name": "x", "valueFrom": {}}]),
]
VOLUMES = [
    *((keyword, [{"name": bad}], [{"name": good}]) for keyword, bad, good in DNS_LABEL),
    ("maxProperties", [{"name": "x", "emptyDir": {}, "secret": {}}], [{"name": "x", "emptyDir": {}}]),
]
MOUNTS = [
    ("pattern", [{"name": "", "mountPath": "/x"}], [{"name": "x", "mountPath": "/x"}]),
    ("maxLength", [{"name": 64 * "a", "mountPath": "/x"}], [{"name": 63 * "a", "mountPath": "/x"}]),
    ("pattern", [{"name": "x", "mountPath": "x"}], [{"name": "x", "mountPath": "/x", "subPath": "y"}]),
    ("pattern", [{"name": "x", "mountPath": "/x:y"}], [{"name": "x", "mountPath": "/x y"}]),
]
ANNOTATIONS = [
    *(("propertyNames", {bad: ""}, {good: ""}) for bad, good in LABEL_KEY),
    ("additionalProperties", {"a": 1}, {"a": "b c"}),
]
POD_SPEC = [
    *((keyword, {"initContainers": bad}, {"initContainers": good}) for keyword, bad, good in CONTAINERS),
    ("additionalProperties", {"overhead": {"cpu": [1]}}, {"overhead": {"cpu": "1"}}),
    ("additionalProperties", {"hostname": "a", "nodename": "a"}, {"dnsPolicy": "Default"}),
    *(
        (keyword, {key: bad}, {key: good})
        for key in ("runtimeClassName", "schedulerName")
        for keyword, bad, good in [*NAME, ("minLength", "", "nvidia")]
    ),
]
TOPOLOGY = [
    *(("pattern", {"key": bad}, {"key": good}) for bad, good in LABEL_KEY),
    ("additionalProperties", {"polcy": "pack"}, {"policy": "pack"}),
]
# The limits of the values that may be set both at the top level and for each role.
Cases = list[tuple[str, Any, Any]]
EVERYWHERE: dict[str, Cases] = {
    "resources": AMOUNTS, "env": ENV, "envFrom": [("minProperties", [{}], [{"secretRef": {"name": "a"}}])],
    "initContainers": CONTAINERS, "sidecars": CONTAINERS, "volumes": VOLUMES, "volumeMounts": MOUNTS,
    "podSpec": POD_SPEC, "priorityClassName": NAME, "runtimeClassName": NAME, "schedulerName": NAME,
    "nodeSelector": LABELS, "tolerations": [("minProperties", [{}], [{"operator": "Exists"}])],
}  # fmt: skip
BY_ROLE: dict[str, Cases] = {**EVERYWHERE, "labels": LABELS, "annotations": ANNOTATIONS}
SHARED = [
    *((key, *case) for key, cases in EVERYWHERE.items() for case in cases),
    *((f"workers.{key}", *case) for key, cases in BY_ROLE.items() for case in cases),
    *(("launcher.topology", *case) for case in TOPOLOGY),
    *((f"{role}.nodeSelector", *case) for role in ROLES[1:] for case in LABELS),
    *((f"{role}.tolerations", "minProperties", [{}], [{"operator": "Exists"}]) for role in ROLES[1:]),
    *((f"{role}.cpu", "pattern", "100 m", "100m") for role in ROLES),
    *((f"{role}.cpu", "pattern", "2 cores", "1.5") for role in ROLES),
    *((f"{role}.memory", *case) for role in ROLES for case in QUANTITY),
    *((path, *case) for path in ("podLabels", "monitoring.labels", "commonLabels") for case in LABELS),
    *(
        (path, *case)
        for path in ("serviceAccountName", "s3.secretName", "ssh.secretName", "gang.schedulerName",
                     "gang.queue", "gang.priorityClass", "preflight.serviceAccountName",
                     "replace.serviceAccountName")
        for case in NAME
    ),
    *(("image.pullSecrets", keyword, [bad], [good]) for keyword, bad, good in [*NAME, ("minLength", "", "login")]),
]  # fmt: skip
CASES = [
    *SHARED,
    ("runAsUser", "pattern", "1001", "cluster"),
    ("workers.gpuResource", "pattern", "gpu", "amd.com/gpu"),
    ("workers.shm", "pattern", "1gb", "512Mi"),
    *(("workers.topology.key", "pattern", bad, good) for bad, good in LABEL_KEY),
    ("image.repository", "pattern", "team/tensorflow:1.0", "registry.example.com:5000/team/tensorflow"),
    ("image.tag", "pattern", "one two", "1.0-rc.1"),
    ("image.tag", "maxLength", 129 * "1", 128 * "1"),
    ("image.digest", "pattern", "sha256:abc", "sha256:" + 64 * "a"),
    ("trainer.install", "pattern", ["--index-url=x"], ["boto3"]),
    ("trainer.install", "pattern", ["boto3 pillow"], ["boto3[crt]"]),
    ("trainer.install", "pattern", ["git+https://example.com/x"], ["boto3>=1.40,<2"]),
    ("trainer.install", "pattern", [""], ["boto3==1.42.0"]),
    ("trainer.model", "pattern", "lenet", "vgg16"),
    ("trainer.model", "pattern", "nets:", "nets:small"),
    ("trainer.model", "pattern", "my-nets:small", "my_nets.of_2024:small_net"),
    ("trainer.model", "pattern", "mnist:build()", "mnist:build"),
    ("data.maxBadShare", "pattern", "2", "0.01"),
    ("data.cache.folder", "pattern", "cache", "/cache"),
    ("data.cache.size", "pattern", "100GiB", "100Gi"),
    ("data.maxBadShare", "pattern", "-0.1", "1e-3"),
    *(
        (f"trainer.{key}", "pattern", bad, good)
        for key in ("decayFactor", "weightDecay", "labelSmoothing", "ema")
        for bad, good in (("2", "0.01"), ("-0.1", "1e-3"), ("9e-0", "9e-01"))
    ),
    ("trainer.decayFactor", "pattern", "0.0", "1.0"), ("trainer.decayFactor", "pattern", "1e-400", "1e-99"),
    ("trainer.weightDecay", "pattern", "1.1", "1.0"), ("trainer.labelSmoothing", "pattern", "1.0", "0"),
    ("trainer.ema", "pattern", "1", "0.9999"),
    ("trainer.warmupEpochs", "pattern", "0", "2.5"), ("trainer.milestones", "pattern", ["0"], ["2.5", 30]),
    ("trainer.augment", "additionalProperties", {"crop": [0.08, 1]}, {"scale": [0.08, 1]}),
    ("trainer.augment", "pattern", {"mean": ["1.5"]}, {"mean": ["0.5"]}),
    ("trainer.augment", "pattern", {"std": ["0"]}, {"std": ["0.2"]}),
    ("trainer.augment", "pattern", {"scale": ["0.0", 1]}, {"scale": ["1e-2", "1"]}),
    ("trainer.learningRate", "pattern", "0.0", "1e-5"), ("trainer.learningRate", "pattern", "fast", ".05"),
    ("trainer.learningRate", "pattern", "1e400", "1e+09"),
    ("trainer.learningRate", "pattern", "1e-400", "1E-010"),
    ("trainer.learningRate", "pattern", "-0.1", "10"),
    *(("podAnnotations", *case) for case in ANNOTATIONS),
    *(("commonAnnotations", *case) for case in ANNOTATIONS),
    *(
        ("serviceAccount", keyword, {"annotations": bad}, {"annotations": good})
        for keyword, bad, good in ANNOTATIONS
    ),
    ("serviceAccount", "additionalProperties", {"annotation": {"a": "b"}}, {"annotations": {"a": "b"}}),
    *(
        ("s3.caBundle", keyword, {key: bad}, {key: good})
        for key in ("secretName", "configMapName")
        for keyword, bad, good in NAME
    ),
    ("s3.caBundle", "pattern", {"key": "a b"}, {"key": "ca-bundle.pem"}),
    ("s3.caBundle", "additionalProperties", {"name": "ca"}, {"secretName": "ca"}),
    ("networkPolicy", "additionalProperties", {"enable": True}, {"enabled": True}),
    ("data.uri", "pattern", "digits/idx", "/digits/idx"),
    ("data.uri", "pattern", "s3://", "s3://digits"),
    ("output.uri", "pattern", "http://results", "s3://results"),
    ("checkpoint.uri", "pattern", "checkpoints", "/checkpoints"),
    ("checkpoint.every", "pattern", "often", "auto"),
    ("checkpoint.every", "pattern", "0", "600"),
    ("s3.endpoint", "pattern", "minio:9000", "http://minio:9000"),
    ("s3.endpoint", "pattern", "https://user:password@s3.example.com", "https://s3.example.com/path"),
    ("s3.region", "pattern", "", "eu-central-1"),
    ("network.interface", "pattern", "eth0,eth1", "eth0.100"),
    ("network.interface", "maxLength", 16 * "a", 15 * "a"),
    ("network.excludeInterfaces", "pattern", [""], ["docker0"]),
    ("network.excludeInterfaces", "maxLength", [16 * "a"], [15 * "a"]),
    ("network.subnets", "pattern", ["10.0.0.0"], ["10.0.0.0/16"]),
    ("network.subnets", "pattern", ["eth0"], ["192.168.0.0/24"]),
    ("network.subnets", "pattern", ["10.0.256.0/16"], ["10.0.255.0/24"]),
    ("network.subnets", "pattern", ["10.0.0.0/33"], ["10.0.0.0/32"]),
    ("network.subnets", "pattern", ["10.0.0.0/0"], ["10.0.0.0/1"]),
    ("network.subnets", "pattern", ["fd00::/8"], ["172.31.0.0/20"]),
    ("network.rdma.resource", "pattern", "efa", "vpc.amazonaws.com/efa"),
    ("mpi.mca", "propertyNames", {"btl tcp": 1}, {"btl_tcp_links": 1}),
    ("mpi.mca", "additionalProperties", {"a": [1]}, {"a": 1}),
    ("mpi.env", "additionalProperties", {"A": {"b": "c"}}, {"A": True}),
    ("mpi.env", "propertyNames", {"NCCL-DEBUG": "INFO"}, {"NCCL_DEBUG": "INFO"}),
    ("nameOverride", "pattern", "Vision", "vision"),
    ("nameOverride", "maxLength", 54 * "a", 53 * "a"),
    ("fullnameOverride", "pattern", "1st", "first"),
    ("fullnameOverride", "maxLength", 54 * "a", 53 * "a"),
    ("preflight.image", "pattern", "an image", "registry.example.com/distrain/tensorflow:0.1.0"),
    ("preflight.image", "pattern", "https://r.example.com/tensorflow", "r.example.com:5000/tensorflow:1@sha256:abc"),
    ("rbac.kinds", "uniqueItems", ["MPIJob", "MPIJob"], ["MPIJob", "TFJob"]),
    ("monitoring.path", "pattern", "metrics", "/metrics"),
    ("monitoring.interval", "pattern", "30", "30s"),
    ("monitoring.interval", "pattern", "0s", "500ms"),
    ("global", "pattern", {"imageRegistry": "a b"}, {"imageRegistry": "registry.example.com:5000/team"}),
    ("global", "pattern", {"imageRegistry": "https://r.example.com/team"}, {"imageRegistry": "r.example.com/team/"}),
    ("global", "required", {"imagePullSecrets": [{"key": "a"}]}, {"imagePullSecrets": [{"name": "a"}, "b"]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "keyword", "bad", "good"), CASES, ids=[f"{case[0]}-{case[2]!r:.40}" for case in CASES]
)
def test_limit_refuses_a_value_and_accepts_its_neighbour(path: str, keyword: str, bad: object, good: object) -> None:
    refused = broken_limits(path, bad)
    accepted = broken_limits(path, good)

    assert refused == {(path, keyword)}
    assert accepted == set()


def limits_of(path: str, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield (path, keyword) for each limit of a schema entry, and for each limit of the entry's list items and keys.

    The keyword `type` is left out, because another test covers types.
    """
    known = with_our_limits(schema)
    for keyword in LIMITS & set(known):
        yield path, keyword
    for inner in (known.get("items"), *known.get("properties", {}).values()):
        if inner:
            yield from limits_of(path, inner)


# AS_ELSEWHERE maps the path of a value to the path of another role's value with the same schema. The cases above test
# the limits of that other value, so the limits of the first one need no cases.
AS_ELSEWHERE = {
    **{f"{role}.{key}": f"workers.{key}" for role in ROLES[1:] for key in BY_ROLE},
    **{f"{role}.topology": "launcher.topology" for role in ROLES[2:]},
}


@pytest.mark.parametrize(("path", "other"), [pytest.param(*each, id=each[0]) for each in AS_ELSEWHERE.items()])
def test_role_has_the_limits_of_another(path: str, other: str) -> None:
    assert resolved(ENTRIES[path]) | NOTES == resolved(ENTRIES[other]) | NOTES


def test_every_limit_is_broken_by_a_case() -> None:
    tried = {path: entry for path, entry in OPTIONAL.items() if path not in AS_ELSEWHERE}
    limits = {limit for path, entry in {**LEAVES, **tried}.items() for limit in limits_of(path, entry)}
    broken = {(path, keyword) for path, keyword, _, _ in CASES}

    assert limits == broken


IN_VALUES_YAML = {path: entry for path, entry in ENTRIES.items() if path not in OPTIONAL}


def values_without(path: str) -> dict[str, Any]:
    """Return the default values without the value at this path.

    Helm does the same if the user sets the value to null.
    """
    values = copy.deepcopy(DEFAULTS)
    *parents, last = path.split(".")
    target = values
    for parent in parents:
        target = target[parent]
    del target[last]
    return values


@pytest.mark.parametrize(("path", "entry"), IN_VALUES_YAML.items(), ids=IN_VALUES_YAML)
def test_only_a_value_for_which_null_means_none_or_empty_can_be_removed(path: str, entry: Schema) -> None:
    means_none = "null" in resolved(entry)["type"] or isinstance(entry.get("default"), (list, dict))

    accepted = jsonschema.Draft6Validator(SCHEMA).is_valid(values_without(path))

    assert accepted == means_none


# Helm 3 and Helm 4 print different messages, but both name the value.
@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        pytest.param("worker.replicas=4", ["additional properties 'worker' not allowed"], id="misspelt-at-the-top"),
        pytest.param("workers.replica=4", ["/workers", "'replica' not allowed"], id="misspelt-inside"),
        pytest.param("workers.replicas=many", ["/workers/replicas", "got string, want integer"], id="wrong-type"),
        pytest.param("workers.replicas=0", ["/workers/replicas", "got 0, want 1"], id="no-workers"),
        pytest.param("workers.replicas=null", ["/workers", "missing property 'replicas'"], id="removed"),
        pytest.param("workers=null", ["missing property 'workers'"], id="removed-whole"),
    ],
)
def test_helm_names_the_value_it_refuses(helm: Path, assignment: str, words: list[str]) -> None:
    message = refusal(helm, *set_arguments(assignment))

    for word in words:
        assert word in message


def test_keys_for_others_are_ignored(helm: Path) -> None:
    rendered = render(helm, *set_arguments("global.team=vision", "x-note=mine"))

    assert rendered.job == render(helm).job


def test_number_with_a_point_may_come_from_set(helm: Path) -> None:
    rendered = render(helm, *set_arguments("trainer.learningRate=0.05", "workers.cpu=1.5"))

    assert "--learning-rate=0.05" in rendered.program
    assert rendered.container("Worker")["resources"]["requests"] == {"cpu": "1.5"}
