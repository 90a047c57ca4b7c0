"""With a fake clock, test what happens exactly at the limits of times and counts."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint import interval, manifest, outage
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.head import STOPPED, Head, Holder
from distrain_trainer.checkpoint.lease import Liveness
from distrain_trainer.errors import ConflictError, StorageError, UnavailableError
from distrain_trainer.storage import FolderStore, Store, open_store
from tests.trainer.fixtures.counter_run import begin, save_step
from tests.trainer.fixtures.holders import A, B, C, take
from tests.trainer.fixtures.unsteady_s3 import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The fake clock by which outages and the wait for a holder of HEAD are measured."""
    clock = Clock()
    clock.now = 1000.0
    monkeypatch.setattr(outage, "time", clock)
    monkeypatch.setattr(leases, "time", clock)
    return clock


def test_outage_begins_with_its_first_failure_and_ends_with_success(clock: Clock) -> None:
    found = outage.Outage()
    assert (bool(found), found.seconds, found.reason, found.line()) == (False, 0.0, "", "")

    found.add(3, "full")
    clock.sleep(5)
    found.add(4, "still full")

    assert (bool(found), found.seconds, found.reason) == (True, 5.0, "still full")
    assert found.line() == "checkpoint: step 3 is not saved (still full); training goes on, and tries again"
    found.end()
    assert (bool(found), found.seconds, found.reason) == (False, 0.0, "")
    clock.sleep(1)
    found.add(9, "full again")
    assert found.seconds == 0.0
    assert found.line().startswith("checkpoint: step 9 is not saved (full again);")


def test_outage_is_told_again_after_exactly_a_minute(clock: Clock) -> None:
    found = outage.Outage()
    found.add(3, "full")
    told = []
    for seconds in (0, 59, 1, 59, 1):
        clock.sleep(seconds)
        told.append(found.line())

    assert [bool(line) for line in told] == [True, False, True, False, True]
    assert told[2].startswith("checkpoint: step 3 is not saved for 1 min (full);")
    assert told[4].startswith("checkpoint: step 3 is not saved for 2 min (full);")


def test_second_outage_is_told_at_once(clock: Clock) -> None:
    found = outage.Outage()
    found.add(3, "full")
    assert found.line()
    found.end()
    clock.sleep(1)
    found.add(4, "full")

    assert found.line() == "checkpoint: step 4 is not saved (full); training goes on, and tries again"


def test_reason_is_the_failure_until_a_call_is_silent_for_more_than_a_minute(clock: Clock) -> None:
    found = outage.Outage()
    found.add(3, "full")
    found.note("writing HEAD")
    clock.sleep(60)
    assert (found.reason, found.silence) == ("full", 60.0)
    clock.sleep(1)
    assert found.reason == "writing HEAD has not returned for 61 s"
    assert found.seconds == 61.0
    found.rest()
    assert (found.reason, found.silence) == ("full", 0.0)


@pytest.mark.parametrize(
    ("stall", "write", "seconds", "reason"),
    [
        pytest.param(0, 60, 60, "auto: at least a minute", id="write-of-the-shortest"),
        pytest.param(0, 60.1, 60.1, "auto: writing one takes 60 s", id="write-just-over-the-shortest"),
        pytest.param(1e9, 1800, 1800, "auto: at most 30 minutes", id="write-of-the-longest"),
        pytest.param(1e9, 1800.1, 1800.1, "auto: writing one takes 1800 s", id="write-just-over-the-longest"),
    ],
)
def test_write_counts_only_beyond_the_limits(stall: float, write: float, seconds: float, reason: str) -> None:
    assert interval.interval(None, stall=stall, write=write, ranks=1) == interval.Interval(seconds, reason)


def test_interval_is_dalys_up_to_twice_the_time_between_failures() -> None:
    assert interval.checkpoint_interval(0.02, 100.0) == pytest.approx(2 * (1 + 0.01 / 3 + 0.0001 / 9) - 0.02)
    assert interval.checkpoint_interval(19.0, 10.0) == pytest.approx(8.8846, abs=0.0001)
    assert interval.checkpoint_interval(20.0, 10.0) == 10.0


def test_interval_at_a_limit_is_not_said_to_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for best in (interval.SHORTEST, interval.LONGEST):
        monkeypatch.setattr(interval, "checkpoint_interval", lambda *_, best=best: best)

        found = interval.interval(None, stall=1, write=1, ranks=8)

        assert found == interval.Interval(best, "auto: loses least for 8 ranks that stand still 1 s for each")


def head_of(holder: Holder, **values: Any) -> Head:
    return Head(**{"generation": 1, "job": holder.job, "pods": holder.pods, "heartbeat": heads.now(), **values})


@pytest.mark.parametrize(("age", "is_given"), [(899.0, True), (900.0, False), (901.0, False)])
def test_holder_is_gone_at_the_first_check_if_its_beat_is_older_than_clocks_differ(
    age: float, is_given: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "now", lambda: 10_000.0)

    assert Liveness().is_given(head_of(A, heartbeat=10_000.0 - age)) == is_given


def test_holder_whose_beat_changed_is_waited_for_whatever_its_clock_says(clock: Clock) -> None:
    liveness = Liveness()
    assert not liveness.is_given(head_of(A, heartbeat=1.0))
    clock.sleep(1)

    assert liveness.is_given(head_of(A, heartbeat=2.0))


def test_holder_is_gone_after_exactly_the_silence(clock: Clock) -> None:
    liveness, head = Liveness(), head_of(A)
    found = []
    for seconds in (0, 10, 10, 9.5, 0.5):
        clock.sleep(seconds)
        found.append(liveness.is_given(head))

    # The count of silent seconds would start again only if a check were more than ten seconds late.
    assert found == [True, True, True, True, False]


def test_check_that_is_late_starts_the_count_again(clock: Clock) -> None:
    liveness, head = Liveness(), head_of(A)
    found = []
    for seconds in (0, 10, 10.5, 10, 10, 9, 1):
        clock.sleep(seconds)
        found.append(liveness.is_given(head))

    assert found == [True] * 6 + [False]


def test_head_is_read_once_a_second_while_a_holder_is_there(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path), value="checkpoint.uri")
    take(store, A)
    reads: list[float] = []
    original, this_thread = heads.read, threading.get_ident()

    def read(store: Store) -> tuple[Head, str] | None:
        # The heartbeat threads of both holders also read HEAD; do not count their reads.
        if threading.get_ident() == this_thread:
            reads.append(clock.now)
        return original(store)

    monkeypatch.setattr(heads, "read", read)

    assert take(store, B).head.generation == 2

    # The heartbeat of the first holder never changes, so the second holder takes HEAD over after 30 s.
    assert reads == [1000.0 + second for second in range(31)]


def test_stopped_holder_is_not_waited_for(clock: Clock) -> None:
    assert not Liveness().is_given(head_of(A, state=STOPPED))


@pytest.mark.parametrize("conflicts", [9, 10])
def test_change_is_tried_ten_times(conflicts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = take(open_store(str(tmp_path), value="checkpoint.uri"), A)
    original, tries = FolderStore.write_if, []

    def write_if(store: FolderStore, name: str, content: bytes, tag: str | None) -> str:
        tries.append(name)
        if len(tries) <= conflicts:
            raise ConflictError
        return original(store, name, content, tag)

    monkeypatch.setattr(FolderStore, "write_if", write_if)
    if conflicts < 10:
        lease.change(checkpoint="1-10")
        assert lease.head.checkpoint == "1-10"
    else:
        with pytest.raises(UnavailableError, match=r"^checkpoint\.uri: .*/HEAD cannot be written: the store says"):
            lease.change()
    assert len(tries) == 10


def test_retired_pods_are_the_last_ones() -> None:
    before = tuple(f"pod-{number}" for number in range(64))

    found = heads.retired(before, ("pod-1", "x", "y"), but=("y",))

    assert len(found) == 64
    assert found == (*(pod for pod in before if pod not in ("pod-0", "pod-1")), "pod-1", "x")
    many = tuple(f"new-{number}" for number in range(70))
    assert heads.retired(before, many, but=()) == many
    assert heads.retired(("a", "b"), ("c",), but=()) == ("a", "b", "c")


def test_head_retires_the_pods_of_other_jobs_only() -> None:
    head = head_of(A, retired=("old",), successor=B, state=STOPPED, checkpoint="1-10")

    passed = head.passed_to(B)
    assert (passed.generation, passed.job, passed.pods) == (2, B.job, B.pods)
    assert (passed.successor, passed.state, passed.checkpoint) == (None, "training", "1-10")
    assert passed.retired == ("old", *A.pods)
    assert head.passed_to(Holder(A.job, ("pod-a-2",))).retired == ("old",)
    assert head.asked_by(C).retired == ("old", *B.pods)
    assert head.asked_by(Holder(B.job, ("pod-b-2",))).retired == ("old",)
    assert (
        head_of(A, generation=7, checkpoint="6-1").begun_anew()
        == head_of(A, generation=7, since=7, heartbeat=head_of(A).heartbeat)
        or head_of(A, generation=7, checkpoint="6-1").begun_anew().since == 7
    )


def test_heartbeat_is_the_time_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "time", SimpleNamespace(time=lambda: 12.3456))

    assert heads.now() == 12.346


def manifest_with(folder: Path, **values: object) -> bytes:
    told = json.loads((folder / "1-10/manifest.json").read_text())
    for path, value in values.items():
        *outer, last = path.split("__")
        place = told
        for name in outer:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = value
    return json.dumps(told).encode()


@pytest.mark.parametrize("path", ["position__step", "position__samples", "ranks", "position__segments__0__steps"])
@pytest.mark.parametrize(
    ("number", "is_read"), [(0, True), (2**43 - 1, True), (2**43, False), (-1, False), (1.0, False)]
)
def test_number_in_a_manifest_is_below_the_largest(path: str, number: float, is_read: bool, tmp_path: Path) -> None:
    save_step(begin(tmp_path))
    content = manifest_with(tmp_path, **{path: number})

    if is_read:
        assert manifest.Manifest.from_json(content)
    else:
        with pytest.raises(ValueError, match=r"manifest\.json is none of this trainer's"):
            manifest.Manifest.from_json(content)


def test_heart_beats_until_the_lease_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 0.005)
    lease, beats = take(open_store(str(tmp_path), value="checkpoint.uri"), A), threading.Semaphore(0)
    original = lease.change

    def change(**to: object) -> None:
        original(**to)
        beats.release()

    monkeypatch.setattr(lease, "change", change)
    lease.beat()
    assert all(beats.acquire(timeout=30) for _ in range(3))
    lease.end(STOPPED)
    while beats.acquire(blocking=False):
        pass
    # When the lease ended, one heartbeat may still have been in progress.
    assert not all(beats.acquire(timeout=0.1) for _ in range(4))


def test_store_that_heeds_no_tags_is_refused_to_a_second_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = FolderStore.write_if

    def write_if(store: FolderStore, name: str, content: bytes, tag: str | None) -> str:
        # This store refuses to create a file that exists. But before it replaces a file, it does not compare tags.
        held = store.read_tagged(name)
        return original(store, name, content, held[1] if held and tag else tag)

    monkeypatch.setattr(FolderStore, "write_if", write_if)
    store = open_store(str(tmp_path), value="checkpoint.uri")

    take(store, A)
    with pytest.raises(StorageError, match=r"is held by job run-a, and the store ignores If-Match"):
        take(store, B)
