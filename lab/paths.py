"""Define the lab's folders: a permanent cache for builds, and a folder of the running cluster, removed at its end."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = REPOSITORY / "charts" / "distrain"

# Builds, images and containerd's image store. `make clean` keeps it.
CACHE_DIR = Path(os.environ.get("DISTRAIN_CACHE") or Path.home() / ".cache" / "distrain")

# Certificates, sockets, logs and data of the running cluster, on disk. The path must be short, because UNIX socket
# paths are limited to 108 bytes.
STATE_DIR = Path("/var/lib/distrain-lab")
KUBECONFIG = STATE_DIR / "kubeconfig"
LOG_DIR = STATE_DIR / "logs"
