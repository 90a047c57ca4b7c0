"""Test that a user missing in the image's /etc/passwd gets a name: in a copy of the file, and in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.chart.scripts import pods

IMAGES = "root:x:0:0:root:/root:/bin/bash\nother:x:7:7::/:/bin/sh\n"
UNKNOWN = 1000660000


def copy_of(passwd: str | None, monkeypatch: pytest.MonkeyPatch, folder: Path, user: int) -> str:
    """Run distrain-user with this /etc/passwd, as this user in group 0.

    Return the content of the file that the script writes.
    """
    script = pods.load("distrain-user")
    source, target = folder / "passwd", folder / "copy"
    if passwd is not None:
        source.write_text(passwd)
    monkeypatch.setattr(script, "PASSWD", str(source))
    monkeypatch.setattr(script.os, "getuid", lambda: user)
    monkeypatch.setattr(script.os, "getgid", lambda: 0)
    monkeypatch.setattr(script.tempfile, "gettempdir", lambda: "/tmp")
    monkeypatch.setattr(sys, "argv", ["distrain-user", str(target)])
    script.main()
    return target.read_text()


@pytest.mark.parametrize(
    ("image", "start"),
    [
        pytest.param(IMAGES, IMAGES, id="users"),
        pytest.param(IMAGES.rstrip("\n"), IMAGES, id="no-newline-at-the-end"),
        pytest.param(None, "", id="no-file"),
    ],
)
def test_unknown_user_is_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, image: str | None, start: str) -> None:
    added = f"user{UNKNOWN}:x:{UNKNOWN}:0::/tmp:/bin/sh\n"

    assert copy_of(image, monkeypatch, tmp_path, UNKNOWN) == start + added


def test_known_user_is_not_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # User 0 is root, who has an entry in this machine's /etc/passwd.
    assert copy_of(IMAGES, monkeypatch, tmp_path, 0) == IMAGES


def test_program_of_an_unknown_user_has_a_name_and_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = pods.load("distrain_program.py")
    monkeypatch.setattr(script.os, "getuid", lambda: UNKNOWN)

    assert script.unnamed_user({"HOME": "/nonexistent"}) == {"USER": f"user{UNKNOWN}", "HOME": "/tmp"}
    assert script.unnamed_user({"HOME": "/nonexistent", "TMPDIR": str(tmp_path)})["HOME"] == str(tmp_path)
    for unusable in ("", "/nonexistent"):
        assert script.unnamed_user({"HOME": "/nonexistent", "TMPDIR": unusable})["HOME"] == "/tmp"
    assert script.unnamed_user({"HOME": str(tmp_path), "USER": "me"}) == {"USER": "me", "HOME": str(tmp_path)}


def test_program_of_a_known_user_keeps_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    script = pods.load("distrain_program.py")
    monkeypatch.setattr(script.os, "getuid", lambda: 0)

    assert script.unnamed_user(dict(os.environ)) == {}
