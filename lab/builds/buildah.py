"""Run buildah with the lab's own image store."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE_DIR

STORE = CACHE_DIR / "buildah"


def remove_containers() -> None:
    """Remove the containers of interrupted builds, because their layers use gigabytes."""
    subprocess.run(command("rm", "--all"), capture_output=True, check=False)


def is_in_store(reference: str) -> bool:
    inspect = command("inspect", "--type", "image", reference)
    return subprocess.run(inspect, capture_output=True, check=False).returncode == 0


def command(*arguments: str) -> list[str]:
    # The lab has its own image store, so that it does not affect the user's own buildah. After a reboot, buildah's
    # records of mounts are wrong, so the name of their folder contains the boot id.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    store = ["--root", str(STORE / "storage"), "--runroot", str(STORE / f"run-{boot}"), "--storage-driver", "overlay"]
    # buildah runs in namespaces of its own. When buildah ends, even if it is killed, its mounts and processes end too.
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*unshare, tool("buildah"), *store, *arguments]


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise LabError(f"{name} is not installed: run `apt-get install buildah mmdebstrap`")
    return path
