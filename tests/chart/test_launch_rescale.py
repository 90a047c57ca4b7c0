"""distrain-launch starts a run again at another size: workers that come, go, or are lost."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.chart.launching import TRAINING, Bench, follow, greeting_server

LIVE = "--rescale=live"
ASKED = "asking the ranks to stop at a step boundary: "
BOUNDARY = "after the ranks stopped at a step boundary"


@dataclass
class Workers:
    """The workers of a bench, each at an address of its own: in the list of hosts, answering, or both."""

    bench: Bench
    answering: dict[int, contextlib.ExitStack] = field(default_factory=dict)

    def answer(self, *numbers: int) -> None:
        for number in numbers:
            self.answering[number] = contextlib.ExitStack()
            greeting = greeting_server(b"SSH-2.0-test\r\n", address(number), self.bench.port)
            self.answering[number].enter_context(greeting)

    def fall_silent(self, *numbers: int) -> None:
        for number in numbers:
            self.answering.pop(number).close()

    def list(self, *numbers: int) -> str:
        text = "".join(f"{address(number)} slots=2\n" for number in numbers)
        self.bench.write_hostfile(text)
        return text

    def start(
        self, *numbers: int, options: tuple[str, ...] = (LIVE,), program: str = TRAINING
    ) -> subprocess.Popen[str]:
        """Start a run on these workers and wait until it trains."""
        self.answer(*[number for number in numbers if number not in self.answering])
        launcher = self.bench.start(program, *options, hostfile=self.list(*numbers))
        follow(launcher, f"training on {2 * len(numbers)}")
        return launcher

    def finish(self, launcher: subprocess.Popen[str]) -> str:
        """Let the training come to its end. Return what was said until then."""
        (self.bench.folder / "finish").touch()
        output, _ = launcher.communicate(timeout=10)
        assert launcher.returncode == 0, output
        return output


def address(number: int) -> str:
    return f"127.0.1.{number + 1}"


@pytest.fixture
def workers(bench: Bench) -> Iterator[Workers]:
    workers = Workers(bench)
    yield workers
    workers.fall_silent(*list(workers.answering))


def test_run_grows_once_all_new_workers_answer(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.list(0, 1, 2, 3)
    follow(launcher, "waiting for 2 of 2 more workers, training goes on with 2: 127.0.1.3 (connection refused)")
    workers.answer(2)
    assert not workers.bench.told
    workers.answer(3)

    follow(launcher, ASKED + "2 more workers answer")
    follow(launcher, f"2 -> 4 workers {BOUNDARY}")
    follow(launcher, "training on 8")
    assert sorted(workers.bench.told) == [f"{address(number)}: kill -HUP 1" for number in (0, 1)]
    workers.finish(launcher)


def test_run_shrinks_when_workers_leave_the_list(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2, 3)

    workers.list(0)

    follow(launcher, ASKED + "3 workers leave")
    follow(launcher, f"4 -> 1 workers {BOUNDARY}")
    follow(launcher, "training on 2")
    workers.finish(launcher)


def test_run_goes_on_without_workers_that_left_before_the_list_says_so(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2)

    # As Kubernetes has it: the leaving worker's SIGTERM stops the ranks, and the list follows within a minute.
    workers.fall_silent(2)
    (workers.bench.folder / "stop").touch()

    said = follow(launcher, f"3 -> 2 workers {BOUNDARY}")
    said += follow(launcher, "training on 4")
    workers.list(0, 1)
    said += workers.finish(launcher)
    assert "starting again" not in said
    assert "kubectl delete" not in said
    assert ASKED not in said


def test_run_follows_one_change_after_another(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.answer(2, 3)
    workers.list(0, 1, 2, 3)
    follow(launcher, "training on 8")
    workers.list(0)
    follow(launcher, "training on 2")
    workers.list(0, 1, 2)

    follow(launcher, f"1 -> 3 workers {BOUNDARY}")
    follow(launcher, "training on 6")
    workers.finish(launcher)


def test_second_change_before_the_first_is_done_counts(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.list(0, 1, 2, 3)
    follow(launcher, "waiting for 2 of 2 more workers")
    workers.answer(2)
    workers.list(0, 1, 2)

    follow(launcher, f"2 -> 3 workers {BOUNDARY}")
    workers.finish(launcher)


def test_size_may_change_before_the_run_starts(workers: Workers) -> None:
    workers.answer(0)
    launcher = workers.bench.start(TRAINING, LIVE, hostfile=workers.list(0, 1))

    workers.list(0, 1, 2)
    workers.answer(1, 2)

    follow(launcher, "training on 6")
    workers.finish(launcher)


def test_unchanged_list_restarts_nothing(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.list(0, 1)
    workers.list(1, 0)
    workers.list(0, 1, 2)
    follow(launcher, "waiting for 1 of 1 more workers")

    assert "asking" not in workers.finish(launcher)


def test_list_that_is_being_written_is_no_list(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.bench.write_hostfile("")
    workers.bench.write_hostfile("127.0.1.1 slo")
    workers.list(0, 1, 2)
    follow(launcher, "waiting for 1 of 1 more workers")

    assert "asking" not in workers.finish(launcher)


# Its mpirun is heard every 20 ms.
TICKING = TRAINING.replace("    sleep", "    echo tick\n    sleep")
# Its mpirun fails when a worker is lost.
LOSING = TRAINING.replace("    sleep", "    test -e lost && rm lost && exit 1\n    sleep")


def test_lost_worker_that_comes_back_is_waited_for(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=10"), program=LOSING)

    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again (restart 1 of 1")
    workers.answer(1)

    assert "->" not in follow(launcher, "training on 4")
    workers.finish(launcher)


def test_run_goes_on_smaller_and_grows_when_the_lost_worker_is_back(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=0.3"), program=LOSING)

    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "going on with 2 of 3 workers, without 127.0.1.2 (connection refused)")
    follow(launcher, "3 -> 2 workers after a failure")
    follow(launcher, "if 127 stays Failed or Unknown, have it made anew: kubectl delete pod 127")
    follow(launcher, "2 of 3 workers answer: ")
    follow(launcher, "training on 4")
    workers.answer(1)

    follow(launcher, ASKED + "1 more workers answer")
    follow(launcher, f"2 -> 3 workers {BOUNDARY}")
    follow(launcher, "training on 6")
    workers.finish(launcher)


def test_run_grows_while_a_lost_worker_stays_away(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=0.3"), program=LOSING)
    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "training on 2")

    workers.answer(2)
    workers.list(0, 1, 2)

    follow(launcher, f"1 -> 2 workers {BOUNDARY}")
    follow(launcher, "training on 4")
    workers.finish(launcher)


REFUSED = "s3.secretName: http://minio:9000 refuses the keys of this Secret (InvalidAccessKeyId)"
# Three workers have six ranks, of which those of the third cannot read.
UNFIT = f"""
if test "$2" = 6; then
    echo "distrain: {{}}: {REFUSED}"
    exit 5
fi
{TRAINING}
"""


def test_run_goes_on_without_a_new_worker_that_cannot_reach_the_storage(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=3"), program=UNFIT.format(address(2)))
    workers.answer(2)
    workers.list(0, 1, 2)

    said = follow(launcher, "3 -> 2 workers after a failure")
    said += follow(launcher, "training on 4")
    assert f"going on without {address(2)} until its pod is made anew" in said
    assert REFUSED in said
    workers.list(0, 1, 2, 3)
    workers.answer(3)
    # A worker that can takes part, beside the one that still cannot.
    said = follow(launcher, f"2 -> 3 workers {BOUNDARY}")
    assert "starting again" not in said
    (workers.bench.folder / "finish").touch()
    launcher.communicate(timeout=10)


def test_run_of_fixed_size_ends_with_the_worker_that_cannot_reach_the_storage(workers: Workers) -> None:
    code, _ = workers.bench.run(
        f'echo "distrain: {address(0)}: {REFUSED}"; exit 5', "--max-restarts=1", hostfile="localhost slots=2\n"
    )

    assert code == 5
    assert f"{address(0)}: {REFUSED}" in workers.bench.cause


def test_run_shrinks_past_a_lost_worker(workers: Workers) -> None:
    launcher = workers.start(0, 1, 2, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=20"), program=LOSING)
    workers.fall_silent(2)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again")

    workers.list(0, 1)

    follow(launcher, "3 -> 2 workers after a failure")
    workers.finish(launcher)


def test_failure_does_not_wait_for_workers_that_have_never_been_there(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=1", "--lost-worker-timeout=60"), program=LOSING)
    workers.list(0, 1, 2)
    follow(launcher, "waiting for 1 of 1 more workers")

    (workers.bench.folder / "lost").touch()

    follow(launcher, "2 of 3 workers answer")
    workers.finish(launcher)


def test_worker_whose_sshd_has_ended_is_given_the_time_for_its_last_step(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=(LIVE, "--max-restarts=0"), program=TICKING)

    workers.fall_silent(1)

    # One that gives no answer would have been missed by then.
    said = "".join(follow(launcher, "tick") for _ in range(150))
    workers.answer(1)
    assert "no sign of" not in said + workers.finish(launcher)


def test_worker_whose_sshd_is_slow_is_not_lost(workers: Workers) -> None:
    launcher = workers.start(0, options=(LIVE, "--max-restarts=0", "--lost-worker-timeout=0.3"))
    workers.fall_silent(0)

    # It takes connections and greets nobody, for longer than a worker may be silent.
    with socket.create_server((address(0), workers.bench.port)), contextlib.suppress(subprocess.TimeoutExpired):
        launcher.wait(3)
    workers.answer(0)

    assert "no sign of" not in workers.finish(launcher)


def test_run_of_fixed_size_looks_at_no_list(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=("--rescale=replace",), program=TICKING)

    workers.list(0)

    # A live run would have been asked to stop by then.
    said = "".join(follow(launcher, "tick") for _ in range(50))
    assert ASKED not in said + workers.finish(launcher)


def test_run_of_fixed_size_waits_for_all_of_its_workers(workers: Workers) -> None:
    options = ("--rescale=replace", "--max-restarts=1", "--lost-worker-timeout=0")
    launcher = workers.start(0, 1, options=options, program=LOSING)
    workers.fall_silent(1)
    (workers.bench.folder / "lost").touch()
    follow(launcher, "starting again")

    workers.answer(1)

    assert "->" not in follow(launcher, "training on 4")
    workers.finish(launcher)


def test_ranks_that_do_not_stop_are_ended_after_the_grace_period(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, options=(LIVE, "--grace=0.5"), program=f"trap '' HUP; {deaf}")

    workers.answer(1)
    workers.list(0, 1)

    follow(launcher, "the ranks did not stop within 0.5 s, and are ended")
    said = follow(launcher, "1 -> 2 workers after the ranks were ended by force, ")
    assert re.search(r"ended by force, \d+ s after they were asked to stop$", said.rstrip())
    follow(launcher, "training on 4")
    assert BOUNDARY not in said + workers.finish(launcher)


def test_ranks_that_are_ended_by_force_with_the_pod_are_said_to_be(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, options=(LIVE, "--grace=0.5"), program=deaf)

    launcher.terminate()

    assert launcher.wait(timeout=10) == 143
    assert re.fullmatch(
        r"distrain: stopped by SIGTERM; the ranks were ended by force, \d+ s after they were asked to stop",
        workers.bench.cause,
    )


def test_step_at_which_the_ranks_stopped_is_said(workers: Workers) -> None:
    line = "stopped at step 1970 (31520 samples) after SIGTERM; resumes there"
    says = TRAINING.replace("rm stop && exit 143", f'rm stop && echo "{line}" && exit 143')
    launcher = workers.start(0, 1, program=says)
    workers.list(0)
    follow(launcher, "2 -> 1 workers after the ranks stopped at step 1970")
    follow(launcher, "training on 2")

    launcher.terminate()

    assert launcher.wait(timeout=10) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; the ranks stopped at step 1970"


def test_ranks_that_sigterm_ends_have_stopped_at_no_step(workers: Workers) -> None:
    banner = "mpirun noticed that process rank 0 with PID 12 on node run1-worker-0 exited on signal 15 (Terminated)."
    dies = TRAINING.replace("rm stop && exit 143", f'rm stop && echo "{banner}" && exit 143')
    launcher = workers.start(0, program=dies)

    launcher.terminate()

    assert launcher.wait(timeout=10) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; rank 0 was ended by signal 15"


def test_sigterm_asks_for_a_stop_at_a_step_boundary(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    launcher.terminate()

    follow(launcher, ASKED + "SIGTERM")
    assert launcher.wait(timeout=10) == 143
    assert workers.bench.cause == "distrain: stopped by SIGTERM; the ranks stopped at a step boundary"
    assert sorted(workers.bench.told) == [f"{address(number)}: kill -HUP 1" for number in (0, 1)]


def test_training_that_finishes_while_it_is_stopped_is_finished(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, 1, program=deaf)
    launcher.terminate()
    follow(launcher, ASKED)

    workers.finish(launcher)

    assert workers.bench.cause == ""
