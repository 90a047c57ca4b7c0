"""Test the commands behind the Makefile's targets, without a cluster."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from lab import __main__ as commands
from lab.cluster import namespaces
from lab.cluster.operators import DEFAULT, NONE, Operators
from lab.paths import REPOSITORY

LISTED = "import sys, lab.__main__; print(*sorted({'sklearn', 'scipy', 'boto3'} & set(sys.modules)))"


def test_commands_of_the_cluster_load_no_library_of_the_demo() -> None:
    loaded = subprocess.run([sys.executable, "-c", LISTED], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []


def _up_on_a_running_lab(
    monkeypatch: pytest.MonkeyPatch, installed: Operators, ends: bool, **given: str
) -> list[Operators]:
    """Run `up` on a fake lab that has these operators. Return the operators that it installs."""
    switched: list[Operators] = []
    fake = SimpleNamespace(
        installed=lambda: installed, programs=lambda _: (), ends_jobs=lambda _: ends, switch=switched.append
    )
    tool = SimpleNamespace(PROGRAMS=(), CONTROLLERS=(), start=lambda: None)
    monkeypatch.setattr(commands, "operators", fake)
    monkeypatch.setattr(commands, "GITOPS", {"flux": tool})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))
    commands.up(**given)
    return switched


@pytest.mark.parametrize(
    ("installed", "given", "wanted"),
    [
        pytest.param(Operators(training=False), {}, DEFAULT, id="after-the-demo"),
        pytest.param(Operators("v1"), {}, DEFAULT, id="after-another-version"),
        pytest.param(NONE, {}, DEFAULT, id="after-none"),
        pytest.param(DEFAULT, {"mpijob": "v1"}, Operators("v1"), id="named"),
        pytest.param(DEFAULT, {"mpijob": "none"}, NONE, id="none-is-named"),
        pytest.param(DEFAULT, {}, None, id="nothing-lacks"),
        pytest.param(Operators("v1"), {"gitops": "flux"}, None, id="gitops-alone-keeps-the-operators"),
        pytest.param(Operators("v1"), {"gitops": "flux", "mpijob": "v2beta1"}, DEFAULT, id="gitops-and-named"),
    ],
)
def test_running_lab_gets_the_operators_of_a_new_one(
    monkeypatch: pytest.MonkeyPatch, installed: Operators, given: dict[str, str], wanted: Operators | None
) -> None:
    assert _up_on_a_running_lab(monkeypatch, installed, ends=True, **given) == ([wanted] if wanted else [])


@pytest.mark.parametrize(
    ("ends", "words"),
    [(False, "  operators are added; no job"), (True, "  operators are replaced, which ends their jobs")],
)
def test_lab_says_whether_new_operators_end_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends: bool, words: str
) -> None:
    _up_on_a_running_lab(monkeypatch, Operators(training=False), ends)

    assert capsys.readouterr().out.startswith(words)


def test_start_of_a_gitops_tool_says_what_starts_and_where_git_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = SimpleNamespace(PROGRAMS=(), CONTROLLERS=(), start=lambda: None)
    monkeypatch.setattr(commands, "GITOPS", {"flux": nothing})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))

    commands.up(gitops="flux")

    shown = capsys.readouterr().out
    assert shown.startswith("  flux ... ")
    assert "the repositories in /var/lib/distrain-lab/git are at http://10.213.0.2:7080/NAME" in shown


def test_start_of_a_gitops_tool_ends_the_other_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    def tool(name: str) -> SimpleNamespace:
        ways = {"start": lambda: done.append(f"start {name}"), "stop": lambda: done.append(f"stop {name}")}
        return SimpleNamespace(PROGRAMS=(), CONTROLLERS=(name,), **ways)

    monkeypatch.setattr(commands, "GITOPS", {name: tool(name) for name in ("argocd", "flux", "other")})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))
    monkeypatch.setattr(commands, "namespaces", SimpleNamespace(is_running=lambda name: name in ("argocd", "flux")))

    commands.up(gitops="flux")

    assert done == ["stop argocd", "start flux"]
    assert capsys.readouterr().out.startswith("  argocd ends; its objects in the cluster and the jobs")


@pytest.mark.parametrize(
    ("given", "runs", "loaded", "shown"),
    [
        pytest.param((), True, ["distrain/mxnet"], "distrain/mxnet: a.tar\n", id="lab-runs"),
        pytest.param((), False, [], "distrain/mxnet: a.tar\n", id="no-lab"),
        # The demo prints other lines while the image is built.
        pytest.param(("--only-build",), True, [], "", id="for-the-demo"),
    ],
)
def test_built_images_are_loaded_into_a_running_lab(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    runs: bool,
    loaded: list[str],
    shown: str,
) -> None:
    found: list[str] = []
    built = SimpleNamespace(trainer_image=lambda name: SimpleNamespace(reference=f"distrain/{name}", archive="a.tar"))
    monkeypatch.setattr(commands, "images", built)
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: runs))
    monkeypatch.setattr(commands, "client", SimpleNamespace(load_image=lambda image: found.append(image.reference)))

    monkeypatch.setattr(sys, "argv", ["lab", "images", "mxnet", *given])
    monkeypatch.setattr(namespaces, "STOPPING", ())  # leave the signals of pytest alone

    assert commands.main() == 0
    assert found == loaded
    assert capsys.readouterr().out == shown
