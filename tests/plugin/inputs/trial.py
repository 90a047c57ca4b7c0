"""Run the program with an input, in this process or in a new process, and list the mistakes in its answer."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from distrain import cli, redact
from lab.builds import golang
from lab.paths import REPOSITORY
from tests.plugin.fake_api import FakeApi, running
from tests.plugin.inputs.random_inputs import Input, served, write

CODES = {0, 2, 3, 4, 10, 11, 12, 130}
# The program may return these exit codes only if its stdout is closed or its disk is full.
UNWRITTEN = {5, 141}
MOST_LINES, LONGEST_LINE, MOST_SECONDS = 10, 1500, 10
# These words come from messages of Python, of its libraries or of Go, and the program must not print them. The random
# inputs themselves contain none of these words.
FOREIGN = re.compile(
    r"Traceback|<class|NoneType|\b[A-Z]\w+(Error|Exception|Warning)\b|Expected `|is malformed|\$\.|codec|errno|"
    r"\bdict\b|\bstr\b|\bint\b|\bNone\b|object has no|not subscriptable|invalid literal|"
    r"(?<!\.)\b(json|yaml): (line|cannot|did|unknown|invalid|found|incomplete|unsupported|unexpected|control)|"
    r"cannot unmarshal|Go (value|struct)|map\[string|interface \{|strconv|%!|nil pointer|unexpected keyword|"
    r"does not have the right form\.(?!.*(Write it as .+|Correct it)\.)"
)
# A manifest that `template` prints begins with these lines. A manifest contains the chart's Python scripts, so the test
# does not search it for FOREIGN.
MANIFEST = "---\n# Source: "


@dataclass(frozen=True)
class Answer:
    """What the program printed and returned for an input.

    `seconds` is the processor time of the program's main thread and of Helm. Wall-clock time would depend on other load
    of the machine.
    """

    code: int
    out: str
    err: str
    seconds: float


def mistakes(answer: Answer) -> list[str]:
    """Return the mistakes in an answer."""
    lines = answer.err.splitlines()
    found = [] if answer.code in CODES else [f"exit code {answer.code}"]
    found += ["more than one line per mistake"] if any(not line.startswith("distrain: ") for line in lines) else []
    last = [line for line in lines if "; trying again in " not in line]
    found += ["too many lines"] if answer.code in (2, 3, 4) and not 1 <= len(last) <= MOST_LINES else []
    said = answer.err if answer.out.startswith(MANIFEST) else answer.err + answer.out
    found += [f"a foreign word: {word[0]}"] if (word := FOREIGN.search(said)) else []
    found += ["a line that is too long"] if any(len(line) > LONGEST_LINE for line in lines) else []
    found += ["a control character"] if not all(line.isprintable() for line in lines) else []
    found += [f"{answer.seconds:.0f} s"] if answer.seconds > MOST_SECONDS else []
    return found


def _processor_seconds() -> float:
    """Return the processor seconds of this thread, and of the child processes that have ended.

    Other threads of this process do not count, because earlier tests may have left them behind.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


class Bench:
    """A fake API server and a folder. Each input is tried with the same server and folder."""

    def __init__(self, api: FakeApi, folder: Path) -> None:
        self._api, self._folder = api, folder

    def in_process(self, given: Input) -> Answer:
        """Run the program in this process."""
        self._prepare(given)
        stdin = io.TextIOWrapper(io.BytesIO(given.stdin), encoding="utf-8")
        out, err = (
            io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors) for errors in ("strict", "backslashreplace")
        )
        started = _processor_seconds()
        with _environment(self._environment(given)), _working_in(self._folder), _streams(stdin, out, err):
            try:
                code = cli.run(given.arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException:
                code = 1
                traceback.print_exc()
        return Answer(code, _text(out), _text(err), _processor_seconds() - started)

    def as_process(self, given: Input) -> Answer:
        """Run the program in a separate process."""
        self._prepare(given)
        environment = {**self._environment(given), "PYTHONPATH": str(REPOSITORY / "plugin")}
        command = [sys.executable, "-m", "distrain", *given.arguments]
        started = _processor_seconds()
        done = subprocess.run(
            command, input=given.stdin, env=environment, cwd=self._folder, capture_output=True, timeout=300
        )
        taken = _processor_seconds() - started
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="surrogateescape"), taken)

    def _prepare(self, given: Input) -> None:
        for path in self._folder.iterdir():
            path.unlink()
        write(given, self._folder, self._api.url)
        self._api.spoil = given.spoiled

    def _environment(self, given: Input) -> dict[str, str]:
        own = {"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "HELM_BIN": str(golang.binary("helm4"))}
        helm = {f"HELM_{name}_HOME": str(self._folder.parent / "helm") for name in ("CACHE", "CONFIG", "DATA")}
        given_variables = {name: value.replace("\0", "") for name, value in given.environment.items()}
        return {**own, **helm, "KUBECONFIG": "/nowhere", **given_variables}


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """Start a fake API server, and remove the pauses between retries."""
    waiting = mock.patch("distrain.apiserver.connection.sleep")
    with waiting, running() as api, tempfile.TemporaryDirectory(prefix="inputs-") as parent:
        api.serve_mpi_jobs()
        api.answers |= served()
        folder = Path(parent, "work")
        folder.mkdir()
        yield Bench(api, folder)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before, known = dict(os.environ), set(redact._known)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        redact._known.clear()
        redact._known.update(known)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _streams(stdin: io.TextIOWrapper, out: io.TextIOWrapper, err: io.TextIOWrapper) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = stdin
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        sys.stdin = before


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return str(content.decode())
