"""Test that headers in a tar are parsed as Python's tarfile parses them, and are not kept."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from distrain_trainer.data import tars
from distrain_trainer.data.tars import Header


def header_of(name: str, size: int, *, type_: bytes = tarfile.REGTYPE) -> bytes:
    told = tarfile.TarInfo(name)
    told.size, told.type = size, type_
    return told.tobuf(tarfile.GNU_FORMAT if size >= 8**11 else tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("name", ["1.jpg", "train/0001.cls", "/".join(["folder"] * 20) + "/1.jpg"])
@pytest.mark.parametrize("size", [0, 7, 511, 8**10 + 7])
def test_usual_header_is_parsed_without_tarfile(name: str, size: int) -> None:
    found = Header._of_file(header_of(name, size), "utf-8", "strict")

    assert found is not None
    assert (found.name, found.size, found.isfile()) == (name, size, True)


def damaged(header: bytes) -> bytes:
    return header[:10] + b"x" + header[11:]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(header_of("1.jpg", 7, type_=tarfile.SYMTYPE), id="link"),
        pytest.param(header_of("1.jpg/", 0), id="folder-of-an-old-tar"),
        pytest.param(header_of("1.jpg", 8**12), id="size-in-binary"),
        pytest.param(damaged(header_of("1.jpg", 7)), id="damaged"),
        pytest.param(header_of("1.jpg", 7)[:-1], id="cut"),
    ],
)
def test_other_header_is_left_to_tarfile(header: bytes) -> None:
    assert Header._of_file(header, "utf-8", "strict") is None


def test_headers_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(9):
            tar.addfile(tarfile.TarInfo(f"{number}.cls"), io.BytesIO())

    with path.open("rb") as file, tars.opened(file, "shard.tar") as tar:
        kept = [len(tar.members) for _ in tars.files(tar, "shard.tar", {".cls"})]  # type: ignore[attr-defined]

    assert kept == [0] * 9
