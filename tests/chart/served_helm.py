"""Answer the plugin's `helm template` from one process for all tests. Starting Helm takes longer than rendering.

lab/builds/go/render must print what Helm prints. test_served_helm.py compares the two outputs. For all other commands,
charts and flags, and for every error, the real Helm runs.
"""

from __future__ import annotations

import functools
import io
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from lab.builds import golang
from lab.paths import CHART
from tests.chart.rendering import ask

HELMS = ("helm3", "helm4")
FLAGS_WITH_VALUE = (
    *("--values", "--set", "--set-string", "--set-json", "--set-file", "--set-literal"),
    *("--namespace", "--kube-version", "--api-versions"),
)
# The plugin merges values by rendering them with a chart whose Chart.yaml begins with these lines. See
# distrain.helm.render.
VALUES_CHART = "apiVersion: v2\nname: values\n"
# Environment variables that do not change what `helm template` prints.
HARMLESS = (
    *("HELM_BIN", "HELM_NAMESPACE", "HELM_KUBECONTEXT", "HELM_PLUGIN_NAME"),
    *("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"),
)
STDIN = re.compile(r"(^|[=,])\s*-\s*(,|$)")


class Ended:
    """Stands for a Helm process that has ended after printing a manifest."""

    def __init__(self, output: bytes) -> None:
        self._output = output
        self.returncode = 0

    def communicate(self) -> tuple[bytes, bytes]:
        return self._output, b""


class Given(io.BytesIO):
    """Stands for the stdin of a process.

    A test can still read what the program has written to it, even after the program has closed it.
    """

    content = b""

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()


class Waiting:
    """Stands for a Helm process that is waiting for its stdin."""

    def __init__(self, executable: str, command: Sequence[str]) -> None:
        self._executable, self._command = executable, command
        self._given = Given()
        self.stdin: Given | None = self._given
        self.returncode: int | None = None

    def communicate(self) -> tuple[bytes, bytes]:
        with tempfile.TemporaryFile() as stdin:
            stdin.write(self._given.content)
            stdin.seek(0)
            process = started(self._executable, self._command, stdin)
            printed: tuple[bytes, bytes] = process.communicate()
        self.returncode = process.returncode
        return printed

    def kill(self) -> None:
        """Do nothing: no process exists before `communicate` runs Helm."""

    def wait(self) -> None:
        """Do nothing, like `kill`."""


def started(executable: str, command: Sequence[str], stdin: int | IO[bytes]) -> Any:
    """Start Helm as distrain.helm.processes does, or return a stand-in that already has the answer."""
    if not _is_known(executable, command):
        return _helm(executable, command, stdin)
    if isinstance(stdin, int):
        return Waiting(executable, command)
    output = _answer(Path(executable).name, command, stdin.read())
    stdin.seek(0)
    return _helm(executable, command, stdin) if output is None else Ended(output)


def _helm(executable: str, command: Sequence[str], stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([executable, *command], stdin=stdin, stdout=pipe, stderr=pipe)


def _is_known(executable: str, command: Sequence[str]) -> bool:
    name = Path(executable).name
    if name not in HELMS or executable != _program(name):
        return False
    if any(variable.startswith("HELM_") and variable not in HARMLESS for variable in os.environ):
        return False
    is_rendering = len(command) > 2 and command[0] == "template" and not command[1].startswith("-")
    return is_rendering and _is_known_chart(Path(command[2]))


@functools.cache
def _program(name: str) -> str:
    return str(golang.binary(name))


def _is_known_chart(chart: Path) -> bool:
    file = chart / "Chart.yaml"
    return chart.resolve() == CHART or (file.is_file() and file.read_text().startswith(VALUES_CHART))


def _answer(helm: str, command: Sequence[str], stdin: bytes) -> bytes | None:
    """Return the manifest, or None if the real Helm must run to print an error."""
    _, release, chart, *flags = command
    with tempfile.NamedTemporaryFile() as file:
        file.write(stdin)
        file.flush()
        arguments = _arguments(flags, file.name)
        if arguments is None:
            return None
        asked = {"arguments": arguments, "release": release, "namespace": "default", "helms": [helm]}
        more = {} if Path(chart).resolve() == CHART else {"chart": str(Path(chart).absolute())}
        answer = ask({**asked, **more})[helm]
    return None if "error" in answer else str(answer.get("manifest", "")).encode()


def _arguments(flags: Sequence[str], stdin: str) -> list[str] | None:
    """Return the flags, with the path of a file in place of stdin.

    Return None if the renderer does not know one of the flags.
    """
    found, words = [], iter(flags)
    for flag in words:
        found.append(flag)
        if flag == "--skip-schema-validation":
            continue
        value = next(words, None)
        if flag not in FLAGS_WITH_VALUE or value is None:
            return None
        if (flag, value) == ("--values", "-"):
            value = stdin
        elif STDIN.search(value):
            return None
        found.append(value)
    return found
