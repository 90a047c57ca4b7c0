"""Run the command `template`: print the objects that an installation would create, rendered by Helm for the cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from distrain import console
from distrain.apiserver.capabilities import Capabilities
from distrain.apiserver.target import namespace_alone
from distrain.commands.request import NAMELESS, NO_NODES, Request
from distrain.derive.room import Room
from distrain.errors import UnreachableError, ValuesError
from distrain.helm.render import Template
from distrain.workload.manifest import Job


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    ask = _refuse if options.offline else request.cluster_nodes(hint=NO_NODES)
    complete = request.completed(request.source, ask)
    namespace, capabilities = _cluster(request)
    only = [word for file in options.show_only for word in ("--show-only", file)]
    only += ["--no-hooks"] * options.no_hooks + ["--skip-tests"] * options.skip_tests
    name = request.name or NAMELESS
    template = Template(name, namespace, capabilities, has_valid_values=True, only=only)
    console.answer(request.helm.render(complete, template).manifest.rstrip("\n"))
    return 0


def _refuse(render: Callable[[], Job], gpu_resource: str) -> Room:
    words = "the total is not spread over workers yet, and --offline asks no cluster for its nodes"
    raise ValuesError(f"gpus: {words}; add --node-gpus N, the GPUs of a node, or --snapshot FILE")


def _cluster(request: Request) -> tuple[str, Capabilities | None]:
    """Return the namespace and the cluster's capabilities; --offline ignores the kubeconfig."""
    if request.options.offline:
        return namespace_alone(request.options.namespace), None
    try:
        return request.cluster.target.namespace, request.capabilities
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or add --offline") from error
