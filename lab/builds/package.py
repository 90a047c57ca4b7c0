"""`make package`: pack the plugin and its chart as dist/distrain-VERSION.tgz, for `helm plugin install`.

The same files give the same bytes. Only the standard library is used, so a checkout and Python are enough.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from lab.paths import REPOSITORY

PLUGIN = REPOSITORY / "plugin"
DIST = REPOSITORY / "dist"
NAME = "distrain"
# Files that Helm also reads at the top of an archive.
HELM_READS = ("plugin.yaml", "plugin.complete")
PROGRAMS = ("/bin/distrain", "/bin/setup")
LEFT_OUT = ("__pycache__", ".venv", ".venv.new", ".gitignore", "requirements.in", "distrain.egg-info")


def main() -> None:
    """Write the archive. Sign it if an argument names a GnuPG key."""
    archive = write(DIST)
    print(archive.relative_to(REPOSITORY))
    for key in sys.argv[1:]:
        print(sign(archive, key).relative_to(REPOSITORY))


def write(folder: Path) -> Path:
    """Write the archive into a folder and return its path.

    For a local archive, Helm 4 looks for plugin.yaml in a folder of the plugin's name. For an archive from http, Helm 3
    looks at the top. So the archive has two plugin.yaml; the file at the top names the programs in the folder.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"{NAME}-{_version()}.tgz"
    # Pass no file name and no time, because gzip would store them.
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in HELM_READS:
            _add(archive, name, PLUGIN / name, _of_the_top((PLUGIN / name).read_bytes()))
        for source in _below(PLUGIN):
            content = None if source.is_dir() else source.read_bytes()
            _add(archive, str(NAME / source.relative_to(PLUGIN)), source, content)
    return path


def sign(archive: Path, key: str) -> Path:
    """Write the provenance file with which Helm 4 verifies an archive, signed with a GnuPG key. Return its path."""
    provenance = archive.with_name(f"{archive.name}.prov")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    description = (PLUGIN / "plugin.yaml").read_text(encoding="utf-8")
    text = f"{description}\n...\nfiles:\n  {archive.name}: sha256:{digest}\n"
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--clearsign", "--output", str(provenance)]
    subprocess.run(command, input=text.encode(), check=True)
    return provenance


def _version() -> str:
    found = re.search(r"^version: (\S+)$", (PLUGIN / "plugin.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "plugin.yaml has no version"
    return found[1]


def _of_the_top(content: bytes) -> bytes:
    for program in PROGRAMS:
        content = content.replace(program.encode(), f"/{NAME}{program}".encode())
    return content


def _below(path: Path) -> Iterator[Path]:
    """Yield a folder and its content in a fixed order, each folder before its content."""
    yield path
    if path.is_dir():
        for child in sorted(path.iterdir()):
            if child.name not in LEFT_OUT:
                yield from _below(child)


def _add(archive: tarfile.TarFile, name: str, source: Path, content: bytes | None) -> None:
    """Add a file, or a folder if `content` is None, with owner 0 and time 0."""
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    entry.mode = 0o755 if os.access(source, os.X_OK) else 0o644
    entry.size = len(content or b"")
    archive.addfile(entry, BytesIO(content or b""))


if __name__ == "__main__":
    main()
