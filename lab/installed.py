"""The packaged plugin, installed as Helm installs it: in its own environment, and compiled."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from lab import package
from lab.paths import CACHE_DIR


def installed(folder: Path) -> Path:
    """Unpack the plugin there and give it its environment, which stays in the cache until its packages change."""
    with tarfile.open(package.write(folder)) as archive:
        archive.extractall(folder, filter="data")
    plugin, kept = folder / package.NAME, CACHE_DIR / "plugin-venv"
    if kept.exists():
        shutil.copytree(kept, plugin / ".venv", symlinks=True)
    subprocess.run([str(plugin / "bin" / "setup")], check=True)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(plugin / ".venv", kept, symlinks=True)
    return plugin
