"""Add up, over many nodes, the numbers of pods that fit on each node.

A node can run several combinations of pods. `Options` maps the numbers of pods of the other roles on a node to the
number of main pods on the same node. To get an option of several nodes together, one option of each node is chosen, and
their numbers are added. Only Pareto-optimal sums are kept. For equal nodes, the sums are computed by doubling: for 2
nodes, then for 4, then for 8. So thousands of nodes need few steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from distrain.solver.budget import Budget

Vector = tuple[int, ...]
Options = dict[Vector, int]
Counted = Iterable[tuple[Options, int]]
Add = Callable[[Options, Options], Options]


def most(counted: Counted, counts: Vector, budget: Budget) -> int | None:
    """Return the largest number of main pods that the nodes can run together with `counts` other pods.

    Return None if the other pods do not fit.
    """

    def add(first: Options, second: Options) -> Options:
        budget.store(len(first) * len(second), 1 + len(counts))
        total: Options = {}
        for these, more in first.items():
            for those, still_more in second.items():
                numbers = tuple(min(sum(pair), count) for *pair, count in zip(these, those, counts, strict=True))
                total[numbers] = max(total.get(numbers, 0), more + still_more)
        return _best(total, -1, budget)

    return _added(((_best(options, -1, budget), number) for options, number in counted), counts, add).get(counts)


def fewest(counted: Counted, limits: Vector, limit: int, budget: Budget) -> int | None:
    """Choose an option of each node so that all nodes together run the fewest main pods. Return this number.

    All nodes together run at most `limit` main pods, and at most `limits` pods of the other roles. Return None if no
    choice of options keeps these limits.
    """

    def add(first: Options, second: Options) -> Options:
        budget.store(len(first) * len(second), 1 + len(limits))
        total: Options = {}
        for these, more in first.items():
            for those, still_more in second.items():
                numbers = tuple(map(sum, zip(these, those, strict=True)))
                if more + still_more <= limit and all(map(int.__le__, numbers, limits)):
                    total[numbers] = min(total.get(numbers, limit), more + still_more)
        return _best(total, 1, budget)

    options = _added(((_best(options, 1, budget), number) for options, number in counted), limits, add)
    return min(options.values(), default=None)


def _added(counted: Counted, counts: Vector, add: Add) -> Options:
    """Return the options of all nodes together. Nodes that have equal options are added at once."""
    kinds: Counter[frozenset[tuple[Vector, int]]] = Counter()
    for options, number in counted:
        kinds[frozenset(options.items())] += number
    total = {(0,) * len(counts): 0}
    for kind, number in kinds.items():
        total = _add_times(total, dict(kind), number, add)
        if not total:
            break
    return total


def _add_times(total: Options, options: Options, times: int, add: Add) -> Options:
    while times and total:
        if times % 2:
            total = add(total, options)
        times //= 2
        if times:
            options = add(options, options)
    return total


def _best(options: Options, sign: int, budget: Budget) -> Options:
    """Keep only the Pareto-optimal options.

    If `sign` is -1, more pods are better. If it is 1, fewer pods are better.
    """
    kept: list[Vector] = []
    for numbers in sorted(
        (tuple(sign * number for number in (*key, value)) for key, value in options.items()), key=sum
    ):
        budget.spend(len(kept))
        if not any(all(map(int.__le__, better, numbers)) for better in kept):
            kept.append(numbers)
    return {tuple(sign * number for number in numbers[:-1]): sign * numbers[-1] for numbers in kept}
