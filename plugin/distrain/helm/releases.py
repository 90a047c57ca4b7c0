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

# A label that Helm keeps beside a revision, by which who made it knows it again.
OPERATION = "distrain-operation"
# Every status that a release can have: Helm 3 lists some alone, and Helm 4 has no --all.
ANY_STATUS = ("--deployed", "--failed", "--pending", "--superseded", "--uninstalled", "--uninstalling")
# A terminal sends Ctrl-C to our whole process group. What Helm has begun is ours to finish or to take back, so it runs
# in a group of its own.
APART = "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"

# pyhelm3 logs each failed command as a warning, which Python would print.
logging.getLogger("pyhelm3").addHandler(logging.NullHandler())


class Revision(Struct, frozen=True):
    """A release as Helm has recorded it; `values` are the user's own, without the chart's defaults."""

    number: int
    status: str
    chart_version: str
    values: dict[str, Any]
    manifest: str


class Operation(Struct, frozen=True):
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


class Releases:
    """What a Helm program knows of releases, and does to them."""

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
            raise HelmError(f"helm get {name}: {words_of(str(error))}") from error

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
    """Return the notes in what Helm prints of a release; none where it prints something else: the release is made."""
    try:
        release = json.loads(output[output.index("{") :])
        return str(release["info"].get("notes") or "").strip("\n")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _place(target: Target) -> dict[str, Any]:
    """Return what pyhelm3 has to know of a target."""
    if target.in_cluster:
        return {}
    # Several paths joined are for the environment alone; --kubeconfig takes one.
    kubeconfig = None if os.pathsep in target.kubeconfig else target.kubeconfig
    return {"kubeconfig": kubeconfig, "kubecontext": target.context}
