"""Test what `status` reports if several pods have logged steps, or the last step is long ago."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distrain.cli import run as distrain
from distrain.progress import steps
from distrain.progress.logs import LINES
from distrain.progress.steps import Progress
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, pytorch_job
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, NAMESPACE, PYTORCH, changed, live, pod, rows_of, serve, step, stuck

UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
WORKERS = UP[1:]


def _trainer(job: Object) -> Object:
    """Return the job with the trainer as its program.

    A job with the trainer counts as Running only after it has logged a step line.
    """
    found: Object = json.loads(json.dumps(job))
    for role in found["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["args"] = ["-m", "distrain_trainer"]
    return found


def _restart(seconds_ago: float) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S.5Z", time.gmtime(time.time() - seconds_ago))
    return f"{at} distrain-torchrun: starting again (restart 1 of 10 in 3600 s): a rank ended\n"


def _step(number: int, seconds_ago: float, **figures: float | str) -> str:
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


def _unsized(number: int) -> str:
    """Return a line of a program that does not tell its number of ranks."""
    return step(number, world_size=None)


def _started(ranks: int) -> str:
    return f"{_ago(50)} distrain-launch: all 2 workers answer: /usr/bin/mpirun -np {ranks} python3 /train.py\n"


def _ago(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def _fault(case: str, ago: float) -> tuple[Object, Object, str]:
    """Return a worker, an event and the text of a log. One of them reports a fault that happened `ago` seconds ago.

    `case` names the one that reports it.
    """
    worker = pod("worker", 1)
    event = {"reason": "", "message": "", "involvedObject": {"uid": "x"}, "lastTimestamp": _ago(ago)}
    if case == "log":
        return worker, event, _restart(ago)
    if case == "container":
        ended = {"exitCode": 2, "message": "distrain: data.uri: /d is empty; name another", "finishedAt": _ago(ago)}
        worker["status"]["containerStatuses"][0] |= {"lastState": {"terminated": ended}, "restartCount": 1}
        return worker, event, ""
    refused = (
        'Error creating: pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    return worker, {**event, "message": refused, "involvedObject": {"uid": PYTORCH["metadata"]["uid"]}}, ""


@pytest.mark.parametrize(("ago", "is_told"), [(400, False), (2, True)])
@pytest.mark.parametrize("case", ["log", "container", "event"])
def test_fault_before_the_last_step_is_no_cause_of_a_rescale(
    api: FakeApi, status: Run, case: str, ago: float, is_told: bool
) -> None:
    worker, event, log = _fault(case, ago)
    wanted = _trainer(live(pytorch_job(workers=3, gpus=1)))
    steps = _step(5, 500, world_size=2) + _step(300, 100, world_size=2)
    serve(api, wanted, pods=[pod("worker", 0), worker], run1_worker_0=steps, run1_worker_1=log)
    api.answers[f"{NAMESPACE}/events"] = [event]

    rows = rows_of(status("run1"))

    told = {"log": "a rank ended", "container": "data.uri", "event": "quota q"}[case]
    assert (told in rows["why"]) == is_told
    assert rows["run1"] == ("Rescaling 2-3" if (case, is_told) != ("log", True) else "Pending")


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
    # Each step is given as a pair: its number, and its age in seconds. pytest may collect this test minutes before it
    # runs, so the test creates the log lines, which contain times, only now.
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


@pytest.mark.parametrize(
    ("first", "second", "number"),
    [
        pytest.param([900, 500], [898, 495], 2, id="both-fail-together"),
        pytest.param([900], [500], 2, id="one-after-another"),
        pytest.param([900, 890], [], 2, id="twice-within-a-minute"),
    ],
)
def test_restart_that_two_workers_log_is_one(
    api: FakeApi, status: Run, first: list[float], second: list[float], number: int
) -> None:
    logs = ["".join(map(_restart, ages)) for ages in (first, second)]
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=logs[0] + _step(9, 5), run1_worker_1=logs[1])

    assert _restarts(status) == (number, 0)


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


@pytest.mark.parametrize(
    ("job", "pods", "log", "told"),
    [
        pytest.param(PYTORCH, WORKERS, _unsized(7), (0, None), id="nobody-tells-the-size"),
        pytest.param(PYTORCH, WORKERS, "epoch 1\n", (0, None), id="no-step-lines"),
        pytest.param(_trainer(PYTORCH), WORKERS, "", (0, 0), id="trainer-before-its-first-step"),
        pytest.param(MPI, UP, _started(4) + "epoch 1\n", (0, 0), id="launcher-alone"),
        pytest.param(PYTORCH, WORKERS, step(7) + step(8, world_size=3), (0, 1), id="each-line-tells-it"),
        pytest.param(MPI, UP, _started(4) + _unsized(7) + _started(2) + _unsized(8), (0, 1), id="launcher-tells-it"),
    ],
)
def test_rescales_of_an_own_program_are_counted_where_sizes_are_told(
    api: FakeApi, status: Run, job: Object, pods: list[Object], log: str, told: tuple[int, int | None]
) -> None:
    serve(api, job, pods=pods, **{pods[0]["metadata"]["name"].replace("-", "_"): log})

    assert _restarts(status) == told
    assert ("rescale" in rows_of(status("run1"))["restarts"]) == (told[1] is not None)


def test_own_program_on_the_former_size_is_rescaling_if_its_launcher_tells_the_size(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=_started(4) + _unsized(7))

    assert rows_of(status("run1"))["run1"] == "Rescaling 4-2"


RESUMED = "resumed from /c/1-5: step 5, 50 samples, on 2 ranks (saved on 2)"
COUNTED = "distrain-launch: an earlier launcher of this run has counted 3 restarts"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param([COUNTED, RESUMED], (4, None), id="launcher-takes-up-the-count"),
        pytest.param([COUNTED, RESUMED, None, RESUMED], (5, None), id="and-counts-on"),
        pytest.param([RESUMED], (None, None), id="earlier-pod-is-gone"),
        pytest.param([None, RESUMED], (1, 0), id="same-pod"),
    ],
)
def test_restarts_of_earlier_pods_count(
    api: FakeApi, status: Run, lines: list[str | None], told: tuple[int | None, int | None]
) -> None:
    log = "".join(f"{_ago(50)} {line}\n" if line else _restart(50) for line in lines)
    serve(api, MPI, pods=UP, run1_launcher=log + _step(9, 5))

    assert _restarts(status) == told


def test_restarts_are_known_if_another_pod_has_told_the_first_steps(api: FakeApi, status: Run) -> None:
    logs = [f"{_ago(50)} {RESUMED}\n{_step(9, 5)}", _step(3, 90)]
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=logs[0], run1_worker_1=logs[1])

    assert _restarts(status) == (0, 0)


def test_restarts_and_rescales_are_not_known_while_a_run_is_being_suspended(api: FakeApi, status: Run) -> None:
    serve(api, changed(PYTORCH, suspend=True), pods=WORKERS[:1], run1_worker_0=_step(9, 5))

    assert _restarts(status) == (None, None)


def test_containers_that_wait_have_known_restarts(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[stuck("launcher", reason="ImagePullBackOff"), stuck("worker", 0, reason="ErrImagePull")])

    assert _restarts(status) == (0, 0)


def test_live_run_has_the_restarts_of_its_record(api: FakeApi, status: Run, tmp_path: Path) -> None:
    lines = [{"event": "start", "number": 6}, {"event": "rescale", "number": 2}]
    (tmp_path / "record.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    serve(api, MPI, pods=UP, run1_launcher=step(7))

    assert rows_of(status("run1", "--record", str(tmp_path)))["restarts"] == "3 restarts, 2 rescales"


def test_each_step_line_is_parsed_once(api: FakeApi, status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = steps._progress

    def noted(line: str) -> Progress | None:
        parsed.append(line)
        return parse(line)

    monkeypatch.setattr(steps, "_progress", noted)
    logs = [_step(5, 300) + _step(6, 299, world_size=4), _step(7, 200) + _step(101, 4)]
    serve(api, PYTORCH, pods=WORKERS, run1_worker_0=logs[0], run1_worker_1=logs[1])

    assert rows_of(status("run1"))["step"].startswith("101 of 1000")
    assert len(parsed) == len(set(parsed)) == 4


def _pod_of(number: int, *, born: float, started: float) -> Object:
    """Return a worker.

    `born` is the age of the pod by the API server's clock. `started` is the age of its container by the node's clock.
    """
    found = pod("worker", number)
    found["metadata"]["creationTimestamp"] = _at(born)
    found["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": _at(started)}}
    return found


def _at(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))


def test_steps_of_a_replaced_pod_whose_nodes_clock_is_behind_are_the_newest(
    api: FakeApi, status: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    # Rank 0 has moved from worker-0 to worker-1, which is new. The clock of worker-1's node is 10 minutes behind.
    workers = [_pod_of(0, born=3600, started=3590), _pod_of(1, born=300, started=890)]
    old, new = _step(90, 320, images_per_second=1.0), _step(95, 700) + _step(200, 605, images_per_second=50.0)
    serve(api, PYTORCH, pods=workers, run1_worker_0=old, run1_worker_1=new)

    rows = rows_of(status("run1"))

    assert rows["step"] == "200 of 1000 20 %"
    assert rows["speed"].startswith("50.0 images/sec now")
    assert "logs -f run1-worker-1" in rows["next"]
    api.texts = {path: text.partition(b" ")[2] for path, text in api.texts.items()}
    assert distrain(["logs", "run1"]) == 0
    assert '"step": 200' in capsys.readouterr().out


def _lived(*lines: str) -> str:
    return "".join(line if line.endswith("\n") else f"2026-01-01T00:00:00Z {line}\n" for line in lines)


@pytest.mark.parametrize("shows_clock", [True, False], ids=["first-start", "restarted-in-place"])
def test_steps_since_a_resumed_checkpoint_are_newer_than_those_before_it(
    api: FakeApi, status: Run, shows_clock: bool
) -> None:
    workers = [_pod_of(0, born=3600, started=3590), _pod_of(1, born=3600, started=3590 if shows_clock else 400)]
    old = _lived(_step(80, 330), "checkpoint: saved 1-80 at step 80", _step(90, 320, checkpoint="1-80"))
    new = _lived("resumed from 1-80: step 80, 80 samples, on 2 ranks (saved on 2)", _step(85, 400, checkpoint="1-80"))
    serve(api, PYTORCH, pods=workers, run1_worker_0=old, run1_worker_1=new)

    assert rows_of(status("run1"))["step"].startswith("85 of 1000")


def test_order_of_logs_that_resume_each_others_checkpoints_is_that_of_their_times(api: FakeApi, status: Run) -> None:
    workers = [_pod_of(number, born=3600, started=3590) for number in range(2)]
    resumed = "resumed from {}: step 80, 80 samples, on 2 ranks (saved on 2)"
    first = _lived(_step(80, 330, checkpoint="1-80"), resumed.format("2-90"), _step(99, 5, checkpoint="2-90"))
    second = _lived(resumed.format("1-80"), "checkpoint: saved 2-90 at step 90", _step(91, 100, checkpoint="2-90"))
    serve(api, PYTORCH, pods=workers, run1_worker_0=first, run1_worker_1=second)

    assert rows_of(status("run1"))["step"].startswith("99 of 1000")
