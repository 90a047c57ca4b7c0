"""What random values render, admitted by the real API server: its schemas, the operators' webhooks, Pod Security."""

from __future__ import annotations

from dataclasses import replace

import yaml

from lab import client
from lab.errors import LabError
from tests.chart.many import Request, render_many
from tests.chart.random_values import random_requests
from tests.cluster.testbed import Namespace

# Privileged values are among them.
POD_SECURITY = "privileged"
COUNT = 60
# CRDs that the lab does not have with these operators.
ABSENT = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "monitoring.coreos.com/", "scheduling.")


def test_api_server_admits_what_random_values_render(namespace: Namespace) -> None:
    requests = [replace(request, namespace=namespace.name, helms=("helm4",)) for request in random_requests(COUNT)]
    refused, admitted = [], 0
    for request, rendered in zip(requests, render_many(requests), strict=True):
        # As Helm wrote them: what is a number in YAML depends on who reads it.
        documents = [text for text in rendered["helm4"].manifest.split("\n---\n") if _is_served(yaml.safe_load(text))]
        if documents:
            admitted += len(documents)
            refused += _refusals("\n---\n".join(documents), request)

    assert refused == []
    assert admitted > COUNT


def _refusals(manifest: str, request: Request) -> list[str]:
    command = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    try:
        client.kubectl(*command, stdin=manifest)
    except LabError as error:
        return [f"{error}\n{request.values}"]
    return []


def _is_served(item: dict[str, str] | None) -> bool:
    # The hooks' pods need a ServiceAccount that is there, which a dry run does not make.
    if not item or item["kind"] == "Pod":
        return False
    # The other MPIJob's version is served by another operator's CRD.
    is_other_mpijob = item["kind"] == "MPIJob" and item["apiVersion"] != "kubeflow.org/v2beta1"
    return not item["apiVersion"].startswith(ABSENT) and not is_other_mpijob
