"""Print results to stdout and everything else to stderr. No other module prints."""

from __future__ import annotations

import io
import os
import sys

from distrain.errors import UnwrittenError, unwritten

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

# kubelet reads a container's termination message from this file.
TERMINATION_LOG = "/dev/termination-log"
# `copy` copies a file in parts of COPIED bytes.
COPIED = 2**20
# Most lines are shorter than this. Only a line that repeats a long text of the user can be longer, and its middle is
# cut out.
LONGEST = 1000
# The number of columns to use if the terminal's width is unknown.
USUAL_WIDTH = 80
# Control characters, for example in an object's name, would change the state of the terminal. YAML allows only \t, \n,
# \r and \x85, and the plugin's JSON contains no control character, so this replacement changes no manifest and no JSON.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r\x85"}
# The errors that `tell` collects; `finish` raises the first one.
_lost: list[UnwrittenError] = []


def open_streams() -> None:
    """If a standard stream is closed, open /dev/null as this stream.

    Otherwise a connection to the cluster could get file descriptor 0, 1 or 2, and a child process would write to it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The plugin's answers are always UTF-8, whatever the locale is, because Helm refuses YAML in Latin-1.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stdin is None:
        # stdin was closed, and /dev/null has replaced it. So a command that reads stdin finds it empty.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def answer_people(text: str) -> None:
    """Print a result for a person to read, as text or Markdown. Raise UnwrittenError if stdout is closed or full.

    Invisible characters are escaped, too, because some of them make a terminal show the words of a line in another
    order.
    """
    answer(_visible(text))


def answer(text: str) -> None:
    """Print a command's result with control characters escaped. Raise UnwrittenError if stdout is closed or full."""
    _refuse_closed()
    try:
        print(text.translate(CONTROLS), flush=True)
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def draw(lines: Sequence[str], style: str = "", *, clears: bool = False) -> None:
    """Print lines to a terminal. With `clears`, clear the terminal first.

    `style` is the style of the first line, in the numbers of ECMA-48, such as "1;32". Raise UnwrittenError if stdout is
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
    """Return the terminal's number of columns, or None if stdout is not a terminal.

    A terminal that does not know its size, as under `script`, reports 0 columns. For such a terminal, return 80.
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
    """Write bytes unchanged and unbuffered to stdout; raise UnwrittenError if stdout is closed or full."""
    _refuse_closed()
    # Bypass Python's buffer. With the buffer, Ctrl-C would not end a command whose output nobody reads.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    left = memoryview(data)
    try:
        while left:
            left = left[raw.write(left) or 0 :]
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def _refuse_closed() -> None:
    """Raise UnwrittenError if stdout was already closed when Python started, as with `>&-`."""
    if sys.stdout is None:
        raise UnwrittenError("stdout: is closed; redirect it to a file or to /dev/null")


def tell(text: str, otherwise: str) -> None:
    """Print a text while a command changes the cluster.

    If writing to stdout fails, print the error and the text `otherwise` to stderr, and go on with the change. At the
    end, `finish` raises the stored error, so that the exit code shows it.
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
    """Raise the first UnwrittenError that `tell` has collected, if there is one."""
    lost, _lost[:] = _lost[:], []
    if lost:
        raise lost[0]


def say(line: str) -> None:
    """Print a line to stderr; ignore errors."""
    _to_stderr(f"distrain: {printable(_redacted(line))}")


def say_text(text: str) -> None:
    """Print a text of several lines to stderr, with control characters escaped; ignore errors."""
    _to_stderr(_visible(_redacted(text)))


def _to_stderr(text: str) -> None:
    if sys.stderr is None:
        # print(file=None) would print to stdout.
        return
    try:
        # The text and its line break are written at once, because other threads write lines, too.
        print(f"{text}\n", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # stderr is closed or full; the command goes on without the text.
        return


def printable(line: str) -> str:
    """Escape line breaks and control characters, which would change the terminal's state. Shorten a very long line."""
    return _escaped(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}")


def terminal_line(line: str) -> str:
    """Return a log line that is safe for a terminal: without colours, and with other control characters escaped.

    If a line overwrites itself, as a progress bar does, only its last state is shown.
    """
    import re

    shown = line.rstrip("\r").rpartition("\r")[2]
    return "\t".join(map(_escaped, re.sub("\x1b\\[[0-9;:]*m", "", shown).split("\t")))


def _visible(text: str) -> str:
    """Escape all invisible characters in the lines of a text."""
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def leave(line: str) -> None:
    """Write a line as the termination message of the pod in which this program runs."""
    try:
        # The termination log is not created: outside Kubernetes this file does not exist.
        with open(TERMINATION_LOG, "r+", encoding="utf-8") as log:
            log.write(_escaped(line))
            log.truncate()
    except OSError:
        return


def _redacted(line: str) -> str:
    # Import only here: --help prints no secrets, and should not wait until the regular expressions are compiled.
    from distrain.redact import redact

    return redact(line)


def can_ask() -> bool:
    """Tell whether stdin is a terminal and stderr is open, so that the user can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None


def agrees(question: str) -> bool:
    """Ask a yes/no question on stderr. Return False if the answer is not yes, or if the question cannot be printed."""
    try:
        print(f"distrain: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return False
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def close() -> None:
    """Flush stdout and stderr; redirect a stream that fails to /dev/null.

    Otherwise Python would report the failed flush when it exits, with exit code 120.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
