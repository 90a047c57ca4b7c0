"""Test that the packages of `make package` depend only on the sources."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.builds import package
from lab.paths import REPOSITORY

# Files that an editor, a tool or a user has left among the sources. No package may contain them.
STRAY = (
    "charts/distrain/.values.yaml.swp",
    "charts/distrain/my-values.yaml",
    "plugin/.ruff_cache/0",
    "plugin/distrain/cli.py.orig",
    "trainer/distrain_trainer/cli.py~",
)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a git repository with the project's sources.

    While the test runs, the packages are built from this repository.
    """
    folder = tmp_path / "sources"
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", *package.WHEEL, "charts"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (REPOSITORY / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "--all"], check=True)
    monkeypatch.setattr(package, "REPOSITORY", folder)
    monkeypatch.setattr(package, "CHART", folder / "charts" / "distrain")
    monkeypatch.setattr(package, "PLUGIN", folder / "plugin")
    return folder


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def _leave_stray_files(sources: Path) -> None:
    for name in STRAY:
        (sources / name).parent.mkdir(exist_ok=True)
        (sources / name).write_text("stray\n")
    (sources / "charts/distrain/files/link").symlink_to("/etc/hostname")


def test_stray_files_are_not_packed(sources: Path, tmp_path: Path) -> None:
    one = [package.write_chart(tmp_path / "1" / "chart"), package.write(tmp_path / "1" / "plugin")]
    _leave_stray_files(sources)

    other = [package.write_chart(tmp_path / "2" / "chart"), package.write(tmp_path / "2" / "plugin")]

    assert [path.read_bytes() for path in other] == [path.read_bytes() for path in one]


def test_sources_in_no_git_repository_are_packed_as_they_are(sources: Path, tmp_path: Path) -> None:
    shutil.rmtree(sources / ".git")
    (sources / "charts/distrain/more.yaml").write_text("a: 1\n")

    with tarfile.open(package.write_chart(tmp_path)) as chart:
        assert {"distrain/more.yaml", "distrain/Chart.yaml"} <= set(chart.getnames())


@pytest.mark.full
def test_wheel_depends_on_no_umask_and_no_stray_file(sources: Path, tmp_path: Path, strict_umask: None) -> None:
    for source in sources.rglob("*.py"):
        source.chmod(source.stat().st_mode | stat.S_IWGRP)
    _leave_stray_files(sources)

    path = package.write_wheel(tmp_path)

    with zipfile.ZipFile(path) as wheel:
        modes = {entry.filename: stat.S_IMODE(entry.external_attr >> 16) for entry in wheel.infolist()}
        names = wheel.namelist()
        metadata = wheel.read(f"{path.name.removesuffix('-py3-none-any.whl')}.dist-info/METADATA").decode()

    # pip installs the required packages together with the wheel.
    required = set(re.findall(r"^Requires-Dist: ([A-Za-z0-9]+)", metadata, re.M))
    files = [(sources / "plugin" / name).read_text() for name in package.DEPENDENCIES]
    assert required == set(re.findall(r"^([a-z0-9]+)[>=]", "".join(files), re.M))
    # In every Python wheel, the file RECORD has this mode.
    assert modes.pop(f"{path.name.removesuffix('-py3-none-any.whl')}.dist-info/RECORD") == 0o664
    assert set(modes.values()) == {0o644, 0o755}
    assert [name for name in names if Path(name).name in {Path(stray).name for stray in STRAY}] == []
    assert {"distrain/chart/values.yaml", "distrain/instances/instances.json"} <= set(names)
