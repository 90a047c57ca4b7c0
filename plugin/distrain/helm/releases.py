"""Read and change the releases in a cluster, with Helm through pyhelm3."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from pyhelm3 import Command, Error, ReleaseNotFoundError

from distrain.apiserver.target import Target
from distrain.errors import HelmError
from distrain.helm.program import Source, failure, words_of

# A label that Helm stores with a revision; it tells which operation made the revision.
OPERATION = "distrain-operation"
# Flags for every status: Helm 3 lists some only on request, and Helm 4 has no --all.
ANY_STATUS = ("--deployed", "--failed", "--pending", "--superseded", "--uninstalled", "--uninstalling")
# Runs Helm in its own process group. A terminal sends Ctrl-C to the plugin's whole group, but the plugin must finish or
# undo what Helm has started.
APART = "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"

# pyhelm3 logs each failed command as a warning, which Python would print.
logging.getLogger("pyhelm3").addHandler(logging.NullHandler())


class Revision(Struct, frozen=True):
    """A release's last revision; `values` are the user's own, without the chart's defaults."""

    number: int
    status: str
    chart_version: str
    values: dict[str, Any]
    manifest: str


class Operation(Struct, frozen=True):
    """How to change a release.

    `name` marks the revision that this operation makes. Without `hooks`, the chart's own check does not run.
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


class Releases:
    """Read and change releases with one Helm program."""

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def status(self, name: str, target: Target) -> str | None:
        """Return the status of a release, or None when the name is free."""
        try:
            status = asyncio.run(self._command(target).status(name, namespace=target.namespace))
        except ReleaseNotFoundError:
            return None
        except Error as error:
            raise HelmError(f"helm status {name}: {words_of(str(error))}") from error
        return str(status["info"]["status"])

    def revision(self, name: str, target: Target) -> Revision | None:
        """Return the release's last revision, or None if the release does not exist."""

        def get(what: str, *form: str) -> str:
            # `helm status` would also look up every object of the release.
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
            raise HelmError(f"helm get {name}: {words_of(str(error))}") from error

    def all_values(self, name: str, target: Target) -> dict[str, Any]:
        """Return a release's values merged with the defaults of its chart."""
        where = ["--namespace", target.namespace, "--output", "json"]
        values: dict[str, Any] = json.loads(self._run(["get", "values", name, "--all", *where], target))
        return values

    def has_made(self, name: str, operation: Operation, target: Target) -> bool:
        """Tell whether this operation made the release's last revision."""
        selector = ["--selector", f"name={name},{OPERATION}={operation.name}"]
        where = ["--namespace", target.namespace, "--output", "json"]
        return bool(json.loads(self._run(["list", *selector, *ANY_STATUS, *where], target)))

    def install(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Install a new release and return its notes; never upgrade an existing one."""
        # pyhelm3's install runs `helm upgrade --install`, which would change a release that another user made
        # meanwhile.
        return self._notes(["install", name, str(source.chart), *operation.flags], source, target)

    def upgrade(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Upgrade a release to exactly these values, and return its notes."""
        more = ["--reset-values", "--history-max", str(operation.history_max)]
        return self._notes(["upgrade", name, str(source.chart), *more, *operation.flags], source, target)

    def rollback(self, name: str, number: int, target: Target, operation: Operation) -> None:
        """Roll the release back to a revision, and create objects that are missing."""
        more = ["--no-hooks", "--history-max", str(operation.history_max), "--namespace", target.namespace]
        self._change(["rollback", name, str(number), *more], target)

    def uninstall(self, name: str, target: Target) -> None:
        """Uninstall a release; ignore one that does not exist."""
        try:
            asyncio.run(self._apart(target).uninstall(name, namespace=target.namespace))
        except ReleaseNotFoundError:
            return
        except Error as error:
            raise HelmError(f"helm uninstall {name}: {words_of(str(error))}") from error

    def _notes(self, command: Sequence[str], source: Source, target: Target) -> str:
        where = ["--namespace", target.namespace, "--output", "json"]
        output = self._change([*command, *where, *source.flags], target, stdin=source.stdin)
        return _notes_in(output)

    def _change(self, command: Sequence[str], target: Target, *, stdin: bytes | None = None) -> str:
        try:
            output: bytes = asyncio.run(self._apart(target).run(list(command), stdin))
        except Error as error:
            raise failure(str(error)) from error
        return output.decode(errors="replace")

    def _apart(self, target: Target) -> Command:
        return _Apart(self._executable, **_place(target))

    def _command(self, target: Target) -> Command:
        return Command(executable=self._executable, **_place(target))

    def _run(self, command: Sequence[str], target: Target, *, stdin: bytes | None = None) -> str:
        try:
            output: bytes = asyncio.run(self._command(target).run(list(command), stdin))
        except Error as error:
            raise failure(str(error)) from error
        return output.decode()


def _notes_in(output: str) -> str:
    """Return the notes in Helm's output.

    Other output gives an empty string and no error, because the release already exists.
    """
    try:
        release = json.loads(output[output.index("{") :])
        return str(release["info"].get("notes") or "").strip("\n")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _place(target: Target) -> dict[str, Any]:
    """Return pyhelm3's arguments for a target."""
    if target.in_cluster:
        return {}
    # --kubeconfig takes only one path; Helm reads joined paths from the environment.
    kubeconfig = None if os.pathsep in target.kubeconfig else target.kubeconfig
    return {"kubeconfig": kubeconfig, "kubecontext": target.context}
