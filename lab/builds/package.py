"""`make package`: pack the chart, the plugin and the Python wheel into dist/.

The same files always give the same bytes, whatever their permissions are. In a git repository, only tracked files are
packed. A user's values files and an editor's backups are left out. Helm requires the same file name,
distrain-VERSION.tgz, for the chart and for the plugin. So the chart and the plugin each have a folder in dist/.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from lab.paths import CHART, REPOSITORY

PLUGIN = REPOSITORY / "plugin"
DIST = REPOSITORY / "dist"
NAME = "distrain"
# Helm also looks for these files at the top level of an archive.
HELM_READS = ("plugin.yaml", "plugin.complete")
PROGRAMS = ("/bin/distrain", "/bin/setup")
# setuptools builds the wheel from these files and folders. The folder `plugin` contains a link to the chart.
WHEEL = ("LICENSE", "README.md", "plugin", "pyproject.toml", "trainer")
# setuptools reads the dependencies of the wheel from these files. The plugin's archive leaves them out.
DEPENDENCIES = ("requirements.in", "requirements-report.in")
LEFT_OUT = ("__pycache__", ".venv", ".venv.new", ".gitignore", "distrain.egg-info", *DEPENDENCIES)


def main() -> None:
    """Write the packages. If an argument names a GnuPG key, sign the archives of the chart and the plugin."""
    chart, plugin = write_chart(DIST / "chart"), write(DIST / "plugin")
    written = [chart, plugin, write_wheel(DIST)]
    for key in sys.argv[1:]:
        written += [sign(chart, CHART / "Chart.yaml", key), sign(plugin, PLUGIN / "plugin.yaml", key)]
    print(*(path.relative_to(REPOSITORY) for path in written), sep="\n")


def write_chart(folder: Path) -> Path:
    """Write the chart's archive into a folder, and return its path."""
    path = folder / f"{NAME}-{_version(CHART / 'Chart.yaml')}.tgz"
    with _archive(path) as archive:
        for source in _below(CHART):
            # Helm writes no entries for folders into an archive, so leave them out here, too.
            if source.is_file():
                _add(archive, str(NAME / source.relative_to(CHART)), source, source.read_bytes())
    return path


def write_wheel(folder: Path) -> Path:
    """Build the wheel with the plugin and the trainer in a folder, and return its path."""
    with tempfile.TemporaryDirectory() as copy:
        # Build in a copy: a build leaves folders in the source tree, which the next build would pack.
        for name in WHEEL:
            source, target = REPOSITORY / name, Path(copy, name)
            if source.is_file():
                shutil.copy(source, target)
            else:
                shutil.copytree(source, target, ignore=_left_out)
        for name in DEPENDENCIES:
            shutil.copy(REPOSITORY / "plugin" / name, Path(copy, "plugin"))
        for path in Path(copy).rglob("*"):
            path.chmod(0o755 if path.is_dir() else _mode(path))
        # This is the earliest time that a zip file can store.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
        built = Path(copy, "dist")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), copy]
        subprocess.run(command, check=True, env=environment, umask=0o022)
        [wheel] = built.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, folder))


def write(folder: Path) -> Path:
    """Write the plugin's archive, which includes the chart, into a folder and return its path.

    For a local archive, Helm 4 looks for plugin.yaml in a folder of the plugin's name. For an archive from http, Helm 3
    looks for plugin.yaml at the top level. So the archive contains plugin.yaml twice. In the plugin.yaml at the top
    level, the programs' paths begin with the folder's name.
    """
    path = folder / f"{NAME}-{_version(PLUGIN / 'plugin.yaml')}.tgz"
    with _archive(path) as archive:
        for name in HELM_READS:
            _add(archive, name, PLUGIN / name, _of_the_top((PLUGIN / name).read_bytes()))
        for source in _below(PLUGIN):
            content = None if source.is_dir() else source.read_bytes()
            _add(archive, str(NAME / source.relative_to(PLUGIN)), source, content)
    return path


def sign(archive: Path, description: Path, key: str) -> Path:
    """Write the provenance file of an archive, signed with a GnuPG key.

    Helm checks an archive against its provenance file.

    Return its path.

    `description` is the Chart.yaml or plugin.yaml in the archive.
    """
    provenance = archive.with_name(f"{archive.name}.prov")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    text = f"{description.read_text(encoding='utf-8')}\n...\nfiles:\n  {archive.name}: sha256:{digest}\n"
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--clearsign", "--output", str(provenance)]
    subprocess.run(command, input=text.encode(), check=True)
    return provenance


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a new .tgz file for writing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Pass "" and 0, because gzip stores the file's name and its time, and both would change the bytes.
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        yield archive


def _version(description: Path) -> str:
    found = re.search(r"^version: (\S+)$", description.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{description} has no version"
    return found[1]


def _of_the_top(content: bytes) -> bytes:
    for program in PROGRAMS:
        content = content.replace(program.encode(), f"/{NAME}{program}".encode())
    return content


def _below(path: Path) -> Iterator[Path]:
    """Yield the paths below a folder in a fixed order, each folder before the paths in it."""
    yield path
    if path.is_dir():
        names = {child.name for child in path.iterdir()}
        for name in sorted(names.difference(_left_out(str(path), list(names)))):
            yield from _below(path / name)


def _left_out(folder: str, names: Sequence[str]) -> list[str]:
    """Return the names in a folder that are left out of the archive.

    For a symbolic link, check whether git tracks the file to which it points.
    """
    tracked = _tracked(REPOSITORY)
    # If git tracks no file of this folder, the folder is a copy of the sources outside the repository.
    if Path(folder).resolve() not in tracked:
        return list(LEFT_OUT)
    return [*LEFT_OUT, *(name for name in names if Path(folder, name).resolve() not in tracked)]


@functools.cache
def _tracked(repository: Path) -> frozenset[Path]:
    """Return the files that git tracks, and the folders above them. Outside a git repository, return an empty set."""
    command = ["git", "-C", str(repository), "ls-files", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return frozenset()
    files = [repository.resolve() / name for name in listed.split("\0") if name]
    return frozenset(path for file in files for path in (file, *file.parents))


def _add(archive: tarfile.TarFile, name: str, source: Path, content: bytes | None) -> None:
    """Add a file to the archive (a folder if `content` is None), with owner 0 and time 0."""
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    entry.mode = _mode(source)
    entry.size = len(content or b"")
    archive.addfile(entry, BytesIO(content or b""))


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644


if __name__ == "__main__":
    main()
