"""Test that only one generation of a run holds HEAD: when a newer generation acquires HEAD, the older one ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from distrain_trainer.checkpoint import head as heads
from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.head import FINISHED, STOPPED, Head, Holder
from distrain_trainer.checkpoint.lease import Liveness
from distrain_trainer.errors import (
    ConflictError,
    FencedError,
    StoppedError,
    StorageError,
    Termination,
    UnavailableError,
)
from distrain_trainer.storage import FolderStore, Store, open_store
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.holders import A, B, C, nothing, take
from tests.trainer.fixtures.unsteady_s3 import Clock

pytestmark = pytest.mark.usefixtures("quick_beats")


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield open_store(str(tmp_path), value="checkpoint.uri")
        return
    server = request.getfixturevalue("s3_server")
    server.boto3_client().create_bucket(Bucket=(bucket := f"hold-{abs(hash(tmp_path))}"))
    with pytest.MonkeyPatch.context() as environment:
        for name, value in request.getfixturevalue("s3_env").items():
            environment.setenv(name, value)
        yield open_store(f"s3://{bucket}/default/run1", value="checkpoint.uri")


def test_restart_of_the_same_job_fences_its_earlier_processes(store: Store) -> None:
    first = take(store, A)

    second = take(store, A)

    assert (first.head.generation, second.head.generation) == (1, 2)
    with pytest.raises(FencedError, match=r"is held by generation 2 \(job run-a\) and no longer by generation 1"):
        first.change(checkpoint="1-10")
    assert first.is_fenced
    second.change(checkpoint="2-10")


def test_deleted_head_is_written_anew_by_its_holder(store: Store) -> None:
    lease = take(store, A)
    lease.change(checkpoint="1-10")
    store.delete("HEAD")

    lease.change(checkpoint="1-20")

    assert not lease.is_fenced
    found = heads.read(store)
    assert found
    assert (found[0].holder, found[0].checkpoint) == (A, "1-20")


def test_run_begun_anew_in_place_of_a_deleted_head_fences_the_former(store: Store) -> None:
    first = take(store, A)
    store.delete("HEAD")
    take(store, B)

    with pytest.raises(FencedError, match=r"is held by generation 1 \(job run-b\) and no longer by generation 1"):
        first.change(checkpoint="1-10")


def test_store_whose_tags_are_never_right_fences_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = take(open_store(str(tmp_path), value="checkpoint.uri"), A)

    def conflict(*_: object) -> str:
        raise ConflictError("changed")

    monkeypatch.setattr(FolderStore, "write_if", conflict)

    with pytest.raises(UnavailableError, match=r"HEAD cannot be written: the store says at each write that the"):
        lease.change(checkpoint="1-10")
    assert not lease.is_fenced


def test_another_job_waits_until_the_holder_has_stopped(store: Store) -> None:
    first = take(store, A)
    first.beat()
    with ThreadPoolExecutor(1) as other:
        second = other.submit(take, store, B)
        wait_until(lambda: first.is_asked_for)
        assert not second.done()

        first.end(STOPPED)

        assert second.result(120).head.generation == 2
    assert set(second.result().head.retired) == set(A.pods)


def test_job_asks_the_holder_once_and_says_that_it_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = take(store, A)
    monkeypatch.setattr(heads, "SECONDS_BETWEEN_BEATS", 3600)
    lines = list[str]()
    is_given = Mock(side_effect=[True, True, True, True, False])
    monkeypatch.setattr(Liveness, "is_given", is_given)

    leases.acquire(store, B, resumes=True, lacks=nothing, say=lines.append)

    assert lines == [f"waiting for job {first.head.job}, which holds {store.uri}, to stop"]
    # Each request would change HEAD, which rank 0 of the holder would have to read again.
    assert [head.successor for (head,), _ in is_given.call_args_list] == [None, B, B, B, B]


def test_another_job_does_not_wait_for_a_holder_that_is_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, A)  # This holder never renews its heartbeat.
    monkeypatch.setattr(heads, "SECONDS_OF_SILENCE", 0.3)

    assert take(store, B).head.generation == 2


def test_holder_whose_clock_is_wrong_is_not_taken_for_gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = take(store, A)
    real = heads.now()
    monkeypatch.setattr(heads, "now", lambda: real - 600)
    first.change()
    monkeypatch.setattr(heads, "now", lambda: real)
    with ThreadPoolExecutor(1) as other:
        second = other.submit(take, store, B)
        wait_until(lambda: (found := heads.read(store)) is not None and found[0].successor == B)
        first.end(STOPPED)

        assert second.result(120).head.generation == 2


def test_holder_that_was_last_seen_long_ago_is_not_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, A)
    tomorrow = heads.now() + 86400
    monkeypatch.setattr(heads, "now", lambda: tomorrow)

    assert take(store, B).head.retired == A.pods


def test_silence_counts_while_the_store_is_there_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "time", clock := Clock())
    clock.now = 1.0
    liveness, head = Liveness(), Head.first(A)
    waited_for = []
    # The third check happens after an outage of 40 s. During the outage the holder could not write its heartbeat, so
    # this time does not count as silence.
    for seconds in (0, 1, 40, *[1] * 31):
        clock.sleep(seconds)
        waited_for.append(liveness.is_given(head))

    assert waited_for == [*[True] * 32, False, False]


def test_one_that_is_told_to_end_while_it_waits_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    take(store, A)
    monkeypatch.setattr(Termination, "requested", True)
    said: list[str] = []

    with pytest.raises(StoppedError):
        leases.acquire(store, B, resumes=True, lacks=nothing, say=said.append)

    assert said[-1].startswith("stopped before the training began, while waiting for job run-a, which holds ")


def test_jobs_that_start_at_once_get_a_generation_each(store: Store) -> None:
    # Some S3 servers store keys as files in folders, and delete a folder when its last file is deleted. A write to this
    # folder at the same time then fails.
    store.write("another", b"")
    with ThreadPoolExecutor(6) as starts:
        holders = list(starts.map(lambda number: take(store, Holder("run-a", (f"pod-{number}",))), range(6)))

    assert sorted(lease.head.generation for lease in holders) == [1, 2, 3, 4, 5, 6]


def test_rolled_back_job_takes_over_and_its_own_former_pods_do_not_come_back(store: Store) -> None:
    take(store, A).end(STOPPED)
    take(store, B).end(STOPPED)
    rolled_back = Holder(A.job, ("pod-a-new",))

    third = take(store, rolled_back)

    assert third.head.generation == 3
    for former in (A, B):
        with pytest.raises(FencedError, match=r"job run-a has taken over .* from this job, which is over$"):
            take(store, former)


def test_later_of_two_that_wait_gets_the_run_and_the_other_ends(store: Store) -> None:
    first = take(store, A)
    first.beat()
    with ThreadPoolExecutor(2) as others:
        second = others.submit(take, store, B)
        wait_until(lambda: first.head.successor == B)
        third = others.submit(take, store, C)

        with pytest.raises(FencedError):
            second.result(120)
        wait_until(lambda: first.head.successor == C)
        first.end(STOPPED)
        assert third.result(120).head.job == C.job


def test_finished_run_is_not_taken_but_to_begin_anew(store: Store) -> None:
    take(store, A).end(FINISHED)

    assert leases.acquire(store, A, resumes=True, lacks=nothing, say=print) is None
    # The same job has finished the run and is started again.
    assert leases.acquire(store, A, resumes=False, lacks=nothing, say=print) is None
    assert take(store, B, resumes=False).head.since == 2


class Careless(FolderStore):
    """A store that ignores the condition of a conditional write and always writes."""

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        self.write(name, content)
        return "tag"


def test_store_that_heeds_no_condition_serves_one_job_and_is_refused_to_another(tmp_path: Path) -> None:
    store, said = Careless(uri=str(tmp_path), value="checkpoint.uri"), list[str]()
    assert leases.acquire(store, A, resumes=True, lacks=nothing, say=said.append)

    with pytest.raises(StorageError, match=r"is held by job run-a, and the store ignores If-Match"):
        take(store, B)
    take(store, A)
    apart = "ignores If-Match, so it cannot keep jobs apart: never let two jobs use it at once"
    assert said == [f"checkpoint: {tmp_path} {apart}"]


def test_damaged_head_is_refused(store: Store) -> None:
    store.write("HEAD", b"{")

    with pytest.raises(StorageError, match=r"^checkpoint\.uri: .*/HEAD is damaged; remove it to go on from"):
        take(store, A)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"checkpoint": "latest"}, id="checkpoint-of-another-name"),
        pytest.param({"checkpoint": ""}, id="checkpoint-empty"),
        pytest.param({"checkpoint": "../x"}, id="checkpoint-elsewhere"),
        pytest.param({"checkpoint": 7}, id="checkpoint-number"),
        pytest.param({"generation": "4"}, id="generation-text"),
        pytest.param({"since": None}, id="no-since"),
        pytest.param({"heartbeat": None}, id="no-heartbeat"),
        pytest.param({"pods": [["pod-a-0"]]}, id="pods-nested"),
        pytest.param({"successor": {"job": "run-b", "pods": [{}]}}, id="pods-of-successor"),
        pytest.param({"end": {"step": "9", "samples": 90, "subject": ""}}, id="end-text"),
    ],
)
def test_head_that_was_edited_wrongly_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    store = open_store(str(tmp_path), value="checkpoint.uri")
    store.write("HEAD", json.dumps({**json.loads(Head.first(A).to_json()), **change}).encode())

    with pytest.raises(StorageError, match=r"/HEAD is damaged; remove it"):
        take(store, A)


def test_head_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), value="checkpoint.uri")
    store.write("HEAD", b"[" * 100_000)

    with pytest.raises(StorageError, match=r"/HEAD is damaged; remove it"):
        take(store, A)
