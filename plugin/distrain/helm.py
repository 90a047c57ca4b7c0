"""Run Helm, through pyhelm3.

Helm itself merges the values and renders the chart, so that what is checked is what Helm would install. Its messages
come back without the wrapping that only a chart's author needs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import semver
from pyhelm3 import Command, Error, ReleaseNotFoundError  # type: ignore[import-untyped]

from distrain.cluster import Capabilities
from distrain.errors import DistrainError, HelmError, NameInUseError, ValuesError
from distrain.target import Target

# The first Helm that reads the plugin's platformHooks.
OLDEST = semver.Version(3, 17, 0)
# Helm 4 prints log lines before its message.
MESSAGE = re.compile(r"^Error: (.*)", re.DOTALL | re.MULTILINE)
# `fail` in a template: Helm names the file and the place, which a user of the chart has no use for.
TEMPLATE_REFUSAL = re.compile(r"execution error at \([^)]*\): (.*)", re.DOTALL)
# The first is said by who came late, the second by who lost the race.
NAME_IN_USE = re.compile(r"cannot re-?use a name that is still in use|release: already exists")
NO_NAMESPACE = re.compile(r'namespaces "([^"]+)" not found')
# A cluster has this API and `helm template` alone does not claim it: the chart tells the two apart by it.
REAL_CLUSTER = "apiregistration.k8s.io/v1"

# A label that Helm keeps beside a revision, by which who made it knows it again.
OPERATION = "distrain-operation"
# Every status that a release can have: Helm 3 lists some alone, and Helm 4 has no --all.
ANY_STATUS = ("--deployed", "--failed", "--pending", "--superseded", "--uninstalled", "--uninstalling")
# A terminal sends Ctrl-C to our whole process group. What Helm has begun is ours to finish or to take back, so it runs
# in a group of its own.
APART = "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"

# pyhelm3 logs each failed command as a warning, which Python would print.
logging.getLogger("pyhelm3").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Source:
    """A chart's folder and Helm's own flags for values, as given; `stdin` is what `-f -` stands for."""

    chart: Path
    flags: tuple[str, ...]
    stdin: bytes | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """A release as Helm has recorded it; `values` are the user's own, without the chart's defaults."""

    number: int
    status: str
    chart_version: str
    values: dict[str, Any]
    manifest: str


@dataclass(frozen=True, slots=True)
class Operation:
    """How to change a release.

    `name` marks the revision that comes of it. Without `hooks` the chart's own check is left out.
    """

    name: str
    hooks: bool = True
    history_max: int = 10

    @property
    def flags(self) -> list[str]:
        return ["--labels", f"{OPERATION}={self.name}", *([] if self.hooks else ["--no-hooks"])]


class _Apart(Command):  # type: ignore[misc]
    """pyhelm3's command, in a process group of its own."""

    def __init__(self, helm: str, **target: Any) -> None:
        super().__init__(executable=sys.executable, **target)
        self._helm = helm

    async def run(self, command: list[str], input: bytes | None = None) -> bytes:
        output: bytes = await super().run(["-Ic", APART, self._helm, *command], input)
        return output


class Helm:
    """One Helm program."""

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def merged_values(self, source: Source) -> dict[str, Any]:
        """Return the values as the chart's templates would see them, without a cluster and without any check."""
        return self._printed_values(source, source.chart / "values.yaml")

    def given_values(self, source: Source) -> dict[str, Any]:
        """Return what the flags alone say, merged as Helm merges them, without the chart's defaults."""
        return self._printed_values(source, None)

    def _printed_values(self, source: Source, defaults: Path | None) -> dict[str, Any]:
        """Helm has no command that prints values. A chart with these defaults and one template does it."""
        with tempfile.TemporaryDirectory(prefix="distrain-") as folder:
            _write_values_chart(Path(folder), defaults)
            try:
                output = self._run(["template", "values", folder, *source.flags], stdin=source.stdin)
            except HelmError as error:
                raise ValuesError(f"values: {error}; correct the file or the flag") from error
        printed = next(line for line in output.splitlines() if line.startswith("{"))
        values: dict[str, Any] = json.loads(printed)
        return values

    def render(self, name: str, source: Source, namespace: str, capabilities: Capabilities | None) -> str:
        """Return the manifest for a cluster of these capabilities, or for none; needs no permission in it."""
        command = ["template", name, str(source.chart), "--namespace", namespace, *source.flags]
        if capabilities:
            apis = [word for api in (REAL_CLUSTER, *capabilities.apis) for word in ("--api-versions", api)]
            command += ["--kube-version", capabilities.version, *apis]
        return self._run(command, stdin=source.stdin)

    def release_status(self, name: str, target: Target) -> str | None:
        """Return the status of a release, or None when the name is free."""
        try:
            status = asyncio.run(self._command(target).status(name, namespace=target.namespace))
        except ReleaseNotFoundError:
            return None
        except Error as error:
            raise HelmError(f"helm status {name}: {_words(error)}") from error
        return str(status["info"]["status"])

    def revision(self, name: str, target: Target) -> Revision | None:
        """Return the release's last revision, or None when there is no such release."""

        def get(what: str, *form: str) -> str:
            # Not `helm status`, which looks up each of the objects, too.
            command = ["get", what, name, "--namespace", target.namespace, *form]
            output: bytes = asyncio.run(self._command(target).run(command))
            return output.decode()

        try:
            metadata = json.loads(get("metadata", "--output", "json"))
            values = json.loads(get("values", "--output", "json")) or {}
            return Revision(
                number=int(metadata["revision"]),
                status=str(metadata["status"]),
                chart_version=str(metadata["version"]),
                values=values,
                manifest=get("manifest"),
            )
        except ReleaseNotFoundError:
            return None
        except Error as error:
            raise HelmError(f"helm get {name}: {_words(error)}") from error

    def all_values(self, name: str, target: Target) -> dict[str, Any]:
        """Return a release's values with the defaults of the chart that it was made of."""
        where = ["--namespace", target.namespace, "--output", "json"]
        values: dict[str, Any] = json.loads(self._run(["get", "values", name, "--all", *where], target))
        return values

    def has_made(self, name: str, operation: Operation, target: Target) -> bool:
        """Tell whether the release's last revision came of this operation."""
        selector = ["--selector", f"name={name},{OPERATION}={operation.name}"]
        where = ["--namespace", target.namespace, "--output", "json"]
        return bool(json.loads(self._run(["list", *selector, *ANY_STATUS, *where], target)))

    def install(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Install a new release, never upgrade one, and return its notes."""
        # pyhelm3's own install is `helm upgrade --install`, which would change a release that someone made meanwhile.
        return self._notes(["install", name, str(source.chart), *operation.flags], source, target)

    def upgrade(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Make another revision of a release, of these values and no others, and return its notes."""
        more = ["--reset-values", "--history-max", str(operation.history_max)]
        return self._notes(["upgrade", name, str(source.chart), *more, *operation.flags], source, target)

    def rollback(self, name: str, number: int, target: Target, operation: Operation) -> None:
        """Make the release again what this revision was, and create what is missing of it."""
        more = ["--no-hooks", "--history-max", str(operation.history_max), "--namespace", target.namespace]
        self._change(["rollback", name, str(number), *more], target)

    def uninstall(self, name: str, target: Target) -> None:
        """Remove a release; one that is gone already is fine."""
        try:
            asyncio.run(self._apart(target).uninstall(name, namespace=target.namespace))
        except ReleaseNotFoundError:
            return
        except Error as error:
            raise HelmError(f"helm uninstall {name}: {_words(error)}") from error

    def _notes(self, command: Sequence[str], source: Source, target: Target) -> str:
        where = ["--namespace", target.namespace, "--output", "json"]
        output = self._change([*command, *where, *source.flags], target, stdin=source.stdin)
        release: dict[str, Any] = json.loads(output[output.index("{") :])
        return str(release["info"].get("notes") or "").strip("\n")

    def _change(self, command: Sequence[str], target: Target, *, stdin: bytes | None = None) -> str:
        try:
            output: bytes = asyncio.run(self._apart(target).run(list(command), stdin))
        except Error as error:
            raise _failure(error) from error
        return output.decode()

    def _apart(self, target: Target) -> Command:
        return _Apart(self._executable, **_place(target))

    def _command(self, target: Target | None) -> Command:
        return Command(executable=self._executable, **(_place(target) if target else {}))

    def _run(self, command: Sequence[str], target: Target | None = None, *, stdin: bytes | None = None) -> str:
        try:
            output: bytes = asyncio.run(self._command(target).run(list(command), stdin))
        except Error as error:
            raise _failure(error) from error
        return output.decode()


def _place(target: Target) -> dict[str, Any]:
    """Return what pyhelm3 has to know of a target."""
    if target.in_cluster:
        return {}
    # Several paths joined are for the environment alone; --kubeconfig takes one.
    kubeconfig = None if os.pathsep in target.kubeconfig else target.kubeconfig
    return {"kubeconfig": kubeconfig, "kubecontext": target.context}


def find() -> Helm:
    """Return the Helm that runs us, else the one on the PATH; raises HelmError when it is missing or too old."""
    executable, version = _found()
    if version < OLDEST:
        raise HelmError(f"helm: {executable} is {version}; distrain needs {OLDEST} or newer")
    return Helm(executable)


def version() -> semver.Version:
    """Return the version of the Helm that `find` looks at; raises HelmError when there is none."""
    return _found()[1]


def _found() -> tuple[str, semver.Version]:
    named = os.environ.get("HELM_BIN") or "helm"
    executable = shutil.which(named)
    if executable is None:
        raise HelmError(f'helm: "{named}" is not on the PATH; install Helm {OLDEST} or newer, or set HELM_BIN')
    try:
        return executable, Command(executable=executable).client_version()
    except (ValueError, subprocess.CalledProcessError) as error:
        words = f"helm: {executable} does not tell its version ({error}); set HELM_BIN to Helm {OLDEST} or newer"
        raise HelmError(words) from error


def _write_values_chart(folder: Path, defaults: Path | None) -> None:
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: values\nversion: 0.0.0\n")
    if defaults and defaults.is_file():
        shutil.copyfile(defaults, folder / "values.yaml")
    (folder / "templates").mkdir()
    (folder / "templates" / "values.yaml").write_text("{{ toJson .Values }}\n")


def _failure(error: Exception) -> DistrainError:
    """Tell a refusal by the chart, and what the user can mend, from other failures of Helm."""
    words = _words(error)
    if refusal := TEMPLATE_REFUSAL.search(words):
        return ValuesError(refusal[1].strip().removeprefix("distrain: "))
    if missing := NO_NAMESPACE.search(words):
        return ValuesError(f'--namespace: there is no namespace "{missing[1]}"; create it, or add --create-namespace')
    if NAME_IN_USE.search(words):
        return NameInUseError(f"{words}; choose another name")
    return HelmError(words)


def _words(error: Exception) -> str:
    """Return Helm's message in one line, without its log lines, its prefixes and its advice to debug."""
    text = str(error).partition("\n\nUse --debug")[0]
    message = MESSAGE.search(text)
    line = " ".join((message[1] if message else text).split())
    return line.removeprefix("INSTALLATION FAILED: ").removeprefix("UPGRADE FAILED: ")
