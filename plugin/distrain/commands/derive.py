"""The command `derive`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from distrain import console
from distrain.check.snapshot import take
from distrain.cluster import connect
from distrain.commands.candidate import source_of
from distrain.derive.complete import Given, derive
from distrain.derive.room import MeasuredNodes, Room, StatedNodes, read_snapshot
from distrain.errors import UnreachableError, ValuesError
from distrain.helm import Source, find
from distrain.job import Job
from distrain.target import choose


def run(options: argparse.Namespace) -> int:
    source = source_of(options)
    given = Given(find(), source, tuple(_texts(source)), _stated(options))
    derived = derive(given, ask=None if options.check else _asker(options))
    for note in derived.notes:
        console.say(note)
    if options.check:
        if derived.stale:
            raise ValuesError(derived.stale[0])
        console.answer("derived values are up to date")
    else:
        console.answer(json.dumps(derived.values, indent=2) if options.output == "json" else derived.text.rstrip("\n"))
    return 0


def _texts(source: Source) -> Iterator[str]:
    for flag, value in zip(source.flags[::2], source.flags[1::2], strict=True):
        if flag == "--values":
            try:
                yield ((source.stdin or b"") if value == "-" else Path(value).read_bytes()).decode()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ValuesError(f"--values: {value} cannot be read: {reason}; name a file") from error


def _stated(options: argparse.Namespace) -> Callable[[Job, str], Room] | None:
    """Return what --node-gpus or --snapshot say of the nodes."""
    if options.node_gpus:
        return lambda job, gpu_resource: StatedNodes(options.node_gpus)
    if options.snapshot:
        snapshot = read_snapshot(options.snapshot, options.namespace or "default")
        return lambda job, gpu_resource: MeasuredNodes(snapshot, job, gpu_resource)
    return None


def _asker(options: argparse.Namespace) -> Callable[[Job, str], Room]:
    def ask(job: Job, gpu_resource: str) -> Room:
        try:
            target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
            cluster = connect(target)
            nodes = cluster.nodes()
            snapshot = cluster.over_pods(lambda pods: take(nodes, pods, target.namespace))
        except UnreachableError as error:
            words = "; or say --node-gpus N, the GPUs of a node, or --snapshot FILE"
            raise UnreachableError(error.messages[0] + words) from error
        return MeasuredNodes(snapshot, job, gpu_resource)

    return ask
