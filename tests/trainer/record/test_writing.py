"""Test how a record is written: after restarts, if the job is fenced, and during outages of the storage."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.record import Record
from distrain_trainer.record.lines import VERSION
from distrain_trainer.storage import FolderStore, open_store
from distrain_trainer.storage.retry import is_waited_for
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.holders import A, B, take

NEWER = json.dumps({"event": "record", "version": VERSION + 1, "form": "new"}) + "\n"


class Said(list[str]):
    """The log lines that a record prints."""

    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def said() -> Said:
    return Said()


def begin(folder: Path, said: Callable[[str], None] = print, lease: Lease | None = None) -> Record:
    """Create a record, add a start line, and wait until this line is written."""
    record = Record(str(folder), "output.uri", lease=lease, say=said)
    add(record, "start", world_size=2)
    return record


def add(record: Record, event: str, **figures: Any) -> None:
    """Add a line, and wait until it is written or the record is fenced."""
    record.add(event, **figures)
    wait_until(lambda: not record._new or not record._thread.is_alive())


def events(folder: Path, name: str = "record.jsonl") -> list[str]:
    return [
        f"{line['event']} {line.get('number', '')}".strip()
        for line in map(json.loads, (folder / name).read_text().splitlines())
    ]


def lease_of(folder: Path, holder: Any) -> Lease:
    return take(open_store(str(folder), value="checkpoint.uri"), holder)


def test_record_is_continued_after_each_end(tmp_path: Path) -> None:
    for _ in range(3):
        record = begin(tmp_path)
        add(record, "step", step=1)
        record.end("stopped")

    told = [[f"start {number}", f"step {number}", f"end {number}"] for number in (1, 2, 3)]
    assert events(tmp_path) == ["record", *told[0], *told[1], *told[2]]


def test_cut_last_line_is_dropped_and_the_record_continued(tmp_path: Path, said: Said) -> None:
    (tmp_path / "record.jsonl").write_text('{"event": "step", "step": 1}\n{"event": "st')

    begin(tmp_path, said)

    assert events(tmp_path) == ["record", "step 1", "start 1"]
    assert said == []


@pytest.mark.parametrize("content", [NEWER, "hello\n" + NEWER, "\x00\x00\n\n{}\n"])
def test_file_that_cannot_be_continued_stays_and_another_begins(content: str, tmp_path: Path, said: Said) -> None:
    (tmp_path / "record.jsonl").write_text(content)

    begin(tmp_path, said).end("stopped")
    begin(tmp_path, said).end("stopped")

    assert (tmp_path / "record.jsonl").read_text() == content
    assert events(tmp_path, "record-2.jsonl") == ["record", "start 1", "end 1", "start 2", "end 2"]
    [line] = said
    assert line.startswith(f"record: {tmp_path}/record.jsonl is not continued, as ")
    assert line.endswith("; it stays, and record-2.jsonl begins")


def test_file_of_a_newer_version_that_comes_later_stays(tmp_path: Path, said: Said) -> None:
    record = begin(tmp_path, said)
    (tmp_path / "record.jsonl").write_text(NEWER)

    add(record, "step", step=1)

    assert (tmp_path / "record.jsonl").read_text() == NEWER
    assert events(tmp_path, "record-2.jsonl") == ["record", "start 1", "step 1"]
    assert len(said) == 1


def counts(record: Record) -> list[int | None]:
    return [record.count(event) for event in ("start", "rescale")]


def test_counts_go_on_in_the_file_that_follows_a_spoilt_one(tmp_path: Path, said: Said) -> None:
    begin(tmp_path, said).end("stopped")
    record = Record(str(tmp_path), "output.uri", say=said)
    add(record, "start", world_size=4)
    assert counts(record) == [2, 1]
    (tmp_path / "record.jsonl").write_text("spoilt\n{}\n")

    add(record, "step", step=1)

    assert counts(record) == [2, 1]
    assert events(tmp_path, "record-2.jsonl") == ["record", "start 1", "end 1", "rescale 1", "start 2", "step 1"]
    record.end("stopped")
    assert counts(begin(tmp_path, said)) == [3, 2]


def test_count_of_starts_goes_on_after_lines_that_do_not_fit_into_a_file(tmp_path: Path, said: Said) -> None:
    begin(tmp_path, said).end("stopped")
    record = begin(tmp_path, said)

    with record._change:
        record._held.insert(0, {"event": "mine", "number": 1, "text": "x" * 1_000_000})
    add(record, "step", step=1)

    assert record.count("start") == 2
    assert events(tmp_path, "record-2.jsonl") == ["record", "start 2", "step 1"]


def test_emptied_record_is_written_again(tmp_path: Path) -> None:
    record = begin(tmp_path)
    (tmp_path / "record.jsonl").write_text("")

    add(record, "step", step=1)

    assert events(tmp_path) == ["record", "start 1", "step 1"]
    assert record.count("start") == 1


def test_fenced_generation_never_overwrites_the_record_of_the_new_one(tmp_path: Path) -> None:
    old = begin(tmp_path, lease=lease_of(tmp_path / "checkpoints", A))
    add(old, "step", step=1)
    old._lease.end("stopped")  # type: ignore[union-attr]
    new = begin(tmp_path, lease=lease_of(tmp_path / "checkpoints", B))
    before = (tmp_path / "record.jsonl").read_bytes()

    add(old, "step", step=2)
    old.end("failed")

    assert old._is_fenced
    assert (tmp_path / "record.jsonl").read_bytes() == before
    add(new, "step", step=3)
    assert events(tmp_path)[-2:] == ["start 2", "step 2"]


def test_holder_goes_on_after_the_lines_of_a_generation_that_was_late(tmp_path: Path) -> None:
    late = lease_of(tmp_path / "checkpoints", A)
    late.end("stopped")
    holder = begin(tmp_path, lease=lease_of(tmp_path / "checkpoints", B))
    # The older generation is late: it reads the record before the holder writes its next line.
    begin(tmp_path, lease=late)

    add(holder, "step", step=1)

    assert not holder._is_fenced
    assert events(tmp_path) == ["record", "start 1", "kill 1", "start 2", "step 1"]


def test_without_a_lease_the_process_that_started_last_goes_on(tmp_path: Path) -> None:
    old, new = begin(tmp_path), begin(tmp_path)

    add(old, "step", step=1)
    add(new, "step", step=2)

    assert (old._is_fenced, new._is_fenced) == (True, False)
    assert events(tmp_path) == ["record", "start 1", "kill 1", "start 2", "step 1"]


def test_deleted_record_is_written_again(tmp_path: Path) -> None:
    record = begin(tmp_path)
    (tmp_path / "record.jsonl").unlink()

    add(record, "step", step=1)

    assert events(tmp_path) == ["record", "start 1", "step 1"]


class Outage(threading.Event):
    failures = 0


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    """While this event is set, all writes fail."""
    is_out, original = Outage(), FolderStore.write_if

    def write_if(store: FolderStore, name: str, content: bytes, tag: str | None) -> str:
        if is_out.is_set():
            is_out.failures += 1
            raise UnavailableError("output.uri: the server is away")
        return original(store, name, content, tag)

    monkeypatch.setattr(FolderStore, "write_if", write_if)
    return is_out


def test_outage_is_told_once_and_no_line_is_lost(tmp_path: Path, said: Said, outage: Outage) -> None:
    record = begin(tmp_path, said)
    outage.set()
    for number in range(50):
        record.add("step", step=number)
    wait_until(lambda: said)
    wait_until(lambda: outage.failures > 5)

    assert said == ["record: not written (output.uri: the server is away); training goes on, and tries again"]
    assert not is_waited_for()
    outage.clear()
    wait_until(lambda: not record._new)
    assert events(tmp_path) == ["record", "start 1", *(f"step {number}" for number in range(1, 51))]


def test_lines_of_a_long_outage_are_thinned(tmp_path: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.record.record.MOST_LINES", 2500)
    outage.set()
    record = Record(str(tmp_path), "output.uri", say=Said())
    record.add("start", world_size=2)
    for number in range(6000):
        record.add("step", step=number)

    assert len(record._new) <= 2500
    outage.clear()
    wait_until(lambda: not record._new)
    assert events(tmp_path)[1] == "start 1"
    assert events(tmp_path)[-1] == "step 6000"


def test_lines_that_come_and_are_thinned_during_a_write_are_written_later(
    tmp_path: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distrain_trainer.record.record.MOST_LINES", 3000)
    outage.set()
    record, write_if = Record(str(tmp_path), "output.uri", say=Said()), FolderStore.write_if
    record.add("start", world_size=2)
    for number in range(2900):
        record.add("step", step=number)
    during = iter(range(200))

    def write(store: FolderStore, name: str, content: bytes, tag: str | None) -> str:
        if store.uri == str(tmp_path):  # A run of another test may write HEAD meanwhile.
            for number in during:
                record.add("step", step=number)
        return write_if(store, name, content, tag)

    monkeypatch.setattr(FolderStore, "write_if", write)
    outage.clear()
    wait_until(lambda: not record._new)

    assert events(tmp_path)[1] == "start 1"
    assert events(tmp_path)[-1] == "step 3100"


@pytest.mark.parametrize("error", [StorageError("output.uri: access denied"), RuntimeError("odd")])
def test_end_does_not_wait_for_ever_for_the_storage(
    error: Exception, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    # Do not patch FolderStore.read_tagged, because the leases of other tests also call it.
    monkeypatch.setattr("distrain_trainer.record.record.open_store", fail)
    monkeypatch.setattr("distrain_trainer.record.record.SECONDS_FOR_LAST", 0.05)
    record = Record(str(tmp_path), "output.uri", say=said)

    record.end("stopped")
    wait_until(lambda: said)

    assert record._thread.is_alive()
    assert len(said) == 1
    assert str(error) in said[0]


def test_storage_that_hangs_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()

    def read_tagged(store: FolderStore, name: str) -> tuple[bytes, str] | None:
        may_go_on.wait(60)
        return None

    monkeypatch.setattr(FolderStore, "read_tagged", read_tagged)
    record = Record(str(tmp_path), "output.uri")
    for number in range(100):
        record.add("step", step=number)

    assert len(record._new) == 100
    may_go_on.set()
    wait_until(lambda: not record._new)
    assert events(tmp_path)[-1] == "step 100"


def test_store_whose_tags_are_wrong_is_told_of(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begin(tmp_path, said)
    content = (tmp_path / "record.jsonl").read_bytes()
    tags = map(str, itertools.count())  # Each read returns another tag, although the content does not change.
    monkeypatch.setattr(FolderStore, "read_tagged", lambda store, name: (content, next(tags)))
    record.add("step", step=1)

    wait_until(lambda: said)

    assert "cannot be written: the store says at each write that the file has changed, although it was" in said[0]
