"""Test how distrain-launch ends the workers of a job that has no operator."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import cause, launch
from tests.chart.scripts.pods import Pod, Running, wait_for


@pytest.fixture
def ending_worker() -> Iterator[tuple[Pod, Running]]:
    """Start a worker that the test can end."""
    with pods.make_pod() as pod:
        # On a busy machine, the launcher needs longer to learn that the worker was asked to end.
        pod.change("distrain-worker", "SECONDS_TO_TELL = 1", "SECONDS_TO_TELL = 5")
        worker = pod.start([pod.script("distrain-worker"), *pod.script_options()])
        wait_for(lambda: pods.is_listening(pod.port))
        yield pod, worker
        worker.kill()


needs_process_1 = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for a process namespace")


@needs_process_1
@pytest.mark.parametrize(
    ("program", "code_of_worker"),
    [
        # test_neighbouring_versions.py also tests that the workers end after a successful run.
        pytest.param("true", 0, id="success", marks=pytest.mark.full),
        pytest.param("exit 7", 3, id="failure"),
    ],
)
def test_workers_end_with_the_outcome(ending_worker: tuple[Pod, Running], program: str, code_of_worker: int) -> None:
    pod, worker = ending_worker
    arguments = ["--bind-to", "none", "--", "sh", "-c", program]

    code, output = launch(pod, *arguments, hostfile="127.0.0.2 slots=1\n", options=["--end-workers"]).end()

    assert code == (7 if code_of_worker else 0), output
    assert worker.end()[0] == code_of_worker
    assert "could not be asked to end" not in output


@needs_process_1
def test_workers_that_answered_end_when_others_never_come(ending_worker: tuple[Pod, Running]) -> None:
    pod, worker = ending_worker
    pod.change("distrain_workers.py", "SECONDS_TO_END_WORKERS = 30", "SECONDS_TO_END_WORKERS = 3")
    options = ["--end-workers", "--workers-timeout=0.5"]
    # The real worker listens at 127.0.0.2. The second host name has no address.
    hosts = "127.0.0.2 slots=1\nrun1-worker-9.invalid slots=1\n"

    code, output = launch(pod, "--", "true", hostfile=hosts, options=options).end()

    assert code == 1
    assert cause(pod).startswith("distrain: launcher.workersTimeout: 1 of 2 workers did not answer")
    assert re.search(r"1 of 2 workers could not be asked to end: run1-worker-9\.invalid \(.*\); delete", output)
    assert worker.end()[0] == 3


@needs_process_1
def test_stopped_launcher_leaves_the_workers_to_the_next(ending_worker: tuple[Pod, Running]) -> None:
    pod, worker = ending_worker
    begun = pod.folder / "tmp" / "begun"
    arguments = ["--bind-to", "none", "--", "sh", "-c", f"touch {begun}; exec sleep 60"]
    options = ["--end-workers", "--max-restarts=3"]
    launcher = launch(pod, *arguments, hostfile="127.0.0.2 slots=1\n", options=options)
    wait_for(begun.exists)

    launcher.terminate()

    assert launcher.end()[0] == 143
    assert cause(pod) == "distrain: stopped by SIGTERM; rank 0 was ended by signal 15"
    # The first signal decides the worker's exit code. After SIGUSR1 or SIGUSR2 from the launcher, it would be 0 or 3.
    worker.terminate()
    assert worker.end()[0] == 143


@needs_process_1
def test_root_in_an_image_made_for_root_trains() -> None:
    with pods.make_pod(uid=0) as pod:
        worker = pod.start([pod.script("distrain-worker"), *pod.script_options()], FROM_POD="root's")
        wait_for(lambda: pods.is_listening(pod.port))
        rank = 'echo "rank $OMPI_COMM_WORLD_RANK: $(id -u) $FROM_POD $PRTE_ALLOW_RUN_AS_ROOT"'

        arguments = ["--bind-to", "none", "--", "sh", "-c", rank]
        code, output = launch(pod, *arguments, hostfile="127.0.0.2 slots=2\n", options=["--end-workers"]).end()

        assert code == 0, output
        assert {"rank 0: 0 root's 1", "rank 1: 0 root's 1"} <= set(output.splitlines())
        assert worker.end()[0] == 0
