"""Test that a job of any kind fails at once if its program cannot be started, and that a message says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.paths import CHART
from tests.cluster.testbed import Namespace, settings

MISSING = {"command": ["no-such-program"]}
NO_PROGRAM = "command: no-such-program: No such file or directory"
PARAMETER_SERVER = {"strategy": "parameter-server", **MISSING}
NO_TORCHRUN = "image.repository: the image distrain/tensorflow:0.1.0 has no torchrun"
LAUNCHERS_JOB = "jobs -l app.kubernetes.io/component=launcher"


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        pytest.param(MISSING, "mpijobs", NO_PROGRAM, id="mpijob"),
        pytest.param(
            {"framework": "pytorch", "command": ["python3", "train.py"]}, "pytorchjobs", NO_TORCHRUN,
            id="no-torchrun", marks=pytest.mark.full,
        ),
        pytest.param(
            {"job.kind": "Plain", **MISSING}, LAUNCHERS_JOB, NO_PROGRAM, id="plain", marks=pytest.mark.full
        ),
        pytest.param(
            PARAMETER_SERVER, "tfjobs", NO_PROGRAM, id="tfjob", marks=pytest.mark.full
        ),
        pytest.param(
            {"framework": "mxnet", **PARAMETER_SERVER}, "mxjobs", NO_PROGRAM, id="mxjob", marks=pytest.mark.full
        ),
    ],
)  # fmt: skip
def test_program_that_cannot_be_started_ends_the_job(
    namespace: Namespace, helm4: Path, values: dict[str, Any], kind: str, words: str
) -> None:
    # mpi-operator creates a second launcher pod after the first one has failed. The MPIJob fails only after both
    # launcher pods have failed.
    small = {"image.repository": "distrain/tensorflow", "workers.replicas": 1, "job.maxRestarts": 1}

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *settings({**small, **values}))

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=120) == "Failed", namespace.story()
    assert any(message.startswith(f"distrain: {words}") for message in messages(namespace)), namespace.story()
    assert "starting again" not in namespace.story()


def messages(namespace: Namespace) -> list[str]:
    """Return the termination messages of all containers that have ended."""
    statuses = [one for pod in namespace.get("pods") for one in pod["status"].get("containerStatuses", [])]
    return [status["state"].get("terminated", {}).get("message", "") for status in statuses]
