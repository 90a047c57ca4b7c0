"""Return the programs that scan manifests: checkov in its own Python environment, and kube-score built from Go."""

from __future__ import annotations

from pathlib import Path

from lab.builds import tools
from lab.builds.golang import binary
from lab.paths import REPOSITORY


def checkov() -> Path:
    """Return checkov's command. Install checkov if it is not in the cache. Raises LabError if that fails."""
    return tools.programs(REPOSITORY / "requirements-scanners.txt") / "checkov"


def kube_score() -> Path:
    return binary("kube-score")
