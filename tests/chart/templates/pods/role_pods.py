"""Render a job with values for one role, and inspect the pods of all roles."""

from __future__ import annotations

from pathlib import Path

from tests.chart.kinds import KINDS
from tests.chart.rendering import Rendered, Yaml, render

# Role -> its section of the values, and a job kind that has this role.
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
    # Renderings are cached by their arguments, so each file needs a unique name.
    file = folder / f"values-{len(list(folder.iterdir()))}.yaml"
    file.write_text(values, encoding="utf-8")
    return render(helm, "--values", str(file), *(word for one in KINDS[kind] for word in ("--set", one)))


def with_role(helm: Path, role: str, values: str, folder: Path) -> Rendered:
    """Render with this YAML as values of the role's section."""
    section, kind = ROLES[role]
    return rendered(helm, kind, f"{section}: {values}\n", folder)


def first(pod: Yaml) -> Yaml:
    return pod["containers"][0]


def others(role: str, found: Rendered) -> list[str]:
    """Return the roles of the rendered job whose values come from another section than this role's values."""
    section, _ = ROLES[role]
    return [other for other in found.replicas if ROLES.get(other, ("workers",))[0] != section]
