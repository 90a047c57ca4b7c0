"""Print results to stdout and everything else to stderr. No other module prints."""

from __future__ import annotations

import io
import os
import sys

from distrain.errors import UnwrittenError, unwritten

TYPE_CHECKING = False  # for fast start, see cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

# kubelet reads a container's termination message from this file.
TERMINATION_LOG = "/dev/termination-log"
# The size of the parts in which `copy` copies a file.
COPIED = 2**20
# A line is longer only if it repeats a long text of the user.
LONGEST = 1000
# The columns of a terminal of unknown width.
USUAL_WIDTH = 80
# Control characters, for example in a name, would change the terminal. YAML allows only \t, \n, \r and \x85, and the
# plugin's JSON no control character, so manifests and answers for programs do not change.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r\x85"}
# Errors from `tell`; `finish` raises the first one.
_lost: list[UnwrittenError] = []


def open_streams() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise a connection to the cluster could get file descriptor 0, 1 or 2, and a child process would print into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Answers are values, manifests and JSON, which are UTF-8 whatever the locale; Helm refuses YAML in Latin-1.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stdin is None:
        # A command that reads stdin finds it empty.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def answer_people(text: str) -> None:
    """Print a result that a person reads, as text or Markdown; raise UnwrittenError if stdout is closed or full.

    Invisible characters are escaped, too: some of them show a line's words in another order.
    """
    answer(_visible(text))


def answer(text: str) -> None:
    """Print a command's result, control characters escaped; raise UnwrittenError if stdout is closed or full."""
    _refuse_closed()
    try:
        print(text.translate(CONTROLS), flush=True)
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def draw(lines: Sequence[str], style: str = "", *, clears: bool = False) -> None:
    """Print lines to a terminal; with `clears`, replace what it shows.

    `style` is the style of the first line, as numbers of ECMA-48 such as "1;32". Raise UnwrittenError if stdout is
    closed or full.
    """
    _refuse_closed()
    first, *rest = map(printable, lines)
    shown = [f"\x1b[{style}m{first}\x1b[0m" if style else first, *rest]
    try:
        print("\x1b[H\x1b[2J" * clears + "\n".join(shown), flush=True)
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def width() -> int | None:
    """Return the terminal's number of columns, None if stdout is not a terminal.

    A terminal that does not know its size, as under `script`, has 0 columns: then it counts as 80 columns wide.
    """
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError, AttributeError):
        return None


def copy(file: IO[bytes]) -> None:
    """Copy a command's result from a file to stdout; raise UnwrittenError if stdout is closed or full."""
    _refuse_closed()
    try:
        for part in iter(lambda: file.read(COPIED), b""):
            sys.stdout.buffer.write(part)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def write(data: bytes) -> None:
    """Write bytes to stdout as they are, at once; raise UnwrittenError if stdout is closed or full."""
    _refuse_closed()
    # Without a buffer, Ctrl-C also ends a command whose reader has stopped reading.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    left = memoryview(data)
    try:
        while left:
            left = left[raw.write(left) or 0 :]
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def _refuse_closed() -> None:
    """Raise UnwrittenError if stdout was closed when Python started, as by `>&-`."""
    if sys.stdout is None:
        raise UnwrittenError("stdout: is closed; redirect it to a file or to /dev/null")


def tell(text: str, otherwise: str) -> None:
    """Print a text about a change of the cluster; if stdout fails, print the error and `otherwise` to stderr.

    A failed print neither stops nor undoes the change. `finish` raises the error afterwards, for the exit code.
    """
    try:
        answer(text)
    except UnwrittenError as error:
        for message in () if _lost else error.messages:
            say(message)
        say(otherwise)
        error.messages = ()
        _lost.append(error)


def finish() -> None:
    """Raise the first UnwrittenError of `tell`, if any."""
    lost, _lost[:] = _lost[:], []
    if lost:
        raise lost[0]


def say(line: str) -> None:
    """Print a line to stderr; ignore errors."""
    _to_stderr(f"distrain: {printable(_redacted(line))}")


def say_text(text: str) -> None:
    """Print a text of several lines to stderr, control characters escaped; ignore errors."""
    _to_stderr(_visible(_redacted(text)))


def _to_stderr(text: str) -> None:
    if sys.stderr is None:
        # print(file=None) would print to stdout.
        return
    try:
        # One write for text and line break: threads write lines, too.
        print(f"{text}\n", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # stderr is closed or full; the command goes on without the text.
        return


def printable(line: str) -> str:
    """Escape line breaks and control characters, which would change the terminal, and shorten a very long line."""
    return _escaped(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}")


def terminal_line(line: str) -> str:
    """Return a log line that is safe for a terminal: without colours, and with other control characters escaped.

    A line that overwrites itself, such as a progress bar, is shown in its last state.
    """
    import re

    shown = line.rstrip("\r").rpartition("\r")[2]
    return "\t".join(map(_escaped, re.sub("\x1b\\[[0-9;:]*m", "", shown).split("\t")))


def _visible(text: str) -> str:
    """Escape all characters of a text's lines that cannot be seen."""
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def leave(line: str) -> None:
    """Write a line as the termination message of the pod that this program runs in."""
    try:
        # The file is not created: outside Kubernetes it does not exist.
        with open(TERMINATION_LOG, "r+", encoding="utf-8") as log:
            log.write(_escaped(line))
            log.truncate()
    except OSError:
        return


def _redacted(line: str) -> str:
    # Import only here: --help prints nothing to redact, and need not wait for the regular expressions.
    from distrain.redact import redact

    return redact(line)


def can_ask() -> bool:
    """Tell whether stdin is a terminal and stderr is open, so that the user can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None


def agrees(question: str) -> bool:
    """Ask a yes/no question on stderr; return False if it cannot be printed or the answer is not yes."""
    try:
        print(f"distrain: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return False
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def close() -> None:
    """Flush stdout and stderr; redirect a stream that fails to /dev/null.

    Otherwise Python reports the failed flush when it exits, with exit code 120.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
