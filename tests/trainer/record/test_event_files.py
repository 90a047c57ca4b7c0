"""Test the event files of a run with TensorBoard's own reader: in a folder, in S3, and after restarts of the run."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer import errors
from distrain_trainer.errors import DivergedError, StorageError, UnavailableError
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.run import Run
from distrain_trainer.record import EventFiles, Record
from distrain_trainer.record.background import BackgroundWriter
from distrain_trainer.record.events import Events, encoded
from distrain_trainer.results import Accuracy
from distrain_trainer.storage import FolderStore, open_store
from distrain_trainer.storage.retry import is_waited_for
from tests.trainer.fixtures.counter_run import begin, save_step
from tests.trainer.fixtures.disk import wait_until
from tests.trainer.fixtures.event_files import Scalars, scalars, steps
from tests.trainer.fixtures.holders import A, B, take
from tests.trainer.record.test_record import of, train

Place = tuple[str, Callable[[], Scalars]]


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The URI for the output of a run, and a function that reads the event files at this URI."""
    if request.param == "folder":
        return str(tmp_path / "output"), lambda: scalars(tmp_path / "output/tensorboard")
    request.getfixturevalue("s3_in_environment")
    uri = f"s3://{request.getfixturevalue('bucket')}/{tmp_path.name}"
    return uri, lambda: scalars(copied(uri, tmp_path / "copy"))


def copied(uri: str, into: Path) -> Path:
    store = open_store(f"{uri}/tensorboard", value="output.uri")
    into.mkdir(exist_ok=True)
    for name in store.names():
        (into / name).write_bytes(store.read(name))
    return into


def files_of(run: Run) -> EventFiles:
    assert run.record._event_files is not None
    return run.record._event_files


def kill(run: Run) -> None:
    """Wait until the lines of the run are written. Then leave the run in the state in which SIGKILL would leave it."""
    files = files_of(run)
    wait_until(lambda: not run.record._new and not files._new)
    run.record._is_fenced = files._is_fenced = True


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tensorboard").iterdir())


def begin_files(folder: Path, said: Callable[[str], None] = print, lease: Any = None) -> EventFiles:
    """Create event files, add a start line, and wait until this line is written."""
    files = EventFiles(str(folder), "output.uri", lease=lease, say=said)
    add(files, "start", step=0, world_size=2)
    return files


def add(files: EventFiles, line: str, **figures: Any) -> None:
    """Add a line, and wait until it is written or the job is fenced."""
    files.add(line, figures)
    wait_until(lambda: not files._new or not files._thread.is_alive())


def test_tensorboard_reads_a_run_from_its_start_to_its_end(place: Place, tmp_path: Path) -> None:
    uri, read = place
    run = begin(tmp_path / "checkpoints", output=uri, epochs=None, steps=20, log_every=5, tensorboard=True)
    before = time.time()

    train(run, 20).finish(Accuracy(0.9, 0.99), model="model", save=Path.touch)

    found = read()
    of_steps = {"loss", "images_per_second", "world_size", "checkpoint_stall_seconds_total"}
    assert found.keys() == {*of_steps, "accuracy", "top5_accuracy"}
    assert [(point.step, point.value) for point in found["loss"]] == [(5, 0.5), (10, 0.5), (15, 0.5), (20, 0.5)]
    assert steps(found["images_per_second"]) == [5, 10, 15, 20]
    rates = [line["images_per_second"] for line in of("step", uri)]
    assert [point.value for point in found["images_per_second"]] == pytest.approx(rates)
    assert {point.value for point in found["world_size"]} == {1.0}
    assert {point.value for point in found["checkpoint_stall_seconds_total"]} == {0.0}
    assert [(point.step, point.value) for point in found["accuracy"]] == [(20, pytest.approx(0.9))]
    times = [point.wall_time for point in [*found["loss"], *found["accuracy"]]]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


def test_run_without_the_value_has_no_event_files(tmp_path: Path) -> None:
    run = begin(tmp_path / "checkpoints", output=str(tmp_path / "output"))

    train(run, 11).finish(None, model="model", save=Path.touch)

    assert not (tmp_path / "output/tensorboard").exists()


def test_only_rank_0_writes(tmp_path: Path) -> None:
    group = ProcessGroup(1, 2, lambda value: value, lambda value: [value, value])

    run = begin("", output=str(tmp_path), group=group, tensorboard=True)

    assert run.record._event_files is None


def test_killed_run_that_comes_back_smaller_goes_on_in_a_file_of_its_own(place: Place, tmp_path: Path) -> None:
    uri, read = place
    two = ProcessGroup(0, 2, lambda value: value, lambda value: [value], shares_state=False)
    run = begin(tmp_path, output=uri, log_every=1, tensorboard=True, group=two)
    save_step(run)
    train(run, 15, loss=2.0)
    kill(run)
    store = open_store(f"{uri}/tensorboard", value="output.uri")
    [first] = store.names()
    content = store.read(first)
    assert steps(read()["loss"])[-1] == 16

    again = begin(tmp_path, output=uri, log_every=1, tensorboard=True)
    train(again, 13, loss=1.0)
    kill(again)

    assert store.read(first) == content
    assert len([*store.names()]) == 2
    found = read()
    # The first process made more steps after its checkpoint at step 1. The second process has repeated these steps.
    assert {point.value for point in found["loss"]} == {1.0}
    assert steps(found["loss"])[-1] == 14
    assert steps(found["loss"]) == sorted(set(steps(found["loss"])))
    assert {point.value for point in found["world_size"]} == {1.0}


def test_steps_up_to_the_checkpoint_stay(tmp_path: Path) -> None:
    before = begin_files(tmp_path)
    for step in range(1, 6):
        add(before, "step", step=step, loss=2.0)

    after = EventFiles(str(tmp_path), "output.uri", lease=None, say=print)
    add(after, "start", step=3, world_size=1)
    add(after, "step", step=4, loss=1.0)

    found = scalars(tmp_path / "tensorboard")
    assert [(point.step, point.value) for point in found["loss"]] == [(1, 2), (2, 2), (3, 2), (4, 1)]
    assert [point.value for point in found["world_size"]] == [2, 2, 2, 1]


def test_start_whose_clock_is_behind_is_read_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_files(tmp_path)
    monkeypatch.setattr("distrain_trainer.record.event_files.time.time", lambda: 1_000_000_000.0)

    later = begin_files(tmp_path)

    assert names(tmp_path)[-1] == later._name


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_loss_that_is_no_number_is_shown_as_such(loss: float, tmp_path: Path) -> None:
    files = begin_files(tmp_path)

    add(files, "step", step=1, loss=loss, images_per_second=None)

    found = scalars(tmp_path / "tensorboard")
    assert [str(point.value) for point in found["loss"]] == [str(loss)]
    assert "images_per_second" not in found


def test_run_that_fails_has_its_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_exit", sys.exit)
    run = begin(tmp_path / "checkpoints", output=str(tmp_path), log_every=1, max_bad_steps=0, tensorboard=True)
    train(run, 12)

    with pytest.raises(DivergedError) as raised:
        train(run, 1, loss=math.nan)
    with pytest.raises(SystemExit):
        errors.end_rank(raised.value)

    assert steps(scalars(tmp_path / "tensorboard")["loss"])[-1] == 12


def test_million_logged_steps_stay_below_two_megabytes() -> None:
    events, kept = Events(), list[Any]()
    figures = dict.fromkeys(("loss", "images_per_second", "checkpoint_stall_seconds_total"), 123456.789)
    events.of("start", {"step": 0, "world_size": 1024})
    for step in range(1, 1_000_001):
        kept += events.of("step", {"step": step, **figures})
    kept += events.of("end", {"step": 1_000_000, "accuracy": 0.9})

    assert len(kept) <= 10_000
    assert len(encoded(kept)) <= 2_000_000
    assert [event.step for event in kept[:1000]] == [*range(1, 1001)]
    assert [event.step for event in kept[-2:]] == [1_000_000, 1_000_000]
    gaps = [after.step - before.step for before, after in itertools.pairwise(kept)]
    assert max(gaps) <= 1_000_000 / 1000


def test_large_file_is_followed_by_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.record.event_files.BYTES_PER_FILE", 500)
    files = begin_files(tmp_path)

    for step in range(1, 31):
        add(files, "step", step=step, loss=1.0)

    sizes = [(tmp_path / "tensorboard" / name).stat().st_size for name in names(tmp_path)]
    assert len(sizes) > 2
    assert max(sizes) < 600
    assert steps(scalars(tmp_path / "tensorboard")["loss"]) == [*range(1, 31)]


def test_open_file_of_a_folder_shows_what_is_added(tmp_path: Path) -> None:
    files = begin_files(tmp_path)
    with (tmp_path / "tensorboard" / files._name).open("rb") as file:
        begun = len(file.read())
        add(files, "step", step=1, loss=1.0)
        assert len(file.read()) > 0
    assert begun > 0


def test_fenced_job_writes_nothing_more(tmp_path: Path) -> None:
    checkpoints = open_store(str(tmp_path / "checkpoints"), value="checkpoint.uri")
    lease = take(checkpoints, A)
    old = begin_files(tmp_path, lease=lease)
    lease.end("stopped")
    new = begin_files(tmp_path, lease=take(checkpoints, B))
    before = (tmp_path / "tensorboard" / old._name).read_bytes()

    add(old, "step", step=1, loss=1.0)

    assert old._is_fenced
    assert (tmp_path / "tensorboard" / old._name).read_bytes() == before
    add(new, "step", step=1, loss=2.0)
    assert [point.value for point in scalars(tmp_path / "tensorboard")["loss"]] == [2.0]


def test_process_whose_record_another_one_has_taken_adds_nothing(tmp_path: Path) -> None:
    files = EventFiles(str(tmp_path), "output.uri", lease=None, say=print)
    record = Record(str(tmp_path), "output.uri", event_files=files)
    record._is_fenced = True

    record.add("start", step=0, world_size=2)

    assert files._new == []


class Outage(threading.Event):
    failures = 0


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    """While this event is set, all writes fail."""
    is_out, original = Outage(), FolderStore.extend

    def extend(store: FolderStore, name: str, content: bytes, held: int) -> None:
        if is_out.is_set():
            is_out.failures += 1
            raise UnavailableError("output.uri: the server is away")
        original(store, name, content, held)

    monkeypatch.setattr(FolderStore, "extend", extend)
    return is_out


def test_outage_is_told_once_and_no_point_is_lost(tmp_path: Path, outage: Outage) -> None:
    said = list[str]()
    files = begin_files(tmp_path, said.append)
    outage.set()
    for step in range(1, 51):
        files.add("step", {"step": step, "loss": 1.0})
    wait_until(lambda: outage.failures > 5)

    assert said == ["tensorboard: not written (output.uri: the server is away); training goes on, and tries again"]
    assert not is_waited_for()
    outage.clear()
    wait_until(lambda: not files._new)
    assert steps(scalars(tmp_path / "tensorboard")["loss"]) == [*range(1, 51)]


def test_missing_library_ends_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX.proto.event_pb2", None)
    said = list[str]()

    files = EventFiles(str(tmp_path), "output.uri", lease=None, say=said.append)
    files.add("start", {"step": 0, "world_size": 2})

    wait_until(lambda: said)
    assert "tensorboard: not written (ModuleNotFoundError: " in said[0]


def test_keys_that_may_not_list_the_folder_write_nevertheless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(store: FolderStore, folders: str = ".*") -> Any:
        raise StorageError("output.uri: the keys may not list it")

    monkeypatch.setattr(FolderStore, "names", refuse)

    add(begin_files(tmp_path), "step", step=1, loss=1.0)

    assert steps(scalars(tmp_path / "tensorboard")["loss"]) == [1]


def test_storage_that_hangs_holds_the_end_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, waits, join = threading.Event(), list[float](), BackgroundWriter.join

    def noted(writer: BackgroundWriter, seconds: float) -> None:
        waits.append(seconds)
        join(writer, seconds)

    monkeypatch.setattr(BackgroundWriter, "join", noted)
    monkeypatch.setattr("distrain_trainer.record.record.SECONDS_FOR_LAST", 1.0)
    monkeypatch.setattr(FolderStore, "extend", lambda *_: may_go_on.wait(60))
    monkeypatch.setattr(FolderStore, "write_if", lambda *_: may_go_on.wait(60))
    files = EventFiles(str(tmp_path), "output.uri", lease=None, say=print)
    record = Record(str(tmp_path), "output.uri", event_files=files)
    record.add("start", step=0, world_size=2)
    record.add("step", step=1, loss=1.0)

    record.end("stopped", step=1)

    first, second = waits
    assert second <= 0 < first <= 1
    may_go_on.set()
