"""The program: it runs the command that the arguments name, and turns what goes wrong into lines and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from distrain import console
from distrain.commands.parser import parser
from distrain.errors import DistrainError, StoppedError


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        options = parser().parse_args(arguments)
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
    return code
