"""Compute the seconds in which ranks exchange gradients, by the latency-bandwidth model.

A message of b bytes takes a + b / B seconds: `a` is the latency, B the bandwidth. Hockney 1994 ("The communication
challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20); Thakur, Rabenseifner and Gropp 2005
("Optimization of collective communication operations in MPICH", IJHPCA 19) apply it to all-reduce.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from distrain.derive.formulas import all_reduce_bytes, server_bytes

# In NCCL's own model, one hop of a ring or tree over the network takes 14 us with the protocol Simple: hwLat in
# src/graph/tuning.cc at commit b6475625fbcaa2c3c0e50eed2fa1255d7514d4a2 of NVIDIA/nccl.
LATENCY = 14e-6

RING, TREE, HIERARCHICAL, SERVERS = "ring", "tree", "hierarchical", "parameter-server"


class Network(Struct, frozen=True):
    """The seconds per byte of the links within a worker and between workers, and the latency of a hop in seconds."""

    within: float
    between: float
    latency: float = LATENCY


class Size(Struct, frozen=True):
    """The number of workers, of ranks per worker, and of parameter servers."""

    workers: int
    slots: int
    servers: int = 0

    @property
    def ranks(self) -> int:
        return self.workers * self.slots


def exchange_seconds(size: float, ranks: Size, network: Network, algorithm: str) -> float:
    """Return the seconds in which all ranks get the sum of `size` bytes of gradients."""
    if ranks.ranks == 1:
        return 0.0
    if ranks.workers == 1 and algorithm != SERVERS:
        return _within(size, ranks, network)
    return ALGORITHMS[algorithm](size, ranks, network)


def _within(size: float, ranks: Size, network: Network) -> float:
    """Return the seconds in which each worker adds up its ranks' gradients; 0 with one rank per worker."""
    return all_reduce_bytes(size, ranks.slots) * network.within


def _ring(size: float, ranks: Size, network: Network) -> float:
    """Return the seconds of an all-reduce in one ring: 2(N-1)K/N bytes over the slowest link, and 2(N-1) hops."""
    return all_reduce_bytes(size, ranks.ranks) * _slowest(ranks, network) + 2 * (ranks.ranks - 1) * network.latency


def _tree(size: float, ranks: Size, network: Network) -> float:
    """Return the seconds of an all-reduce over NCCL's two trees: as many bytes as in a ring, but only 2 log2(N) hops.

    NCCL uses the two trees since 2.4 (Sanders et al. 2009, two-tree).
    """
    return all_reduce_bytes(size, ranks.ranks) * _slowest(ranks, network) + 2 * math.log2(ranks.ranks) * network.latency


def _slowest(ranks: Size, network: Network) -> float:
    """Return the seconds per byte of the slowest link that an exchange between all ranks uses.

    If workers have several ranks, the exchange also uses the links within the workers.
    """
    return max(network.between, network.within) if ranks.slots > 1 else network.between


def _hierarchical(size: float, ranks: Size, network: Network) -> float:
    """Return the seconds of a hierarchical all-reduce: a sum within each worker, then a ring of the W workers.

    In the ring, each worker sends 2(W-1)K/W bytes.
    """
    outside = all_reduce_bytes(size, ranks.workers) * network.between + 2 * (ranks.workers - 1) * network.latency
    return _within(size, ranks, network) + outside


def _servers(size: float, ranks: Size, network: Network) -> float:
    """Return the seconds in which gradients go to S parameter servers, and new weights come back.

    Each worker first adds up the gradients of its own ranks. Then each server transfers WK/S bytes in each direction,
    and each worker K bytes; the larger of the two numbers decides.
    """
    busiest = max(size, server_bytes(size, ranks.workers, ranks.servers or 1))
    return _within(size, ranks, network) + 2 * (busiest * network.between + network.latency)


ALGORITHMS: dict[str, Callable[[float, Size, Network], float]] = {
    RING: _ring,
    TREE: _tree,
    HIERARCHICAL: _hierarchical,
    SERVERS: _servers,
}
