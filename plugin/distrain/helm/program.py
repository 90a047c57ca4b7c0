"""Find the Helm program, and convert Helm's failures to errors.

An error contains Helm's message, without the parts that only chart authors need.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from distrain import temporary
from distrain.errors import DistrainError, ForbiddenError, HelmError, NameInUseError, ValuesError, no_namespace

if TYPE_CHECKING:
    import semver

# The oldest version of Helm that supports `platformHooks` in a plugin.
OLDEST = "3.17.0"
# These patterns are strings, which are compiled only after a failure. Helm 4 prints log lines before its message.
MESSAGE = r"(?sm)^Error: (.*)"
# Helm's message if a template calls `fail`. Helm adds the template's file and line, and a user of the chart does not
# need them.
TEMPLATE_REFUSAL = r"(?s)execution error at \([^)]*\): (.*)"
# Helm's messages about an error in a template of the chart. They contain positions in the template and names of Go
# types.
BROKEN_TEMPLATE = r"^(?:(?:YAML )?parse error (?:at|on) \(?|template: )?([\w.-]+/templates/[\w./-]+\w)(?::(\d+))?"
# Helm's two messages if a release of this name exists: the release was there before, or another process has created it
# meanwhile.
NAME_IN_USE = r"cannot re-?use a name that is still in use|release: already exists"
# The API server's answer when RBAC does not let the user read the objects in which Helm stores releases.
FORBIDDEN = r'\S+(?: "[^"]*")? is forbidden: .*? cannot (get|list) resource "([^"]+)".*'
NO_NAMESPACE = r'namespaces "([^"]+)" not found'


class Source(NamedTuple):
    """The folder of a chart, and the flags for values that the user gave. `stdin` is the text that `-f -` reads."""

    chart: Path
    flags: tuple[str, ...]
    stdin: bytes | None = None

    @property
    def files(self) -> list[str]:
        """Return the paths of the values files; "-" stands for stdin."""
        return [value for flag, value in zip(self.flags[::2], self.flags[1::2], strict=True) if flag == "--values"]

    def read(self, path: str) -> bytes:
        """Return the content of a values file; "-" stands for stdin. Raise OSError if the file cannot be read."""
        return (self.stdin or b"") if path == "-" else Path(path).read_bytes()

    def can_read_again(self, path: str) -> bool:
        """Tell whether a values file can be read twice. A second read of a FIFO would wait forever."""
        return path == "-" or Path(path).is_file()

    def texts(self) -> Iterator[str]:
        """Yield the text of each values file and of each flag. Skip files that are not regular files."""
        for flag, value in zip(self.flags[::2], self.flags[1::2], strict=True):
            if flag != "--values":
                yield value
            elif self.can_read_again(value):
                with suppress(OSError):
                    yield self.read(value).decode(errors="replace")

    def with_text(self, values: str) -> Source:
        """Return a source with the same chart, and with the values in this text as its only values."""
        return Source(self.chart, ("--values", "-"), values.encode())


def executable() -> str:
    """Return the Helm program that runs the plugin, otherwise the one on PATH.

    Raise HelmError if there is no Helm program.
    """
    named = os.environ.get("HELM_BIN") or "helm"
    found = shutil.which(named)
    if found is None and os.sep in named:
        raise HelmError(f"HELM_BIN: {named} is not an executable program; correct or unset HELM_BIN")
    if found is None:
        raise HelmError(f'helm: "{named}" is not on the PATH; install Helm {OLDEST} or newer, or set HELM_BIN')
    return found


def refuse_old(program: str) -> None:
    """Raise HelmError if Helm is older than OLDEST or does not print its version."""
    version = version_of(program)
    if version < OLDEST:
        raise HelmError(f"helm: {program} is {version}; distrain needs {OLDEST} or newer")


def version_of(program: str) -> semver.Version:
    """Return the version that Helm prints; raise HelmError if Helm prints no version."""
    # Imported here, because rendering does not need it.
    import semver

    command = [program, "version", "--template", "{{.Version}}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    try:
        return semver.Version.parse(printed.strip().removeprefix("v"))
    except ValueError as error:
        words = f"helm: {program} did not print its version ({error}); set HELM_BIN to Helm {OLDEST} or newer"
        raise HelmError(words) from error


def failure(error: str) -> DistrainError:
    """Convert Helm's stderr to an error: ValuesError or NameInUseError if the user can fix it, otherwise HelmError."""
    if refusal := re.search(TEMPLATE_REFUSAL, _message(error)):
        return ValuesError(*(line.removeprefix("distrain: ") for line in refusal[1].split("\n") if line.strip()))
    words = words_of(error)
    if broken := re.search(BROKEN_TEMPLATE, words):
        where = f"{broken[1]}, line {broken[2]}," if broken[2] else broken[1]
        return HelmError(f"--chart: {where} cannot be rendered with these values; `helm template` says why")
    if missing := re.search(NO_NAMESPACE, words):
        return no_namespace(missing[1])
    if re.search(NAME_IN_USE, words):
        return NameInUseError("another install or upgrade of this release finished first; try again")
    return HelmError(words)


def forbidden(error: str) -> ForbiddenError | None:
    """If the user may not read Helm's releases, return an error with the missing permission, otherwise None."""
    found = re.search(FORBIDDEN, words_of(error))
    if found is None:
        return None
    role = f"ask for a role that allows `{found[1]}` on {found[2]}"
    return ForbiddenError(f"Helm's releases cannot be read: {found[0]}; {role}")


def words_of(error: str) -> str:
    """Return Helm's message in one line, without log lines, prefixes and its hint about --debug."""
    line = " ".join(_message(error).split())
    return line.removeprefix("INSTALLATION FAILED: ").removeprefix("UPGRADE FAILED: ")


def _message(error: str) -> str:
    """Return Helm's message without log lines and without its hint about --debug."""
    text = temporary.with_names(error.partition("\n\nUse --debug")[0])
    message = re.search(MESSAGE, text)
    return message[1] if message else text
