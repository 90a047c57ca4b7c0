"""Read and decode a rank's batches in a process beside it.

Python runs one thread at a time. In the rank's own process, reading and decoding would hold up the thread that launches
the GPU's kernels. The other process writes decoded images into memory that both share, as far ahead as MEMORY allows.
It ends when the rank does, whatever ends the rank.
"""

from __future__ import annotations

import mmap
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.idx import Arrays
from distrain_trainer.data.loader import START, Batch, train_batches
from distrain_trainer.data.position import Position
from distrain_trainer.data.samples import Pixels
from distrain_trainer.errors import LostPeerError, TrainerError

# Bytes of decoded images that are held ahead of the training, in at least two batches and at most BATCHES.
MEMORY, BATCHES = 256 * 1024**2, 16
SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class Work:
    """What the other process reads. It sends batches of `images`, one in each slot of the shared memory."""

    config: Config
    dataset: Dataset
    rank: int
    ranks: int
    start: Position

    @property
    def batch_bytes(self) -> int:
        return int(np.prod((self.config.batch_size, *self.dataset.shape))) * np.dtype(np.float32).itemsize

    @property
    def slots(self) -> int:
        return max(2, min(BATCHES, MEMORY // self.batch_bytes))

    def slots_in(self, memory: mmap.mmap) -> list[Pixels]:
        shape = (self.slots, self.config.batch_size, *self.dataset.shape)
        return [*np.frombuffer(memory, dtype=np.float32).reshape(shape)]


def batches_from_beside(
    config: Config, dataset: Dataset, *, rank: int, ranks: int, start: Position = START
) -> Iterator[Batch]:
    """Yield the batches of train_batches, which another process reads. Synthetic data and idx files need none.

    The iterator raises what train_batches raises, and LostPeerError if the other process ends. end_batches ends it.
    """
    if config.is_synthetic or isinstance(dataset.train, Arrays):
        return train_batches(config, dataset, rank=rank, ranks=ranks, start=start)
    return BatchesFromBeside(Work(config, replace(dataset, test=None), rank, ranks, start))


def end_batches(batches: Iterator[Batch]) -> None:
    """End the process beside this one after the last batch that is needed, as it holds memory and processor time."""
    if isinstance(batches, BatchesFromBeside):
        batches.end()


class BatchesFromBeside:
    """The batches of another process, as an iterator."""

    def __init__(self, work: Work) -> None:
        # Not /dev/shm, which is small in containers. Like it, this counts as the container's memory.
        file = os.memfd_create("batches")
        os.ftruncate(file, work.slots * work.batch_bytes)
        self._slots = work.slots_in(mmap.mmap(file, 0))
        ours, its = socket.socketpair()
        self._connection = Connection(ours.detach())
        self.process = _start(its, file)
        its.close()
        os.close(file)
        with suppress(OSError):  # The process has ended. The first batch says so.
            self._connection.send_bytes(pickle.dumps(work))
        # A thread copies the next batch meanwhile. numpy copies without Python's lock.
        self._copier = ThreadPoolExecutor(1)
        self._next = self._copier.submit(self._receive)

    def __iter__(self) -> BatchesFromBeside:
        return self

    def __next__(self) -> Batch:
        batch = self._next.result()
        self._next = self._copier.submit(self._receive)
        return batch

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        # The thread ends at the connection's end.
        self._copier.shutdown()
        self._connection.close()

    def _receive(self) -> Batch:
        try:
            found = self._connection.recv()
        except (EOFError, OSError):
            raise LostPeerError(self._how_it_ended()) from None
        if isinstance(found, BaseException):
            raise found
        slot, labels, weights, samples, global_samples = found
        images = self._slots[slot].copy()
        with suppress(OSError):
            self._connection.send(slot)
        return Batch(images, labels, weights, samples, global_samples)

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(SECONDS_TO_END)
        status = self.process.returncode
        how = f"by signal {-status}" if status is not None and status < 0 else f"with exit code {status}"
        remedy = "; if memory was short, raise workers.memory" if status == -signal.SIGKILL else ""
        return f"data.uri: the process that reads and decodes this rank's images was ended {how}{remedy}"


def _start(its: socket.socket, file: int) -> subprocess.Popen[bytes]:
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # In a session of its own: a launcher may send SIGTERM to the rank's process group, and the rank then trains on to
    # the end of the step.
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({its.fileno()}, {file})"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        pass_fds=[its.fileno(), file],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def serve(connection_file: int, memory_file: int) -> NoReturn:
    """Be the process beside a rank: read batches into the slots of the memory, and send what else is in them.

    Send the exception that ends this.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(connection_file)
    try:
        work: Work = pickle.loads(connection.recv_bytes())
        slots = work.slots_in(mmap.mmap(memory_file, 0))
        _send_batches(work, connection, slots)
    except (EOFError, BrokenPipeError):  # The rank has ended.
        pass
    except Exception as error:
        if not isinstance(error, TrainerError):
            traceback.print_exc()
        with suppress(OSError):
            connection.send(error)
            # Until the rank has read it, and ended.
            threading.Event().wait()
    os._exit(0)


def _send_batches(work: Work, connection: Connection, slots: list[Pixels]) -> None:
    free: queue.Queue[int] = queue.Queue()
    for slot in range(len(slots)):
        free.put(slot)
    threading.Thread(target=_take_back, args=[connection, free], daemon=True).start()
    numbers = {each.ctypes.data: number for number, each in enumerate(slots)}
    batches = train_batches(
        work.config,
        work.dataset,
        rank=work.rank,
        ranks=work.ranks,
        start=work.start,
        place=lambda: slots[free.get()],
        ahead=len(slots),
    )
    for batch in batches:
        slot = numbers[batch.images.ctypes.data]
        connection.send((slot, batch.labels, batch.weights, batch.samples, batch.global_samples))


def _take_back(connection: Connection, free: queue.Queue[int]) -> None:
    """Receive the slots whose images the rank has copied. End this process when the rank has ended."""
    with suppress(EOFError, OSError):
        while True:
            free.put(connection.recv())
    os._exit(0)
