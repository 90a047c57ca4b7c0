"""Install the packaged plugin as Helm does, with its own Python environment."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from lab.builds import package
from lab.paths import CACHE_DIR


def installed(folder: Path) -> Path:
    """Unpack the plugin into a folder and set up its Python environment, which the cache keeps."""
    plugin, kept = unpacked(package.write(folder), folder), CACHE_DIR / "plugin-venv"
    if kept.exists():
        shutil.copytree(kept, plugin / ".venv", symlinks=True)
    subprocess.run([str(plugin / "bin" / "setup")], check=True)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(plugin / ".venv", kept, symlinks=True)
    return plugin


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack the plugin's archive into a folder, and return the plugin's own folder there."""
    with tarfile.open(archive) as opened:
        # The extractall of Debian 12's Python does not have this argument.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)
    return folder / package.NAME
