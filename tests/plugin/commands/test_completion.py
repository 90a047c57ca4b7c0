"""Test shell completion through the program, Helm and bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distrain import cli
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.plugin.fake_api import FakeApi, release_secret, releases

FILES, NO_FILES, NO_FILES_NO_SPACE = ":0", ":4", ":6"


def _candidates(printed: str) -> tuple[list[str], str]:
    *lines, directive = printed.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["de"], (["derive"], NO_FILES), id="command"),
        pytest.param(["--v"], (["--version"], NO_FILES), id="flag-of-the-program"),
        pytest.param(["check", "--man"], (["--manifest"], NO_FILES), id="flag"),
        pytest.param(["check", "-o", ""], (["text", "json", "yaml", "markdown"], NO_FILES), id="choice"),
        pytest.param(["check", "--output=j"], (["--output=json"], NO_FILES), id="joined-choice"),
        pytest.param(["check", "--output", "=", "j"], (["json"], NO_FILES), id="choice-parted-by-bash"),
        pytest.param(["check", "-f", ""], ([], FILES), id="file"),
        pytest.param(["check", "run1", "-f", "run.yaml", "--man"], (["--manifest"], NO_FILES), id="after-a-value"),
        pytest.param(["install", ""], ([], NO_FILES), id="new-name"),
        pytest.param(["install", "run1", "--dry-run", ""], ([], FILES), id="chart"),
        pytest.param(["completion", "z"], (["zsh"], NO_FILES), id="positional-choice"),
        pytest.param(["check", "--set", "workers.repl"], (["workers.replicas="], NO_FILES_NO_SPACE), id="value"),
        pytest.param(["cluster", "--instance", "p5"], (["p5.48xlarge", "p5en.48xlarge"], NO_FILES), id="instance"),
        pytest.param(["nonsense", "-x", "nothing"], ([], NO_FILES), id="nothing"),
    ],
)
def test_what_may_stand_there(
    words: list[str], expected: tuple[list[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["__complete", *words]) == 0

    printed = capsys.readouterr()
    assert (_candidates(printed.out), printed.err) == (expected, "")


def test_candidates_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["__complete", "ins"])

    assert capsys.readouterr().out == ("install\tCheck that the job fits, then install it as a new release.\n:4\n")


@pytest.mark.parametrize(
    ("command", "expected"),
    [pytest.param("check", ["run1"], id="of-a-release"), pytest.param("install", [], id="of-a-new-release")],
)
def test_releases_are_those_of_the_cluster(
    command: str,
    expected: list[str],
    api: FakeApi,
    helm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm))
    # On a busy machine, Helm may need more than the 2 s that a user waits for the list of releases.
    monkeypatch.setattr("distrain.commands.completion.PATIENCE_S", 100)
    secrets = releases(release_secret("run1", "deployed"), release_secret("other", "deployed"))
    api.answers |= {"/version": {"gitVersion": "v1.34.4"}, "/api/v1/namespaces/mine/secrets": secrets}

    cli.run(["__complete", command, "-n", "mine", "--kubeconfig", str(api.kubeconfig(tmp_path)), "r"])

    assert _candidates(capsys.readouterr().out) == (expected, NO_FILES)


@pytest.mark.parametrize("missing", [pytest.param("cluster", id="no-cluster"), pytest.param("helm", id="no-helm")])
def test_releases_that_cannot_be_read_are_none(
    missing: str, helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", "/nowhere/helm" if missing == "helm" else str(helm4))

    assert cli.run(["__complete", "check", ""]) == 0
    assert capsys.readouterr() == (":4\n", "")


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugin as a symbolic link to its folder, as Helm does for a local folder.

    The plugin runs with the tests' Python.
    """
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    for name in ("bin", "plugin.yaml", "plugin.complete", "requirements.txt", "distrain", "__main__.py"):
        (plugin / name).symlink_to(REPOSITORY / "plugin" / name)
    shutil.copytree(REPOSITORY / "plugin" / "bin", tmp_path / "bin")
    (plugin / "bin").unlink()
    (tmp_path / "bin").rename(plugin / "bin")
    python = plugin / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    shutil.copy(REPOSITORY / "plugin" / "requirements.txt", plugin / ".venv" / "requirements.txt")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "distrain").symlink_to(plugin)
    monkeypatch.setenv("HELM_PLUGINS", str(tmp_path / "plugins"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["de"], (["derive"], NO_FILES), id="command"),
        pytest.param(["check", "--man"], (["--manifest"], NO_FILES), id="flag"),
        pytest.param(["check", "-o", "j"], (["json"], NO_FILES), id="choice"),
        pytest.param(["derive", "-f", ""], ([], FILES), id="file"),
        pytest.param(["install", "run1", "--wa"], (["--wait", "--wait-for"], NO_FILES), id="after-a-name"),
        # Helm handles its own flags itself, and passes all other flags to the plugin.
        pytest.param(["--namespace", "team", "check", "--man"], (["--manifest"], NO_FILES), id="after-helms-flag"),
    ],
)
def test_helm_completes_the_plugin(
    plugins: None, helm: Path, words: list[str], expected: tuple[list[str], str]
) -> None:
    asked = subprocess.run([helm, "__complete", "distrain", *words], capture_output=True, text=True, check=True)

    assert _candidates(asked.stdout) == expected


def test_helm_completes_the_releases(plugins: None, helm: Path, api: FakeApi, tmp_path: Path) -> None:
    api.answers |= {
        "/version": {"gitVersion": "v1.34.4"},
        "/api/v1/namespaces/team/secrets": releases(release_secret("run1", "deployed")),
    }
    environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig(tmp_path))}

    answers: list[tuple[list[str], str]] = []

    def is_completed() -> bool:
        asked = subprocess.run(
            [helm, "__complete", "distrain", "check", ""], capture_output=True, text=True, check=True, env=environment
        )
        answers.append(_candidates(asked.stdout))
        return bool(answers[-1][0])

    # On a busy machine, Helm may need more than the 2 s that the plugin waits for the list of releases. Then a user
    # presses Tab again.
    wait_until("a release", is_completed)
    assert answers[-1] == (["run1"], NO_FILES)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param("distrain de", ["derive"], id="command"),
        pytest.param("distrain check --output ", ["text", "json", "yaml", "markdown"], id="choice"),
        pytest.param("distrain check --output=j", ["json"], id="joined-choice"),
        pytest.param("distrain check -f ru", [], id="file"),
    ],
)
def test_bash_completes_the_program(typed: str, expected: list[str], tmp_path: Path) -> None:
    program = tmp_path / "distrain"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -E {REPOSITORY / "plugin"} "$@"\n')
    program.chmod(0o755)
    words = typed.replace("=", " = ").split(" ")
    script = (
        "compopt() { :; }\n"
        'source <(distrain completion bash)\nCOMP_WORDS=("$@") COMP_CWORD=$(($# - 1))\n_distrain\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )

    asked = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )

    assert (asked.stdout.split(), asked.stderr) == (expected, "")
