"""Test what `status` says when several pods have logged steps, or the last step is long ago."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain.cli import run as distrain
from distrain.progress.logs import LINES
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, NAMESPACE, PYTORCH, live, pod, rows_of, serve, step, stuck

UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
WORKERS = UP[1:]


def _trainer(job: Object) -> Object:
    """Return the job with the trainer in its pods, so that only step lines make it Running."""
    found: Object = json.loads(json.dumps(job))
    for role in found["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["args"] = ["-m", "distrain_trainer"]
    return found


def _restart(seconds_ago: float) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S.5Z", time.gmtime(time.time() - seconds_ago))
    return f"{at} distrain-torchrun: starting again (restart 1 of 10 in 3600 s): a rank ended\n"


def _step(number: int, seconds_ago: float, **figures: float) -> str:
    return step(number, at=time.time() - seconds_ago, **figures)


@pytest.mark.parametrize(
    ("make", "phase"),
    [
        pytest.param(lambda: (_step(5, 500) + _restart(400) + _step(300, 2), _restart(400)), "Running", id="both"),
        pytest.param(lambda: (_step(5, 500) + _step(300, 2), _restart(400)), "Running", id="other-pod-before"),
        pytest.param(lambda: (_step(300, 100), _restart(2)), "Starting", id="other-pod-after"),
        pytest.param(lambda: (_step(300, 100) + _restart(2), ""), "Starting", id="same-pod"),
        pytest.param(lambda: (_restart(400), _step(300, 2)), "Running", id="other-pod-is-first"),
    ],
)
def test_run_is_starting_while_the_newest_restart_is_newer_than_the_newest_step(
    api: FakeApi, status: Run, make: Callable[[], tuple[str, str]], phase: str
) -> None:
    first, second = make()
    serve(api, _trainer(PYTORCH), pods=WORKERS, run1_worker_0=first, run1_worker_1=second)

    shown = status("run1", "--for=Running", "--timeout", "100ms")

    assert shown.code == (0 if phase == "Running" else 4)
    assert rows_of(status("run1"))["run1"] == phase


def test_next_step_names_the_pod_with_the_newest_step(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=_step(5, 300), run1_worker_1=_step(101, 4))

    rows = rows_of(status("run1"))

    assert rows["step"] == "101 of 1000 10 %"
    assert "logs -f run1-worker-1" in rows["next"]


@pytest.mark.parametrize(
    ("first", "second", "number"),
    [
        pytest.param([(90, -240)], [(91, 50), (200, 2)], 200, id="old-pods-clock-is-ahead"),
        pytest.param([(900, 300)], [(1, 2)], 1, id="begun-anew"),
        pytest.param([(900, -900)], [(950, -600)], 900, id="this-clock-is-behind"),
    ],
)
def test_newest_step_is_found_although_clocks_differ(
    api: FakeApi, status: Run, first: list[tuple[int, float]], second: list[tuple[int, float]], number: int
) -> None:
    # Each step is a number and its age. The lines are made here: a test may run minutes after it was collected.
    logs = ["".join(_step(*each) for each in steps) for steps in (first, second)]
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=logs[0], run1_worker_1=logs[1])

    assert rows_of(status("run1"))["step"].startswith(f"{number} of 1000")


def test_log_of_the_pod_whose_clock_is_right_is_printed(
    api: FakeApi, status: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead, right = (line.partition(" ")[2] for line in (_step(90, -240), _step(200, 2)))
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=ahead, run1_worker_1=right)

    assert distrain(["logs", "run1"]) == 0
    assert '"step": 200' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ages", "is_present"),
    [
        pytest.param([7200], False, id="stalled"),
        pytest.param([500, 200], True, id="slow"),
        pytest.param([2], True, id="new"),
    ],
)
def test_rate_of_long_ago_is_not_the_present_one(
    api: FakeApi, status: Run, ages: list[float], is_present: bool
) -> None:
    log = "".join(_step(5, age, images_per_second=813.2, eta_seconds=7000) for age in ages)
    serve(api, MPI, pods=UP, run1_launcher=log)

    rows = rows_of(status("run1"))

    assert ("813.2 images/sec now" in rows.get("speed", ""), "eta" in rows) == (is_present, is_present)


def test_run_that_starts_again_has_no_present_rate(api: FakeApi, status: Run) -> None:
    log = _step(5, 9, images_per_second=813.2, images_per_second_mean=700.0, eta_seconds=99) + _restart(1)
    serve(api, _trainer(PYTORCH), pods=WORKERS, run1_worker_0=log, run1_worker_1="")

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows["speed"], "eta" in rows) == ("Starting", "700.0 images/sec on the whole", False)


def _restarts(status: Run) -> tuple[int | None, int | None]:
    answer = json.loads(status("run1", "-o", "json").out)
    return answer["restarts"], answer["rescales"]


def test_restarts_are_counted_although_each_is_the_first_of_its_hour(api: FakeApi, status: Run) -> None:
    log = "".join(_restart(20000 - 5000 * number) + _step(number, 100) for number in range(3))
    serve(api, MPI, pods=UP, run1_launcher=log)

    assert _restarts(status) == (3, 0)


@pytest.mark.parametrize("case", ["no-pods", "no-pods-of-a-failed-run", "pods-forbidden", "log-forbidden", "cut"])
def test_restarts_that_nobody_can_count_are_not_known(api: FakeApi, status: Run, case: str) -> None:
    job = live({**MPI, "status": {}}, "Failed") if case == "no-pods-of-a-failed-run" else MPI
    serve(api, job, pods=[] if case.startswith("no-pods") else UP, run1_launcher=step(7) * LINES)
    if case == "pods-forbidden":
        api.answers[f"{NAMESPACE}/pods"] = 403
    if case == "log-forbidden":
        api.texts.clear()
        api.answers[f"{NAMESPACE}/pods/run1-launcher/log"] = 403

    assert _restarts(status) == (None, None)
    assert "restarts" not in rows_of(status("run1"))


def test_containers_that_wait_have_known_restarts(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[stuck("launcher", reason="ImagePullBackOff"), stuck("worker", 0, reason="ErrImagePull")])

    assert _restarts(status) == (0, 0)


def test_live_run_has_the_restarts_of_its_record(api: FakeApi, status: Run, tmp_path: Path) -> None:
    lines = [{"event": "start", "number": 6}, {"event": "rescale", "number": 2}]
    (tmp_path / "record.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    serve(api, MPI, pods=UP, run1_launcher=step(7))

    assert rows_of(status("run1", "--record", str(tmp_path)))["restarts"] == "5 restarts, 2 rescales"
