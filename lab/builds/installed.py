"""Install the packaged plugin into its own Python environment, as Helm does."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from lab.builds import package
from lab.paths import CACHE_DIR


def installed(folder: Path) -> Path:
    """Unpack the plugin into a folder, and create its Python environment in the cache."""
    plugin, kept = unpacked(package.write(folder), folder), CACHE_DIR / "plugin-venv"
    if kept.exists():
        shutil.copytree(kept, plugin / ".venv", symlinks=True)
    subprocess.run([str(plugin / "bin" / "setup")], check=True)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(plugin / ".venv", kept, symlinks=True)
    return plugin


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack the plugin's archive into `folder`. Return the plugin's folder, which is inside this folder."""
    with tarfile.open(archive) as opened:
        # Python in Debian 12 does not have this argument of extractall.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)
    return folder / package.NAME
