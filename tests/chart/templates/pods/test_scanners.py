"""Test that two manifest scanners accept the pods of values/, alone and with each profile.

scanner-exceptions.yaml lists the checks that may fail, with reasons. Each scanner runs only once, on all pods together.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab.builds import golang, scanners
from tests.chart import expansion
from tests.chart.profiles.pairs import FILES, PROFILES, pods

EXCEPTIONS = yaml.safe_load((Path(__file__).parent / "scanner-exceptions.yaml").read_text(encoding="utf-8"))
# The id of the failed check, and the name of the scanned file without its extension.
Failure = tuple[str, str]
# A pod that every scanner refuses.
BAD = """
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: team}
spec: {hostPID: true, containers: [{name: a, image: b, securityContext: {privileged: true}}]}
"""


def checkov(folder: Path) -> set[Failure]:
    """Return the failed checks of checkov. Nothing is downloaded."""
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
    # checkov skips hidden folders by default, and the scanned folder may be inside one, such as ~/.cache.
    hidden = {"CKV_IGNORE_HIDDEN_DIRECTORIES": "false"}
    environment = {**os.environ, **hidden, "BC_SKIP_MAPPING": "TRUE", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    failures = json.loads(done.stdout)["results"]["failed_checks"]
    return {(failed["check_id"], Path(failed["file_path"]).stem) for failed in failures}


def kube_score(folder: Path) -> set[Failure]:
    """Return the failed checks of kube-score, which cannot distinguish two objects of the same name."""
    command = [str(scanners.kube_score()), "score", "--output-format", "json", *map(str, sorted(folder.glob("*.yaml")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = [
        (check, Path(scored["file_name"]).stem) for scored in json.loads(done.stdout) for check in scored["checks"]
    ]
    return {(check["check"]["id"], file) for check, file in checks if check["grade"] < 10 and not check["skipped"]}


SCANNERS: dict[str, Callable[[Path], set[Failure]]] = {"checkov": checkov, "kube-score": kube_score}


def write_profiles(folder: Path) -> None:
    """For each profile, write a file with the distinct pods of all files in values/."""
    for profile in PROFILES:
        shapes = pods(golang.binary("helm4"), profile)
        for number, pod in enumerate(shapes):
            pod["metadata"]["name"] = f"{profile}-{number}"
        (folder / f"{profile}.yaml").write_text(yaml.safe_dump_all(shapes, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[Failure]]:
    """Return a function that takes a scanner's name and returns its failed checks. Each scanner runs only once."""
    folder = tmp_path_factory.mktemp("expanded")
    expansion.write(folder)
    write_profiles(folder)
    (folder / "bad.yaml").write_text(BAD, encoding="utf-8")
    return functools.cache(lambda name: SCANNERS[name](folder))


@pytest.mark.parametrize("name", SCANNERS)
def test_scanner_finds_nothing_but_the_exceptions_and_all_of_them(
    name: str, failures: Callable[[str], set[Failure]]
) -> None:
    found = {check for check, file in failures(name) if file in FILES}

    assert found == set(EXCEPTIONS[name])


@pytest.mark.parametrize("name", SCANNERS)
def test_profile_adds_nothing_but_its_exceptions_and_all_of_them(
    name: str, failures: Callable[[str], set[Failure]]
) -> None:
    excepted = {(check, file) for check, each in EXCEPTIONS["profiles"][name].items() for file in each["in"]}

    found = {(check, file) for check, file in failures(name) if file in PROFILES and check not in EXCEPTIONS[name]}

    assert found == excepted


@pytest.mark.parametrize(
    ("name", "check"), [("checkov", "CKV_K8S_16"), ("kube-score", "container-security-context-privileged")]
)
def test_scanner_would_find_a_privileged_container(
    name: str, check: str, failures: Callable[[str], set[Failure]]
) -> None:
    assert (check, "bad") in failures(name)
