"""Run the command `derive`: print the completed values, or tell whether a file's derived lines are stale."""

from __future__ import annotations

import argparse

from distrain import console
from distrain.commands.request import NO_NODES, Request, import_msgspec
from distrain.errors import ValuesError


def run(options: argparse.Namespace) -> int:
    request = Request(options)
    source = request.source
    request.helm.begin_values(source)
    from distrain.derive.rendering import UNINSTALLED

    request.helm.expect_text(source.chart, UNINSTALLED)
    # Imported while Helm runs in parallel; both take as long as Python's start.
    import_msgspec()
    from distrain.commands.formats import dumped
    from distrain.derive.complete import derive

    ask = None if options.check else request.cluster_nodes(hint=NO_NODES)
    derived = derive(request.given(source), ask=ask)
    for note in derived.notes:
        console.say(note)
    if options.check:
        if derived.stale:
            raise ValuesError(derived.stale[0])
        console.answer("derived values are up to date")
    else:
        console.answer(dumped(derived.values, "json") if options.output == "json" else derived.text.rstrip("\n"))
    return 0
