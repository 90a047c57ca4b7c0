"""Run the trainer of the working tree in the frameworks' images."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
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
# The cache keeps the last KEPT copies of the trainer. It also keeps every copy that was used in the last day, because
# tests of another working tree may be using it.
KEPT, SECONDS_KEPT = 4, 24 * 3600


def run_trainer(
    framework: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    mounts: Mapping[Path, str] | None = None,
    timeout: int = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a framework's image (see run_in_image), with the trainer's code from the working tree."""
    code = {_compiled(): IN_IMAGE}
    return run_in_image(_environment(framework), argv, env=env, mounts={**code, **(mounts or {})}, timeout=timeout)


@cache
def _environment(framework: str) -> str:
    """Return the name of a framework's image, from trainer_environment.

    The name is cached, because each lookup takes a fifth of a second.
    """
    return images.trainer_environment(framework)


@cache
def _compiled() -> Path:
    """Return a copy of the trainer that contains compiled modules.

    Without this copy, each rank would compile the modules itself, which takes 0.4 s.
    """
    sources = sorted(SOURCE.rglob("*.py"))
    texts = b"".join(str(path).encode() + path.read_bytes() for path in sources)
    folder = COPIES / hashlib.sha256(texts).hexdigest()[:16]
    if not folder.exists():
        COPIES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=COPIES) as made:
            _compile(Path(shutil.copytree(SOURCE, Path(made) / folder.name, ignore=shutil.ignore_patterns("*.pyc"))))
            _put(Path(made) / folder.name, folder)
    os.utime(folder)  # The time of its last use.
    return folder


def _compile(folder: Path) -> None:
    """Compile the copied modules. The compiled files contain the paths that the modules have in an image."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    command = [sys.executable, "-m", "compileall", "-q", "-d", IN_IMAGE, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{SOURCE}: Python cannot compile it: {done.stdout}{done.stderr}")


def _put(made: Path, folder: Path) -> None:
    """Rename a copy to its final name, and remove old copies."""
    os.utime(made)  # The copy still has the modification time of the source.
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():  # If the folder exists, another process has made the same copy.
            raise
    for age, path in sorted((_age(path), path) for path in COPIES.iterdir())[KEPT:]:
        if age > SECONDS_KEPT:
            shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    """Return the seconds since a copy was last used; 0 if another process has just removed it."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
