"""Decode images in several processes, because threads of one Python process cannot use all processors."""

from __future__ import annotations

import mmap
import os
import queue
import signal
import socket
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NoReturn

import numpy as np

from distrain_trainer.data.images import Decoder
from distrain_trainer.data.samples import Pixels, Shape
from distrain_trainer.errors import LostPeerError, TrainerError


@dataclass(frozen=True)
class Process:
    pid: int
    connection: Connection


class DecodingProcesses:
    """Has the interface of a Decoder, whose method `fill` may be called in several threads.

    The images must be within `memory`, which the processes share. The processes end when this process ends.
    """

    def __init__(self, decoder: Decoder, memory: mmap.mmap, count: int, *, others: Sequence[int] = ()) -> None:
        """Fork `count` processes. Call this before this process starts threads.

        `others` are file descriptors of this process's connections, which each forked process closes. Otherwise a
        connection would stay open when this process ends, and the process at its other end would not notice.
        """
        self._decoder = decoder
        self._start = np.frombuffer(memory, dtype=np.uint8).ctypes.data
        self._free: queue.Queue[Process] = queue.Queue()
        for _ in range(count):
            process = _fork(decoder, memory, others)
            others = [*others, process.connection.fileno()]
            self._free.put(process)

    @property
    def shape(self) -> Shape:
        return self._decoder.shape

    def fill(self, content: bytes, name: str, place: Pixels, *, epoch: int, sample: int) -> None:
        """Do what Decoder.fill does. Raises LostPeerError if the process was killed."""
        process = self._free.get()
        try:
            process.connection.send((name, place.ctypes.data - self._start, epoch, sample))
            process.connection.send_bytes(content)
            error = process.connection.recv()
        except (EOFError, OSError):
            raise LostPeerError(_end_of(process.pid)) from None
        finally:
            self._free.put(process)
        if error is not None:
            raise error


def _fork(decoder: Decoder, memory: mmap.mmap, others: Sequence[int]) -> Process:
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        for file in (*others, ours.detach()):
            os.close(file)
        _serve(decoder, memory, Connection(its.detach()))
    its.close()
    return Process(pid, Connection(ours.detach()))


def _serve(decoder: Decoder, memory: mmap.mmap, connection: Connection) -> NoReturn:
    """Decode images until the other process ends."""
    size = int(np.prod(decoder.shape))
    try:
        while True:
            name, offset, epoch, sample = connection.recv()
            content = connection.recv_bytes()
            place = np.frombuffer(memory, dtype=np.float32, count=size, offset=offset).reshape(decoder.shape)
            connection.send(_error_of(decoder, content, name, place, epoch=epoch, sample=sample))
    except (EOFError, OSError):
        pass
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _error_of(
    decoder: Decoder, content: bytes, name: str, place: Pixels, *, epoch: int, sample: int
) -> Exception | None:
    try:
        decoder.fill(content, name, place, epoch=epoch, sample=sample)
    except Exception as error:
        if not isinstance(error, TrainerError):
            traceback.print_exc()
        return error
    return None


def _end_of(pid: int) -> str:
    # Several threads may wait for this process. WNOWAIT lets each of them read the exit status.
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None  # waitid returns None only with WNOHANG.
    code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
    return f"data.uri: a process that decodes this rank's images was ended {how_it_ended(code)}"


def how_it_ended(code: int | None) -> str:
    """Return how a process ended, and the remedy. `code` is its exit code, or minus the number of its signal."""
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    return f"{how}; if memory was short, raise workers.memory" if code == -signal.SIGKILL else how
