"""Complete the user's values before rendering: split a total of GPUs over workers and derive the dependent values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distrain import console
from distrain.commands.flag_files import text_of
from distrain.derive.complete import Given, Measure, complete
from distrain.derive.room import Room, StatedNodes
from distrain.derive.workers import MARK
from distrain.errors import UnreachableError
from distrain.helm.program import Source
from distrain.helm.render import Helm

if TYPE_CHECKING:
    from distrain.workload.manifest import Job


def derived_source(given: Given, merged: Mapping[str, Any], ask: Measure, *, is_final: bool = True) -> Source:
    """Return the source to render: the given one if it is complete, otherwise its completed values on stdin.

    `merged` are the source's values with the chart's defaults, which passed the schema. `ask` returns the nodes, and is
    called only if the GPUs must be split and nothing else states the nodes. `is_final` tells that the values will be
    installed, not only judged. Notes on the split are printed. Raises ValuesError if the GPUs cannot be split.
    """
    if not _leaves_open(given.helm.given_values(given.source), merged, given.texts, is_final=is_final):
        return given.source
    derived = complete(given, ask=ask)
    for note in derived.notes:
        console.say(note)
    return Source(given.source.chart, ("--values", "-"), derived.text.encode())


def given(options: argparse.Namespace, helm: Helm, source: Source) -> Given:
    """Return the input for `derive`; --node-gpus and --snapshot, where a command has them, state the nodes."""
    return Given(helm, source, tuple(texts_of(source)), _stated(options))


def asker(options: argparse.Namespace) -> Measure:
    """Return a function that reads the nodes of the cluster in the arguments."""

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        # Imported here: the cluster is read only if nothing else states the nodes.
        from distrain.commands.kube_flags import connected
        from distrain.derive.measured import measured_in

        job = render()
        try:
            target, cluster = connected(options)
            return measured_in(cluster, target.namespace, job, gpu_resource)
        except UnreachableError as error:
            words = "; or say --node-gpus N, the GPUs of a node, or --snapshot FILE"
            raise UnreachableError(error.messages[0] + words) from error

    return ask


def _leaves_open(own: Mapping[str, Any], merged: Mapping[str, Any], texts: Sequence[str], *, is_final: bool) -> bool:
    """Tell whether a value is to be derived: a split, a line marked as derived, or the size of /dev/shm."""
    workers = own.get("workers") or {}
    if any(MARK in text for text in texts):
        return True
    if own.get("gpus") is not None and not {"replicas", "gpus"} <= workers.keys():
        return True
    return is_final and int((merged.get("workers") or {}).get("gpus") or 0) > 1 and "shm" not in workers


def texts_of(source: Source) -> Iterator[str]:
    """Yield the text of each values file."""
    for flag, value in zip(source.flags[::2], source.flags[1::2], strict=True):
        if flag == "--values":
            yield text_of(flag, value, source.stdin)


def _stated(options: argparse.Namespace) -> Measure | None:
    node_gpus, path = getattr(options, "node_gpus", None), getattr(options, "snapshot", None)
    if node_gpus:
        return lambda render, gpu_resource: StatedNodes(node_gpus)
    if path:
        from distrain.apiserver.target import namespace_alone
        from distrain.check import snapshot_file
        from distrain.check.cluster_state import over
        from distrain.derive.measured import measured

        found, namespace = snapshot_file.read_file(path), namespace_alone(options.namespace)
        return lambda render, gpu_resource: measured(found.nodes, over(found.pods), namespace, render(), gpu_resource)
    return None
