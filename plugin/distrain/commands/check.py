"""Run the command `check`.

The modules that judge a job are imported while Helm merges the values, or while the API server answers.
"""

from __future__ import annotations

import argparse
import sys

from distrain.commands.request import Request, import_msgspec, text_of
from distrain.errors import ValuesError


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    request, manifest = Request(options), None
    if not options.manifest:
        request.helm.begin_values(request.source)
    import_msgspec()
    if options.manifest:
        stdin = sys.stdin.buffer.read() if options.manifest == "-" else None
        manifest = text_of("--manifest", options.manifest, stdin)
        if not (options.snapshot or options.offline):
            request.cluster.begin_nodes()
    from distrain.commands.judge import answer

    return answer(request, manifest)


def _refuse_contradictions(options: argparse.Namespace) -> None:
    if options.manifest and options.value_flags:
        raise ValuesError("--manifest: it goes without values; leave out -f and --set, or --manifest")
    if options.manifest == options.snapshot == "-":
        raise ValuesError("--snapshot: stdin is --manifest's already; name a file for one of them")
    if options.offline and not (options.snapshot or options.assume_nodes):
        raise ValuesError("--offline: nothing says what nodes there are; add --snapshot FILE or --assume-nodes 4x8")
