"""Test that every part of a release states its licence, with the SPDX identifier."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from lab.builds import package
from lab.paths import REPOSITORY

NAMED = {
    "pyproject.toml": r'^license = "(.*)"$',
    "charts/distrain/Chart.yaml": "^  artifacthub.io/license: (.*)$",
    "plugin/plugin.yaml": "^# SPDX-License-Identifier: (.*)$",
    **{f"trainer/{path.name}": 'image.licenses="(.*)"$' for path in (REPOSITORY / "trainer").glob("*.Dockerfile")},
}


def test_all_that_ships_names_the_same_licence() -> None:
    found = {file: re.findall(line, (REPOSITORY / file).read_text(), re.MULTILINE) for file, line in NAMED.items()}

    assert found == {file: ["Apache-2.0"] for file in NAMED}


def test_plugins_archive_holds_the_licence(tmp_path: Path) -> None:
    with tarfile.open(package.write(tmp_path)) as archive:
        licence = archive.extractfile("distrain/LICENSE")
        assert licence is not None
        assert licence.read() == (REPOSITORY / "LICENSE").read_bytes()
