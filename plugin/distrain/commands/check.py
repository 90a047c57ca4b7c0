"""Run the command `check`.

To save time, the modules that judge a job are imported only while Helm merges the values, or while the API server
answers.
"""

from __future__ import annotations

import argparse

from distrain import files
from distrain.errors import ValuesError, reason
from distrain.request.request import Request, import_msgspec


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    request, manifest = Request(options), None
    if not options.manifest:
        request.helm.begin_values(request.source)
    import_msgspec()
    if options.manifest:
        manifest = _manifest(options.manifest)
        if not (options.snapshot or options.offline):
            request.cluster.begin_nodes()
    from distrain.answers.judge import answer

    return answer(request, manifest)


def _manifest(path: str) -> str:
    try:
        return files.read(path, files.MANIFEST).decode()
    except (OSError, ValueError) as error:
        raise ValuesError(f"--manifest: {path} cannot be read: {reason(error)}; name another file") from error


def _refuse_contradictions(options: argparse.Namespace) -> None:
    if options.manifest and options.value_flags:
        raise ValuesError("--manifest: cannot be combined with values; leave out -f and --set, or --manifest")
    if options.manifest == options.snapshot == "-":
        raise ValuesError("--snapshot: --manifest already reads stdin; name a file for one of the two flags")
    if options.why and options.output != "text":
        raise ValuesError("--why: explains the node in text only; leave out one of the two flags, --why and --output")
    if options.offline and not (options.snapshot or options.assume_nodes):
        raise ValuesError(
            "--offline: without the cluster the nodes are unknown; add --snapshot FILE or --assume-nodes 4x8"
        )
