"""Install tools into separate Python environments in the cache, each from its own lock file.

If these tools were in the lab's lock file, each user would install a hundred more packages.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE_DIR


def programs(lock: Path, *, then: Callable[[Path], None] = lambda programs: None) -> Path:
    """Return the folder that contains an environment's programs. If the environment is not in the cache, install it.

    `then` completes the installation. Raises LabError if the installation fails.
    """
    key = hashlib.sha256(lock.read_bytes() + platform.python_version().encode()).hexdigest()[:12]
    folder = CACHE_DIR / "scanners" / key
    if not (folder / "complete").exists():
        print(f"installing {lock.name} (once; a minute) ...", file=sys.stderr, flush=True)
        _run(lock, sys.executable, "-m", "venv", "--clear", str(folder))
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        # The lock file has all packages, except those of CUDA that are not needed.
        _run(lock, *pip, "--no-deps", "-r", str(lock))
        then(folder / "bin")
        (folder / "complete").touch()
    return folder / "bin"


def _run(lock: Path, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{lock.name}: {' '.join(command[:3])}: {done.stderr.strip()[-1000:]}")
