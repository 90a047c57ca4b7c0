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
# The exit code of a program that SIGPIPE ends.
PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    code = run(sys.argv[1:] if arguments is None else arguments)
    if code == StoppedError.exit_code:
        leave(code)
    # Python would look through all objects for garbage once more, and then free them.
    gc.freeze()
    sys.exit(code)


def leave(code: int) -> NoReturn:
    """End the process after Ctrl-C: where that met text that `exec` ran, Python would end it by the signal instead."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        if list(arguments[:1]) == [COMPLETE]:
            completion = importlib.import_module("distrain.commands.completion")
            return int(completion.run_complete(arguments[1:]))
        if list(arguments[:1]) == ["help"]:
            arguments = [*arguments[1:], "--help"]
        options = parser(arguments).parse(arguments or ["--help"])
        # Imported late: a command costs nobody else its libraries, and --help none at all.
        command = importlib.import_module(f"distrain.commands.{options.command}")
        code: int = command.run(options)
    except DistrainError as error:
        for message in error.messages:
            console.say(message)
        return error.exit_code
    except KeyboardInterrupt:
        console.say("interrupted; nothing was changed")
        return StoppedError.exit_code
    except BrokenPipeError:
        # As with `| head`: the reader has what it wants. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code
