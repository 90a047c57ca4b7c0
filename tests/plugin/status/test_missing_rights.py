"""Test that `status` names all rights that the user lacks in one line, with the command that prints roles."""

from __future__ import annotations

import json

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run, called
from tests.plugin.status.runs import MPI_JOBS, NAMESPACE, PYTORCH, pod, serve

JOBS = [
    "/apis/batch/v1/namespaces/team/jobs",
    MPI_JOBS,
    *(f"/apis/kubeflow.org/v1/namespaces/team/{each}" for each in ("mxjobs", "pytorchjobs", "tfjobs")),
]
STEP = "`helm distrain doctor --namespace team` prints the roles to ask for"


@pytest.fixture(autouse=True)
def kubernetes(api: FakeApi) -> None:
    """Let the fake API refuse a request with the message that Kubernetes sends."""

    def words(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        if status != 403:
            return status, body
        verb, resource = ("get", "pods/log") if path.endswith("/log") else ("list", path.rpartition("/")[2])
        why = f'User "jane" cannot {verb} resource "{resource}" in API group "" in the namespace "team"'
        return status, json.dumps({"kind": "Status", "message": f"{resource} is forbidden: {why}"}).encode()

    api.spoil = words


@pytest.mark.parametrize("arguments", [["run1"], []], ids=["one-run", "list"])
def test_several_missing_rights_are_one_line(api: FakeApi, status: Run, arguments: list[str]) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1)])
    logs = [f"{NAMESPACE}/pods/run1-worker-{number}/log" for number in range(2)]
    missing = [*logs, f"{NAMESPACE}/events", *(each for each in JOBS if "pytorch" not in each)]
    api.answers |= dict.fromkeys(missing, 403)

    shown = status(*arguments)

    lines = (shown.out + shown.err).splitlines()
    assert shown.code == 0
    assert [line.partition("not read")[2].lstrip(" :") for line in lines if "not read" in line] == [
        f"you have no right to `get` pods/log and `list` events, jobs, mpijobs, mxjobs and tfjobs; {STEP}"
    ]


@pytest.mark.usefixtures("status")
@pytest.mark.parametrize("command", [["status", "run1"], ["status"], ["logs", "run1"], ["logs", "run1", "--follow"]])
def test_user_who_may_read_no_job_gets_one_line(
    api: FakeApi, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    serve(api)
    api.answers |= dict.fromkeys(JOBS, 403)

    shown = called(capsys, *command)

    words = "you have no right to `list` jobs, mpijobs, mxjobs, pytorchjobs and tfjobs"
    assert (shown.code, shown.err) == (3, f"distrain: {words}; {STEP}\n")


def test_one_missing_right_has_the_words_of_kubernetes(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1)])
    api.answers[f"{NAMESPACE}/events"] = 403

    [line] = [line for line in status("run1").out.splitlines() if line.startswith("not read")]

    assert "events of namespace team cannot be read: events is forbidden: " in line
    assert line.endswith("ask for a role that allows `list` on events")
