"""Test that distrain-launch restarts a run at another size when the list of workers changes."""

from __future__ import annotations

import re

import pytest

from tests.chart.scripts.launch.workers import ASKED, BOUNDARY, LIVE, Workers, address
from tests.chart.scripts.launching import TRAINING, follow


def test_run_grows_once_all_new_workers_answer(workers: Workers) -> None:
    launcher = workers.start(0, 1)

    workers.list(0, 1, 2, 3)
    follow(launcher, "waiting for 2 of 2 new workers, training goes on with 2: 127.0.1.3 (connection refused)")
    workers.answer(2)
    # The launcher asks the ranks to stop only if two checks of the new workers find the same.
    for _ in range(2):
        workers.wait_until_list_is_read()
    assert not workers.bench.told
    workers.answer(3)

    follow(launcher, ASKED + "2 new workers answer")
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

    # Kubernetes first sends SIGTERM to the leaving worker, which stops the ranks, and changes the hostfile within a
    # minute. The test does the same.
    workers.fall_silent(2)
    (workers.bench.folder / "stop").touch()

    said = follow(launcher, f"3 -> 2 workers {BOUNDARY}")
    said += follow(launcher, "training on 4")
    workers.list(0, 1)
    said += workers.finish(launcher)
    assert "starting again" not in said
    assert "kubectl delete" not in said
    assert ASKED not in said


def test_run_whose_workers_are_listed_again_before_the_ranks_have_stopped_says_so(workers: Workers) -> None:
    slow = TRAINING.replace("rm stop && exit 143", "rm stop && while ! test -e back; do sleep 0.02; done && exit 143")
    launcher = workers.start(0, 1, program=slow)
    workers.list(0)
    follow(launcher, ASKED + "1 workers leave")

    workers.list(0, 1)
    (workers.bench.folder / "back").touch()

    follow(launcher, f"starting again on the same number of workers {BOUNDARY}")
    follow(launcher, "training on 4")
    workers.finish(launcher)


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
    follow(launcher, "waiting for 2 of 2 new workers")
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

    for numbers in ((0, 1), (1, 0)):
        workers.list(*numbers)
        workers.wait_until_list_is_read()

    assert ASKED not in workers.finish(launcher)


@pytest.mark.parametrize("text", ["", "127.0.1.1 slo"])
def test_list_that_is_being_written_is_no_list(workers: Workers, text: str) -> None:
    launcher = workers.start(0, 1)

    workers.bench.write_hostfile(text)
    workers.wait_until_list_is_read()

    assert ASKED not in workers.finish(launcher)


def test_run_of_fixed_size_looks_at_no_list(workers: Workers) -> None:
    launcher = workers.start(0, 1, options=("--rescale=replace",))

    workers.list(0)
    workers.wait_until_list_is_read()

    assert ASKED not in workers.finish(launcher)


def test_ranks_that_do_not_stop_are_ended_after_the_grace_period(workers: Workers) -> None:
    deaf = TRAINING.replace("test -e stop && rm stop && exit 143", ":")
    launcher = workers.start(0, options=(LIVE, "--grace=0.5"), program=f"trap '' HUP; {deaf}")

    workers.answer(1)
    workers.list(0, 1)

    follow(launcher, "the ranks did not stop within 0.5 s and are killed")
    said = follow(launcher, "1 -> 2 workers after the ranks were ended by force, ")
    assert re.search(r"ended by force, \d+ s after they were asked to stop$", said.rstrip())
    follow(launcher, "training on 4")
    assert BOUNDARY not in said + workers.finish(launcher)
