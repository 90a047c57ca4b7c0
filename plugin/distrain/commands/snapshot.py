"""Run the command `snapshot`."""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import IO

from distrain import console
from distrain.answers.output_file import refuse_existing, replacing
from distrain.apiserver.pages import again
from distrain.check.snapshot.judged_kinds import JUDGED, JudgedKind
from distrain.check.snapshot.snapshot_writer import NEEDED, Written, write
from distrain.errors import UnwrittenError, reason
from distrain.request.request import Request
from distrain.workload.wording import listed

# A higher compression level takes several times as long and makes the file only a few percent smaller.
GZIP_LEVEL = 6
BUFFER = 2**20


def run(options: argparse.Namespace) -> int:
    target = Path(options.output) if options.output else None
    if target:
        refuse_existing(target, force=options.force)
    request = Request(options)
    written = again(lambda: _write_file(request, target) if target else _print(request))
    console.say(_told(written, target))
    return 0


def _write_file(request: Request, target: Path) -> Written:
    with replacing(target) as file, _packed(file, target) as packed:
        return write(request.cluster, packed, request.cluster.target.namespace)


def _print(request: Request) -> Written:
    """Write the snapshot to a temporary file, then to stdout.

    The temporary file is needed so that nothing is printed if the cluster cannot be read.
    """
    try:
        with tempfile.TemporaryFile() as file:
            written = write(request.cluster, file, request.cluster.target.namespace)
            file.seek(0)
            console.copy(file)
            return written
    except OSError as error:
        words = f"TMPDIR: {tempfile.gettempdir()} cannot be written: {reason(error)}"
        raise UnwrittenError(f"{words}; set TMPDIR to a folder with free space, or name a file with -o") from error


@contextmanager
def _packed(file: IO[bytes], target: Path) -> Iterator[IO[bytes]]:
    """Yield the file itself, or a file object that compresses into it if the target's name ends in .gz."""
    if target.suffix != ".gz":
        yield file
        return
    # Without a file name and a time in the gzip header, the same content gives the same bytes.
    with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed, BufferedWriter(packed, BUFFER) as buffered:
        yield buffered


def _told(written: Written, target: Path | None) -> str:
    counts, read = written.counts, written.snapshot.read
    found = [_counted(kind, counts[kind.name]) for kind in JUDGED if counts[kind.name] or kind in NEEDED]
    partly = [f"{kind.plural} outside namespace {read[kind.name][0]}" for kind in JUDGED if read.get(kind.name)]
    unread = [kind.plural for kind in JUDGED if kind.name not in read]
    left_out = f"; no permission to read {listed([*unread, *partly])}" if unread or partly else ""
    return f"{f'wrote {target}' if target else 'printed'}: {listed(found)}{left_out}"


def _counted(kind: JudgedKind, count: int) -> str:
    return f"{count:,} {kind.name.lower() if count == 1 else kind.plural}"
