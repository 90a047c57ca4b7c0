"""Unpack the plugin's archive, and run its programs as a user does."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.builds.installed import unpacked

# Read this path when the module is imported, before a fixture changes HOME. Otherwise, pip would not find its cache and
# would download all packages again.
PIP_CACHE = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))}


@dataclass(frozen=True)
class Plugin:
    """The folder into which the archive was unpacked, outside the checkout."""

    folder: Path

    @property
    def program(self) -> str:
        return str(self.folder / "bin" / "distrain")

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return run([str(self.folder / "bin" / "setup")], None, **environment)


def plugin_of(archive: Path, folder: Path) -> Plugin:
    return Plugin(unpacked(archive, folder))


def run(command: list[str], cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **PIP_CACHE, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
