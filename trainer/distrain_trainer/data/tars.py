"""Read the files in a tar archive sequentially, with little memory, and detect damage."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from distrain_trainer.errors import DataError

if TYPE_CHECKING:
    from typing import Self

BLOCK = tarfile.BLOCKSIZE
# The longest padding, in bytes, that is read after the end of an archive. GNU tar pads to 10 KiB.
PADDING = 1024**2
# The first bytes of a file that one of these programs has compressed.
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


# The key of a file in a tar (its name up to the first dot), its suffix (the rest in lower case), and its header.
File = tuple[str, str, tarfile.TarInfo]


@contextlib.contextmanager
def opened(file: io.BufferedReader, path: str) -> Iterator[tarfile.TarFile]:
    """Open the tar that begins at the position of `file`. While it is read, damage raises DataError."""
    begin = file.peek()
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=Header) as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        program = next((program for magic, program in COMPRESSED.items() if begin.startswith(magic)), None)
        if program is not None:
            raise DataError(f"data.uri: {path} is compressed by {program}; upload it decompressed") from None
        raise DataError(f"data.uri: {path} is damaged ({error}); upload it again") from None


def files(tar: tarfile.TarFile, path: str, needed: Set[str]) -> Iterator[File]:
    """Yield the files, without those whose name starts with a dot: tar on macOS adds a file ._1.jpg before 1.jpg.

    Raises DataError if a link takes the place of a file whose suffix is in `needed`, or if more than this archive is in
    the file. Raises tarfile.ReadError at damage.
    """
    while (header := tar.next()) is not None:
        # Iterating over a TarFile would keep all headers in memory, but a shard may contain a million of them.
        tar.members.clear()  # type: ignore[attr-defined]
        key, suffix = _split(header.name)
        if not key or key.endswith("/"):
            continue
        if header.isfile():
            yield key, suffix, header
        elif suffix in needed and not header.isdir():
            raise DataError(
                f"data.uri: {path}: {header.name} is a link or another member without content; make the shard again, "
                "with GNU tar's options --dereference --hard-dereference"
            )
    _require_end(tar, path)


def content_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the content of a file. Raises tarfile.ReadError if the archive ends before the content does."""
    if member.issparse():
        file = tar.extractfile(member)
        assert file is not None
        return file.read()
    assert tar.fileobj is not None
    # tarfile's extractfile would create two file objects, which takes longer than reading the member from memory.
    tar.fileobj.seek(member.offset_data)
    content: bytes = tar.fileobj.read(member.size)
    if len(content) < member.size:
        raise tarfile.ReadError("unexpected end of data")
    return content


def _split(name: str) -> tuple[str, str]:
    """Split the name of a member into key and suffix. The suffix begins at the first dot of the file's name."""
    folder, slash, file = name.rpartition("/")
    key, dot, suffix = file.partition(".")
    return f"{folder}{slash}{key}", f"{dot}{suffix}".lower()


def _require_end(tar: tarfile.TarFile, path: str) -> None:
    """Raise tarfile.ReadError unless the archive ends here, and DataError unless the file ends here, too.

    tarfile itself raises no error at a damaged header. After the end of the archive a file contains only zeros: usually
    less than 10 KiB.
    """
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    block = tar.fileobj.read(BLOCK)
    if block != bytes(BLOCK):
        raise tarfile.ReadError(f"no header and no end of the archive at byte {tar.offset}")
    if tar.fileobj.read(PADDING).strip(b"\0"):
        raise DataError(
            f"data.uri: {path} goes on after the end of its archive (byte {tar.offset}), like tars that were joined "
            "with cat; upload each tar as a shard of its own"
        )


class Header(tarfile.TarInfo):
    """The header of a file in a tar archive.

    Python's tarfile takes five times as long to parse the usual kind of header.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header block. Fields that are needed only to unpack files keep their default values."""
        return cls._of_file(buf, encoding, errors) or super().frombuf(buf, encoding, errors)

    @classmethod
    def _of_file(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self | None:
        """Parse the header of a regular file whose size is written in octal digits (the format "ustar" of pax(1))."""
        if len(buf) != BLOCK or buf[156:157] not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            return None
        name, prefix = (field.partition(b"\0")[0].decode(encoding, errors) for field in (buf[:100], buf[345:500]))
        try:
            size, checksum = (int(field.partition(b"\0")[0], 8) for field in (buf[124:136], buf[148:156]))
        except ValueError:
            return None
        # When the checksum is computed, its own eight bytes count as spaces. Old versions of tar mark a folder only by
        # the slash at the end of its name.
        if name.endswith("/") or checksum != sum(buf) - sum(buf[148:156]) + 8 * ord(" "):
            return None
        header = cls(f"{prefix}/{name}" if prefix else name)
        header.size = size
        return header
