"""Test that a failure to save a checkpoint is logged, is retried, and ends the run if it lasts too long."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from distrain_trainer.checkpoint import outage, writer
from distrain_trainer.errors import StoppedError, StorageError, UnavailableError
from distrain_trainer.loop import stop_flag
from distrain_trainer.loop.saving import snapshot
from distrain_trainer.storage import FolderStore
from tests.trainer.fixtures.counter_run import Counter, begin, make_step, save_step
from tests.trainer.fixtures.disk import FULL, Disk, fill, hang, hang_at, steps_until, wait_until
from tests.trainer.fixtures.unsteady_s3 import Clock


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a separate file system of only 128 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def lines_without_records(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed lines except those of the record, which cannot be written to a full disk either.

    The record's thread may print its line at any time.
    """
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("record: ")]


def test_outage_is_said_once_and_the_training_goes_on_until_it_is_over(
    disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: disk.writes > 5)
    disk.is_full = False
    steps_until(run, lambda: run.writer and run.writer.saved_samples > 0)
    make_step(run)

    failed, saved, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"checkpoint: step \d+ is not saved \({FULL}\); training goes on, and tries again", failed)
    assert saved.startswith("checkpoint: saved 1-")


def test_outage_that_lasts_is_said_each_minute(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outage, "time", clock := Clock())
    clock.now = 1000.0
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: run.writer and run.writer.outage)
    make_step(run)
    clock.sleep(60)
    make_step(run)

    first, second, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"checkpoint: step \d+ is not saved \({FULL}\); training goes on, and tries again", first)
    assert re.fullmatch(rf"checkpoint: step \d+ is not saved for 1 min \({FULL}\); training goes on, .*", second)


def test_run_that_cannot_be_saved_for_too_long_ends_so_that_it_starts_again(disk: Disk, tmp_path: Path) -> None:
    disk.is_full = True
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, lambda: run.writer and run.writer.outage)
    run.config = replace(run.config, checkpoint_max_age=0.2)

    with pytest.raises(UnavailableError, match=rf"^checkpoint\.maxAge: .* for 0 s \({FULL}\)$") as raised:
        steps_until(run, lambda: False)

    assert raised.value.exit_code == 1


@pytest.mark.usefixtures("hangs_end")
def test_run_whose_write_never_returns_ends_so_that_it_starts_again(tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=0.001)
    hang(tmp_path)
    steps_until(run, lambda: run.writer and "state-0" in run.writer.outage.reason)
    run.config = replace(run.config, checkpoint_max_age=0.2)

    with pytest.raises(UnavailableError) as raised:
        steps_until(run, lambda: False)

    assert re.fullmatch(
        r"checkpoint\.maxAge: nothing could be saved for 0 s "
        r"\(writing .*/1-\d+/state-0\.safetensors has not returned for \d+ s\)",
        str(raised.value),
    )


def test_write_of_head_that_never_returns_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, may_return, original = threading.Event(), threading.Event(), FolderStore.write_if

    def write_if(store: FolderStore, name: str, content: bytes, tag: str | None) -> str:
        if b'"checkpoint": "1-' in content:
            hangs.set()
            may_return.wait(60)
        return original(store, name, content, tag)

    monkeypatch.setattr(FolderStore, "write_if", write_if)
    run = begin(tmp_path, checkpoint_every=0.001)
    steps_until(run, hangs.is_set)
    run.config = replace(run.config, checkpoint_max_age=0.2)

    with pytest.raises(UnavailableError, match=r"\(writing \S+/HEAD has not returned"):
        steps_until(run, lambda: False)

    may_return.set()


@pytest.mark.usefixtures("hangs_end")
@pytest.mark.parametrize("at_end", [False, True])
def test_end_of_a_training_whose_write_never_returns_is_a_failure(at_end: bool, tmp_path: Path) -> None:
    run = begin(tmp_path, checkpoint_every=0.001, checkpoint_max_age=0.2, checkpoint_at_end=at_end)
    hang(tmp_path)
    assert run.writer
    steps_until(run, lambda: run.writer and run.writer._using_buffer.locked())  # By now the writer's thread is writing.

    with pytest.raises(
        UnavailableError, match=r"^checkpoint\.maxAge: the training is over, but writing .* has not ret"
    ):
        run.finish()


@pytest.mark.usefixtures("hangs_end")
@pytest.mark.parametrize("is_stopped", [False, True])
def test_end_of_a_run_does_not_wait_for_ever_for_head(is_stopped: bool, tmp_path: Path) -> None:
    run = begin(tmp_path)
    save_step(run)
    run.config = replace(run.config, checkpoint_max_age=0.2)
    (tmp_path / "HEAD").rename(tmp_path / "HEAD of before")
    hang_at(tmp_path / "HEAD")

    if is_stopped:
        assert run.writer
        assert run._leave(run.writer, stop_flag.SIGTERM).endswith("/HEAD has not returned for 0 s")
        return
    with pytest.raises(
        UnavailableError,
        match=r"^checkpoint\.maxAge: the training is over, but writing .*/HEAD has not returned for 0 s",
    ):
        run.finish()


def test_process_whose_write_never_returns_ends(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from distrain_trainer.errors import end_rank\n"
        "from tests.trainer.fixtures.counter_run import begin, make_step\n"
        "from tests.trainer.fixtures.disk import hang\n"
        "run = begin(folder := Path(sys.argv[1]), checkpoint_every=0.001, checkpoint_max_age=0.2)\n"
        "hang(folder)\n"
        "try:\n"
        "    while True: make_step(run)\n"
        "except Exception as error: end_rank(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(["trainer", ".", *sys.path])}

    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path], env=env, capture_output=True, text=True, timeout=300
    )

    assert ended.returncode == UnavailableError.exit_code
    assert ended.stderr.startswith("distrain: checkpoint.maxAge: nothing could be saved for 0 s (writing ")


def test_write_that_goes_on_file_by_file_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "time", clock := Clock())
    noted = outage.Outage()
    for file in ("state-0", "state-1"):
        noted.note(f"writing {file}")
        clock.sleep(100)

    assert noted.seconds == 100
    assert noted.reason == "writing state-1 has not returned for 100 s"
    noted.rest()
    assert noted.seconds == 0


def test_listing_that_goes_on_file_by_file_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "time", clock := Clock())
    run = begin(tmp_path, checkpoint_max_age=3)
    asked = []

    def names(_: FolderStore, folders: str = "") -> Iterator[str]:
        for number in range(10):
            clock.sleep(2)
            asked.append(run.asked)
            yield f"1-1/state-{number}.safetensors"

    monkeypatch.setattr(FolderStore, "names", names)
    save_step(run)

    assert asked == [0] * 10


def test_state_is_saved_once_head_names_it_though_a_listing_never_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    run = begin(tmp_path)

    def names(_: FolderStore, folders: str = "") -> Iterator[str]:
        assert run.writer
        # By now HEAD is written. From here on, only the listing can take longer than the limit.
        run.writer._config = replace(run.writer._config, checkpoint_max_age=0.2)
        never.wait(60)
        yield from ()

    monkeypatch.setattr(FolderStore, "names", names)

    save_step(run)

    assert run.lease
    assert run.lease.head.checkpoint == "1-10"
    never.set()


def test_write_that_does_not_return_is_told_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "time", clock := Clock())
    noted = outage.Outage()
    noted.note("writing state-0")
    told = []
    for _ in range(13):
        clock.sleep(10)
        told.append(noted.line())

    assert [line for line in told if line] == [
        f"checkpoint: writing state-0 has not returned for {seconds} s; training goes on" for seconds in (60, 120)
    ]


def test_run_that_is_saved_now_and_then_goes_on(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "time", clock := Clock())
    run = begin(tmp_path, checkpoint_every=0.001, checkpoint_max_age=30)
    for _ in range(4):
        disk.is_full = True
        steps_until(run, lambda: run.writer and run.writer.outage)
        clock.sleep(20)
        disk.is_full = False
        steps_until(run, lambda: run.writer and not run.writer.outage)

    assert not run.asked


def test_run_on_a_full_disk_goes_on_and_saves_once_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "LONGEST_PAUSE", writer.FIRST_PAUSE)
    run = begin(small_disk, Counter(size=1000), checkpoint_every=0.05)
    others = fill(small_disk)
    steps_until(run, lambda: run.writer and run.writer.outage)

    others.unlink()
    steps_until(run, lambda: run.lease and run.lease.head.checkpoint)
    run.finish()

    failed, saved, *_, end = lines_without_records(capsys)
    assert failed.startswith("checkpoint: step ")
    assert ": No space left on device; free some disk space); training goes on, and tries again" in failed
    assert saved.startswith("checkpoint: saved 1-")
    assert end.startswith("finished: ")
    assert not [*small_disk.rglob("*.part")]


def test_torn_one_makes_room_on_a_full_disk_for_the_next_one(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.02)
    torn, whole = small_disk / "1-1", small_disk / "1-2"
    for folder in (torn, whole):
        folder.mkdir()
        # An incomplete checkpoint, left by a killed process, takes more than half of the disk.
        (folder / "state-0.safetensors").write_bytes(bytes(80_000 if folder == torn else 4000))
    (whole / "manifest.json").touch()
    run = begin(small_disk, Counter(size=6000))

    save_step(run)

    assert not torn.exists()
    assert {file.name for file in whole.iterdir()} == {"state-0.safetensors", "manifest.json"}


def test_failed_save_leaves_no_part_of_it(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = FolderStore.write

    def write(store: FolderStore, name: str, content: bytes | memoryview) -> None:
        if name.endswith("manifest.json"):
            raise StorageError(FULL)
        original(store, name, content)

    monkeypatch.setattr(FolderStore, "write", write)
    run = begin(tmp_path, checkpoint_every=1000)
    run.made_step(1, asked=run.asked)
    assert run.writer
    run.writer.save(partial(snapshot, run))
    wait_until(lambda: run.writer and run.writer.outage)
    run.writer.close()

    assert disk.writes
    assert not [*tmp_path.rglob("*.safetensors")]


def test_run_that_ends_on_a_full_disk_says_that_its_end_is_not_marked(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("distrain_trainer.loop.run.SECONDS_TO_FINISH", 0)
    run = begin(small_disk)
    make_step(run)
    fill(small_disk)

    run.finish()

    assert re.fullmatch(
        r"checkpoint: the run could not be marked as finished \(.*HEAD cannot be written: .*\)",
        lines_without_records(capsys)[-1],
    )


@pytest.mark.parametrize("samples", [1, 10])
def test_run_that_cannot_be_saved_says_so_when_it_is_stopped(
    samples: int, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writer, "SECONDS_FOR_LAST", 0.1)
    disk.is_full = True
    run = begin(tmp_path, batch_size=samples)
    run.request.reason = stop_flag.SIGTERM

    with pytest.raises(StoppedError):
        run.made_step(samples, asked=run.asked)

    assert capsys.readouterr().out.splitlines()[-1] == (
        f"stopped at step 1 ({samples} samples) after SIGTERM; not saved: {FULL}"
    )
