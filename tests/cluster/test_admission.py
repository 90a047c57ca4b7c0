"""What random values render, admitted by the real API server: its schemas, the operators' webhooks, Pod Security."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import yaml

from lab.cluster import client
from lab.errors import LabError
from tests.chart.many import Rendering, render_many
from tests.chart.random_values import random_requests
from tests.cluster.testbed import Namespace

# Privileged values are among them.
POD_SECURITY = "privileged"
COUNT = 60
# CRDs that the lab does not have with these operators.
ABSENT = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "monitoring.coreos.com/", "scheduling.")


def test_api_server_admits_what_random_values_render(namespace: Namespace) -> None:
    requests = [replace(request, namespace=namespace.name, helms=("helm4",)) for request in random_requests(COUNT)]
    manifests = {
        one.name: _served(answer["helm4"]) for one, answer in zip(requests, render_many(requests), strict=True)
    }

    refused = _refusal(manifests.values())

    assert len(manifests) == COUNT
    assert sum(manifest.count("\nkind: ") for manifest in manifests.values()) > COUNT
    # All at once takes a third of the time, and one by one tells which.
    assert not refused, {seed: _refusal([manifest]) for seed, manifest in manifests.items()}


def _served(rendered: Rendering) -> str:
    # As Helm wrote them: what is a number in YAML depends on who reads it.
    return "\n---\n".join(text for text in rendered.manifest.split("\n---\n") if _is_served(yaml.safe_load(text)))


def _refusal(manifests: Iterable[str]) -> str:
    command = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        client.kubectl(*command, stdin="\n---\n".join(manifests))
    except LabError as error:
        return str(error)
    return ""


def _is_served(item: dict[str, str] | None) -> bool:
    # The hooks' pods need a ServiceAccount that is there, which a dry run does not make.
    if not item or item["kind"] == "Pod":
        return False
    # The other MPIJob's version is served by another operator's CRD.
    is_other_mpijob = item["kind"] == "MPIJob" and item["apiVersion"] != "kubeflow.org/v2beta1"
    return not item["apiVersion"].startswith(ABSENT) and not is_other_mpijob
