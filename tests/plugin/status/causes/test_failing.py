"""Test that `status` explains why a program fails, although all pods run and the program logs no steps."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import told
from tests.plugin.status.runs import MPI, ROLES, pod, renamed, rows_of, serve, step

CODE = "python3 ended with exit code 1; this pod's log says why"
ERROR = "ZeroDivisionError: division by zero"
# The number of workers in each kind of job of ROLES, except for the role with the main log.
WORKERS = {"elastic PyTorchJob": 1, "PyTorchJob with a Master": 1, "MXJob": 1}


def _at(ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


def _restart(ago: float, number: int = 1, cause: str = CODE) -> str:
    lines = (ERROR, f"distrain-run: starting again (restart {number} of 3 in 3600 s): {cause}")
    return "".join(f"{_at(ago)} {line}\n" for line in lines)


def _up(kind: str) -> list[Object]:
    """Return the running pods of a job: first the pod with the main log."""
    main, others = ROLES[kind][1:]
    workers = [pod("worker", 1 if main == "worker" else number) for number in range(WORKERS.get(kind, 2))]
    return [pod(main), *(pod(role) for role in others if role not in ("worker", "keygen")), *workers]


def _ended(found: Object, ago: float, **end: Any) -> Object:
    """Return the pod after a container of it has failed, and runs again."""
    terminated = {"exitCode": 1, "finishedAt": _at(ago), **end}
    [container] = found["status"]["containerStatuses"]
    running = {"running": {"startedAt": _at(ago)}}
    again = {**container, "state": running, "restartCount": 2, "lastState": {"terminated": terminated}}
    return {**found, "status": {**found["status"], "containerStatuses": [again]}}


def _failed(found: Object, ago: float, **end: Any) -> Object:
    """Return a failed pod, whose place the pod `found` has taken."""
    [container] = found["status"]["containerStatuses"]
    terminated = {"exitCode": 1, "finishedAt": _at(ago), **end}
    failed = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
    return renamed({**found, "status": failed}, "earlier")


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


@pytest.mark.parametrize("kind", ROLES)
@pytest.mark.parametrize("at", [0, -1], ids=["first", "last"])
def test_program_that_is_started_again_has_its_last_failure(api: FakeApi, status: Run, kind: str, at: int) -> None:
    pods = _up(kind)
    name = _name(pods[0])
    serve(api, *ROLES[kind][0], pods=pods, **{name.replace("-", "_"): _restart(100) + _restart(5, 2)})

    phase, why, then = told(status("run1"))

    assert (phase, then) == ("Running", f"read `kubectl --namespace team logs {name}`")
    assert why.partition("ago: ")[2] == f"{name}: {ERROR}; {name} tries again (restart 2 of 3)"

    # A container that kubelet has restarted later has failed last.
    other = _name(pods[at])
    serve(api, *ROLES[kind][0], pods=[_ended(each, 2) if _name(each) == other else each for each in pods])

    phase, why, then = told(status("run1"))

    assert (phase, then) == ("Running", f"read `kubectl --namespace team logs {other} --previous`")
    assert why.partition("ago: ")[2] == (
        f"{other}: ended with exit code 1; {other} tries again (restart 2 of its container)"
    )

    # Finally, a controller has replaced a failed pod.
    serve(api, *ROLES[kind][0], pods=[_failed(pods[at], 1, message=f"distrain: {CODE}"), *pods])

    phase, why, then = told(status("run1"))

    assert (phase, then) == ("Running", "read `kubectl --namespace team logs earlier`")
    assert why.partition("ago: ")[2] == "earlier: python3 ended with exit code 1; another pod tries again"


@pytest.mark.parametrize(
    ("end", "why", "then"),
    [
        pytest.param(
            {"message": "distrain: data.uri: /d is empty; name another"}, "data.uri: /d is empty", "name another",
            id="own-words",
        ),
        pytest.param(
            {"exitCode": 137, "reason": "OOMKilled"},
            "workers.memory: out of memory: container worker of run1-worker-0 was killed at its limit",
            "raise workers.memory, or lower trainer.batchSize", id="memory",
        ),
        pytest.param(
            {"exitCode": 137}, "run1-worker-0: ended with exit code 137",
            "read `kubectl --namespace team logs run1-worker-0 --previous`", id="killed",
        ),
    ],
)  # fmt: skip
def test_container_that_runs_again_has_its_own_cause(
    api: FakeApi, status: Run, end: dict[str, Any], why: str, then: str
) -> None:
    launcher, first, second = _up("MPIJob")
    lost = _restart(1, cause="no sign of run1-worker-0 (no answer) for 30 s")
    serve(api, MPI, pods=[launcher, _ended(first, 4, **end), second], run1_launcher=lost)

    phase, told_why, told_then = told(status("run1"))

    again = "; run1-worker-0 tries again (restart 2 of its container)"
    assert (phase, told_why.partition("ago: ")[2], told_then) == ("Running", f"{why}{again}", then)


@pytest.mark.parametrize(
    ("log", "end"),
    [
        pytest.param(_restart(4000), {}, id="long-ago"),
        pytest.param(_restart(50) + step(7, at=time.time() - 20), {}, id="before-the-last-step"),
        pytest.param("", {"ago": 4000}, id="container-long-ago"),
        pytest.param(step(7, at=time.time()), {"ago": 900}, id="container-before-the-last-step"),
        pytest.param("", {"ago": 5, "exitCode": 143}, id="stopped"),
        pytest.param("", {"ago": 5, "exitCode": 0}, id="ended-well"),
        pytest.param("", {"ago": 5, "finishedAt": None}, id="at-an-unknown-time"),
    ],
)
def test_failure_that_is_over_is_not_told(api: FakeApi, status: Run, log: str, end: dict[str, Any]) -> None:
    launcher, first, second = _up("MPIJob")
    serve(api, MPI, pods=[launcher, _ended(first, **end) if end else first, second], run1_launcher=log)

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows.get("why")) == ("Running", None)


def test_failure_in_a_program_with_steps_is_told_until_the_next_step(api: FakeApi, status: Run) -> None:
    launcher, first, second = _up("MPIJob")
    serve(api, MPI, pods=[launcher, _ended(first, 2), second], run1_launcher=step(7, at=time.time() - 10))

    phase, why, _ = told(status("run1"))

    assert (phase, why.partition("ago: ")[2]) == (
        "Running",
        "run1-worker-0: ended with exit code 1; run1-worker-0 tries again (restart 2 of its container)",
    )


def test_container_of_the_trainer_that_was_killed_before_a_step_is_told(api: FakeApi, status: Run) -> None:
    trainer = json.loads(json.dumps(MPI).replace('"image": ', '"args": ["-m", "distrain_trainer"], "image": '))
    launcher, first, second = _up("MPIJob")
    serve(api, trainer, pods=[launcher, _ended(first, 2, exitCode=137), second], run1_launcher="loading\n")

    phase, why, _ = told(status("run1"))

    assert (phase, why.partition("ago: ")[2]) == (
        "Starting",
        "run1-worker-0: ended with exit code 137; run1-worker-0 tries again (restart 2 of its container)",
    )
