"""The program: it runs the command that the arguments name, and turns what goes wrong into lines and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from distrain import console
from distrain.commands.parser import parser
from distrain.errors import DistrainError, StoppedError

# Of the shells, not of people: see commands/completion.py.
COMPLETE = "__complete"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        if list(arguments[:1]) == [COMPLETE]:
            completion = importlib.import_module("distrain.commands.completion")
            return int(completion.run_complete(arguments[1:]))
        options = parser().parse(arguments or ["--help"])
        # Imported late: a command costs nobody else its libraries, and --help none at all.
        command = importlib.import_module(f"distrain.commands.{options.command}")
        code: int = command.run(options)
    except DistrainError as error:
        for message in error.messages:
            console.say(message)
        return error.exit_code
    except KeyboardInterrupt:
        console.say("interrupted; nothing was installed")
        return StoppedError.exit_code
    return code
