"""Read and decode a rank's batches in a separate process, the reader.

In one process, Python runs only one thread at a time. If the rank's own process read and decoded images, this would
delay the thread that launches the GPU's kernels. The reader, and the processes that decode for it, write decoded images
into shared memory, from which the rank uses them without a copy. The reader prefetches as many batches as MEMORY
allows. All of these processes end when the rank ends, for any reason.
"""

from __future__ import annotations

import ctypes
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
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data.decoding import DecodingProcesses, how_it_ended
from distrain_trainer.data.formats import Dataset
from distrain_trainer.data.idx import Arrays
from distrain_trainer.data.images import ImageFolder
from distrain_trainer.data.loader import START, Batch, train_batches
from distrain_trainer.data.position import Position
from distrain_trainer.data.samples import Pixels
from distrain_trainer.data.shards import Shards
from distrain_trainer.errors import LostPeerError, TrainerError
from distrain_trainer.processors import count_processors, local_ranks_from_environment

# The reader prefetches up to MEMORY bytes of decoded images, but at least two and at most BATCHES batches.
MEMORY, BATCHES = 256 * 1024**2, 16
# The rank may use up to LENT batches at a time in the shared memory. If it keeps more batches, it gets copies of them.
# A process that the rank forks shares the memory, so the reader may overwrite the child's batches.
LENT = 2
SECONDS_TO_END = 5.0
# Settings of glibc's malloc for the reader process, in bytes. By default, malloc returns the memory of each decoded
# image to the kernel, and decoding the next image causes hundreds of page faults. With these settings, the reader keeps
# up to 32 MiB of unused memory.
MALLOC = {
    "MALLOC_ARENA_MAX": "4",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2),
    "MALLOC_TRIM_THRESHOLD_": str(8 * 1024**2),
}


@dataclass(frozen=True)
class Work:
    """The reader's task. The shared memory consists of slots, and each slot contains the images of one batch."""

    config: Config
    dataset: Dataset
    rank: int
    ranks: int
    start: Position
    # The number of readers in this pod, which share its processors.
    readers: int = 1

    @property
    def batch_bytes(self) -> int:
        return int(np.prod((self.config.batch_size, *self.dataset.shape))) * np.dtype(np.float32).itemsize

    @property
    def slots(self) -> int:
        return max(2, min(BATCHES, MEMORY // self.batch_bytes)) + LENT

    @property
    def slot_bytes(self) -> int:
        """The bytes of a batch, rounded up to whole pages, so that each slot begins at the beginning of a page."""
        return -(-self.batch_bytes // mmap.PAGESIZE) * mmap.PAGESIZE

    def slot_in(self, memory: mmap.mmap, slot: int) -> ctypes.Array[ctypes.c_ubyte]:
        return (ctypes.c_ubyte * self.batch_bytes).from_buffer(memory, slot * self.slot_bytes)

    def images_in(self, slot: Any) -> Pixels:
        pixels: Pixels = np.frombuffer(slot, dtype=np.float32)
        return pixels.reshape((self.config.batch_size, *self.dataset.shape))


def batches_from_beside(
    config: Config, dataset: Dataset, *, rank: int, ranks: int, start: Position = START, devices: int = 1
) -> Iterator[Batch]:
    """Yield the batches of train_batches, which a reader process reads.

    For synthetic data and idx files, no reader process is started. `devices` is the number of ranks in this process,
    each of which has a reader. The iterator raises the exceptions of train_batches, and LostPeerError if the reader
    process ends. Call end_batches to end the reader.
    """
    if config.is_synthetic or isinstance(dataset.train, Arrays):
        return train_batches(config, dataset, rank=rank, ranks=ranks, start=start)
    _, local_ranks = local_ranks_from_environment()
    return BatchesFromBeside(Work(config, replace(dataset, test=None), rank, ranks, start, local_ranks * devices))


def end_batches(batches: Iterator[Batch]) -> None:
    """End the reader process after the last batch that is needed, because it uses memory and processor time."""
    if isinstance(batches, BatchesFromBeside):
        batches.end()


class BatchesFromBeside:
    """An iterator over the batches of a reader process."""

    def __init__(self, work: Work) -> None:
        # Do not use /dev/shm, which is small in containers. The memory of a memfd counts towards the container's memory
        # limit, like other memory.
        file = os.memfd_create("batches")
        os.ftruncate(file, work.slots * work.slot_bytes)
        self._work, self._memory = work, mmap.mmap(file, 0)
        self._lent: set[int] = set()
        # The slots whose batches have been freed. A batch can be freed in any thread.
        self._freed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._error: BaseException | None = None
        # Held while a thread reads from the connection.
        self._reading = threading.Lock()
        ours, its = socket.socketpair()
        self._connection = Connection(ours.detach())
        self.process = _start(its, file)
        its.close()
        os.close(file)
        with suppress(OSError):  # If the reader has ended, the first batch raises the error.
            self._connection.send_bytes(pickle.dumps(work))

    def __iter__(self) -> BatchesFromBeside:
        return self

    def __next__(self) -> Batch:
        with self._reading:
            while not self._freed.empty():
                self._give_back(self._freed.get())
            slot, labels, weights, samples, global_samples = self._receive()
            return Batch(self._images(slot), labels, weights, samples, global_samples)

    def _receive(self) -> Any:
        # After an error the reader sends nothing more.
        if self._error is not None:
            raise self._error
        try:
            found = self._connection.recv()
        except (EOFError, OSError):
            raise LostPeerError(self._how_it_ended()) from None
        if isinstance(found, BaseException):
            self._error = found
            raise found
        return found

    def _images(self, slot: int) -> Pixels:
        """Return the images in a slot as a view of the shared memory.

        If the rank still uses LENT other slots, return a copy of the images instead.
        """
        memory = self._work.slot_in(self._memory, slot)
        images = self._work.images_in(memory)
        self._lent.add(slot)
        if len(self._lent) > LENT:
            images = images.copy()
            self._give_back(slot)
        else:
            # Every array and tensor that uses the memory has a reference to it.
            weakref.finalize(memory, self._freed.put, slot).atexit = False
        return images

    def _give_back(self, slot: int) -> None:
        self._lent.discard(slot)
        with suppress(OSError):  # If the reader has ended, the next batch raises the error.
            self._connection.send(slot)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        # A thread that is waiting for a batch stops now. If the connection were closed before, this thread could read
        # from another file that gets the same number.
        with self._reading:
            self._connection.close()

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(SECONDS_TO_END)
        told = "data.uri: the process that reads and decodes this rank's images was ended"
        return f"{told} {how_it_ended(self.process.returncode)}"


def _start(its: socket.socket, file: int) -> subprocess.Popen[bytes]:
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Start the reader in its own session. A launcher may send SIGTERM to the rank's process group: the rank then
    # finishes its step, for which it still needs the reader.
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({its.fileno()}, {file})"],
        env={**MALLOC, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        pass_fds=[its.fileno(), file],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def serve(connection_file: int, memory_file: int) -> NoReturn:
    """Run as the reader of a rank: read batches into the slots of the shared memory, and send their other fields.

    If an exception ends the reading, send this exception to the rank.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(connection_file)
    try:
        work: Work = pickle.loads(connection.recv_bytes())
        memory = mmap.mmap(memory_file, 0)
        slots = [work.images_in(work.slot_in(memory, slot)) for slot in range(work.slots)]
        _send_batches(_decoded_by_processes(work, memory, connection_file), connection, slots)
    except (EOFError, BrokenPipeError):  # The rank has ended.
        pass
    except Exception as error:
        if not isinstance(error, TrainerError):
            traceback.print_exc()
        with suppress(OSError):
            connection.send(error)
            # Wait until the rank has received the error and ended.
            threading.Event().wait()
    os._exit(0)


def _decoded_by_processes(work: Work, memory: mmap.mmap, connection_file: int) -> Work:
    """Return `work` with a decoder that decodes in several processes, one for each of this rank's processors.

    If the rank has only one processor, return `work` unchanged: the reader itself then decodes.
    """
    train, count = work.dataset.train, count_processors() // work.readers
    if count < 2 or not isinstance(train, ImageFolder | Shards):
        return work
    processes: Any = DecodingProcesses(train.decoder, memory, count, others=[connection_file])
    return replace(work, dataset=replace(work.dataset, train=replace(train, decoder=processes)))


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
    """Receive the numbers of the slots that the rank has freed or copied. End the reader when the rank has ended."""
    with suppress(EOFError, OSError):
        while True:
            free.put(connection.recv())
    os._exit(0)
