"""The command `template`: the objects that an installation would create, rendered by Helm for the target's cluster."""

from __future__ import annotations

import argparse
import os

from distrain import console, values
from distrain.cluster import Capabilities, connect
from distrain.commands.candidate import source_of
from distrain.errors import UnreachableError
from distrain.helm import find
from distrain.target import choose


def run(options: argparse.Namespace) -> int:
    source, helm = source_of(options), find()
    values.check(helm.merged_values(source), source.chart)
    namespace, capabilities = _cluster(options)
    console.answer(helm.render(options.name, source, namespace, capabilities).rstrip("\n"))
    return 0


def _cluster(options: argparse.Namespace) -> tuple[str, Capabilities | None]:
    """Return the namespace and what the cluster can do; offline no kubeconfig has a say."""
    if options.offline:
        return options.namespace or os.environ.get("HELM_NAMESPACE") or "default", None
    try:
        target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
        return target.namespace, connect(target).capabilities()
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or add --offline") from error
