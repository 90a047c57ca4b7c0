"""Run the command `template`: print the objects that an installation would create.

Helm renders the objects for the API versions that the cluster serves.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from distrain import console
from distrain.apiserver.capabilities import Capabilities
from distrain.apiserver.target import namespace_alone
from distrain.derive.room import Room
from distrain.errors import HelmError, UnreachableError, ValuesError
from distrain.helm.program import Source
from distrain.helm.render import Helm, Template
from distrain.request.request import NAMELESS, NO_NODES, Request
from distrain.workload.manifest import Job

# Helm prints this message if no object of the manifest comes from the file that --show-only names.
NOTHING_OF = re.compile(r"could not find template (.+) in chart")
# Helm writes this line above each object. It contains the chart's name and the template's path in the chart.
SOURCE = re.compile(r"^# Source: [^/]+/(.+)$", re.MULTILINE)


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    ask = _refuse if options.offline else request.cluster_nodes(hint=NO_NODES)
    complete = request.completed(request.source, ask)
    namespace, capabilities = _cluster(request)
    only = ["--no-hooks"] * options.no_hooks + ["--skip-tests"] * options.skip_tests
    name = request.name or NAMELESS
    template = Template(name, namespace, capabilities, has_valid_values=True, only=only)
    console.answer(_manifest(request.helm, complete, template, options.show_only).rstrip("\n"))
    return 0


def _manifest(helm: Helm, source: Source, template: Template, files: Sequence[str]) -> str:
    """Return the manifest.

    If `files` names templates, return only their objects; raise ValuesError if a named template renders no object.
    """
    show_only = [word for file in files for word in ("--show-only", file)]
    try:
        return helm.render(source, template._replace(only=[*template.only, *show_only])).manifest
    except HelmError as error:
        if not (missing := NOTHING_OF.search(str(error))):
            raise
        there = sorted(set(SOURCE.findall(helm.render(source, template).manifest)))
        words = f"the chart renders nothing from {missing[1]}; name one of {', '.join(there)}"
        raise ValuesError(f"--show-only: {words}") from error


def _refuse(render: Callable[[], Job], gpu_resource: str) -> Room:
    words = "the total cannot be divided among workers, because --offline does not look up the GPUs per node"
    raise ValuesError(f"gpus: {words}; add --node-gpus N, the number of GPUs per node, or --snapshot FILE")


def _cluster(request: Request) -> tuple[str, Capabilities | None]:
    """Return the namespace and the cluster's capabilities. With --offline, the kubeconfig is ignored."""
    if request.options.offline:
        return namespace_alone(request.options.namespace), None
    try:
        return request.cluster.target.namespace, request.capabilities
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or add --offline") from error
