"""The command `derive`."""

from __future__ import annotations

import argparse
import json

from distrain import console
from distrain.commands.imports import import_msgspec
from distrain.commands.values_flags import source_of
from distrain.errors import ValuesError
from distrain.helm.render import find


def run(options: argparse.Namespace) -> int:
    source, helm = source_of(options), find()
    helm.begin_values(source)
    # Imported while Helm runs in parallel; both take as long as Python's start.
    import_msgspec()
    from distrain.commands.derived_values import asker, given
    from distrain.derive.complete import derive

    derived = derive(given(options, helm, source), ask=None if options.check else asker(options))
    for note in derived.notes:
        console.say(note)
    if options.check:
        if derived.stale:
            raise ValuesError(derived.stale[0])
        console.answer("derived values are up to date")
    else:
        console.answer(json.dumps(derived.values, indent=2) if options.output == "json" else derived.text.rstrip("\n"))
    return 0
