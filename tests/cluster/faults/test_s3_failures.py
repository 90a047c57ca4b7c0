"""Test that a run continues, logs the failure and retries while S3 is unavailable for a minute or refuses requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster import client, faults
from lab.cluster.lifecycle import S3_PORT
from lab.cluster.namespaces import NODE_ADDRESS
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    STEP,
    head,
    remove_checkpoints,
    rescale,
    upgrade,
    wait_for_checkpoint,
    wait_for_restart,
    wait_for_step,
    workers,
)

pytestmark = pytest.mark.full

REFUSING_PORT = 7072
NO_CHECKPOINT = "checkpoint.maxAge: nothing could be saved for 20 s"
NOT_SAVED = "training goes on, and tries again"


def _words(namespace: Namespace) -> list[str]:
    return [line for line in namespace.launcher_log().splitlines() if NOT_SAVED in line]


def _steps(namespace: Namespace) -> int:
    return len(STEP.findall(namespace.launcher_log()))


# The first two tests must run before the others. The other tests share a run, whose release has the same name as
# theirs.
def test_run_that_ends_while_s3_refuses_fails_and_names_it(namespace: Namespace, helm4: Path, on_s3: list[str]) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2, "trainer.epochs": 20})

    with faults.refusing_s3(REFUSING_PORT):
        wait_until("its HEAD", lambda: head(namespace) is not None, seconds=300)
        with faults.redirected(workers(namespace)[0]["metadata"]["uid"], NODE_ADDRESS, S3_PORT, to=REFUSING_PORT):
            # The trainer tries for ten minutes to write the model, and then fails. The launcher restarts the ranks, and
            # S3 refuses their first request.
            assert namespace.wait_for_end(seconds=1500) == "Failed"

    assert "refuses the keys of this Secret" in namespace.launcher_end()["message"]


def test_run_that_cannot_be_saved_for_too_long_starts_again(
    namespace: Namespace, helm4: Path, on_s3: list[str]
) -> None:
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2, "checkpoint.maxAge": 20})
    before = wait_for_checkpoint(namespace)

    with faults.cut(workers(namespace)[0]["metadata"]["uid"], NODE_ADDRESS, S3_PORT):
        wait_until("its end", lambda: NO_CHECKPOINT in namespace.launcher_log(), pause=1)
        assert "cannot be reached" in _words(namespace)[-1]

    wait_for_restart(namespace, before)


def test_run_goes_on_while_s3_does_not_answer(long_run: Namespace) -> None:
    before, told = head(long_run), len(_words(long_run))
    assert before

    with faults.cut(workers(long_run)[0]["metadata"]["uid"], NODE_ADDRESS, S3_PORT):
        wait_until("its words", lambda: len(_words(long_run)) > told, pause=1)
        steps = _steps(long_run)
        wait_until("more steps", lambda: _steps(long_run) > steps + 100, pause=1)

    assert "cannot be reached" in _words(long_run)[-1]
    assert wait_for_checkpoint(long_run, head(long_run)).generation == before.generation


def test_run_goes_on_while_s3_refuses_its_keys(long_run: Namespace) -> None:
    before, told = head(long_run), len(_words(long_run))
    assert before

    refused = faults.redirected(workers(long_run)[0]["metadata"]["uid"], NODE_ADDRESS, S3_PORT, to=REFUSING_PORT)
    with faults.refusing_s3(REFUSING_PORT), refused:
        wait_until("its words", lambda: len(_words(long_run)) > told, pause=1)
        steps = _steps(long_run)
        wait_until("more steps", lambda: _steps(long_run) > steps + 100, pause=1)

    assert "refuses the keys of this Secret" in _words(long_run)[-1]
    assert wait_for_checkpoint(long_run, head(long_run)).generation == before.generation


def test_run_whose_checkpoints_are_deleted_writes_its_next_one(long_run: Namespace) -> None:
    before = wait_for_checkpoint(long_run)
    remove_checkpoints(long_run)

    after = wait_for_checkpoint(long_run, before)

    assert after.generation == before.generation


# This test adds a worker to the shared run, so it must be the module's last test.
def test_new_worker_that_alone_is_refused_is_left_out_until_its_pod_is_recreated(long_run: Namespace) -> None:
    before = wait_for_checkpoint(long_run)
    rescale(long_run, 3)
    wait_until("its pod", lambda: len(workers(long_run)) == 3, pause=0.5)
    uid = workers(long_run)[2]["metadata"]["uid"]
    name = workers(long_run)[2]["metadata"]["name"]
    wait_until("its processes", lambda: bool(faults.processes(uid, "distrain-worker")))

    with faults.refusing_s3(REFUSING_PORT), faults.redirected(uid, NODE_ADDRESS, S3_PORT, to=REFUSING_PORT):
        wait_until("the others", lambda: "3 -> 2 workers after a failure" in long_run.launcher_log(), pause=1)
        begun = head(long_run)
        assert begun
        assert wait_for_checkpoint(long_run, begun).samples > before.samples

    said = long_run.launcher_log()
    assert f"distrain: {name}: s3.secretName: " in said
    assert f"going on without {name} until its pod is created again" in said
    client.kubectl("-n", long_run.name, "delete", "pod", name, "--wait=false")
    wait_for_step(long_run, ranks=3)
