"""Render the chart with thousands of values files in one process (lab/builds/go/render), as Helm 3 and Helm 4 would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chart.rendering import start_renderer
from tests.line_program import answers

BOTH = ("helm3", "helm4")


@dataclass(frozen=True)
class Request:
    """A request for one rendering: the values, and the other arguments of `helm template`."""

    name: str
    values: dict[str, Any]
    release: str = "run1"
    namespace: str = "default"
    api_versions: tuple[str, ...] = ()
    helms: tuple[str, ...] = BOTH
    again: bool = False

    def line(self) -> str:
        asked = {
            "id": self.name, "values": self.values, "release": self.release, "namespace": self.namespace,
            "apiVersions": self.api_versions, "helms": self.helms, "again": self.again,
        }  # fmt: skip
        return json.dumps(asked)


@dataclass(frozen=True)
class Rendering:
    """What one Helm version prints: the manifest or the error message, and the notes of `helm install`."""

    manifest: str = ""
    notes: str = field(default="", compare=False)
    error: str = ""


@dataclass(frozen=True)
class Pod:
    """A pod template, and the Pod Security Standard that it must meet: privileged, baseline or restricted."""

    level: str
    spec: dict[str, Any] = field(repr=False)
    metadata: dict[str, Any] = field(repr=False, default_factory=dict)
    version: str = "latest"


def render_many(requests: Iterable[Request]) -> Iterator[dict[str, Rendering]]:
    """For each request, yield the results of both Helm versions."""
    for answer in _ask(request.line() for request in requests):
        yield {helm: Rendering(**answer[helm]) for helm in BOTH if helm in answer}


def violations(pods: Iterable[Pod]) -> Iterator[str]:
    """For each pod, yield the message of Pod Security admission, or an empty string if the pod is admitted."""
    for answer in _ask(json.dumps({"pods": [vars(pod)]}) for pod in pods):
        yield answer["pods"][0]


def _ask(lines: Iterable[str]) -> Iterator[Any]:
    return answers(start_renderer(), lines)
