"""The command `template`: the objects that an installation would create, rendered by Helm for the target's cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from distrain import console
from distrain.apiserver.cluster import Capabilities
from distrain.apiserver.target import namespace_alone
from distrain.commands.derived_values import asker, derived_source, given
from distrain.commands.kube_flags import connected
from distrain.commands.values_flags import source_of
from distrain.derive.room import Room
from distrain.errors import UnreachableError, ValuesError
from distrain.helm.render import find
from distrain.workload.manifest import Job


def run(options: argparse.Namespace) -> int:
    source, helm = source_of(options), find()
    merged = helm.merged_values(source)
    ask = _nobody if options.offline else asker(options)
    complete = derived_source(given(options, helm, source), merged, ask)
    namespace, capabilities = _cluster(options)
    rendering = helm.render(options.name, complete, namespace, capabilities, has_valid_values=True)
    console.answer(rendering.manifest().rstrip("\n"))
    return 0


def _nobody(render: Callable[[], Job], gpu_resource: str) -> Room:
    words = "the total is not spread over workers yet, and --offline asks no cluster for its nodes"
    raise ValuesError(f"gpus: {words}; add --node-gpus N, the GPUs of a node, or --snapshot FILE")


def _cluster(options: argparse.Namespace) -> tuple[str, Capabilities | None]:
    """Return the namespace and the cluster's capabilities; --offline ignores the kubeconfig."""
    if options.offline:
        return namespace_alone(options.namespace), None
    try:
        target, cluster = connected(options)
        return target.namespace, cluster.capabilities()
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or add --offline") from error
