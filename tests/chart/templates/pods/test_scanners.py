"""Test that two scanners accept the pods of values/. scanner-exceptions.yaml lists the excepted checks with reasons."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab.builds import scanners
from tests.chart import expansion

EXCEPTIONS: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "scanner-exceptions.yaml").read_text(encoding="utf-8")
)
# A pod that every scanner refuses.
BAD = """
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: team}
spec: {hostPID: true, containers: [{name: a, image: b, securityContext: {privileged: true}}]}
"""


def checkov(folder: Path) -> set[str]:
    """Return the ids of the checks that fail. Nothing is downloaded."""
    command = [
        str(scanners.checkov()),
        "-d",
        str(folder),
        "--framework",
        "kubernetes",
        "--skip-download",
        "--compact",
        "-o",
        "json",
    ]
    # The folder may lie below one such as ~/.cache.
    hidden = {"CKV_IGNORE_HIDDEN_DIRECTORIES": "false"}
    environment = {**os.environ, **hidden, "BC_SKIP_MAPPING": "TRUE", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return {failed["check_id"] for failed in json.loads(done.stdout)["results"]["failed_checks"]}


def kube_score(folder: Path) -> set[str]:
    """Return the ids of the checks that fail."""
    command = [str(scanners.kube_score()), "score", "--output-format", "json", *map(str, sorted(folder.glob("*.yaml")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = [check for scored in json.loads(done.stdout) for check in scored["checks"]]
    return {check["check"]["id"] for check in checks if check["grade"] < 10 and not check["skipped"]}


SCANNERS: dict[str, Callable[[Path], set[str]]] = {"checkov": checkov, "kube-score": kube_score}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("expanded")
    expansion.write(folder)
    return folder


@pytest.mark.parametrize("name", SCANNERS)
def test_scanner_finds_nothing_but_the_exceptions_and_all_of_them(name: str, folder: Path) -> None:
    found = SCANNERS[name](folder)

    assert found == set(EXCEPTIONS[name])


@pytest.mark.parametrize(
    ("name", "check"), [("checkov", "CKV_K8S_16"), ("kube-score", "container-security-context-privileged")]
)
def test_scanner_would_find_a_privileged_container(name: str, check: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")

    assert check in SCANNERS[name](tmp_path)
