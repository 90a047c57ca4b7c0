"""Test that a rank's reader process returns the same batches, raises the same errors, and ends when its rank ends."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import (
    Dataset,
    Position,
    batches_from_beside,
    beside,
    decoding,
    end_batches,
    load,
    train_batches,
)
from distrain_trainer.data.beside import BatchesFromBeside, Work
from distrain_trainer.data.idx import Arrays
from distrain_trainer.data.sampler import Segment
from distrain_trainer.errors import DataError, LostPeerError, StorageError
from lab.datasets.pictures import numbered, photographs, write_image_folder, write_shards
from tests.trainer.fixtures.datasets import config_of

SAMPLES = 23


@contextmanager
def ended(batches: Any) -> Iterator[Any]:
    try:
        yield batches
    finally:
        end_batches(batches)


@pytest.mark.parametrize("kind", ["images", "shards"])
@pytest.mark.parametrize("start", [Position(), Position(2, 12, (Segment(2, 3, 2),))], ids=["begun", "resumed"])
def test_batches_are_those_of_this_process(tmp_path: Path, kind: str, start: Position) -> None:
    pictures = photographs(SAMPLES, size=16, classes=3)
    if kind == "images":
        write_image_folder(tmp_path, pictures, ".jpg")
    else:
        write_shards(tmp_path, pictures, (9, 1, 0, 13), ".jpg")
    config = config_of(tmp_path, image_size=8)
    dataset, place = load(config), {"rank": 1, "ranks": 2, "start": start}

    with ended(batches_from_beside(config, dataset, **place)) as batches:  # type: ignore[arg-type]
        found = [*itertools.islice(batches, 12)]

    own = train_batches(config, dataset, **place)  # type: ignore[arg-type]
    for batch, expected in zip(found, own, strict=False):
        np.testing.assert_array_equal(batch.images, expected.images)
        np.testing.assert_array_equal(batch.labels, expected.labels)
        np.testing.assert_array_equal(batch.weights, expected.weights)
        assert (batch.samples, batch.global_samples) == (expected.samples, expected.global_samples)


def test_batches_from_s3_are_those_of_the_folder(
    tmp_path: Path, s3_server: Any, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    write_shards(tmp_path, numbered(SAMPLES), (9, 14))
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="beside")
    for path in tmp_path.iterdir():
        client.upload_file(str(path), "beside", f"set/{path.name}")
    config, folder = config_of("s3://beside/set"), config_of(tmp_path)

    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        found = [batch.images for batch in itertools.islice(batches, 8)]

    own = train_batches(folder, load(folder), rank=0, ranks=1)
    np.testing.assert_array_equal(found, [batch.images for batch in itertools.islice(own, 8)])


@pytest.fixture
def config(tmp_path: Path) -> Config:
    write_image_folder(tmp_path / "images", numbered(SAMPLES))
    return config_of(tmp_path / "images")


def test_fault_of_the_data_is_raised_at_its_batch(config: Config) -> None:
    dataset = load(config)
    images = sorted(Path(config.data).rglob("*.png"))
    images[7].write_bytes(b"")
    images[8].unlink()

    with (
        ended(batches_from_beside(config, dataset, rank=0, ranks=1)) as batches,
        pytest.raises((DataError, StorageError), match=r"^data\.uri: /.*(is damaged|has no class-)"),
    ):
        [*itertools.islice(batches, SAMPLES)]


def test_fault_of_the_data_is_raised_again(config: Config) -> None:
    dataset = load(config)
    for path in Path(config.data).rglob("*.png"):
        path.write_bytes(b"")

    with ended(batches_from_beside(config, dataset, rank=0, ranks=1)) as batches:
        errors = []
        for _ in range(2):
            with pytest.raises(DataError, match="is damaged") as at:
                next(batches)
            errors.append(at.value)

    assert errors[0] is errors[1]


def test_end_waits_for_a_thread_that_reads(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = batches_from_beside(config, load(config), rank=0, ranks=1)
    assert isinstance(batches, BatchesFromBeside)
    reads, done, close = threading.Event(), list[str](), batches._connection.close

    def receive() -> None:
        reads.set()
        batches.process.wait()
        done.append("read")
        raise EOFError

    monkeypatch.setattr(batches._connection, "recv", receive)

    def close_and_say() -> None:
        done.append("closed")
        close()

    monkeypatch.setattr(batches._connection, "close", close_and_say)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(next, batches)
        assert reads.wait(60)
        batches.end()

    assert isinstance(reading.exception(), LostPeerError)
    assert done == ["read", "closed"]


def test_damaged_image_is_left_out_and_said(config: Config, capfd: pytest.CaptureFixture[str]) -> None:
    dataset = load(config)
    sorted(Path(config.data).rglob("*.png"))[7].write_bytes(b"")
    allowing = config_of(config.data, max_bad_share=0.1)

    with ended(batches_from_beside(allowing, dataset, rank=0, ranks=1)) as batches:
        weighed = sum(int((batch.weights > 0).sum()) for batch in itertools.islice(batches, 8))

    assert weighed == SAMPLES - 1
    assert capfd.readouterr().out.count("left out: data.uri: /") == 1


def test_kill_of_the_process_is_told(config: Config) -> None:
    batches = batches_from_beside(config, load(config), rank=0, ranks=1)
    assert isinstance(batches, BatchesFromBeside)
    next(batches)
    batches.process.kill()

    with pytest.raises(
        LostPeerError,
        match=r"^data\.uri: the process that .* this rank's images was ended by signal 9; if memory was short, raise",
    ) as at:
        [*itertools.islice(batches, 1000)]

    # After exit code 1, the launcher restarts the rank.
    assert at.value.exit_code == 1
    end_batches(batches)


def decoding_processes_of(reader: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{reader}/task/{reader}/children").read_text().split()]


@pytest.mark.parametrize(("processors", "processes"), [(1, 0), (2, 2), (3, 3)])
def test_a_process_decodes_on_each_processor(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processors: int, processes: int
) -> None:
    # The reader is another process, in which monkeypatch has no effect. So a module on its Python path changes the
    # number of processors.
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.sched_getaffinity = lambda _: range({processors})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        next(batches)

        assert len(decoding_processes_of(batches.process.pid)) == processes


def test_kill_of_a_decoding_process_is_told(config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.sched_getaffinity = lambda _: range(2)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        next(batches)
        first, second = decoding_processes_of(batches.process.pid)
        os.kill(first, signal.SIGKILL)

        with pytest.raises(
            LostPeerError,
            match=r"^data\.uri: a process that decodes this rank's images was ended by signal 9; if memory was short, ",
        ):
            [*itertools.islice(batches, 1000)]
    # The other decoding process ends together with the reader.
    wait_until_ended(second)


def test_each_thread_is_told_how_a_decoding_process_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()

        told = [decoding._end_of(process.pid) for _ in range(2)]

    assert told[0] == told[1]
    assert "was ended by signal 9" in told[1]


def test_sigterm_does_not_end_the_process(config: Config) -> None:
    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        next(batches)
        for number in (signal.SIGTERM, signal.SIGINT):
            batches.process.send_signal(number)

        assert len([*itertools.islice(batches, 50)]) == 50
    assert batches.process.returncode == -signal.SIGKILL


RANK = """
import os, signal, sys, time
from distrain_trainer.config import Config
from distrain_trainer.data import batches_from_beside, load
config = Config(data=sys.argv[1], batch_size=3, epochs=1)
batches = batches_from_beside(config, load(config), rank=0, ranks=1)
next(batches)
print(batches.process.pid, flush=True)
if sys.argv[2] == "exit":
    os._exit(143)
time.sleep(60)
"""


@pytest.mark.parametrize("end", ["exit", "kill", "kill-group"])
def test_process_ends_with_the_rank(config: Config, end: str) -> None:
    command = [sys.executable, "-c", RANK, config.data, end]
    paths = {"PYTHONPATH": str(Path(beside.__file__).parents[2])}
    with subprocess.Popen(
        command, env={**os.environ, **paths}, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as rank:
        assert rank.stdout
        pid = int(rank.stdout.readline())
        if end == "kill":
            rank.kill()
        elif end == "kill-group":
            os.killpg(rank.pid, signal.SIGKILL)

    wait_until_ended(pid)


def wait_until_ended(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("batch_size", "side", "slots"), [(256, 224, 4), (32, 224, 15), (4, 8, 18)])
def test_memory_bounds_what_is_decoded_ahead(batch_size: int, side: int, slots: int) -> None:
    images = np.zeros((1, side, side, 3), dtype=np.uint8)
    dataset = Dataset(Arrays(images, np.zeros(1, dtype=np.int64)), test=None, classes=1)

    assert Work(config_of("/data", batch_size=batch_size), dataset, 0, 1, Position()).slots == slots


def test_batch_does_not_change_while_any_part_of_it_is_used(config: Config) -> None:
    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        # Only views of the first two batches are kept: the memory must not be used again before these are freed, too.
        kept = [
            next(batches).images[:1],
            next(batches).images.reshape(-1)[5:],
            *(next(batches).images for _ in range(5)),
        ]
        were = [images.copy() for images in kept]
        [*itertools.islice(batches, 60)]

        for images, expected in zip(kept, were, strict=True):
            np.testing.assert_array_equal(images, expected)


def test_batch_is_copied_only_if_the_rank_keeps_others(config: Config) -> None:
    with ended(batches_from_beside(config, load(config), rank=0, ranks=1)) as batches:
        kept = [next(batches).images for _ in range(3)]
        assert [images.flags.owndata for images in kept] == [False, False, True]

        # The memory of a freed batch is used again, so the reader never runs out of memory.
        kept.clear()
        for _ in range(60):
            assert not next(batches).images.flags.owndata


def test_idx_files_and_noise_need_no_process(digits: Path) -> None:
    for config in (config_of(digits), Config(steps=3)):
        assert not isinstance(batches_from_beside(config, load(config), rank=0, ranks=1), BatchesFromBeside)
