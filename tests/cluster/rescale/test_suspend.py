"""Test that a suspended job has no pods, and that it continues from its checkpoint when it is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.waiting import wait_until
from tests.cluster.runs_of_kinds import KINDS, install, log, uids, wait_for_ranks
from tests.cluster.testbed import Namespace
from tests.cluster.training import RESUMED, head, wait_for_checkpoint
from tests.matrix import one_of

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
SECONDS = 300


def _alive(namespace: Namespace) -> list[str]:
    pods = namespace.get("pods -l app.kubernetes.io/component")
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]


@pytest.mark.parametrize("name", one_of(["mpijob", *sorted({*KINDS} - {"mpijob"})]))
def test_suspended_job_goes_on_where_it_stopped(
    namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None, name: str
) -> None:
    kind = KINDS[name]
    install(namespace, helm4, kind, on_s3)
    before = wait_for_checkpoint(namespace, seconds=SECONDS)
    jobs = uids(namespace, kind)

    install(namespace, helm4, kind, on_s3, **{"job.suspend": True})
    wait_until("the end of all pods", lambda: not _alive(namespace), seconds=SECONDS)
    stopped = head(namespace)
    install(namespace, helm4, kind, on_s3, **{"job.suspend": False})

    wait_for_ranks(namespace, kind, 2, seconds=SECONDS)
    assert stopped
    assert stopped.samples >= before.samples
    (resumed,) = RESUMED.findall(log(namespace, kind))
    assert int(resumed[1]) == stopped.samples
    wait_for_checkpoint(namespace, head(namespace), seconds=SECONDS)
    assert uids(namespace, kind) == jobs
