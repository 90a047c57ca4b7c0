"""List all pairs of a values file in values/ and a profile in values/profiles, and render them."""

from __future__ import annotations

from pathlib import Path

from tests.chart import expansion
from tests.chart.rendering import VALUES, Rendered, Yaml, render

PROFILES = {file.stem: file for file in sorted((VALUES / "profiles").glob("*.yaml"))}
FILES = {file.stem: file for file in sorted(VALUES.glob("*.yaml"))}
SNAPSHOTS = Path(__file__).parent / "snapshots"
NAMESPACE = "team"

PAIRS = [(profile, name) for profile in PROFILES for name in FILES]


def arguments(profile: str, name: str) -> list[str]:
    """Return the arguments that make helm or the plugin use a pair of values file and profile.

    The profile comes last.
    """
    return ["--namespace", NAMESPACE, "--values", str(FILES[name]), "--values", str(PROFILES[profile])]


def pods(helm: Path, profile: str) -> list[Yaml]:
    """Render all values files with the profile, and return the distinct pods (see `distinct_pods`)."""
    manifests = [rendered(helm, profile, name).text for name in FILES]
    return expansion.distinct_pods(manifests)


def rendered(helm: Path, profile: str, name: str) -> Rendered:
    return render(helm, *arguments(profile, name))
