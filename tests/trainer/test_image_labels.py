"""Test that the labels of the trainer's images describe correctly what the images contain."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab.builds import images


def labels(archive: Path) -> dict[str, str]:
    def load(name: str) -> Any:
        content = opened.extractfile(name)
        assert content is not None
        return json.load(content)

    with tarfile.open(archive) as opened:
        return load(load("manifest.json")[0]["Config"])["config"]["Labels"]


@pytest.mark.parametrize("framework", images.FRAMEWORKS)
def test_image_says_its_licence_and_its_debian_packages(framework: str) -> None:
    found = labels(images.trainer_image(framework).archive)

    assert found["org.opencontainers.image.licenses"] == "Apache-2.0"
    versions = dict(package.split("=", 1) for package in found[images.DEBIAN_PACKAGES].split(" "))
    assert versions["openmpi-bin"].startswith("4.")
    assert {"base-files", "openssh-server", "python3.11"} <= versions.keys()
