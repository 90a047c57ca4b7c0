"""Test when the launcher's watch asks the ranks to stop, and when a worker counts as lost, with a simulated clock."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType

import pytest

from tests.chart.scripts.pods import load


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Way:
    """Stands for the launcher's access to the workers a and b.

    `reasons` maps each worker that does not answer to the reason.
    """

    tries_at_once = 2
    is_cheap = True

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []

    def why_absent(self, host: str) -> str:
        return self.reasons.get(host, "")

    why_no_answer = why_absent

    def why_not_run(self, host: str, command: str) -> str:
        self.asked.append((host, command))
        return ""


class Bench:
    """A Watch object of the launcher for the workers a and b. The thread of this Watch object is not started."""

    def __init__(self, module: ModuleType, folder: Path, *, is_live: bool = True) -> None:
        self.way, self.hostfile, self.stopping = Way(), folder / "hostfile", threading.Event()
        self.list("a", "b")
        slots, given_up = {"a": 2, "b": 2}, {"g"}
        self.watch = module.Watch(self.way, str(self.hostfile), slots, given_up, self.stopping, is_live)

    def list(self, *hosts: str) -> None:
        self.hostfile.write_text("".join(f"{host} slots=2\n" for host in hosts))

    def look(self) -> str:
        return str(self.watch.reason_to_stop())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def module(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("distrain_watch.py")
    monkeypatch.setattr(module, "time", clock)
    return module


@pytest.fixture
def bench(module: ModuleType, tmp_path: Path) -> Bench:
    return Bench(module, tmp_path)


def test_same_workers_are_no_reason(bench: Bench) -> None:
    assert [bench.look() for _ in range(3)] == ["", "", ""]


def test_new_workers_have_to_answer_twice_in_a_row(bench: Bench) -> None:
    bench.list("a", "b", "c")
    assert [bench.look(), bench.look()] == ["", "1 new workers answer"]


def test_worker_that_answers_only_now_and_then_is_waited_for(bench: Bench) -> None:
    bench.list("a", "b", "c", "d")
    found = []
    for reasons in ({"c": "no answer"}, {"d": "no answer"}, {}, {}):
        bench.way.reasons = reasons
        found.append(bench.look())

    assert found == ["", "", "", "2 new workers answer"]


def test_answers_of_other_workers_start_the_count_again(bench: Bench) -> None:
    bench.list("a", "b", "g", "c")
    found = []
    for reasons in ({"g": "no answer"}, {}, {"g": "no answer"}, {"g": "no answer"}):
        bench.way.reasons = reasons
        found.append(bench.look())

    assert found == ["", "", "", "1 new workers answer"]


def test_worker_that_was_given_up_is_not_waited_for(bench: Bench) -> None:
    bench.list("a", "b", "g")
    bench.way.reasons = {"g": "no answer"}
    assert [bench.look(), bench.look()] == ["", ""]


def test_waiting_is_reported_once_a_minute(bench: Bench, clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    bench.list("a", "b", "c", "g")
    bench.way.reasons = {"c": "no address yet", "g": "no answer"}
    for seconds in (0, 59, 1, 59.9, 0.1):
        clock.now += seconds
        assert bench.look() == ""

    line = "distrain-launch: waiting for 1 of 2 new workers, training goes on with 2: c (no address yet)"
    assert capfd.readouterr().err.splitlines() == [line] * 3


@pytest.mark.parametrize(("hosts", "count"), [(("a",), 1), (("c",), 2), (("a", "c"), 1)])
def test_worker_that_is_no_longer_listed_leaves(hosts: tuple[str, ...], count: int, bench: Bench) -> None:
    bench.list(*hosts)
    assert bench.look() == f"{count} workers leave"


def test_hostfile_that_is_being_written_is_no_reason(bench: Bench) -> None:
    for text in ("", "a", "a slots=x\n"):
        bench.hostfile.write_text(text)
        assert bench.look() == ""
    bench.hostfile.unlink()
    assert bench.look() == ""


def test_run_that_is_not_live_heeds_sigterm_alone(module: ModuleType, tmp_path: Path) -> None:
    bench = Bench(module, tmp_path, is_live=False)
    bench.list("a", "c")
    assert [bench.look(), bench.look()] == ["", ""]
    bench.stopping.set()
    assert bench.look() == "SIGTERM"


def test_ranks_are_asked_again_after_ten_seconds(bench: Bench, clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    watch, way = bench.watch, bench.way
    watch.why = "SIGTERM"
    counts = []
    for seconds in (0, 9.9, 0.1, 10):
        clock.now += seconds
        watch.ask()
        counts.append(len(way.asked))

    assert counts == [2, 2, 4, 6]
    assert set(way.asked) == {("a", "kill -HUP 1"), ("b", "kill -HUP 1")}
    assert capfd.readouterr().err == "distrain-launch: asking the ranks to stop at a step boundary: SIGTERM\n"
    assert watch.seconds_since_asked() == 20.0


def test_stop_is_overdue_after_the_grace_since_the_first_request(bench: Bench, clock: Clock) -> None:
    watch = bench.watch
    assert (watch.is_overdue(0), watch.seconds_since_asked()) == (False, 0.0)
    watch.ask()
    clock.now += 10
    watch.ask()
    clock.now += 5

    assert [watch.is_overdue(grace) for grace in (14.9, 15, 16)] == [True, False, False]


def test_no_request_reaches_the_ranks_after_the_end(bench: Bench) -> None:
    bench.watch.finish()
    bench.watch.ask()

    assert bench.way.asked == []
    assert not bench.watch.asked


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        pytest.param("no answer", "no sign of b (no answer) for 30 s", id="silent"),
        pytest.param("sshd says nothing", "", id="slow"),
        pytest.param("connection refused", "", id="ending"),
        pytest.param("the name server does not answer", "", id="no-dns"),
        pytest.param("no address yet", "no sign of b (no address yet) for 30 s", id="no-pod"),
        pytest.param("", "", id="answers"),
    ],
)
def test_worker_is_lost_after_thirty_seconds(reason: str, lost: str, bench: Bench, clock: Clock) -> None:
    found = []
    for _ in range(4):
        bench.way.reasons = {"b": reason} if reason else {}
        bench.watch.check()
        found.append(bench.watch.lost)
        clock.now += 10

    assert found == ["", "", "", lost]


def test_worker_that_answers_in_between_is_not_lost(bench: Bench, clock: Clock) -> None:
    for reason in ("no answer", "no answer", "", "no answer", "no answer"):
        bench.way.reasons = {"b": reason} if reason else {}
        bench.watch.check()
        clock.now += 10

    assert bench.watch.lost == ""


def test_workers_are_checked_every_ten_seconds(bench: Bench, clock: Clock) -> None:
    bench.watch.check()
    bench.way.reasons = {"a": "no answer"}
    clock.now += 9.9
    bench.watch.check()
    last = dict(bench.watch.last_answers)
    clock.now += 0.1
    bench.watch.check()

    assert last == {"a": 1000.0, "b": 1000.0}
    assert bench.watch.last_answers == {"a": 1000.0, "b": 1010.0}


def test_first_lost_worker_stays_the_reason(bench: Bench, clock: Clock) -> None:
    bench.way.reasons = {"a": "no answer"}
    for _ in range(4):
        bench.watch.check()
        clock.now += 10
    bench.way.reasons = {"a": "no answer", "b": "no answer"}
    for _ in range(5):
        bench.watch.check()
        clock.now += 10

    assert bench.watch.lost == "no sign of a (no answer) for 30 s"


@pytest.mark.parametrize(("is_cheap", "calls"), [(True, ["check", "check", "ask"]), (False, ["ask"])])
def test_thread_checks_the_workers_where_that_is_cheap_until_it_asks(
    is_cheap: bool, calls: list[str], module: ModuleType, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.001)
    watch, called, reasons = bench.watch, list[str](), ["", "", "SIGTERM"]

    def ask() -> None:
        called.append("ask")
        watch.ended.set()

    bench.way.is_cheap = is_cheap
    monkeypatch.setattr(watch, "reason_to_stop", lambda: reasons.pop(0))
    monkeypatch.setattr(watch, "check", lambda: called.append("check"))
    monkeypatch.setattr(watch, "ask", ask)
    watch.start()
    watch.join(30)

    assert called == calls
    assert watch.why == "SIGTERM"
