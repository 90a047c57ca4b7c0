"""Install the manifest scanners: checkov in its own Python environment, kube-score built from Go."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from pathlib import Path

from lab.builds.golang import binary
from lab.errors import LabError
from lab.paths import CACHE_DIR, REPOSITORY

LOCK = REPOSITORY / "requirements-scanners.txt"


def checkov() -> Path:
    """Return checkov's command. Install it if it is not in the cache. Raises LabError if that fails."""
    key = hashlib.sha256(LOCK.read_bytes() + platform.python_version().encode()).hexdigest()[:12]
    folder = CACHE_DIR / "scanners" / key
    if not (folder / "complete").exists():
        print("installing checkov (once; a minute) ...", file=sys.stderr, flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        _run(*pip, "-r", str(LOCK))
        (folder / "complete").touch()
    return folder / "bin" / "checkov"


def kube_score() -> Path:
    return binary("kube-score")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{LOCK.name}: {' '.join(command[:3])}: {done.stderr.strip()[-1000:]}")
