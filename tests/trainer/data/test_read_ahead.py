"""Test that files are read ahead in parallel within the memory limit, and that they arrive complete and in order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from types import CodeType, FrameType
from typing import Any

import pytest

from distrain_trainer.data import read_ahead
from distrain_trainer.data.read_ahead import OpenFile, ReadAhead, Span
from distrain_trainer.errors import StorageError
from distrain_trainer.storage import FolderStore
from tests.trainer.fixtures.disk import wait_until

PIECE, REQUESTS, BUFFERS = 1000, 4, 6


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "PIECE", PIECE)
    monkeypatch.setattr(read_ahead, "REQUESTS", REQUESTS)
    monkeypatch.setattr(read_ahead, "MEMORY", PIECE * BUFFERS)
    monkeypatch.setattr(read_ahead, "BUFFER", 512)


class Delayed(FolderStore):
    """A store whose files are in memory. Each request takes a random time, and the store counts the requests."""

    def __init__(self, files: dict[str, bytes], *, seed: int = 0, longest: float = 0.003) -> None:
        super().__init__("/data", "data.uri")
        vars(self).update(files=files, chance=random.Random(seed), longest=longest, lock=threading.Lock())
        vars(self).update(asked=[], now=0, most=0)

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        own = vars(self)
        with own["lock"]:
            own["asked"].append((name, start, len(place)))
            own["now"] += 1
            own["most"] = max(own["most"], own["now"])
            seconds = own["chance"].uniform(0, own["longest"])
        time.sleep(seconds)
        with own["lock"]:
            own["now"] -= 1
        if name not in own["files"]:
            raise StorageError(f"{name} cannot be read")
        part = own["files"][name][start : start + len(place)]
        place[: len(part)] = part
        return len(own["files"][name])

    def answered(self) -> int:
        """Return the number of requests that have been answered."""
        own = vars(self)
        with own["lock"]:
            return len(own["asked"]) - own["now"]


def files_of(*sizes: int) -> dict[str, bytes]:
    return {f"{number}.tar": random.Random(number).randbytes(size) for number, size in enumerate(sizes)}


def read_all(store: Delayed, spans: list[Span], *, part: int = 777) -> list[bytes]:
    with closing(ReadAhead(store, spans)) as ahead:
        return [read_one(ahead, part) for _ in spans]


def read_one(ahead: ReadAhead, part: int) -> bytes:
    content = b""
    with ahead.next_file() as file:
        while some := file.read(part):
            content += some
    return content


@pytest.mark.parametrize("seed", range(20))
def test_files_come_whole_and_in_order_whatever_the_requests_take(seed: int) -> None:
    files = files_of(*random.Random(seed).choices([0, 1, 999, 1000, 1001, 12_345, 40_000], k=12))
    store = Delayed(files, seed=seed)

    assert read_all(store, [Span(name) for name in files]) == [*files.values()]
    assert vars(store)["most"] <= REQUESTS


@pytest.mark.parametrize("sizes", [(30_000,), (500,) * 30], ids=["pieces-of-one-file", "many-small-files"])
def test_requests_run_at_once(sizes: tuple[int, ...]) -> None:
    files = files_of(*sizes)
    store = Delayed(files, longest=0.05)

    read_all(store, [Span(name) for name in files])

    assert vars(store)["most"] == REQUESTS


@pytest.mark.parametrize("sizes", [(30_000,), (500,) * 30], ids=["one-large", "many-small"])
def test_no_more_is_read_ahead_than_the_memory_holds(sizes: tuple[int, ...]) -> None:
    files = files_of(*sizes)
    store = Delayed(files)

    with closing(ReadAhead(store, [Span(name) for name in files])) as ahead, ahead.next_file() as file:
        file.read(1)
        wait_until(lambda: store.answered() >= BUFFERS)
        time.sleep(0.05)

        assert len(vars(store)["asked"]) == BUFFERS
        assert not vars(store)["now"]


def test_span_ends_the_reading_ahead_and_not_the_reading() -> None:
    # There are more files than buffers, so no buffer is free when the first file needs a second one.
    files = files_of(20_000, *[5000] * 10)
    store = Delayed(files)
    spans = [Span("0.tar", 2000, 4000), *[Span(f"{number}.tar") for number in range(1, 11)]]

    with closing(ReadAhead(store, spans)) as ahead:
        with ahead.next_file() as file:
            head = file.read(2000)
            wait_until(lambda: len(vars(store)["asked"]) >= BUFFERS)
            assert [start for name, start, _ in vars(store)["asked"] if name == "0.tar"] == [2000, 3000]
            rest = file.read()
        assert head + rest == files["0.tar"][2000:]
        assert [read_one(ahead, 777) for _ in range(10)] == [*files.values()][1:]


def test_share_of_a_file_ends_the_reading_ahead() -> None:
    files = files_of(100_000)
    store = Delayed(files)

    def asked() -> int:
        return sum(length for *_, length in vars(store)["asked"])

    with closing(ReadAhead(store, [Span("0.tar", share=0.02)])) as ahead, ahead.next_file() as file:
        assert file.read(2000) == files["0.tar"][:2000]
        wait_until(lambda: asked() >= 3000)
        time.sleep(0.05)

    assert asked() == 3000


def test_file_left_early_and_bytes_passed_over_are_not_waited_for() -> None:
    files = files_of(50_000, 50_000)
    store = Delayed(files)

    with closing(ReadAhead(store, [Span(name) for name in files])) as ahead:
        with ahead.next_file() as file:
            file.seek(30_000)
            assert file.read(10) == files["0.tar"][30_000:30_010]
            file.seek(100)
            assert file.read(10) == files["0.tar"][100:110]
        assert read_one(ahead, 777) == files["1.tar"]


def test_error_is_raised_where_the_file_is_read() -> None:
    files = files_of(5000)
    store = Delayed(files)

    with closing(ReadAhead(store, [Span("0.tar"), Span("lost.tar")])) as ahead:
        assert read_one(ahead, 777) == files["0.tar"]
        with pytest.raises(StorageError, match=r"^lost\.tar cannot be read$"):
            read_one(ahead, 777)


def lines_of(function: Callable[..., Any]) -> list[tuple[CodeType, int]]:
    """Return all lines of a function after its `def`, each with the function's code object."""
    code = function.__code__
    lines = sorted({line for *_, line in code.co_lines() if line})
    return [(code, line) for line in lines if line > code.co_firstlineno]


OF_THREADS = (
    ReadAhead._fetch,
    ReadAhead._claim,
    ReadAhead._first_with_more,
    ReadAhead._open_next,
    ReadAhead._buffer,
    ReadAhead._release,
    OpenFile.claim,
    OpenFile.learn,
)
# In _fetch_all, only these two lines can raise an error: its first line is `try`, and its last lines pass an error on.
PLACES = [*lines_of(ReadAhead._fetch_all)[1:3], *(place for function in OF_THREADS for place in lines_of(function))]


@pytest.mark.parametrize("time_of_failure", [1, 7])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0].co_name}:{place[1]}")
def test_error_anywhere_in_the_threads_reaches_the_reader(place: tuple[CodeType, int], time_of_failure: int) -> None:
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if event == "line" and (frame.f_code, frame.f_lineno) == place:
            passed += 1
            if passed >= time_of_failure:
                raise MemoryError("no memory")
        return trace

    files, found, errors = files_of(*[5000] * 8), list[bytes](), list[BaseException]()

    def read() -> None:
        threading.settrace(trace)  # Trace only threads that start from here on.
        try:
            with closing(ReadAhead(Delayed(files), [Span(name) for name in files])) as ahead:
                threading.settrace(None)
                found.extend(read_one(ahead, 777) for _ in files)
        except MemoryError as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(120)

    assert not reader.is_alive()
    # If the line is reached only after all files have been read, there is no error.
    assert errors or found == [*files.values()]


def test_threads_end_when_the_files_are_closed() -> None:
    before = set(threading.enumerate())

    with closing(ReadAhead(Delayed(files_of(50_000)), [Span("0.tar")])) as ahead, ahead.next_file() as file:
        file.read(1)
        started = set(threading.enumerate()) - before

    assert len(started) == REQUESTS
    for thread in started:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in started)
