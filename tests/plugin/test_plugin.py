"""The plugin as Helm installs it. Slow: pip fills a real virtual environment, once for both Helms."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "plugin"
# Found before a fixture gives each test a home of its own: pip need not download everything anew.
PIP_CACHE = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))}

pytestmark = pytest.mark.install


@dataclass(frozen=True)
class Checkout:
    """A copy of the plugin and the chart beside it."""

    folder: Path

    @property
    def plugin(self) -> Path:
        return self.folder / "plugin"

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return _run([str(self.plugin / "bin" / "setup")], **environment)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return _copy(tmp_path_factory.mktemp("checkout"))


def _copy(folder: Path) -> Checkout:
    without_environment = shutil.ignore_patterns(".venv*", "__pycache__")
    shutil.copytree(PLUGIN, folder / "plugin", ignore=without_environment)
    shutil.copytree(REPOSITORY / "charts", folder / "charts")
    return Checkout(folder)


def _run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **PIP_CACHE, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_helm_installs_the_plugin_and_runs_it(helm: Path, checkout: Checkout, tmp_path: Path) -> None:
    homes = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("DATA", "CONFIG", "CACHE")}

    installed = _run([str(helm), "plugin", "install", str(checkout.plugin)], **homes)

    assert installed.returncode == 0, installed.stderr
    listed = _run([str(helm), "plugin", "list"], **homes)
    assert "distrain" in listed.stdout
    # A user's PYTHONPATH has no say in the plugin; Helm's own flags reach it through the environment.
    refused = _run(
        [str(helm), "distrain", "check", "--set", "workers.replica=3", "--namespace", "team"],
        **homes,
        PYTHONPATH="/nonsense",
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "distrain: workers.replica: there is no such value; did you mean workers.replicas?\n"
    )
    helped = _run([str(helm), "distrain", "--help"], **homes)
    assert helped.stdout.startswith("usage: helm distrain ")
    assert "derive" in helped.stdout


def test_setup_makes_nothing_new_while_the_list_is_the_same(checkout: Checkout) -> None:
    assert checkout.setup().returncode == 0
    made = (checkout.plugin / ".venv").stat().st_ino

    again = checkout.setup()

    assert (again.returncode, again.stderr) == (0, "")
    assert (checkout.plugin / ".venv").stat().st_ino == made


def test_setup_that_fails_leaves_what_was_there(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.setup().returncode == 0
    requirements = checkout.plugin / "requirements.txt"
    right = requirements.read_text()
    requirements.write_text("no-such-package==1 --hash=sha256:00\n")
    try:
        failed = checkout.setup(PIP_NO_INDEX="1")
        refused = _run([str(checkout.plugin / "bin" / "distrain"), "--version"])
    finally:
        requirements.write_text(right)

    assert failed.returncode == 1
    assert "distrain: pip could not install the packages of " in failed.stderr
    assert not (checkout.plugin / ".venv.new").exists()
    assert refused.returncode == 4
    assert refused.stderr.startswith("distrain: the plugin's Python environment is missing or outdated; run /")
    assert _run([str(checkout.plugin / "bin" / "distrain"), "--version"]).stdout == "0.1.0\n"


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
def test_setup_says_in_one_line_what_python_lacks(tmp_path: Path, python: str, words: str) -> None:
    copy = _copy(tmp_path / "checkout")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "cmp", "cp", "mv", "rm"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if python:
        (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (tools / "python3").chmod(0o755)

    refused = copy.setup(PATH=str(tools))

    assert (refused.returncode, refused.stderr) == (1, f"distrain: {words}\n")
    assert not (copy.plugin / ".venv").exists()


def test_plugin_file_has_only_what_both_helms_read() -> None:
    # A key that Helm 3 does not know makes it load no plugin at all.
    fields = yaml.safe_load((PLUGIN / "plugin.yaml").read_text())

    assert set(fields) == {
        *("name", "version", "usage", "description", "ignoreFlags", "platformCommand", "platformHooks"),
    }
