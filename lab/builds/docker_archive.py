"""Write a container image of static programs as a docker archive, without buildah.

Writing an image of 1.4 MB takes 4 ms. buildah would take 210 to 250 ms, and would also keep the image in its store.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write(archive: Path, reference: str, contents: Mapping[str, bytes], entrypoint: list[str]) -> None:
    """Write an image with one layer. `contents` maps a path in the image to the file's content.

    The same contents give the same bytes.
    """
    layer = _tar(contents, mode=0o755)
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    archive.write_bytes(_tar(parts, mode=0o644))


def _tar(contents: Mapping[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
