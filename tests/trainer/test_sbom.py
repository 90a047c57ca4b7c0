"""Test that `make sbom` lists the components of an image and of the plugin."""

from __future__ import annotations

import json
from pathlib import Path

from lab.builds import sbom


def packages(path: Path) -> dict[str, str]:
    """Return the version of each component in an SBOM file, keyed by the package URL without the version."""
    return {each["purl"].split("@")[0]: each["version"] for each in json.loads(path.read_text())["components"]}


def test_image_and_plugin_list_their_packages(tmp_path: Path) -> None:
    image, plugin = map(packages, sbom.write("mxnet", tmp_path))

    assert image["pkg:pypi/horovod"] == "0.28.1"
    assert image["pkg:deb/debian/openmpi-bin"].startswith("4.")
    assert plugin["pkg:pypi/pyhelm3"] == "0.5.8"
    assert plugin.items() <= image.items()
    assert "pkg:pypi/horovod" not in plugin
