"""Run the working tree's trainer in its images."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lab.builds import images
from lab.builds.containers import run_in_image
from lab.errors import LabError
from lab.paths import CACHE_DIR, REPOSITORY

SOURCE = REPOSITORY / "trainer" / "distrain_trainer"
IN_IMAGE = "/opt/venv/lib/python3.11/site-packages/distrain_trainer"
COPIES = CACHE_DIR / "trainer"
# How many copies the cache keeps.
KEPT = 4


def run_trainer(
    framework: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    mounts: Mapping[Path, str] | None = None,
    timeout: int = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a framework's image over the working tree's trainer, as run_in_image does."""
    code = {_compiled(): IN_IMAGE}
    return run_in_image(_environment(framework), argv, env=env, mounts={**code, **(mounts or {})}, timeout=timeout)


@cache
def _environment(framework: str) -> str:
    """Return the image name from trainer_environment.

    The name is cached, because each lookup takes a fifth of a second.
    """
    return images.trainer_environment(framework)


@cache
def _compiled() -> Path:
    """Return a copy of the trainer with compiled modules. Each rank would need 0.4 s to compile the modules itself."""
    sources = sorted(SOURCE.rglob("*.py"))
    texts = b"".join(str(path).encode() + path.read_bytes() for path in sources)
    folder = COPIES / hashlib.sha256(texts).hexdigest()[:16]
    if not folder.exists():
        COPIES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=COPIES) as made:
            _compile(Path(shutil.copytree(SOURCE, Path(made) / folder.name, ignore=shutil.ignore_patterns("*.pyc"))))
            _put(Path(made) / folder.name, folder)
    return folder


def _compile(folder: Path) -> None:
    """Compile the modules in place, with the paths that they have in an image."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    command = [sys.executable, "-m", "compileall", "-q", "-d", IN_IMAGE, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{SOURCE}: Python cannot compile it: {done.stdout}{done.stderr}")


def _put(made: Path, folder: Path) -> None:
    """Rename a copy to its final name, and remove old copies."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():  # If it exists, another process has made the same copy.
            raise
    os.utime(folder)  # The newest copies are kept, so set the time. A copy has the modification time of its source.
    for path in sorted(COPIES.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
