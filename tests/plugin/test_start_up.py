"""What a command costs before it does anything: whoever asks for help or derives waits for nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import golang

REPOSITORY = Path(__file__).resolve().parents[2]
GIVEN = Path(__file__).with_name("golden") / "given.yaml"
# Each takes as long to import as Python to start, or several times that.
CLUSTER = {"kubernetes", "urllib3", "ssl", "distrain.cluster"}
HELM = {"pyhelm3", "pydantic", "asyncio"}
SCHEMA = {"jsonschema"}
WORK = {"yaml", "msgspec", "dataclasses", "subprocess", "tempfile"}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        pytest.param(["--help"], CLUSTER | HELM | SCHEMA | WORK, id="help"),
        pytest.param(["check", "--help"], CLUSTER | HELM | SCHEMA | WORK, id="help-of-a-command"),
        pytest.param(["derive", "-f", str(GIVEN), "--node-gpus", "8"], CLUSTER | HELM | SCHEMA, id="derive"),
    ],
)
def test_command_imports_nothing_that_it_does_not_need(arguments: list[str], unwanted: set[str]) -> None:
    command = [sys.executable, "-I", "-X", "importtime", str(REPOSITORY / "plugin"), *arguments]
    environment = {**os.environ, "HELM_BIN": str(golang.binary("helm4"))}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert unwanted & imported == set()


def test_derive_runs_helm_once_for_what_it_is_given_and_once_for_what_it_gives(tmp_path: Path) -> None:
    log = tmp_path / "log"
    helm = tmp_path / "helm"
    helm.write_text(f'#!/bin/sh\necho "$1 $2" >>{log}\nexec {golang.binary("helm4")} "$@"\n')
    helm.chmod(0o755)
    command = [sys.executable, "-I", str(REPOSITORY / "plugin"), "derive", "-f", str(GIVEN), "--node-gpus", "8"]

    subprocess.run(command, env={**os.environ, "HELM_BIN": str(helm)}, check=True, stdout=subprocess.DEVNULL)

    assert log.read_text().splitlines() == ["template values", "template derive"]
