"""Define the fixtures of the tests of packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab.builds import package
from tests.plugin.package.unpacked import Plugin, plugin_of


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.write(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Plugin:
    """Return the unpacked plugin with its Python environment."""
    made = plugin_of(archive, tmp_path_factory.mktemp("unpacked"))
    done = made.setup()
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def environment(plugin: Plugin, tmp_path: Path) -> dict[str, str]:
    """Provide a python3 that creates virtual environments with all packages, so that pip has little to do."""
    tools = tmp_path / "python"
    tools.mkdir()
    copy = f'[ "$1 $2" = "-m venv" ] && exec cp -al {plugin.folder}/.venv "$3"'
    (tools / "python3").write_text(f'#!/bin/sh\n{copy}\nexec {shutil.which("python3")} "$@"\n')
    (tools / "python3").chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
