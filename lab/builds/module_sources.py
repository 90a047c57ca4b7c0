"""Fetch the sources of other projects' releases as Go modules.

The tests read these projects' examples and manifests.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from lab.builds import golang
from lab.errors import LabError

# Maps a module and its version to the checksum of its files, as in go.sum.
SUMS = {
    "github.com/kubeflow/mpi-operator@v0.2.3": "h1:xKgwMax9aAEBwuaJjWoM1MFlLU04PIRoGtML0+xhs5Y=",
    "github.com/kubeflow/mpi-operator@v0.3.0": "h1:XF4K66K8+X2KE7cZGU1LIcjW1qiiFjlZiM53CrSF+Lc=",
    "github.com/kubeflow/mpi-operator@v0.4.0": "h1:PS4jLoMuRyrk/DHuYkI0D46sQQYpQt375HjOV4KVMFs=",
    "github.com/kubeflow/mpi-operator@v0.5.0": "h1:XvBwyXXQ9103DNMa22sxsaQlaktvaT2LY/g0UniGn5U=",
    "github.com/kubeflow/mpi-operator@v0.6.0": "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=",
    "github.com/kubeflow/mpi-operator@v0.7.0": "h1:ID1eyzAFOMofgynEvfy4//S3q7Ra1OSexrggb1VcC1o=",
    "github.com/kubeflow/mpi-operator@v0.8.0": "h1:22EccUiO4VDooG4TooesdE8o8euGVj89PIRhiP24SRE=",
    "github.com/kubeflow/training-operator@v1.8.1": "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
    "github.com/kubeflow/trainer/v2@v2.3.0": "h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU=",
}


def folder(module: str) -> Path:
    """Return the folder with the source of a release.

    Raises LabError if the release cannot be fetched or its checksum differs.
    """
    return _folders()[module]


@functools.cache
def _folders() -> dict[str, Path]:
    """Fetch the modules that are not in Go's cache.

    The first call takes seconds, and later calls a tenth of a second.
    """
    done = golang.run(["mod", "download", "-json", *SUMS], Path("/"))
    if done.returncode != 0:
        raise LabError(f"cannot fetch {', '.join(SUMS)}: {done.stderr.strip() or done.stdout[-1000:]}")
    decoder, text, folders = json.JSONDecoder(), done.stdout.strip(), {}
    while text:
        found, end = decoder.raw_decode(text)
        module, text = f"{found['Path']}@{found['Version']}", text[end:].lstrip()
        if found["Sum"] != SUMS[module]:
            raise LabError(f"{module}: its files have the sum {found['Sum']}, not {SUMS[module]}")
        folders[module] = Path(found["Dir"])
    return folders
