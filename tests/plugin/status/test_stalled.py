"""Test that `status` reports a run as stalled, with the reason, if and only if it makes no steps."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, pytorch_job
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import told
from tests.plugin.status.runs import MPI, live, pod, serve

MINUTE = 60.0
MISSING = "Stalled ops:HorovodAllreduce_1 [missing ranks: 0]"
UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
NEXT = (
    "read `helm distrain logs run1 --all --tail 20 --namespace team`; if no line says why, `py-spy dump --pid PID` in "
    "a pod shows where its rank waits"
)


def _line(ago: float, text: str) -> str:
    """Return a log line with kubelet's timestamp."""
    return f"{_at(ago)} {text}\n"


def _at(ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


def _steps(ago: float, *, number: int = 20, every: float = 8.0, last: int = 200, **figures: Any) -> str:
    """Return the step lines of a log: one for every 10th step. The last line is `ago` seconds old."""
    told = {"steps": 1000, "world_size": 2, **figures}
    lines = []
    for index in reversed(range(number)):
        when = ago + index * every
        line = {"step": last - 10 * index, "unix_seconds": time.time() - when, **told}
        lines.append(_line(when, f"distrain-progress: {json.dumps(line)}"))
    return "".join(lines)


def _trainer(job: Object) -> Object:
    """Return the job with the trainer as its program, because the trainer is known to print step lines."""
    trainer: Object = json.loads(json.dumps(job).replace('"image": ', '"args": ["-m", "distrain_trainer"], "image": '))
    return trainer


def _started(found: Object, ago: float) -> Object:
    status = {**found["status"], "containerStatuses": [{"name": "x", "state": {"running": {"startedAt": _at(ago)}}}]}
    return {**found, "status": status}


def test_run_without_a_step_for_long_is_stalled(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=_steps(14 * MINUTE))

    why = "no step for 14 min (a step took 0.8 s): run1-launcher logged nothing since"
    assert told(status("run1")) == ("Running", why, NEXT)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        pytest.param(
            [
                "[2026-01-01 00:00:00.1: W stall_inspector.cc:105] One or more tensors were submitted to be reduced, "
                "gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 s.",
                "Missing ranks:",
                "1: [DistributedGradientTape_Allreduce/cond_1]",
            ],
            "run1-launcher: the others wait for rank 1, says Horovod (run1-worker-1 has rank 1)",
            id="horovod",
        ),
        pytest.param(
            ["[1,0]<stderr>:Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 0, 1]"],
            "run1-launcher: the others wait for rank 0, says Horovod (run1-worker-0 has rank 0)",
            id="horovod-of-before-0.21",
        ),
        pytest.param(
            [
                "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds"
            ],
            "run1-launcher: rank 0 waits for the others in ALLREDUCE, says NCCL's watchdog (run1-worker-0 has rank 0)",
            id="nccl",
        ),
        pytest.param(
            ["RuntimeError: [unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"],
            "run1-launcher: a rank has waited 1800000ms for another one",
            id="gloo",
        ),
    ],
)
def test_message_about_waiting_ranks_makes_a_shorter_silence_a_stall(
    api: FakeApi, status: Run, lines: list[str], why: str
) -> None:
    serve(api, MPI, pods=UP, run1_launcher=_steps(150) + "".join(_line(60, line) for line in lines))

    phase, shown, _ = told(status("run1"))

    assert (phase, shown.partition(": ")[2]) == ("Running", why)


def test_message_before_the_last_step_is_of_another_silence(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=_line(200, "x [missing ranks: 1]") + _steps(150))

    assert told(status("run1"))[1] == ""


def test_worker_that_is_not_ready_holds_the_others_up(api: FakeApi, status: Run) -> None:
    unready = [{"type": each, "status": "False"} for each in ("Ready", "ContainersReady")]
    serve(api, MPI, pods=[*UP[:2], pod("worker", 1, conditions=unready)], run1_launcher=_steps(14 * MINUTE))

    assert told(status("run1"))[1].endswith(": run1-worker-1 is not ready")


def test_worker_that_has_started_after_the_last_step_holds_the_others_up(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[*UP[:2], _started(UP[2], 12 * MINUTE)], run1_launcher=_steps(14 * MINUTE))

    assert told(status("run1"))[1].endswith(": run1-worker-1 has started 12 min ago, after the last step")


def test_last_lines_of_other_workers_are_read(api: FakeApi, status: Run) -> None:
    workers = [pod("worker", number) for number in range(6)]
    watchdog = (
        "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, Timeout(ms)=1"
    )
    serve(
        api, live(pytorch_job(workers=6, gpus=1)), pods=workers,
        run1_worker_0=_steps(14 * MINUTE, world_size=6), run1_worker_5=_line(60, watchdog),
    )  # fmt: skip

    why = told(status("run1"))[1]

    assert why.endswith(": run1-worker-5: rank 5 waits for the others in BROADCAST, says NCCL's watchdog")


def test_quiet_ranks_are_named_beside_the_last_line_of_another(api: FakeApi, status: Run) -> None:
    serve(
        api, live(pytorch_job(workers=3, gpus=1)), pods=[pod("worker", number) for number in range(3)],
        run1_worker_0=_steps(14 * MINUTE, world_size=3), run1_worker_1=_line(3000, "hello"),
        run1_worker_2=_line(200, "waiting for data"),
    )  # fmt: skip

    assert told(status("run1"))[1].endswith(
        ": run1-worker-0 and 1 more logged nothing since; run1-worker-2 logged 3 min ago: waiting for data"
    )


def _with_tail(text: str) -> str:
    return _steps(14 * MINUTE) + _line(13 * MINUTE, text)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: _steps(4 * MINUTE), id="short"),
        pytest.param(lambda: _steps(14 * MINUTE, every=200), id="slow"),
        pytest.param(lambda: _steps(14 * MINUTE, number=2, every=100), id="pace-is-not-known"),
        pytest.param(lambda: _with_tail("Saving model to /out") + _line(100, MISSING), id="others-wait-for-it"),
        pytest.param(lambda: _line(300, "resumed from 1-80: step 180, 9 samples") + _steps(200, number=1)
                     + _line(100, MISSING), id="others-wait-for-a-compile"),
        pytest.param(lambda: _steps(26 * MINUTE, number=9, last=180) + _steps(14 * MINUTE, number=2), id="long-pause"),
        pytest.param(lambda: _with_tail("Saving model checkpoint to /out/checkpoint-200"), id="checkpoint"),
        pytest.param(lambda: _with_tail("***** Running Evaluation *****"), id="evaluation"),
        pytest.param(lambda: _with_tail("XLA: compiling module jit_step"), id="compile"),
        pytest.param(lambda: _steps(14 * MINUTE, last=1000), id="after-the-last-step"),
        pytest.param(lambda: _line(14.5 * MINUTE, "resumed from 1-80: step 180, 9 samples")
                     + _steps(14 * MINUTE, number=2), id="first-steps"),
        pytest.param(lambda: _steps(14 * MINUTE) + _line(60, "eval 7/100"), id="logs-on"),
        pytest.param(lambda: _with_tail("distrain-launch: asking the ranks to stop at a step boundary: a new size"),
                     id="stops"),
        pytest.param(lambda: _with_tail("distrain-launch: 12 s: waiting for 1 of 2 workers: run1-worker-1 (no answer)"),
                     id="waits-for-workers"),
    ],
)  # fmt: skip
def test_run_that_does_something_else_is_not_stalled(api: FakeApi, status: Run, make: Any) -> None:
    serve(api, MPI, pods=UP, run1_launcher=make())

    assert "no step" not in status("run1").out


@pytest.mark.parametrize("minutes", [14, 31])
def test_end_of_the_first_epoch_may_be_an_evaluation(api: FakeApi, status: Run, minutes: int) -> None:
    lines = [_steps(minutes * MINUTE + 8 * n, number=1, last=200 - 10 * n, epoch=0.99 - 0.05 * n) for n in (3, 2, 1, 0)]
    serve(api, MPI, pods=UP, run1_launcher="".join(lines))

    assert ("no step" in status("run1").out) is (minutes > 30)


def test_rescale_is_no_stall(api: FakeApi, status: Run) -> None:
    up = [*UP, pod("worker", 2), pod("worker", 3)]
    serve(api, live(mpi_job(workers=4, gpus=1)), pods=up, run1_launcher=_steps(40 * MINUTE))

    phase, why, _ = told(status("run1"))

    assert (phase, why) == ("Rescaling 2-4", "it trains on 2 workers until the ranks meet again")


@pytest.mark.parametrize(
    "stopped",
    [
        "stopped at step 200 (1600 samples) after 9 s: the number of workers has changed",
        "[1,0]<stdout>:stopped at step 200 (1600 samples)",
        "distrain-launch: 2 -> 4 workers after the ranks stopped at step 200",
        "distrain-launch: all 4 workers answer: /usr/bin/mpirun -np 4 python3 /train.py",
    ],
)
def test_ranks_that_have_stopped_for_a_rescale_do_not_train(api: FakeApi, status: Run, stopped: str) -> None:
    up = [*UP, pod("worker", 2), pod("worker", 3)]
    serve(api, live(mpi_job(workers=4, gpus=1)), pods=up, run1_launcher=_steps(3) + _line(1, stopped))

    phase, why, _ = told(status("run1"))

    assert (phase, why) == ("Rescaling 2-4", "the ranks have stopped, and start again on 4 workers")


def test_node_whose_clock_is_behind_makes_no_stall(api: FakeApi, status: Run) -> None:
    api.nodes_clock = -20 * MINUTE
    serve(api, MPI, pods=UP, run1_launcher=_steps(20 * MINUTE + 3, images_per_second=50.0))

    shown = status("run1")

    assert "no step" not in shown.out
    assert "50.0 images/sec now" in shown.out
    assert " ago" not in shown.out


def test_stall_is_measured_by_the_nodes_clock(api: FakeApi, status: Run) -> None:
    api.nodes_clock = -20 * MINUTE
    serve(api, MPI, pods=UP, run1_launcher=_steps(24 * MINUTE))

    assert "no step for" not in status("run1").out


@pytest.mark.parametrize(("minutes", "is_told"), [(5, False), (12, True)])
def test_ranks_that_wait_before_the_first_step_have_ten_minutes(
    api: FakeApi, status: Run, minutes: int, *, is_told: bool
) -> None:
    up = [_started(each, minutes * MINUTE) for each in UP]
    serve(api, _trainer(MPI), pods=up, run1_launcher=_line(60, MISSING))

    assert ("the others wait for rank 0, says Horovod" in status("run1").out) is is_told


@pytest.mark.parametrize(("minutes", "is_told"), [(20, False), (45, True)])
def test_trainer_without_a_first_step_is_stalled_after_half_an_hour(
    api: FakeApi, status: Run, minutes: int, is_told: bool
) -> None:
    up = [_started(each, minutes * MINUTE) for each in UP]
    serve(api, _trainer(MPI), pods=up, run1_launcher=_line(minutes * MINUTE, "Step\tImg/sec\ttotal_loss"))

    phase, why, _ = told(status("run1"))

    stalled = f"no step for {minutes} min since its pods run: run1-launcher logged nothing since"
    assert (phase, why) == ("Starting", stalled if is_told else "no step yet")


def test_program_that_tells_no_steps_is_never_stalled(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=[_started(each, 300 * MINUTE) for each in UP], run1_launcher=_line(299 * MINUTE, "hello"))

    assert told(status("run1"))[:2] == ("Running", "")


def test_run_that_makes_steps_costs_no_more_requests(api: FakeApi, status: Run) -> None:
    serve(api, MPI, pods=UP, run1_launcher=_steps(5))

    status("run1")

    assert len([each for each in api.requests if "/log?" in each]) == 1


def test_longer_stall_is_no_change_that_a_wait_prints(api: FakeApi, status: Run) -> None:
    # While the command waits, the rounded age of the last step grows from 14 to 15 minutes.
    serve(api, MPI, pods=UP, run1_launcher=_steps(14.5 * MINUTE - 2))

    shown = status("run1", "--wait", "--timeout", "5s")

    assert shown.code == 4
    assert shown.err.count("run1: Running") == 2, "one line, and the last one of --timeout"
