"""Test that no kind of job silently ignores a value: each value changes the rendering, or is refused by name."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import yaml

from tests.chart import fitting
from tests.chart.kinds import KINDS
from tests.chart.many import Request, render_many
from tests.chart.mutations import Schema, leaves, replaced, resolved
from tests.chart.rendering import parse
from tests.matrix import one_of

Values = dict[str, Any]

# Values under which the other values have an effect. For example, s3.endpoint has an effect only if the data is in S3.
CONTEXT = yaml.safe_load(
    """
workers: {gpus: 1, topology: {policy: spread}}
podSecurity: privileged
network: {rdma: {resource: rdma/hca}}
data: {source: s3, uri: "s3://digits", cache: {folder: /shards}}
volumes: [{name: shards}]
volumeMounts: [{name: shards, mountPath: /shards}]
output: {uri: "s3://results"}
checkpoint: {uri: "s3://results"}
s3: {endpoint: "https://s3.example.com"}
preflight: {enabled: true}
monitoring: {podMonitor: true}
rbac: {aggregateToKubeflowEdit: true, kinds: [MPIJob]}
networkPolicy: {enabled: true}
"""
)
ROLES = ("launcher", "servers", "scheduler")
CONTAINER = {"name": "more", "image": "more"}
PLACES = ("", "workers.", *(f"{role}." for role in ROLES))
POD_SPEC: dict[str, Any] = {
    "dnsConfig": {"nameservers": ["1.2.3.4"]},
    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
    "initContainers": [CONTAINER],
    "overhead": {"cpu": "1"},
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpus"}],
    "runtimeClassName": "nvidia",
    "schedulerName": "mine",
    "terminationGracePeriodSeconds": 7,
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
}
# Sample values for entries of the schema that have neither examples nor choices, or only the default as an example.
SAMPLES: dict[str, Any] = {
    **{f"{role}.affinity": {"podAffinity": {}} for role in ("workers", *ROLES)},
    **{f"{role}.tolerations": [{"operator": "Exists"}] for role in ROLES},
    **{f"{role}.nodeSelector": {"pool": "cpu"} for role in ROLES},
    **{f"{at}podSpec.{key}": value for at in PLACES for key, value in POD_SPEC.items()},
    **{f"{at}resources.claims": [{"name": "gpu"}] for at in PLACES},
    **{f"{role}.topology.key": "zone" for role in ROLES},
    "image.tag": "2.0",
    "launcher.memory": "3Gi",
    "scheduler.memory": "3Gi",
    "servers.cpu": 3,
    "servers.memory": "3Gi",
    "trainer.steps": 7,
    "data.cache.folder": "/shards/team",
    "test.workers": 1,
    "image.digest": "sha256:" + 64 * "a",
    "trainer.extraArgs": ["--verbose"],
    "podAnnotations": {"a": "b"},
    "gang.schedulerName": "mine",
    "monitoring.port": 9401,
    "monitoring.path": "/more",
    "monitoring.interval": "15s",
}  # fmt: skip
NO_TEST = "Without an all-reduce there is no test to leave out."
# A key is a job kind and a value that has no effect on this kind. The dictionary's value is the reason.
IGNORED = {
    ("mpijob-v2beta1", "gang.schedulerName"): "mpi-operator's flag names it; NOTES say which flag the operator needs.",
    **{(kind, "test.enabled"): NO_TEST for kind in ("mxjob-v1", "mxjob-v1beta1", "tfjob")},
    **{(kind, "mpi.implementation"): "There is one choice." for kind in KINDS},
}


def samples(path: str, entry: Schema, base: Values) -> list[Any]:
    """Return values to try that differ from the current one."""
    known = resolved(entry)
    there = functools.reduce(lambda inner, key: inner.get(key, {}), path.split("."), base)
    found = [SAMPLES[path]] if path in SAMPLES else [*known.get("examples", []), *known.get("enum", [])]
    if known["type"] == "boolean":
        found = [True, False]
    return [value for value in found if value != (known.get("default") if there == {} else there)]


@functools.cache
def base(kind: str) -> Values:
    """Return the values to which a test adds the value that it tries: CONTEXT, and the values that select the kind."""
    values: Values = CONTEXT
    gang = "none" if kind in ("mpijob-v1alpha2", "mxjob-v1beta1") else "volcano"
    for assignment in (*KINDS[kind], f"gang.scheduler={gang}"):
        path, _, word = assignment.partition("=")
        values = with_value(values, path, yaml.safe_load(word))
    for role, kinds in fitting.ROLES.items():
        if kind.startswith(tuple(name.lower() for name in kinds)):
            values = with_value(values, f"{role}.topology.policy", "spread")
    return values


def with_value(values: Values, path: str, value: Any) -> Values:
    *parents, last = path.split(".")
    for depth in range(1, len(parents) + 1):
        at = tuple(parents[:depth])
        if functools.reduce(lambda inner, key: inner.get(key, {}), at, values) == {}:
            values = replaced(values, at, {})
    changed: Values = replaced(values, (*parents, last), value)
    return changed


@pytest.mark.parametrize("kind", one_of(KINDS))
def test_every_value_changes_the_rendering_or_is_refused_by_name(kind: str) -> None:
    left = {path: samples(path, entry, base(kind)) for path, entry in leaves()}
    [unchanged] = rendered(kind, [base(kind)])
    assert not unchanged.startswith("distrain: ")

    # In each round, the test renders one sample for each remaining path. For most paths, the first sample already shows
    # an effect.
    while tried := [(path, values.pop(0)) for path, values in left.items() if values]:
        answers = rendered(kind, [with_value(base(kind), *one) for one in tried])
        for (path, _), answer in zip(tried, answers, strict=True):
            if is_told(path, answer, unchanged):
                del left[path]

    assert set(left) == {path for one, path in IGNORED if one == kind}


def rendered(kind: str, all_values: list[Values]) -> list[str]:
    """Return Helm's result for each of the values, on a cluster that serves the kind: the manifest or the error."""
    (first,) = render_many([Request("first", base(kind), helms=("helm4",))])
    job = next(one for one in parse(first["helm4"].manifest) if one["kind"] in ("Job", *KUBEFLOW))
    served = ("apiregistration.k8s.io/v1", "monitoring.coreos.com/v1/PodMonitor", f"{job['apiVersion']}/{job['kind']}")
    requests = [Request("", values, api_versions=served, helms=("helm4",)) for values in all_values]
    return [answer["helm4"].error or answer["helm4"].manifest for answer in render_many(requests)]


KUBEFLOW = ("MPIJob", "PyTorchJob", "MXJob", "TFJob")


def is_told(path: str, answer: str, unchanged: str) -> bool:
    """Return whether the value changes the manifest, or an error of Helm names the value or its group."""
    if "distrain: " not in answer.partition("\n")[0]:
        return answer != unchanged
    groups = (path.rsplit(".", depth)[0] for depth in range(1, path.count(".")))
    return path in answer or path in ("framework", "strategy") or any(f"distrain: {one}: " in answer for one in groups)
