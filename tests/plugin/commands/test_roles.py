"""Test that a user with exactly the roles that `doctor` prints can run every command."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path

import pytest

from distrain.command_line.parser import parser
from lab.paths import CHART
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import mpi_job
from tests.plugin.program import Run, hold
from tests.plugin.release.recorded import JOBS, Recorded, own_objects
from tests.plugin.status.runs import NAMESPACE, UP, live, serve, step

SIZE = ("--set", "gpus=2", "--set", "workers.gpus=1", "--set", "trainer.steps=600")
CHARTS = ("--chart", str(CHART))
COMMANDS = {
    "status": [],
    "status of a run": ["run1"],
    "logs": ["run1"],
    "logs of all pods": ["run1", "--all"],
    "logs in a folder": ["run1", "--save", "saved"],
    "check": [*CHARTS, *SIZE],
    "derive": [*CHARTS, *SIZE],
    "doctor": [],
    "upgrade": ["run1", *CHARTS, *SIZE, "--set", "trainer.steps=700", "--dry-run"],
    "rescale": ["run1", *CHARTS, "--workers", "4", "--dry-run"],
    "import": ["mpijob/old"],
    "init": ["--framework", "tensorflow", "--output", "run.yaml"],
}
# These commands read only files or a whole cluster. `install` reads what `upgrade` reads.
WITHOUT = {"completion", "template", "report", "predict", "snapshot", "cluster", "install"}
# The rules of the printed Role and ClusterRole, by kind.
Rules = dict[str, list[dict[str, list[str]]]]


class _Lacking(Container[str]):
    """The questions about rights whose answer is no, because no rule grants the right."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __contains__(self, question: object) -> bool:
        verb, name, *everywhere = str(question).split()
        resource, _, group = name.partition(".")
        return not _is_granted(self._rules, bool(everywhere), group, resource, verb)


@pytest.fixture
def granted(run: Run, cluster: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve a run and a node to a user who has the roles that `doctor` prints, and no other right."""
    monkeypatch.chdir(tmp_path)
    release = Recorded(cluster, own_objects(run("template", "run1", *CHARTS, *SIZE).out))
    release.be()
    job = live(release.job, "Running")
    pods = [{**each, "spec": {**each["spec"], "nodeName": "a"}} for each in UP]
    nodes = cluster.answers["/api/v1/nodes"]
    assert isinstance(nodes, list)
    hold(cluster, nodes, pods)
    serve(cluster, job, pods=pods, run1_launcher=step(100))
    cluster.answers |= {f"{NAMESPACE}/configmaps": [], f"{JOBS}/old": mpi_job(workers=2, gpus=1)}
    release.show(metadata=job["metadata"], status=job["status"])
    cluster.denied = _Lacking({})
    grants = json.loads(run("doctor", "-o", "json").out)["grants"]
    rules = {each["kind"]: each["rules"] for each in grants if "rules" in each}
    cluster.denied = _Lacking(rules)
    cluster.stream = lambda path, _: None if _is_discovery(path) or _is_allowed(path, rules) else 403
    return cluster


def _is_discovery(path: str) -> bool:
    return path.endswith("reviews") or (not path.startswith("/api/v1/") and path.count("/") < 4)


def _is_allowed(path: str, rules: Rules) -> bool:
    """Tell whether RBAC lets the user read this path."""
    group, _, rest = path.removeprefix("/apis/").partition("/") if path.startswith("/apis/") else ("", "", path[5:])
    _, *parts = rest.split("/")
    is_inside = parts[0] == "namespaces" and len(parts) > 1
    resource, *name = parts[2:] if len(parts) > 2 and is_inside else parts
    return _is_granted(rules, not is_inside, group, "/".join([resource, *name[1:]]), "get" if name else "list")


def _is_granted(rules: Rules, is_everywhere: bool, group: str, resource: str, verb: str) -> bool:
    granted = [*rules.get("ClusterRole", []), *([] if is_everywhere else rules.get("Role", []))]
    wanted = {"apiGroups": group, "resources": resource, "verbs": verb}
    return any(all(found in rule[key] for key, found in wanted.items()) for rule in granted)


@pytest.mark.parametrize("name", COMMANDS)
def test_granted_roles_are_enough_for_each_command(granted: FakeApi, run: Run, name: str) -> None:
    shown = run(name.split()[0], *COMMANDS[name])

    printed = shown.out + shown.err
    assert "not read:" not in printed
    assert "may not" not in printed
    assert shown.code == 0, printed


def test_each_command_is_tried_or_reads_no_namespace() -> None:
    assert {name.split()[0] for name in COMMANDS} | WITHOUT == set(parser().commands)
