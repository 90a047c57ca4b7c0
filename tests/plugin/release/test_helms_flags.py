"""Test which arguments are passed on to Helm if the user gives flags of Helm to `install` or `upgrade`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from distrain.apiserver.target import Target
from distrain.helm.program import Source
from distrain.helm.releases import Operation, Releases
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.program import SECRETS, Run

pytestmark = pytest.mark.either_helm

# A fake Helm that records the arguments of install and upgrade. The fake Helm fails if an argument contains the word
# REFUSED.
HELM = """\
#!/bin/sh
case "$1" in
  install | upgrade)
    printf '%s\\n' "$*" >> {calls}
    case "$*" in *REFUSED*) echo "Error: the server says no" >&2; exit 1 ;; esac
    touch {calls}-made
    echo '{{"info": {{"notes": "These are the notes.\\\\n\\\\n  They have lines."}}}}' ;;
  list) if [ -e {calls}-made ]; then echo '[{{"name": "run1", "status": "deployed"}}]'; else echo '[]'; fi ;;
  *) exec {helm} "$@" ;;
esac
"""
NOTES = "These are the notes.\n\n  They have lines.\n"
SMALL = ["--set", "workers.replicas=2,workers.gpus=1"]


@pytest.fixture
def calls(run: Run, cluster: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return a function that returns the arguments that were recorded. At first, the cluster contains no release."""
    cluster.answers[SECRETS] = releases()
    record, helm = tmp_path / "calls", tmp_path / "helm"
    helm.write_text(HELM.format(calls=shlex.quote(str(record)), helm=shlex.quote(os.environ["HELM_BIN"])))
    helm.chmod(0o755)
    monkeypatch.setenv("HELM_BIN", str(helm))
    return lambda: record.read_text().splitlines() if record.exists() else []


def test_flags_on_the_revision_are_passed_on(run: Run, calls: Callable[[], list[str]]) -> None:
    outcome = run("install", "run1", *SMALL, "--description", "for Ann", "-l", "team=a,cost=b", "--no-hooks")

    assert (outcome.code, outcome.out) == (0, NOTES), outcome.err
    [call] = calls()
    assert call.startswith("install run1 ")
    assert "--description for Ann --labels team=a,cost=b --labels distrain-operation=" in call
    assert "--no-hooks" in call


WAITS_FOR_NOTHING = (
    "distrain: --timeout: limits only the chart's hooks, because without --wait nothing waits for the job; add --wait\n"
)


@pytest.mark.parametrize("given", [True, False])
def test_timeout_without_a_wait_limits_the_hooks_as_for_helm_and_says_so(
    run: Run, calls: Callable[[], list[str]], given: bool
) -> None:
    outcome = run("install", "run1", *SMALL, *(["--timeout", "1h30m"] if given else []))

    assert outcome.code == 0, outcome.err
    [call] = calls()
    assert (" --timeout 5400000ms " in call, WAITS_FOR_NOTHING in outcome.err) == (given, given)
    assert given or "--timeout" not in call


@pytest.mark.parametrize("forces", [True, False])
def test_upgrade_and_rollback_take_over_fields_if_the_release_needs_it(tmp_path: Path, forces: bool) -> None:
    record, helm = tmp_path / "calls", tmp_path / "helm"
    helm.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(record))}\n')
    helm.chmod(0o755)
    target, operation = Target("config", "fake", "team"), Operation("abc", history_max=3, forces_conflicts=forces)

    Releases(str(helm)).upgrade("run1", Source(Path("chart"), ()), target, operation)
    Releases(str(helm)).rollback("run1", 2, target, operation)

    calls = record.read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["upgrade", "rollback"]
    assert all("--history-max 3" in call and ("--force-conflicts" in call) == forces for call in calls)


def test_upgrade_installs_a_release_that_does_not_exist(run: Run, calls: Callable[[], list[str]]) -> None:
    outcome = run("upgrade", "--install", "run1", *SMALL, "-o", "yaml")

    assert outcome.code == 0, outcome.err
    assert yaml.safe_load(outcome.out) == {"release": "run1", "revision": 0, "verdict": "fits"}
    assert outcome.err.endswith(f"\n{NOTES}")
    assert [call.split()[:2] for call in calls()] == [["install", "run1"]]


def test_upgrade_installs_an_uninstalled_release_again_as_helm_does(
    run: Run, calls: Callable[[], list[str]], cluster: FakeApi
) -> None:
    cluster.answers[SECRETS] = releases(release_secret("run1", "uninstalled", version=2))

    outcome = run("upgrade", "--install", "run1", *SMALL, "-o", "yaml")

    assert outcome.code == 0, outcome.err
    assert yaml.safe_load(outcome.out) == {"release": "run1", "revision": 2, "verdict": "fits"}
    assert "These are the notes." in outcome.err
    [call] = calls()
    assert call.startswith("install run1 ")
    assert " --replace " in call


def test_upgrade_without_install_names_the_missing_release(run: Run, calls: Callable[[], list[str]]) -> None:
    outcome = run("upgrade", "run1", *SMALL)

    assert (outcome.code, outcome.out, calls()) == (2, "", [])
    assert outcome.err.startswith("distrain: run1: there is no release of this name in namespace team; ")


def test_dry_run_of_the_server_lets_the_server_validate(run: Run, calls: Callable[[], list[str]]) -> None:
    outcome = run("install", "run1", *SMALL, "--dry-run=server")

    assert outcome.code == 0, outcome.err
    assert "kind: MPIJob" in outcome.out
    assert [("--dry-run=server" in call, call.split()[0]) for call in calls()] == [(True, "install")]


def test_refusal_by_the_server_is_one_line(run: Run, calls: Callable[[], list[str]]) -> None:
    outcome = run("install", "run1", *SMALL, "--dry-run=server", "--set", "podLabels.a=REFUSED")

    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.endswith("distrain: the server says no\ndistrain: nothing was changed\n")


def test_dry_run_of_the_client_changes_nothing(run: Run, calls: Callable[[], list[str]]) -> None:
    for words in (["--dry-run"], ["--dry-run=client"]):
        assert run("install", "run1", *SMALL, *words).code == 0

    assert calls() == []
