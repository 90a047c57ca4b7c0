"""Render a job with values for one role, and inspect the pods of all roles."""

from __future__ import annotations

from pathlib import Path

from tests.chart.kinds import KINDS
from tests.chart.rendering import Rendered, Yaml, render

# ROLES maps a role to two things: its section of the values, and a kind of job that has the role.
ROLES = {
    "Worker": ("workers", "mpijob-v2beta1"),
    "Launcher": ("launcher", "mpijob-v2beta1"),
    "Chief": ("launcher", "tfjob"),
    "Master": ("workers", "pytorchjob-master"),
    "Server": ("servers", "mxjob-v1"),
    "Scheduler": ("scheduler", "mxjob-v1"),
}
OTHERS = {"mpijob-v2beta1": ("Worker", "Launcher"), "tfjob": ("Worker",), "mxjob-v1": ("Worker", "Server", "Scheduler")}


def rendered(helm: Path, kind: str, values: str, folder: Path) -> Rendered:
    """Render a kind of job with this values file."""
    # Each file needs a unique name, because render() caches results by their arguments.
    file = folder / f"values-{len(list(folder.iterdir()))}.yaml"
    file.write_text(values, encoding="utf-8")
    return render(helm, "--values", str(file), *(word for one in KINDS[kind] for word in ("--set", one)))


def with_role(helm: Path, role: str, values: str, folder: Path) -> Rendered:
    """Render a job of a kind that has this role. `values` is the YAML of the role's section."""
    section, kind = ROLES[role]
    return rendered(helm, kind, f"{section}: {values}\n", folder)


def first(pod: Yaml) -> Yaml:
    return pod["containers"][0]


def others(role: str, found: Rendered) -> list[str]:
    """Return the rendered roles whose values come from a different section than the values of `role`."""
    section, _ = ROLES[role]
    return [other for other in found.replicas if ROLES.get(other, ("workers",))[0] != section]
