"""The program: it runs the command that the arguments name, and turns what goes wrong into lines and an exit code."""

from __future__ import annotations

import gc
import importlib
import os
import sys

from distrain import console
from distrain.commands.parser import parser
from distrain.errors import DistrainError, StoppedError

# Of these only type checkers have a use; imported, typing alone takes as long as all else that --help needs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

# Of the shells, not of people: see commands/completion.py.
COMPLETE = "__complete"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    console.open_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    console.close()
    if code == StoppedError.exit_code:
        # Where Ctrl-C met text that `exec` ran, Python would end by the signal instead.
        os._exit(code)
    # Python would look through all objects for garbage once more, and then free them.
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = _command(arguments)
        console.finish()
    except DistrainError as error:
        for message in error.messages:
            console.say(message)
        return error.exit_code
    except KeyboardInterrupt:
        console.say("interrupted; nothing was changed")
        return StoppedError.exit_code
    return code


def _command(arguments: Sequence[str]) -> int:
    if list(arguments[:1]) == [COMPLETE]:
        completion = importlib.import_module("distrain.commands.completion")
        return int(completion.run_complete(arguments[1:]))
    if list(arguments[:1]) == ["help"]:
        arguments = [*arguments[1:], "--help"]
    options = parser(arguments).parse(arguments or ["--help"])
    # Imported late: a command costs nobody else its libraries, and --help none at all.
    command = importlib.import_module(f"distrain.commands.{options.command}")
    code: int = command.run(options)
    return code
