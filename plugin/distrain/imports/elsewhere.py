"""Explain why a value of the source is left out, and which value of the chart the user can set instead, if any."""

from __future__ import annotations

from distrain.imports.jobs.pod import POD_SPEC, SAME
from distrain.imports.jobs.run_policy import KEYS, NO_VALUE
from distrain.imports.jobs.spread import TOP, TOP_OF_PROGRAMS
from distrain.imports.ledger import Path

# For each field name in the sources, the value of the chart that has the same purpose.
VALUES = {
    **{key: f"podSpec.{key}" for key in POD_SPEC},
    **{key: key for key in (*SAME, *TOP_OF_PROGRAMS, "sidecars", "serviceAccountName", "runAsUser")},
    **TOP,
    **{key: f"job.{value}" for key, value in KEYS.items()},
    **dict.fromkeys(("command", "args"), "command"),
    "image": "image",
    "resources": "workers.resources",
    "imagePullSecrets": "image.pullSecrets",
    "imagePullPolicy": "image.pullPolicy",
    "maxRestarts": "job.maxRestarts",
}


def why_left_out(path: Path) -> str:
    """Return the reason why the value at this path is left out; it names the chart's value to set instead, if any.

    The reason depends on a field name in the path: on the last one that is a key of VALUES.
    """
    found = next((VALUES[part] for part in reversed(path) if isinstance(part, str) and part in VALUES), "")
    return f"the import does not read it there; set {found}" if found else NO_VALUE
