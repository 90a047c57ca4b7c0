"""Test the packaged plugin: its archive, and its installation by Helm and pip.

The tests are slow, because pip fills two real virtual environments: one for the test of the wheel, and one for all
other tests. By default, one test runs for each kind of installation. In the full matrix, further tests do the same
installation in other ways.
"""

from __future__ import annotations

import hashlib
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from lab.builds import golang, package
from lab.paths import REPOSITORY
from tests.matrix import one_of
from tests.plugin.package import signing
from tests.plugin.package.unpacked import Plugin, plugin_of, run

PLUGIN = REPOSITORY / "plugin"

pytestmark = pytest.mark.install


@dataclass(frozen=True)
class Handout:
    """A signed archive, the keyring that verifies it, and the URL at which a web server offers the archive."""

    archive: Path
    keyring: Path
    url: str


@pytest.fixture(scope="session")
def handout(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Handout]:
    """Sign the archive with a temporary key, and serve it on loopback."""
    keyring = signing.sign({archive: PLUGIN / "plugin.yaml"}, tmp_path_factory.mktemp("keys"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(archive.parent))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Handout(archive, keyring, f"http://127.0.0.1:{server.server_port}/{archive.name}")
        server.shutdown()


class _Files(http.server.SimpleHTTPRequestHandler):
    """Serves files with the content type by which Helm 3 recognizes an archive."""

    extensions_map = {".tgz": "application/gzip"}  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class HelmHome:
    """A Helm with its own data, configuration and cache folders."""

    helm: Path
    root: Path
    environment: dict[str, str]

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        homes = {f"HELM_{kind}_HOME": str(self.root / kind) for kind in ("DATA", "CONFIG", "CACHE")}
        self.root.mkdir(exist_ok=True)
        return run([str(self.helm), *arguments], cwd=self.root, **homes, **self.environment, **environment)

    def left(self) -> list[str]:
        """Return the files in the plugin folders of this Helm."""
        return [str(path.relative_to(self.root)) for path in self.root.glob("*/plugins/*")]


@pytest.fixture
def home(helm: Path, environment: dict[str, str], tmp_path: Path) -> HelmHome:
    return HelmHome(helm, tmp_path / "helm", environment)


@pytest.fixture
def home4(helm4: Path, environment: dict[str, str], tmp_path: Path) -> HelmHome:
    return HelmHome(helm4, tmp_path / "helm", environment)


def test_same_files_make_the_same_archive(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The copy looks like another checkout: it has other times, group-writable files, and caches of an earlier run.
    copy = tmp_path / "plugin"
    shutil.copytree(PLUGIN, copy, copy_function=shutil.copy, ignore=shutil.ignore_patterns(".venv*"))
    (copy / "distrain" / "__pycache__").mkdir(exist_ok=True)
    (copy / "distrain" / "__pycache__" / "cli.pyc").write_text("compiled")
    (copy / "plugin.yaml").chmod(0o664)
    monkeypatch.setattr(package, "PLUGIN", copy)

    again = package.write(tmp_path)

    assert again.name == archive.name == "distrain-0.1.0.tgz"
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(archive.read_bytes()).digest()


def test_helm_installs_the_unpacked_archive_and_runs_it(home: HelmHome, plugin: Plugin) -> None:
    installed = home.run("plugin", "install", str(plugin.folder))

    assert installed.returncode == 0, installed.stderr
    assert "distrain" in home.run("plugin", "list").stdout
    # The plugin must not use the PYTHONPATH of the user. Helm passes its own flags to the plugin in environment
    # variables.
    refused = home.run(
        *("distrain", "check", "--set", "workers.replica=3", "--namespace", "team"),
        PYTHONPATH="/nonsense",
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "distrain: workers.replica: there is no such value; did you mean workers.replicas?\n"
    )
    helped = home.run("distrain", "--help")
    assert helped.stdout.startswith("usage: helm distrain ")
    assert "derive" in helped.stdout
    _runs(home)
    assert home.run("plugin", "uninstall", "distrain").returncode == 0
    assert home.left() == []


@pytest.mark.parametrize("helm", one_of(["helm4", "helm3"]), indirect=True)
def test_helm_installs_the_archive_from_the_web_again_and_again(home: HelmHome, handout: Handout) -> None:
    # Helm 3 has no --keyring here, because it does not verify the signatures of plugins.
    flags = ["--keyring", str(handout.keyring)] if "helm4" in home.helm.name else []
    for _ in range(2):
        installed = home.run("plugin", "install", handout.url, *flags)
        works = home.run("distrain", "--version")
        removed = home.run("plugin", "uninstall", "distrain")

        assert installed.returncode == 0, installed.stderr
        assert ("Signed by: distrain test" in installed.stdout) == bool(flags)
        assert works.stdout == "0.1.0\n"
        assert removed.returncode == 0, removed.stderr
        assert home.left() == []


@pytest.mark.full
def test_helm_4_installs_the_signed_file(home4: HelmHome, handout: Handout) -> None:
    installed = home4.run("plugin", "install", str(handout.archive), "--keyring", str(handout.keyring))

    assert installed.returncode == 0, installed.stderr
    assert "Plugin Hash Verified: sha256:" in installed.stdout
    _runs(home4)
    assert home4.run("plugin", "uninstall", "distrain").returncode == 0
    assert home4.left() == []


def test_helm_4_refuses_an_archive_that_was_changed(home4: HelmHome, handout: Handout, tmp_path: Path) -> None:
    changed = tmp_path / handout.archive.name
    changed.write_bytes(handout.archive.read_bytes() + b"x")
    shutil.copy(f"{handout.archive}.prov", tmp_path)

    refused = home4.run("plugin", "install", str(changed), "--keyring", str(handout.keyring))

    assert refused.returncode == 1
    assert "sha256 sum does not match" in refused.stderr
    assert home4.left() == []


def _runs(home: HelmHome) -> None:
    rendered = home.run("distrain", "template", "run1", "--offline")
    values = home.root / "values.yaml"
    values.write_text("gpus: 16\n")
    derived = home.run("distrain", "derive", "-f", str(values), "--node-gpus", "8")

    assert rendered.returncode == 0, rendered.stderr
    assert "MPIJob" in [document["kind"] for document in yaml.safe_load_all(rendered.stdout)]
    assert derived.returncode == 0, derived.stderr
    assert yaml.safe_load(derived.stdout) == {"gpus": 16, "workers": {"replicas": 2, "gpus": 8, "shm": "8Gi"}}


def test_setup_makes_nothing_new_while_the_list_is_the_same(plugin: Plugin) -> None:
    made = (plugin.folder / ".venv").stat().st_ino

    again = plugin.setup()

    assert (again.returncode, again.stderr) == (0, "")
    assert (plugin.folder / ".venv").stat().st_ino == made


@pytest.mark.full
def test_setup_adds_the_libraries_of_the_report_on_request_and_keeps_them(plugin: Plugin, tmp_path: Path) -> None:
    # Install the libraries into a copy, because the other tests need an environment without them.
    copy = Plugin(Path(shutil.copytree(plugin.folder, tmp_path / "copy", symlinks=True)))
    record = tmp_path / "run1" / "record.jsonl"
    record.parent.mkdir()
    record.write_text('{"event": "step", "step": 1, "loss": 0.5}\n{"event": "step", "step": 2, "loss": 0.4}\n')
    command = [copy.program, "report", str(record.parent), "-o", str(tmp_path / "report")]
    refused = run(command)
    added = run([str(copy.folder / "bin" / "setup"), "report"])
    made = (copy.folder / ".venv").stat().st_ino

    again, done = copy.setup(), run(command)

    assert refused.returncode == 4
    assert refused.stderr.endswith(f"run `{copy.folder}/bin/setup report`\n")
    assert added.returncode == 0, added.stderr
    assert (again.returncode, again.stderr, (copy.folder / ".venv").stat().st_ino) == (0, "", made)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.png").exists()


def test_setup_that_fails_leaves_what_was_there(plugin: Plugin, environment: dict[str, str]) -> None:
    requirements = plugin.folder / "requirements.txt"
    right = requirements.read_text()
    requirements.write_text("no-such-package==1 --hash=sha256:00\n")
    try:
        failed = plugin.setup(PIP_NO_INDEX="1", **environment)
        refused = run([plugin.program, "--version"])
    finally:
        requirements.write_text(right)

    assert failed.returncode == 1
    assert "distrain: pip could not install the packages of " in failed.stderr
    assert failed.stderr.endswith(f"; then run {plugin.folder}/bin/setup\n")
    assert not (plugin.folder / ".venv.new").exists()
    assert refused.returncode == 4
    assert refused.stderr.startswith("distrain: the plugin's Python environment is missing or outdated; run /")
    assert run([plugin.program, "--version"]).stdout == "0.1.0\n"


@pytest.mark.full
def test_setup_rebuilds_the_environment_of_a_removed_python(
    archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    copy = plugin_of(archive, tmp_path)
    assert copy.setup(**environment).returncode == 0
    for python in (copy.folder / ".venv" / "bin").glob("python*"):
        python.unlink()
        python.symlink_to("/gone/python3")

    refused = run([copy.program, "--version"])

    setup = copy.folder / "bin" / "setup"
    words = f"distrain: the plugin's Python environment is missing or outdated; run {setup}\n"
    assert (refused.returncode, refused.stderr) == (4, words)
    assert copy.setup(**environment).returncode == 0
    assert run([copy.program, "--version"]).stdout == "0.1.0\n"


def test_python_without_the_packages_is_told_of(archive: Path, tmp_path: Path) -> None:
    copy = plugin_of(archive, tmp_path)
    # After an upgrade of the system's Python, the virtual environment has no packages for the new version. Simulate
    # this.
    python = copy.folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (copy.folder / ".venv" / "lib").mkdir()
    python.write_text(f'#!/bin/sh\nexec {shutil.which("python3")} -S "$@"\n')
    python.chmod(0o755)
    shutil.copy(copy.folder / "requirements.txt", copy.folder / ".venv")

    refused = run([copy.program, "doctor"])

    assert refused.returncode == 4
    assert refused.stderr.endswith(f"; run {copy.folder}/bin/setup\n")
    assert "has no package " in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("python", "words"),
    [
        pytest.param("", "python3 is not on the PATH; install Python 3.10 or newer", id="missing"),
        pytest.param(
            '[ "$1" = --version ] && echo Python 3.9.2; exit 1',
            "Python 3.9.2 is too old; install Python 3.10 or newer and put it first on the PATH",
            id="too-old",
        ),
        pytest.param(
            'case "$2" in *venv*) exit 1;; esac',
            "python3 lacks its venv module; install it (Debian and Ubuntu: apt-get install python3-venv)",
            id="without-venv",
        ),
    ],
)
def test_setup_says_in_one_line_what_python_lacks(archive: Path, tmp_path: Path, python: str, words: str) -> None:
    copy = plugin_of(archive, tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "cmp", "cp", "mv", "rm"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if python:
        (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (tools / "python3").chmod(0o755)

    refused = copy.setup(PATH=str(tools))

    words = f"distrain: {words}; then run {copy.folder}/bin/setup\n"
    assert (refused.returncode, refused.stderr) == (1, words)
    assert not (copy.folder / ".venv").exists()


def test_pip_installs_the_program_with_its_chart(environment: dict[str, str], tmp_path: Path) -> None:
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=REPOSITORY).stdout
    source = tmp_path / "source"
    for name in filter(None, listed.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / name).exists():
            shutil.copy(REPOSITORY / name, source / name, follow_symlinks=False)
    python = tmp_path / "venv" / "bin" / "python"
    assert run(["python3", "-m", "venv", str(tmp_path / "venv")], None, **environment).returncode == 0
    installed = run([str(python), "-m", "pip", "install", "--quiet", str(source)])
    assert installed.returncode == 0, installed.stderr
    shutil.rmtree(source)
    helm = {"HELM_BIN": str(golang.binary("helm4"))}

    rendered = run([str(python.with_name("distrain")), "template", "run1", "--offline"], cwd=tmp_path, **helm)
    helped = run([str(python), "-m", "distrain", "check", "--help"], cwd=tmp_path)

    assert rendered.returncode == 0, rendered.stderr
    assert "MPIJob" in [document["kind"] for document in yaml.safe_load_all(rendered.stdout)]
    assert helped.stdout.startswith("usage: distrain check ")


def test_plugin_file_has_only_what_both_helms_read() -> None:
    # If a plugin.yaml has an unknown key, Helm 3 does not load any plugin.
    fields = yaml.safe_load((PLUGIN / "plugin.yaml").read_text())

    assert set(fields) == {
        *("name", "version", "usage", "description", "ignoreFlags", "platformCommand", "platformHooks"),
    }
