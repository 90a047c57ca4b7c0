"""Test that the API server, the operators' webhooks and Pod Security admit objects rendered from random values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import yaml

from lab.cluster import client
from lab.errors import LabError
from tests.chart.many import Rendering, render_many
from tests.chart.random_values import random_requests
from tests.cluster.testbed import Namespace

# Some random values need the Pod Security level privileged.
POD_SECURITY = "privileged"
COUNT = 60
# The lab has no CRDs of these API groups, so it cannot check their objects.
ABSENT = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "monitoring.coreos.com/", "scheduling.")


def test_api_server_admits_what_random_values_render(namespace: Namespace) -> None:
    requests = [replace(request, namespace=namespace.name, helms=("helm4",)) for request in random_requests(COUNT)]
    manifests = {
        one.name: _served(answer["helm4"]) for one, answer in zip(requests, render_many(requests), strict=True)
    }

    refused = _refusal(manifests.values())

    assert len(manifests) == COUNT
    assert sum(manifest.count("\nkind: ") for manifest in manifests.values()) > COUNT
    # Applying all objects in one request takes a third of the time of separate requests. Only if the API server refuses
    # an object, the manifests are applied one by one to find the refused one.
    assert not refused, {seed: _refusal([manifest]) for seed, manifest in manifests.items()}


def _served(rendered: Rendering) -> str:
    # Send the text exactly as Helm rendered it. PyYAML would write some strings without quotes, and the API server
    # would then read them as numbers.
    return "\n---\n".join(text for text in rendered.manifest.split("\n---\n") if _is_served(yaml.safe_load(text)))


def _refusal(manifests: Iterable[str]) -> str:
    command = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        client.kubectl(*command, stdin="\n---\n".join(manifests))
    except LabError as error:
        return str(error)
    return ""


def _is_served(item: dict[str, str] | None) -> bool:
    # The hooks' Pods cannot be checked: the API server requires their ServiceAccount, and a dry run does not create it.
    if not item or item["kind"] == "Pod":
        return False
    # The CRD of the lab's mpi-operator has only version v2beta1 of MPIJob.
    is_other_mpijob = item["kind"] == "MPIJob" and item["apiVersion"] != "kubeflow.org/v2beta1"
    return not item["apiVersion"].startswith(ABSENT) and not is_other_mpijob
