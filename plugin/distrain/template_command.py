"""The command `template`: the objects that an installation would create, rendered by Helm for the target's cluster."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from distrain import values
from distrain.cluster import Capabilities, connect
from distrain.errors import UnreachableError
from distrain.helm import Source, find
from distrain.target import choose

# As `helm template` names a release that has no name.
NAMELESS = "release-name"


def add(
    commands: Any, command: Callable[[argparse.Namespace], int], name: Callable[[str], str]
) -> argparse.ArgumentParser:
    """Add the command's parser, without the flags for values and the cluster; `name` is the type of a release's."""
    words = "print what an installation would create"
    parser: argparse.ArgumentParser = commands.add_parser("template", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("name", metavar="NAME", nargs="?", type=name, default=NAMELESS, help="the release's name")
    parser.add_argument("--offline", action="store_true", help="ask no cluster; take the newest version of each kind")
    parser.set_defaults(command=command)
    return parser


def answer(options: argparse.Namespace, source: Source) -> str:
    """Return the manifest.

    Raises ValuesError where the chart refuses the values, UnreachableError when the cluster does not answer.
    """
    helm = find()
    values.check(helm.merged_values(source), source.chart)
    namespace, capabilities = _cluster(options)
    return helm.render(options.name, source, namespace, capabilities)


def _cluster(options: argparse.Namespace) -> tuple[str, Capabilities | None]:
    """Return the namespace and what the cluster can do; offline no kubeconfig has a say."""
    if options.offline:
        return options.namespace or os.environ.get("HELM_NAMESPACE") or "default", None
    try:
        target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
        return target.namespace, connect(target).capabilities()
    except UnreachableError as error:
        raise UnreachableError(f"{error}, or add --offline") from error
