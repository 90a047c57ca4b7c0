"""Read the samples of a tar shard as a stream, for the libraries without a reader of tar files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO


def samples_in(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the image and the class number of each sample. The members of a sample are `key.jpg` and `key.cls`."""
    image = b""
    with tarfile.open(fileobj=file, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            if member.name.endswith(".jpg"):
                image = content.read()
            else:
                yield image, int(content.read())
