"""Test that commands start fast: they import only the modules that they need, and start Helm early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distrain import cli
from lab.builds import golang
from lab.paths import REPOSITORY

GIVEN = Path(__file__).with_name("golden") / "given.yaml"
# To import one of these modules takes at least as long as to start Python.
CLUSTER = {"kubernetes", "urllib3", "ssl", "distrain.apiserver.cluster"}
HELM = {"pyhelm3", "pydantic", "asyncio"}
SCHEMA = {"jsonschema"}
CHECK = {"distrain.check", "distrain.solver", "distrain.derive.measured"}
# Only typing_extensions imports this module. msgspec imports typing_extensions, but needs only names that typing also
# has.
SPARED = {"inspect"}
WORK = {"yaml", "msgspec", "dataclasses", "subprocess", "tempfile"}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        pytest.param(["--help"], CLUSTER | HELM | SCHEMA | WORK, id="help"),
        pytest.param(["check", "--help"], CLUSTER | HELM | SCHEMA | WORK, id="help-of-a-command"),
        pytest.param(
            ["derive", "-f", str(GIVEN), "--node-gpus", "8"], CLUSTER | HELM | SCHEMA | CHECK | SPARED, id="derive"
        ),
    ],
)
def test_command_imports_nothing_that_it_does_not_need(arguments: list[str], unwanted: set[str]) -> None:
    imported = _imported(arguments)

    assert "argparse" in imported
    assert unwanted & imported == set()


def test_check_of_a_manifest_imports_nothing_that_runs_helm_or_derives(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    containers = "[{name: one, image: a}]"
    manifest.write_text(f"{{apiVersion: v1, kind: Pod, metadata: {{name: one}}, spec: {{containers: {containers}}}}}")

    imported = _imported(["check", "--manifest", str(manifest), "--offline", "--assume-nodes", "1x8"])

    assert "distrain.solver.capacity" in imported
    assert {name for name in imported if name.startswith(("distrain.helm", "distrain.derive"))} == set()


def _imported(arguments: list[str]) -> set[str]:
    command = [sys.executable, "-I", "-X", "importtime", str(REPOSITORY / "plugin"), *arguments]
    environment = {**os.environ, "HELM_BIN": str(golang.binary("helm4"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the path of the file to which each Helm process writes its arguments as a line."""
    return tmp_path / "log"


@pytest.fixture
def helm(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that writes its arguments to the log and then runs the real Helm."""
    helm = tmp_path / "helm"
    helm.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec {golang.binary("helm4")} "$@"\n')
    helm.chmod(0o755)
    monkeypatch.setenv("HELM_BIN", str(helm))
    return helm


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(
    ("arguments", "renderings"),
    [
        pytest.param(["derive", "--node-gpus", "8"], 1, id="derive"),
        pytest.param(["template", "run1", "--offline", "--node-gpus", "8"], 1, id="template"),
        pytest.param(["check", "run1", "--offline", "--assume-nodes", "4x8"], 2, id="check-for-the-nodes-first"),
    ],
)
def test_helm_checks_the_schema_once_and_renders_no_more_than_is_used(
    log: Path, arguments: list[str], renderings: int
) -> None:
    cli.run([*arguments, "-f", str(GIVEN)])

    runs = log.read_text().splitlines()
    # Some Helm processes run in parallel, so the order of their lines in the log may differ.
    is_printing = [run.startswith("template values ") for run in runs]
    assert sorted(is_printing) == [*[False] * renderings, True]
    assert [("--skip-schema-validation" not in run) for run in runs] == is_printing


@pytest.mark.parametrize(
    ("arguments", "earlier", "later"),
    [
        pytest.param(["derive", "--node-gpus", "8"], "values", "derive", id="derive"),
        pytest.param(["check", "run1", "--offline", "--assume-nodes", "4x8"], "derive", "run1", id="check"),
    ],
)
def test_helm_starts_before_its_values_are_known(
    log: Path, helm: Path, arguments: list[str], earlier: str, later: str
) -> None:
    # The Helm process that starts first waits up to 20 s until the other one has started. It fails if the program
    # starts them one after the other.
    started = f"timeout 20 sh -c 'until grep -q \"^template {later} \" {log}; do sleep 0.01; done' || exit"
    helm.write_text(helm.read_text().replace("exec", f'[ "$2" != {earlier} ] || {started}\nexec'))

    assert cli.run([*arguments, "-f", str(GIVEN)]) == 0


def test_helm_that_waits_for_values_is_killed_if_the_command_fails(log: Path, helm: Path) -> None:
    helm.write_text(helm.read_text().replace('"$@"', '"$$ $@"', 1))

    assert cli.run(["derive", "--node-gpus", "8", "-f", str(GIVEN), "--set", "job.enabled=false"]) == 2

    processes = [int(run.split()[0]) for run in log.read_text().splitlines()]
    assert len(processes) > 1
    assert [each for each in processes if Path("/proc", str(each)).exists()] == []
