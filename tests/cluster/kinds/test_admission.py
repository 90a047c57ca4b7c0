"""Test that schemas, the operators' webhooks and Pod Security admit every object rendered from random values."""

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
# API groups whose CRDs the lab does not have.
ABSENT = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "monitoring.coreos.com/", "scheduling.")


def test_api_server_admits_what_random_values_render(namespace: Namespace) -> None:
    requests = [replace(request, namespace=namespace.name, helms=("helm4",)) for request in random_requests(COUNT)]
    manifests = {
        one.name: _served(answer["helm4"]) for one, answer in zip(requests, render_many(requests), strict=True)
    }

    refused = _refusal(manifests.values())

    assert len(manifests) == COUNT
    assert sum(manifest.count("\nkind: ") for manifest in manifests.values()) > COUNT
    # Applying all objects at once takes a third of the time. After a failure, apply the manifests one by one to find
    # the refused object.
    assert not refused, {seed: _refusal([manifest]) for seed, manifest in manifests.items()}


def _served(rendered: Rendering) -> str:
    # Send Helm's own text: YAML parsers disagree on which scalars are numbers.
    return "\n---\n".join(text for text in rendered.manifest.split("\n---\n") if _is_served(yaml.safe_load(text)))


def _refusal(manifests: Iterable[str]) -> str:
    command = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        client.kubectl(*command, stdin="\n---\n".join(manifests))
    except LabError as error:
        return str(error)
    return ""


def _is_served(item: dict[str, str] | None) -> bool:
    # The hooks' pods need an existing ServiceAccount, which a dry run does not create.
    if not item or item["kind"] == "Pod":
        return False
    # Another operator's CRD serves the other version of MPIJob.
    is_other_mpijob = item["kind"] == "MPIJob" and item["apiVersion"] != "kubeflow.org/v2beta1"
    return not item["apiVersion"].startswith(ABSENT) and not is_other_mpijob
