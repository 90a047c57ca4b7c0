"""`make sbom`: write SBOMs of the images and the plugin, as CycloneDX files in dist/.

The versions come from the images that the tests use. In its own Python environment, write_sbom.py writes the files with
CycloneDX's library.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.builds import images, tools
from lab.builds.containers import run_in_image
from lab.errors import LabError
from lab.paths import REPOSITORY

LOCK = REPOSITORY / "requirements-audit.txt"
WRITER = Path(__file__).with_name("write_sbom.py")
DIST = REPOSITORY / "dist"
# Some packages put the whole text of the licence into the metadata field License. Then take the licence's name from the
# package's classifiers.
LIST_PYTHON = """
import importlib.metadata, json
def licence(about):
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if "License ::" in line]
    short = [name for name in [about.get("License", "").strip()] if len(name) < 40]
    return about.get("License-Expression") or ([name for name in [*short, *classifiers] if name] or [""])[0].strip()
found = [each.metadata for each in importlib.metadata.distributions()]
print(json.dumps([["pypi", about["Name"], about["Version"], licence(about)] for about in found]))
"""
# A package: the type of its package URL, its name, its version, and its licence if its metadata name one.
Package = Sequence[str]


def main() -> int:
    try:
        for framework in images.FRAMEWORKS:
            for path in write(framework, DIST):
                print(path.relative_to(REPOSITORY))
    except LabError as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    return 0


def write(framework: str, folder: Path) -> list[Path]:
    """Write the SBOMs of a framework's image and of the plugin. Return their paths.

    All images contain the same plugin.
    """
    image = images.trainer_environment(framework)
    plugin = _python_packages(image, "/opt/plugin/bin/python")
    packages = [*plugin, *_python_packages(image, "/opt/venv/bin/python"), *_debian_packages(image)]
    folder.mkdir(exist_ok=True)
    return [_written(folder, f"distrain-{framework}", packages), _written(folder, "distrain", plugin)]


def _python_packages(image: str, python: str) -> list[Package]:
    found: list[Package] = json.loads(_listed(image, python, "-I", "-c", LIST_PYTHON))
    return found


def _debian_packages(image: str) -> list[Package]:
    lines = _listed(image, "dpkg-query", "--show", "--showformat", "${Package} ${Version}\n").splitlines()
    return [["deb", *line.split(" "), ""] for line in lines]


def _listed(image: str, *command: str) -> str:
    done = run_in_image(image, command)
    if done.returncode != 0:
        raise LabError(f"{image}: {command[0]} does not list its packages: {done.stderr.strip()[-1000:]}")
    return done.stdout


def _written(folder: Path, name: str, packages: list[Package]) -> Path:
    path = folder / f"{name}-{images.VERSION}.cdx.json"
    python = str(tools.programs(LOCK) / "python")
    text = json.dumps({"name": name, "version": images.VERSION, "packages": packages})
    done = subprocess.run([python, str(WRITER), str(path)], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{path.name}: {WRITER.name} failed: {done.stderr.strip()[-1000:]}")
    return path


if __name__ == "__main__":
    sys.exit(main())
