"""Define the lab's folders.

The cache of builds is permanent, and the cluster's folder is removed when the cluster ends.
"""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = REPOSITORY / "charts" / "distrain"

# Built programs, images, and containerd's image store. `make clean` keeps it.
CACHE_DIR = Path(os.environ.get("DISTRAIN_CACHE") or Path.home() / ".cache" / "distrain")

# The certificates, sockets, logs and data of the running cluster. This path must be short, because the path of a UNIX
# socket may have at most 108 bytes.
STATE_DIR = Path("/var/lib/distrain-lab")
KUBECONFIG = STATE_DIR / "kubeconfig"
LOG_DIR = STATE_DIR / "logs"
