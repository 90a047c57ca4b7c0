"""Render the chart with thousands of values: one process of lab/builds/go/render does what both `helm template`s do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chart.rendering import start_renderer

BOTH = ("helm3", "helm4")


@dataclass(frozen=True)
class Request:
    """Values as in a file given with `-f`, and what else `helm template` is told."""

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
    """What one Helm printed: the manifest, or the error. `helm install` prints the notes."""

    manifest: str = ""
    notes: str = field(default="", compare=False)
    error: str = ""


@dataclass(frozen=True)
class Pod:
    """A pod template, and the Pod Security Standard that it must keep to."""

    level: str
    spec: dict[str, Any] = field(repr=False)
    metadata: dict[str, Any] = field(repr=False, default_factory=dict)


def render_many(requests: Iterable[Request]) -> Iterator[dict[str, Rendering]]:
    """Yield, in order, what each Helm made of each request."""
    for answer in _ask(request.line() for request in requests):
        yield {helm: Rendering(**answer[helm]) for helm in BOTH if helm in answer}


def violations(pods: Iterable[Pod]) -> Iterator[list[str]]:
    """Yield, in order, what the API server's Pod Security admission has against each pod."""
    for answer in _ask(json.dumps({"pods": [vars(pod)]}) for pod in pods):
        yield answer["pods"][0]


def _ask(lines: Iterable[str]) -> Iterator[Any]:
    """Yield the program's answers while another thread writes the requests."""
    process = start_renderer()
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def write() -> None:
        with stdin:
            for line in lines:
                stdin.write(line + "\n")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with process, stdout:
        for answer in stdout:
            yield json.loads(answer)
    assert process.returncode == 0
