"""Test the printed commands against stubs of eksctl, gcloud, az, aws, kubectl and helm, which check the arguments."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.builds import golang
from tests.plugin.cloud import stubs
from tests.plugin.cloud.making import PARTS, PROFILES, WHOLE, Make, workers

POOL = {"labels": {"pool": "cpu"}}


def _run(script: str, folder: Path) -> list[list[str]]:
    """Run a shell script with the stubs in its PATH. Return each command that the script ran, as a list of words."""
    (folder / "bin").mkdir()
    log = stubs.write(folder / "bin")
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in log.read_text().splitlines()]


def _sizes(commands: list[list[str]], *begin: str) -> list[str]:
    """For each command that begins with these words, return the flags that set a number of nodes."""
    found = [command for command in commands if command[: len(begin)] == list(begin)]
    return [word for command in found for word in command if "nodes=" in word or word.startswith("--node-count=")]


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        pytest.param(WHOLE, [], id="plain"),
        pytest.param(WHOLE, ["--efa", "--placement-group", "--zone", "us-east-1a,us-east-1b"], id="efa"),
        pytest.param(PARTS, ["--placement-group", "--name", "own"], id="placement-group"),
        pytest.param(workers(tolerations=[], nodeSelector={"pool": "gpu"}), ["--efa"], id="no-taint"),
    ],
)
def test_eksctl_takes_the_commands(make: Make, tmp_path: Path, values: str, arguments: list[str]) -> None:
    outcome = make(values, "-o", "made.yaml", *arguments)

    commands = _run(outcome.out, tmp_path)
    assert ["eksctl", "create", "cluster", "--config-file=made.yaml"] in commands
    assert commands[-1][:3] == ["eksctl", "delete", "cluster"]


def test_comments_of_the_configuration_hold_the_same_commands(make: Make, tmp_path: Path) -> None:
    outcome = make(WHOLE, "-o", "made.yaml", "--efa", "--placement-group")
    (tmp_path / "other").mkdir()
    printed = _run(outcome.out, tmp_path)
    made = (tmp_path / "made.yaml").read_text()
    (tmp_path / "other" / "made.yaml").write_text(made)

    lines = [line[4:] for line in made.splitlines() if line.startswith("#   ")]

    assert _run("\n".join(lines), tmp_path / "other") == printed


def test_group_of_eks_is_scaled_up_before_the_run_and_down_after_it(make: Make, tmp_path: Path) -> None:
    outcome = make(WHOLE, "-o", "made.yaml", "--instance", "p4d.24xlarge")

    commands = _run(outcome.out, tmp_path)

    programs = [command[:3] for command in commands]
    scale = ["eksctl", "scale", "nodegroup"]
    assert programs[-4:] == [scale, ["helm", "distrain", "install"], scale, ["eksctl", "delete", "cluster"]]
    assert _sizes(commands, *scale) == ["--nodes=2", "--nodes=0"]


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        pytest.param(WHOLE, ["--instance", "a2-highgpu-8g"], id="a2"),
        pytest.param(PARTS, ["--placement-group", "--zone", "europe-west4-b"], id="placement"),
        pytest.param(workers(nodeSelector={"pool": "gpu"}) + "launcher: {nodeSelector: {pool: cpu}}", [], id="labels"),
        pytest.param((PROFILES / "gke-a3-mega.yaml").read_text(), [], id="gpudirect"),
    ],
)
def test_gcloud_takes_the_commands(make: Make, tmp_path: Path, values: str, arguments: list[str]) -> None:
    outcome = make(values, "--provider", "gke", *arguments)

    commands = _run(outcome.out, tmp_path)
    resize = ["gcloud", "container", "clusters", "resize"]
    assert _sizes(commands, "gcloud", "container", "node-pools", "create") == ["--num-nodes=0"]
    assert _sizes(commands, *resize)[1] == "--num-nodes=0"
    assert int(_sizes(commands, *resize)[0].partition("=")[2]) > 0


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        pytest.param(WHOLE, [], id="nd"),
        pytest.param(PARTS, ["--placement-group", "--zone", "2", "--region", "westeurope"], id="placement"),
        pytest.param(workers(nodeSelector={"pool": "gpu"}) + "launcher: {nodeSelector: {pool: cpu}}", [], id="labels"),
        pytest.param((PROFILES / "aks-nd-h100-v5.yaml").read_text(), [], id="infiniband"),
    ],
)
def test_az_takes_the_commands(make: Make, tmp_path: Path, values: str, arguments: list[str]) -> None:
    outcome = make(values, "--provider", "aks", *arguments)

    commands = _run(outcome.out, tmp_path)
    assert _sizes(commands, "az", "aks", "nodepool", "add") == ["--node-count=0"]
    assert _sizes(commands, "az", "aks", "nodepool", "scale")[1] == "--node-count=0"
    assert commands[-1][:3] == ["az", "group", "delete"]


def test_group_of_aks_is_placed_in_the_group_that_az_names(make: Make, tmp_path: Path) -> None:
    outcome = make(PARTS, "--provider", "aks", "--placement-group")

    [added] = [command for command in _run(outcome.out, tmp_path) if command[3:4] == ["add"]]

    assert added[-1].startswith("--ppg=/subscriptions/")


@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        pytest.param("eksctl", "grow nodegroup --name=a", "unknown subcommand", id="subcommand"),
        pytest.param("eksctl", "scale nodegroup --cluster=a --name=b --nodes=1 --size=2", "unknown flag", id="flag"),
        pytest.param("gcloud", "container clusters resize a --num-nodes=1", "missing flag: --location", id="missing"),
        pytest.param(
            "az",
            "aks nodepool scale --resource-group=a --cluster-name=b --name= --node-count=1",
            "value",
            id="no-value",
        ),
        pytest.param("gcloud", "container clusters delete --location=b", "1 words expected", id="no-name"),
    ],
)
def test_stub_refuses_what_the_program_does_not_know(program: str, words: str, found: str) -> None:
    assert found in stubs.wrong(program, words.split())


def test_flags_of_eksctls_stub_are_its_own() -> None:
    source = golang.module_dir("eksctl", "github.com/weaveworks/eksctl") / "pkg" / "ctl"
    text = "\n".join(path.read_text() for path in sorted(source.rglob("*.go")) if not path.name.endswith("_test.go"))

    flags = {flag for form in stubs.FORMS["eksctl"].values() for part in form[:3] for flag in part}

    assert {flag for flag in flags if f'"{flag[2:]}"' not in text} == set()
