"""Test that Helm refuses values with a single mistake, whatever the mistake is, and names its place.

Helm must accept values that are exactly at a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.many import Request, render_many
from tests.chart.mutations import SCHEMA, Mutation, mutations, places, pointer, replaced
from tests.chart.rendering import CHART, VALUES

# Values whose types Kubernetes defines. The test makes mistakes in them at every depth.
KUBERNETES = """
workers:
  nodeSelector: {a.b/c: d}
  tolerations:
    - {key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 3}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 1
          podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: b}}, namespaces: [c]}
  sidecars:
    - name: a
      image: b
      command: [c]
      ports: [{name: d, containerPort: 80, protocol: TCP}]
      resources: {limits: {cpu: 1, memory: 1Gi}}
      securityContext: {runAsUser: 1, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      livenessProbe: {httpGet: {path: /, port: d, httpHeaders: [{name: e, value: f}]}, periodSeconds: 5}
      lifecycle: {preStop: {exec: {command: [g]}}}
  podSpec:
    dnsConfig: {nameservers: [1.2.3.4], options: [{name: ndots, value: "1"}]}
    dnsPolicy: None
    hostAliases: [{ip: 1.2.3.4, hostnames: [a]}]
    initContainers: [{name: e, image: b, env: [{name: c, value: d}], imagePullPolicy: Always}]
    overhead: {cpu: 100m}
    preemptionPolicy: Never
    resourceClaims: [{name: a, resourceClaimName: b}]
    runtimeClassName: nvidia
    terminationGracePeriodSeconds: 60
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor}]
  memory: 17179869184
  resources:
    requests: {ephemeral-storage: 1Gi}
    limits: {cpu: 8, hugepages-2Mi: 1Gi, vpc.amazonaws.com/efa: 4}
    claims: [{name: a, request: b}]
  labels: {a.b/c: d}
  annotations: {a.b/c: d}
  containerSecurityContext: {readOnlyRootFilesystem: true, capabilities: {add: [NET_BIND_SERVICE]}}
launcher:
  topology: {policy: pack, key: a.b/c, required: true}
  env: [{name: D, value: e}]
  envFrom: [{prefix: S_, secretRef: {name: a, optional: true}}]
  priorityClassName: high
  runtimeClassName: nvidia
  schedulerName: bin-packing
securityContext:
  fsGroup: 5000
  fsGroupChangePolicy: Always
  supplementalGroups: [5000]
  sysctls: [{name: net.ipv4.tcp_syncookies, value: b}]
env:
  - {name: A, value: b}
  - {name: B, valueFrom: {secretKeyRef: {name: c, key: d, optional: true}}}
  - {name: C, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
volumes:
  - {name: a, persistentVolumeClaim: {claimName: b, readOnly: true}}
  - {name: c, configMap: {name: d, defaultMode: 292, items: [{key: e, path: f}]}}
  - {name: g, csi: {driver: h, volumeAttributes: {i: j}}}
  - {name: k, projected: {sources: [{secret: {name: l}}, {serviceAccountToken: {path: m, expirationSeconds: 600}}]}}
  - {name: n, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
volumeMounts: [{name: a, mountPath: /b, subPath: c, readOnly: true, mountPropagation: None}]
trainer: {}
"""
# Keys of the chart itself that are not in values.yaml.
FEW_NEED = """
job: {managedBy: kueue.x-k8s.io/multikueue}
network: {ipFamilyPolicy: PreferDualStack, subnets: [10.0.0.0/16]}
s3: {addressingStyle: path, caBundle: {secretName: a, key: b}}
serviceMesh: istio
serviceAccount: {annotations: {a.b/c: d}}
commonLabels: {a.b/c: d}
data: {uri: s3://imagenet}
trainer:
  warmupEpochs: 5
  rateScaling: linear
  schedule: step
  milestones: [30, 60]
  decayFactor: 0.5
  weightDecay: 0.0001
  labelSmoothing: 0.1
  ema: 0.9999
  evaluateEvery: 1
  augment: {scale: [0.08, 1], ratio: [0.75, 1.5], flip: true, mean: [0.5], std: [0.25], testResize: 256}
  extraArgs: [--image-size=224]
networkPolicy:
  enabled: true
  apiServerPorts: [6443]
  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.1.0/24]}}], ports: [{protocol: TCP, port: 443}]}]
"""
DOCUMENTS: dict[str, dict[str, Any]] = {
    "values.yaml": yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")),
    "kubernetes": yaml.safe_load(KUBERNETES),
    "few need": yaml.safe_load(FEW_NEED),
    **{file.name: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(VALUES.glob("*.yaml"))},
}
# The files in values/ add few keys to those in values.yaml. So by default, the test mutates only one of the files in
# values/.
TRIED = ("values.yaml", "kubernetes", "few need", "vgg16.yaml")
# Some values are refused because another value is missing. NEEDS maps each of them to the missing value, which the
# error message names.
NEEDS = {"/gang/scheduler: kueue": "gang.queue", "/trainer/delivery: chart": "image.repository"}


@pytest.fixture(scope="module")
def mutated() -> dict[str, list[Mutation]]:
    """Return the mutations of each document.

    The mutations are created in a fixture, not at import: every pytest process imports this module, but only one
    process runs the tests that need them.
    """
    return {name: list(mutations(values)) for name, values in DOCUMENTS.items()}


def test_there_are_thousands_of_mutations_of_every_kind(mutated: dict[str, list[Mutation]]) -> None:
    kinds = Counter(mutation.kind for found in mutated.values() for mutation in found)

    assert kinds.total() >= 3000
    assert min(kinds.values()) >= 50
    assert len(kinds) == 7


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in TRIED else pytest.mark.full) for name in DOCUMENTS]
)
def test_helm_refuses_every_mutation_and_says_where(name: str, mutated: dict[str, list[Mutation]]) -> None:
    # Both versions of Helm use the same validator. So the test renders every mutation with Helm 4, but only every tenth
    # with Helm 3.
    requests = [
        Request(mutation.name, mutation.values, helms=("helm4", "helm3") if index % 10 == 0 else ("helm4",))
        for index, mutation in enumerate(mutated[name])
    ]

    answers = list(render_many(requests))

    wrong = [
        f"{helm}: {mutation.name}: {rendering.error or 'rendered'}"
        for mutation, answer in zip(mutated[name], answers, strict=True)
        for helm, rendering in answer.items()
        if not is_told(mutation, rendering.error)
    ]
    assert wrong == []


def is_told(mutation: Mutation, error: str) -> bool:
    return f"at '{mutation.pointer}': {mutation.words}" in error


def neighbours(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield valid values: both ends of each range, and each choice."""
    for place in places(values):
        ends = [place.schema[limit] for limit in ("minimum", "maximum") if limit in place.schema]
        for value in [*ends, *place.schema.get("enum", [])]:
            yield f"{pointer(place.path)}: {value}", replaced(values, place.path, value)


@pytest.mark.parametrize("name", ["values.yaml", "kubernetes"])
def test_values_at_a_limit_are_accepted(name: str) -> None:
    cases = dict(neighbours(DOCUMENTS[name]))

    answers = list(render_many(Request(case, values, helms=("helm4",)) for case, values in cases.items()))

    errors = {case: answer["helm4"].error for case, answer in zip(cases, answers, strict=True)}
    assert {case: error for case, error in errors.items() if error and not is_told_by_a_rule(case, error)} == {}
    assert len(errors) > 20


def is_told_by_a_rule(case: str, error: str) -> bool:
    """Return whether a rule of the chart prints this error, and names the refused value or the missing value."""
    path = NEEDS.get(case, case.partition(":")[0].removeprefix("/").replace("/", "."))
    return f"): distrain: {path}: " in error


def test_every_range_and_choice_of_the_schema_is_met(mutated: dict[str, list[Mutation]]) -> None:
    def limits(schema: dict[str, Any], path: str = "") -> Iterator[str]:
        for name, entry in schema["properties"].items():
            if {"enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} & set(entry):
                yield f"{path}/{name}"
            if "properties" in entry:
                yield from limits(entry, f"{path}/{name}")

    met = {
        mutation.pointer
        for found in mutated.values()
        for mutation in found
        if mutation.kind in ("out of range", "wrong choice")
    }

    assert set(limits(SCHEMA)) - met == set()
