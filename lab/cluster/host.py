"""Check the host's programs and resources before the cluster starts.

Each error message is one line, and also says what the user should do next.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from lab.cluster.namespaces import HOST_ADDRESS, LINK
from lab.errors import LabError
from lab.paths import CACHE_DIR

COMMANDS = ("containerd", "runc", "iptables", "conntrack", "ip", "nsenter", "unshare", "buildah", "mmdebstrap")
CNI_PLUGIN = "/usr/lib/cni/bridge"
# Starting the lab needs this much free disk space, in GB. The first start needs 9 GB for programs and images, and 10 GB
# for Go's caches. Later starts need 2 GB.
FREE_GB_COLD, FREE_GB_WARM = 20, 3
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def check() -> None:
    """Raise LabError if a program or resource is missing."""
    _check_commands()
    _check_disk()
    _check_network()


def check_root() -> None:
    """Raise LabError if this user has no permission to create Linux namespaces and network links."""
    if os.geteuid() != 0:
        raise LabError("the lab makes network namespaces and runs a kubelet: run it as root, e.g. `sudo make cluster`")
    for number, name in ((CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_SYS_ADMIN, "CAP_SYS_ADMIN")):
        if not _effective_capabilities() >> number & 1:
            raise LabError(
                f"root lacks {name} here: start this container with `--cap-add {name[4:]}`, or use a whole machine"
            )


def _effective_capabilities() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def _check_commands() -> None:
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if not os.path.exists(CNI_PLUGIN):
        missing.append(CNI_PLUGIN)
    if missing:
        raise LabError(
            f"not installed: {', '.join(missing)}; `make setup` installs the Debian packages that bring them"
        )


def _check_disk() -> None:
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    needed = FREE_GB_WARM if (CACHE_DIR / "containerd").exists() else FREE_GB_COLD
    free = shutil.disk_usage(CACHE_DIR).free / 1e9
    if free < needed:
        raise LabError(
            f"{CACHE_DIR}: {free:.1f} GB free, and the lab needs {needed}; set DISTRAIN_CACHE to a larger disk"
        )


def _check_network() -> None:
    addresses = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    for line in addresses.splitlines():
        link = line.split()[1]
        if link == LINK or f" {HOST_ADDRESS}/" in line:
            raise LabError(
                f"network: {link} has the lab's name {LINK} or address {HOST_ADDRESS}; free it: ip link delete {link}"
            )
