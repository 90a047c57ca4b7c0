"""Read and change the releases in a cluster, with Helm through pyhelm3."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec import Struct
from pyhelm3 import Command, Error, ReleaseNotFoundError

from distrain.apiserver.target import Target
from distrain.errors import HelmError
from distrain.helm.processes import OWN_GROUP
from distrain.helm.program import Source, failure, forbidden, words_of

# Helm stores this label with a revision. The label's value identifies the operation that created the revision.
OPERATION = "distrain-operation"
# The statuses of a revision that Helm has fully applied: the current one, and then those before it.
APPLIED = ("deployed", "superseded")
# Flags that list releases of every status: without flags, Helm 3 leaves out releases of some statuses, and Helm 4 has
# no `--all`.
ANY_STATUS = ("--deployed", "--failed", "--pending", "--superseded", "--uninstalled", "--uninstalling")

NO_JSON = "its output is not what Helm prints; set HELM_BIN to the Helm program"

# pyhelm3 logs each failed command as a warning, which Python would print.
logging.getLogger("pyhelm3").addHandler(logging.NullHandler())


class Status(NamedTuple):
    """The status of a release's last revision, such as "deployed", and the revision's number."""

    word: str
    revision: int


class Revision(Struct, frozen=True):
    """A release's last revision; `values` are the values that the user gave, without the chart's defaults.

    `is_applied_by_server` means that Helm 4 changes the release's objects by server-side apply.
    """

    number: int
    status: str
    chart_version: str
    values: dict[str, Any]
    manifest: str
    is_applied_by_server: bool = False


class Operation(Struct, frozen=True):
    """Describes how to change a release.

    `name` marks the revision that this operation creates. If `hooks` is not set, the chart's own check does not run.
    `more` are the flags of Helm about the revision, as the user gave them. `uninstalled` is the last revision of a
    release that was uninstalled with --keep-history and is now installed again. `uninstalled` is 0 if there is no such
    release. `forces_conflicts` lets server-side apply overwrite fields that someone else has changed, such as a number
    of workers. Without server-side apply, Helm overwrites fields that someone else has changed, even if
    `forces_conflicts` is false.
    """

    name: str
    hooks: bool = True
    history_max: int = 10
    more: tuple[str, ...] = ()
    uninstalled: int = 0
    forces_conflicts: bool = False

    @property
    def flags(self) -> list[str]:
        return [*self.more, "--labels", f"{OPERATION}={self.name}", *([] if self.hooks else ["--no-hooks"])]

    @property
    def flags_of_change(self) -> list[str]:
        """The flags that only upgrades and rollbacks have."""
        return ["--history-max", str(self.history_max), *(["--force-conflicts"] if self.forces_conflicts else [])]


class Releases:
    """Reads and changes releases with one Helm program."""

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def status(self, name: str, target: Target) -> Status | None:
        """Return the status of a release, even if it was uninstalled with its history kept.

        Return None if the name is free.
        """
        command = ["status", name, "--output", "json", "--namespace", target.namespace]
        with _unless_missing(f"helm status {name}"):
            found = json.loads(self._run(command, target))
            return Status(str(found["info"]["status"]), int(found["version"]))
        return None

    def revision(self, name: str, target: Target) -> Revision | None:
        """Return the release's last revision, or None if the release does not exist."""

        def get(what: str, *form: str) -> str:
            # `helm get` is used, because `helm status` would also look up every object of the release.
            return self._run(["get", what, name, "--namespace", target.namespace, *form], target)

        with _unless_missing(f"helm get {name}"):
            metadata = json.loads(get("metadata", "--output", "json"))
            values = json.loads(get("values", "--output", "json")) or {}
            return Revision(
                number=int(metadata["revision"]),
                status=str(metadata["status"]),
                chart_version=str(metadata["version"]),
                values=values,
                manifest=get("manifest"),
                is_applied_by_server=metadata.get("applyMethod") == "ssa",
            )
        return None

    def last_applied(self, name: str, target: Target) -> int:
        """Return the newest revision that Helm has fully applied, or 0 if there is none.

        A deployed revision comes before newer superseded ones, because a failed rollback leaves a failed revision as
        superseded.
        """
        with _unless_missing(f"helm history {name}"):
            command = ["history", name, "--output", "json", "--namespace", target.namespace]
            found = [(each["status"], int(each["revision"])) for each in json.loads(self._run(command, target))]
            numbers = ([number for status, number in found if status == word] for word in APPLIED)
            return max(next(filter(None, numbers), [0]))
        return 0

    def all_values(self, name: str, target: Target) -> dict[str, Any]:
        """Return a release's values merged with the defaults of its chart."""
        values: dict[str, Any] = self._read(["get", "values", name, "--all"], target)
        return values

    def has_made(self, name: str, operation: Operation, target: Target) -> bool:
        """Tell whether the release's last revision was created by this operation."""
        return bool(self.status_of(name, operation, target))

    def status_of(self, name: str, operation: Operation, target: Target) -> str:
        """Return the status of the release's last revision, or an empty string if this operation did not create it."""
        selector = ["--selector", f"name={name},{OPERATION}={operation.name}"]
        found = self._read(["list", *selector, *ANY_STATUS], target)
        return str(found[0]["status"]) if found else ""

    def install(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Install a new release and return its notes; never upgrade an existing release."""
        # pyhelm3's install is not used: it runs `helm upgrade --install`, which would change a release that another
        # user created meanwhile.
        replace = ["--replace"] if operation.uninstalled else []
        return self._notes(["install", name, str(source.chart), *replace, *operation.flags], source, target)

    def upgrade(self, name: str, source: Source, target: Target, operation: Operation) -> str:
        """Upgrade a release to exactly these values, and return its notes."""
        flags = ["--reset-values", *operation.flags_of_change, *operation.flags]
        return self._notes(["upgrade", name, str(source.chart), *flags], source, target)

    def validate(self, verb: str, name: str, source: Source, target: Target) -> None:
        """Ask the API server to validate the objects of an `install` or `upgrade`, and change nothing.

        Raise if it refuses.
        """
        self._notes([verb, name, str(source.chart), "--dry-run=server"], source, target)

    def rollback(self, name: str, number: int, target: Target, operation: Operation) -> None:
        """Roll the release back to a revision, and create objects that are missing."""
        more = ["--no-hooks", *operation.flags_of_change, "--namespace", target.namespace]
        self._change(["rollback", name, str(number), *more], target)

    def uninstall(self, name: str, target: Target, *, keeps_history: bool = False) -> None:
        """Uninstall a release; ignore a missing release."""
        more = ["--keep-history"] if keeps_history else []
        with _unless_missing(f"helm uninstall {name}"):
            self._run(["uninstall", name, "--namespace", target.namespace, *more], target, changes=True)

    def _notes(self, command: Sequence[str], source: Source, target: Target) -> str:
        where = ["--namespace", target.namespace, "--output", "json"]
        return _notes_in(self._change([*command, *where, *source.flags], target, source.stdin))

    def _change(self, command: Sequence[str], target: Target, stdin: bytes | None = None) -> str:
        try:
            return self._run(command, target, stdin, changes=True)
        except Error as error:
            raise failure(str(error)) from error

    def _read(self, command: Sequence[str], target: Target) -> Any:
        """Run Helm and decode its JSON output."""
        try:
            return json.loads(self._run([*command, "--namespace", target.namespace, "--output", "json"], target))
        except Error as error:
            raise forbidden(str(error)) or failure(str(error)) from error
        except ValueError as error:
            raise HelmError(f"helm {command[0]}: {NO_JSON}") from error

    def _run(self, command: Sequence[str], target: Target, stdin: bytes | None = None, *, changes: bool = False) -> str:
        """Run Helm, in a process group of its own if it `changes` the cluster; raise pyhelm3's Error if Helm fails."""
        program, *before = [*OWN_GROUP, self._executable] if changes else [self._executable]
        helm = Command(executable=program, **_place(target))
        output: bytes = asyncio.run(helm.run([*before, *command], stdin))
        return output.decode(errors="replace")


@contextmanager
def _unless_missing(command: str) -> Iterator[None]:
    """Suppress pyhelm3's error for a missing release; convert its other errors to HelmError or ForbiddenError."""
    try:
        yield
    except ReleaseNotFoundError:
        return
    except Error as error:
        raise forbidden(str(error)) or HelmError(f"{command}: {words_of(str(error))}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise HelmError(f"{command}: {NO_JSON}") from error


def _notes_in(output: str) -> str:
    """Return the notes that Helm's output contains.

    If the output contains no notes, return an empty string. This is no error, because the release has been installed
    already.
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
    # --kubeconfig accepts only one path. Helm reads several joined paths from the environment variable KUBECONFIG.
    kubeconfig = None if os.pathsep in target.kubeconfig else target.kubeconfig
    return {"kubeconfig": kubeconfig, "kubecontext": target.context}
