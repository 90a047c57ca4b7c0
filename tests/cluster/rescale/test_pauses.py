"""Measure in the launcher's log how long the training pauses after a rescale or a lost worker."""

from __future__ import annotations

import re
import signal
import time
from datetime import datetime, timezone

import pytest

from lab.cluster import client, faults
from tests.cluster.testbed import Namespace
from tests.cluster.training import (
    FIRST_STEP,
    RESUMED,
    STEP,
    TENSORFLOW,
    Line,
    Say,
    live_pod,
    rescale,
    seconds_to_step,
    timed_log,
    wait_for_step,
)

pytestmark = pytest.mark.full
# Use Horovod's default cycle time, because users have it, too. The other tests use a longer cycle time.
RUN = {**TENSORFLOW, "mpi.env.HOROVOD_CYCLE_TIME": "1"}

ANSWERED = re.compile(r"^distrain-launch: all \d+ workers answer: ")
# If the ranks fail twice within a minute, distrain-launch waits before it restarts them.
SECONDS_BETWEEN_FAILURES = 61
# Read the log rarely, because each read takes processor time from the ranks. The log itself contains the time of each
# step.
SECONDS_BETWEEN_CHECKS = 4


def _pauses(lines: list[Line]) -> list[tuple[int, int, float]]:
    """Return (ranks before, ranks after, seconds without a step) for each change of the number of ranks."""
    found: list[tuple[int, int, float]] = []
    last_step, ranks = lines[0].at, (0, 0)
    for line in lines:
        if match := RESUMED.match(line.words):
            ranks = int(match[4]), int(match[3])
        if FIRST_STEP.match(line.words):
            found.append((*ranks, (line.at - last_step).total_seconds()))
        if STEP.match(line.words):
            last_step = line.at
    return found


def _cold_start(lines: list[Line]) -> float:
    """Return the seconds from mpirun's start to the first logged step."""
    begun = next(line.at for line in lines if ANSWERED.match(line.words))
    return next((line.at - begun).total_seconds() for line in lines if STEP.match(line.words))


@pytest.fixture(scope="module")
def cold_start(long_run: Namespace) -> float:
    """Measure how long the run's first start takes, before any rescale."""
    return _cold_start(timed_log(long_run))


@pytest.mark.parametrize(("role", "words"), [("worker", "distrain_trainer"), ("launcher", "mpirun")])
def test_killed_process_costs_no_more_than_half_a_cold_start_more(
    long_run: Namespace, cold_start: float, role: str, words: str, say: Say
) -> None:
    time.sleep(SECONDS_BETWEEN_FAILURES)
    since = datetime.now(timezone.utc)

    faults.send(signal.SIGKILL, live_pod(long_run, role)["metadata"]["uid"], words)

    took = seconds_to_step(long_run, since)
    say(f"killed {words} | {took:.1f} s | {took / cold_start:.2f} of a cold start of {cold_start:.1f} s")
    assert took <= 1.5 * cold_start


@pytest.mark.parametrize("role", ["worker", "launcher"])
def test_deleted_pod_costs_no_more_than_30_s_beyond_that(
    long_run: Namespace, cold_start: float, role: str, say: Say
) -> None:
    since = datetime.now(timezone.utc)

    client.kubectl("-n", long_run.name, "delete", "pod", live_pod(long_run, role)["metadata"]["name"], "--wait=false")

    took = seconds_to_step(long_run, since)
    say(f"deleted {role} | {took:.1f} s | {took - 1.5 * cold_start:.1f} s beyond 1.5 of a cold start")
    assert took <= 1.5 * cold_start + 30
    wait_for_step(long_run, ranks=2)


def test_training_pauses_for_less_than_15_s_at_each_new_size(long_run: Namespace, say: Say) -> None:
    sizes = (4, 1, 3)

    for size in sizes:
        rescale(long_run, size)
        wait_for_step(long_run, ranks=size, pause=SECONDS_BETWEEN_CHECKS)

    found = _pauses(timed_log(long_run))[-len(sizes) :]
    for before, after, seconds in found:
        say(f"{before} -> {after} | {seconds:.1f} s")
    assert [(before, after) for before, after, _ in found] == [(2, 4), (4, 1), (1, 3)]
    assert max(seconds for _, _, seconds in found) <= 15
