"""Unpack a chart that is a .tgz file."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

from distrain import temporary
from distrain.errors import ValuesError, reason


def unpacked(archive: Path) -> Path:
    """Unpack the chart to a temporary folder and return its path. Raise ValuesError if the file contains no chart."""
    target = temporary.folder()
    try:
        with tarfile.open(archive, "r:gz") as file:
            for member in filter(tarfile.TarInfo.isfile, file):
                _write(file, member, target)
            _refuse_damage(file)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ValuesError(f"--chart: {archive} cannot be unpacked: {reason(error)}; name another file") from error
    charts = [*target.glob("*/Chart.yaml")]
    if len(charts) != 1:
        raise ValuesError(f"--chart: {archive} contains no folder with a Chart.yaml; name another file")
    return charts[0].parent


def _refuse_damage(file: tarfile.TarFile) -> None:
    """Raise ReadError unless the archive ends in zeros: tarfile takes a damaged header for the end of the archive."""
    assert file.fileobj is not None
    file.fileobj.seek(file.offset)
    if file.fileobj.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise tarfile.ReadError("it is damaged")


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write one file of an archive.

    The extraction filters of tarfile are not used, because Python 3.11.2 in Debian 12 does not have them.
    """
    path = Path(member.name)
    content = archive.extractfile(member)
    if path.is_absolute() or ".." in path.parts or content is None:
        raise tarfile.ReadError(f"{member.name} lies outside the archive")
    (target / path).parent.mkdir(parents=True, exist_ok=True)
    (target / path).write_bytes(content.read())
