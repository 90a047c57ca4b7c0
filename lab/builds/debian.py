"""Define the Debian root file system of the images: mmdebstrap's options and the host's apt sources."""

from __future__ import annotations

import re
from pathlib import Path

from lab.errors import LabError

DEBIAN = "bookworm"
# These options leave out manuals and translations, which would be a quarter of the root file system.
MMDEBSTRAP_OPTIONS = (
    "--variant=minbase",
    "--mode=root",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)


def sources() -> list[Path]:
    """Return the host's apt source files for Debian.

    Sources of other vendors are left out, because the image does not have their keys.
    """
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))]
    files += sorted(folder.glob("sources.list.d/*.sources"))
    found = [file for file in files if file.is_file() and is_debian(file.read_text())]
    if not found:
        raise LabError(f"/etc/apt: no source of Debian {DEBIAN} found; the images are built on a Debian 12 host")
    return found


def is_debian(source: str) -> bool:
    active = re.sub(r"^\s*#.*$", "", source, flags=re.MULTILINE)
    suite = re.search(rf"(?<!\S){DEBIAN}(-updates|-security)?(?!\S)", active)
    keys = re.findall(r"signed-by[=:]\s*([^\s\]]+)", active, re.IGNORECASE)
    return suite is not None and "main" in active.split() and all("debian-archive" in key for key in keys)
