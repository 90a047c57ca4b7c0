"""Test the error messages of `make cluster` on a machine that cannot run the lab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from lab.cluster import host
from lab.errors import LabError
from lab.paths import REPOSITORY


def test_other_users_than_root_are_told_to_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(LabError, match="run it as root"):
        host.check_root()


def test_root_may_start_the_lab() -> None:
    host.check_root()  # This must not raise.


def test_missing_capability_is_one_line_with_the_remedy() -> None:
    command = [
        "setpriv",
        "--bounding-set",
        "-net_admin",
        sys.executable,
        "-c",
        "from lab.cluster import host; host.check_root()",
    ]

    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert "LabError: root lacks CAP_NET_ADMIN here: start this container with `--cap-add NET_ADMIN`" in ended.stderr


def test_full_disk_is_named_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))

    with pytest.raises(LabError, match=r"0\.0 GB free, and the lab needs \d+; set DISTRAIN_CACHE to a larger disk"):
        host.check()


def test_missing_program_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None if command == "runc" else f"/usr/bin/{command}")

    with pytest.raises(LabError, match="not installed: runc; `make setup` installs"):
        host.check()


def test_taken_link_is_named_with_how_to_free_it(lab: None) -> None:
    # The lab already runs, so its own network link `distrain0` exists.
    with pytest.raises(LabError, match="free it: ip link delete distrain0"):
        host.check()
