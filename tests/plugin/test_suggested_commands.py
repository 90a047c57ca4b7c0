"""Test that commands suggested in messages use the cluster and the namespace of the user's flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import distrain
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import mpi_job
from tests.plugin.program import SECRETS, Run

PACKAGE = Path(distrain.__file__).parent
SUGGESTED = re.compile(r"`((?:helm|kubectl) [^`]*)`")
# If a command in a message has no placeholder, the message only names the command.
PLACEHOLDER = re.compile(r"\{([^}]*)\}")
# These commands need no flags that select a cluster: a values file is valid for every cluster, and a copied record
# needs none.
FOR_ALL_CLUSTERS = {
    "`helm distrain derive -f {file}`",
    "`helm distrain import {quoted}`",
    "`helm distrain report ./{name}`",
    "`helm lint {quoted}`",
}


def _texts(module: Path) -> Iterator[str]:
    """Yield the f-strings of the module. Each placeholder in them is written as its expression in braces."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(_text, node.values))


def _text(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return str(part.value) if isinstance(part, ast.Constant) else ""


def _suggested() -> list[str]:
    found = (text for module in sorted(PACKAGE.rglob("*.py")) for text in _texts(module))
    commands = [match for text in found for match in SUGGESTED.findall(text)]
    return [command for command in commands if PLACEHOLDER.search(command)]


def test_every_suggested_command_has_the_flags_that_reach_its_cluster() -> None:
    suggested = _suggested()
    without = {
        f"`{command}`"
        for command in suggested
        if not any(name.endswith("flags") for name in PLACEHOLDER.findall(command))
    }

    assert len(suggested) >= 20
    assert without - FOR_ALL_CLUSTERS == set()


JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"
LABELS = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
LEFT = {"name": "run1-old", "labels": LABELS, "annotations": {"meta.helm.sh/release-name": "run1"}}


@pytest.mark.parametrize(
    ("command", "status", "suggested"),
    [
        pytest.param(["rescale", "run1", "--workers", "2"], "", "helm list", id="no-release"),
        pytest.param(["upgrade", "run1"], "failed", "helm rollback run1 1", id="failed-release"),
        pytest.param(["upgrade", "run1"], "failed", "kubectl --namespace team", id="orphan"),
        pytest.param(["install", "run1"], "deployed", "helm uninstall run1", id="taken-name"),
        pytest.param(["doctor"], "", "kubectl --namespace team", id="doctor"),
    ],
)
def test_suggested_command_names_the_context_that_the_user_gave(
    run: Run, cluster: FakeApi, command: list[str], status: str, suggested: str
) -> None:
    # For a deployed release, Helm 4 asks the cluster for each of the release's objects.
    manifest = "" if status == "deployed" else yaml.safe_dump(mpi_job())
    secret = release_secret("run1", status, version=2, manifest=manifest)
    former = release_secret("run1", "deployed")
    cluster.answers |= {SECRETS: releases(*([former, secret] if status else [])), JOBS: [{"metadata": LEFT}]}
    cluster.answers[f"{SECRETS}/{secret['metadata']['name']}"] = secret

    outcome = run(*command, "--kube-context", "fake")

    # Only a command with the flag --namespace is a suggestion to the user. Without this flag, the message only names
    # the command.
    found = [each for each in SUGGESTED.findall(outcome.out + outcome.err) if " --namespace " in each]
    assert any(each.startswith(suggested) for each in found), (outcome.out, outcome.err)
    assert [each for each in found if not re.search(r" --(kube-)?context fake\b", each)] == []
