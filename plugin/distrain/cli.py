"""Run the command that the arguments name, and turn errors into lines on stderr and an exit code."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

from distrain import console, temporary
from distrain.command_line.parser import parser
from distrain.errors import DistrainError, StoppedError, UnwrittenError, is_full

# Only type checkers need these imports. Importing `typing` takes as long as everything else that --help needs together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

# Python searches for garbage after every GARBAGE new objects; its default is 700.
GARBAGE = 50_000
# Python's message if neither TMPDIR nor /tmp is writable, as in a container with a read-only file system.
NO_FOLDER = "No usable temporary directory"
# Shells call this command to complete a command line; see commands/completion.py.
COMPLETE = "__complete"
# For each command whose name is a Python keyword, the name of its module.
MODULES = {"import": "import_"}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    # Modules and objects live until the command ends, so Python would search them for garbage in vain.
    gc.set_threshold(GARBAGE)
    console.open_streams()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Like Ctrl-C, SIGTERM raises KeyboardInterrupt. Commands that change a release replace this handler.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:] if arguments is None else arguments)
    console.close()
    if code == StoppedError.exit_code:
        # If KeyboardInterrupt was raised in code that `exec` ran, sys.exit would not end Python with this exit code,
        # but with SIGINT.
        os._exit(code)
    # Skip Python's last garbage collection, which would walk over all objects.
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
    except OSError as error:
        if NO_FOLDER in str(error):
            console.say(
                "TMPDIR: no folder for temporary files is writable; set TMPDIR to a writable folder; nothing "
                "was changed"
            )
            return UnwrittenError.exit_code
        if not is_full(error):
            raise
        # It must be the disk with the temporary files that is full: the plugin writes no other files, and a write error
        # of stdout has already become an UnwrittenError.
        console.say(f"TMPDIR: {os.environ.get('TMPDIR', '/tmp')} is full; free space there, or set another TMPDIR")
        for note in getattr(error, "__notes__", ("nothing was changed",)):
            console.say(note)
        return UnwrittenError.exit_code
    finally:
        temporary.remove()
    return code


def _command(arguments: Sequence[str]) -> int:
    if list(arguments[:1]) == [COMPLETE]:
        completion = importlib.import_module("distrain.commands.completion")
        return int(completion.run_complete(arguments[1:]))
    if list(arguments[:1]) == ["help"]:
        arguments = [*arguments[1:], "--help"]
    options = parser(arguments).parse(arguments or ["--help"])
    # Imported here, so that a command loads only its own libraries and --help loads none.
    module = MODULES.get(options.command, options.command)
    command = importlib.import_module(f"distrain.commands.{module}")
    code: int = command.run(options)
    return code
