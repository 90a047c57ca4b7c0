"""Pack the trainer into the chart, for `trainer.delivery: chart`: `python -m schemas.trainer`.

The archive is in a ConfigMap. Helm stores it twice in the Secret of each release: in the chart and in the manifest. So
the archive must be small, and bzip2 compresses all files together. Python could import from a zip file without
unpacking it, but a zip file would be twice as large as this archive. The same sources give the same bytes.
"""

from __future__ import annotations

import bz2
import io
import re
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TRAINER = REPOSITORY / "trainer"
TARGET = REPOSITORY / "charts" / "distrain" / "files" / "trainer.tar.bz2"
# If trainer.install names a package without a version, these pip constraints give the version. These constraints have
# no hashes, because pip would then require hashes for every package on its command line.
PINS = "constraints.txt"


def build() -> bytes:
    """Return the archive with the package distrain_trainer and the pinned versions of its requirements."""
    paths = sorted((TRAINER / "distrain_trainer").rglob("*.py"))
    files = {path.relative_to(TRAINER).as_posix(): path.read_bytes() for path in paths}
    requirements = (TRAINER / "requirements" / "trainer.txt").read_text(encoding="utf-8")
    files[PINS] = "".join(f"{pin}\n" for pin in re.findall(r"^[a-z0-9-]+==[^ ]+", requirements, re.MULTILINE)).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            # An entry of the archive has TarInfo's default time, owner and mode, and not those of this machine.
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return bz2.compress(packed.getvalue(), 9)


if __name__ == "__main__":
    TARGET.write_bytes(build())
    print(f"wrote {TARGET}")
