"""Read the all-reduce table in the log of `helm test`, and compute the bandwidth and latency between its ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from distrain.derive.formulas import all_reduce_bytes
from distrain.errors import ValuesError

FLAG = "--test"
# distrain_trainer.allreduce prints sizes with the units `Ki` and `Mi`. In a log, a line may start with a time, a pod's
# name or a rank.
HEAD = re.compile(r"all-reduce of float32 over (\d{1,6}) ranks")
LINE = re.compile(r"(\d+(?:\.\d+)?) (|Ki|Mi|Gi)B +(\d+(?:\.\d+)?) +\d+\.\d+ +\d+\.\d+[ \r]*$", re.MULTILINE)
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# If an all-reduce seems to have taken more seconds than this, its line is damaged.
LONGEST = 3600.0


class Tested(Struct, frozen=True):
    """A network measured by an all-reduce: the seconds per byte of a link, and the latency of a hop."""

    ranks: int
    link: float
    latency: float


def read(text: str, place: str) -> Tested:
    """Return the network's figures from the table in the log of `helm test`.

    Raises ValuesError if the log has no table for at least two ranks and two sizes.
    """
    # If the log contains several tests, the last test is used.
    *_, head = [None, *HEAD.finditer(text)]
    table = text[head.end() :] if head else ""
    rows = [(float(size) * UNITS[unit], float(time) * 1e-6) for size, unit, time in LINE.findall(table)]
    rows = sorted((size, seconds) for size, seconds in rows if 0 < size < math.inf and 0 < seconds < LONGEST)
    if head is None or not rows:
        raise ValuesError(f"{FLAG}: {place} contains no all-reduce table; give the log of the pod of `helm test`")
    ranks = int(head[1])
    if ranks < 2 or len({size for size, _ in rows}) < 2:
        found = f"{ranks} rank" if ranks < 2 else "one tensor size"
        raise ValuesError(
            f"{FLAG}: {place} contains only {found}, so no bandwidth can be computed; "
            "run `helm test` with test.workers: 2"
        )
    if rows[-1][1] <= rows[0][1]:
        words = "its largest tensor took no longer than its smallest, so no bandwidth can be computed"
        raise ValuesError(f"{FLAG}: {place}: {words}; run `helm test` again")
    return _tested(ranks, rows)


def _tested(ranks: int, rows: Sequence[tuple[float, float]]) -> Tested:
    """Compute the latency and the seconds per byte of a link from the measured all-reduces.

    The latency follows from the smallest tensor. The seconds per byte follow from the additional time of the largest
    tensor.
    """
    (small, quick), (large, slow) = rows[0], rows[-1]
    link = (slow - quick) / (all_reduce_bytes(large, ranks) - all_reduce_bytes(small, ranks))
    return Tested(ranks, link, quick / (2 * math.log2(ranks)))
