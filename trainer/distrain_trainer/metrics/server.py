"""Answer Prometheus. The first rank of each pod listens on the port, and asks the pod's other ranks for their figures.

A pod with several GPUs has one rank per GPU, but only one port for metrics. The other ranks answer on abstract Unix
sockets, which need no folder and disappear with the process.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from distrain_trainer.metrics.figures import Figures
from distrain_trainer.processors import local_ranks_from_environment

# "::" means all IPv6 and IPv4 addresses of the pod. On a machine without IPv6, "0.0.0.0" is used.
ADDRESSES = ("::", "0.0.0.0")
# Seconds to wait for another rank's figures. If a rank takes longer, the answer to Prometheus leaves that rank out.
SECONDS_TO_ANSWER = 1.0


def serve_metrics(figures: Figures, port: int | None) -> None:
    """If `port` is set, serve the figures in threads.

    If serving fails, log one line: the training continues without metrics.
    """
    if port is None:
        return
    local_rank, local_ranks = local_ranks_from_environment()
    try:
        if local_rank == 0:
            _listen(Pod(figures, port, local_ranks))
        else:
            _answer(figures, _address(port, local_rank))
    except Exception as error:  # Catch every error: the training must continue.
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        print(
            f"metrics: rank {figures.rank} does not serve them on port {port} ({reason}); training goes on", flush=True
        )


@dataclass(frozen=True, eq=False)
class Pod:
    """A collector for prometheus-client. The collector returns the metrics of all ranks in this pod."""

    figures: Figures
    port: int
    local_ranks: int

    def collect(self) -> Iterator[object]:
        from distrain_trainer.metrics.families import families

        others = (_ask(_address(self.port, local_rank)) for local_rank in range(1, self.local_ranks))
        yield from families([self.figures, *(each for each in others if each is not None)])


def _listen(pod: Pod) -> None:
    # Import this only here: a run without metrics does not need it.
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(pod)  # type: ignore[arg-type]  # It has `collect`, as a collector must.
    for address in ADDRESSES:
        try:
            start_http_server(pod.port, address, registry)
        except OSError as error:
            if error.errno == errno.EADDRINUSE or address == ADDRESSES[-1]:
                raise
        else:
            return


def _address(port: int, local_rank: int) -> str:
    # With hostNetwork, the pods of a node share the names of abstract sockets. The pod's port in the name makes the
    # name unique.
    return f"\0distrain-metrics-{port}-{local_rank}"


def _answer(figures: Figures, address: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen()
    threading.Thread(target=_answer_each, args=[figures, listener], daemon=True).start()


def _answer_each(figures: Figures, listener: socket.socket) -> None:
    while True:
        # The rank that asked for the figures may have ended in the meantime.
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(SECONDS_TO_ANSWER)
            connection.sendall(figures.to_json())


def _ask(address: str) -> Figures | None:
    """Return the figures of another rank of this pod, or None if that rank does not answer."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS_TO_ANSWER)
        connection.connect(address)
        content = b""
        while part := connection.recv(65536):
            content += part
        return Figures.from_json(content)
    return None
