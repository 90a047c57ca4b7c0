"""Run the command `status`: say how a run, or each run, is doing."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from distrain import console
from distrain.commands.formats import dumped
from distrain.commands.request import Request, import_msgspec
from distrain.errors import ValuesError

if TYPE_CHECKING:
    from distrain.apiserver.cluster import Cluster
    from distrain.status.run import Run

FAILED = 4


def run(options: argparse.Namespace) -> int:
    import_msgspec()
    cluster = Request(options).cluster
    found = _one(cluster, options.name)
    form = options.output
    console.answer("\n".join(_screen(found)) if form == "text" else dumped(found.as_dict(), form))
    return _code(found)


def _one(cluster: Cluster, release: str) -> Run:
    from distrain.status.read import read_run
    from distrain.status.reasons import Place
    from distrain.status.run import run_of

    target = cluster.target
    seen = read_run(cluster, release, target.namespace)
    if seen is None:
        raise ValuesError(f"{release}: there is no run of this name in namespace {target.namespace}")
    return run_of(seen, Place(release, target.helm_flags, target.kubectl_flags), time.time())


def _screen(found: Run) -> list[str]:
    from distrain.status.text import screen

    return screen(found, _width())


def _width() -> int | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def _code(found: Run) -> int:
    from distrain.status.phase import Word

    return FAILED if found.phase.word == Word.FAILED else 0
