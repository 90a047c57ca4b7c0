"""Choose texts, labels and selectors at random, valid and invalid ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
LONG = "x" * 64
# Each constant has two tuples: valid examples, and examples that are invalid in some fields or in all.
NAMES = ("main", "a", "side-1"), ("", "Main", "a.b", "a_b", LONG, "-a", "a\n")
KEYS = ("app", "example.com/tier", "a_b.C"), ("", "a b", "Example.com/x", "/x", "a/", "a/b/c", LONG, "-a", f"{LONG}/a")
VALUES = ("x", "", "A_b.c", "y"), ("a b", "-", LONG, "é")
VOLUMES = ("data", "cache", "tmp"), ("", "Data", "a.b", "gone", LONG)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist"), ("", "Gt", "Lt", "in", "Equals")
RESOURCES = (
    ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"),
    ("pods", "gpu", "Memory", "nvidia.com/gpu/x", "requests.nvidia.com/gpu", "requests.cpu", "hugepages-2", "a b"),
)


class Chance:
    """Makes random choices. `share` is the probability that a field gets a value that may be invalid."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.share = chance.choice([0, 0, 0.01, 0.05, 0.2])

    def _labels(self) -> dict[str, str]:
        return {self._of(KEYS): self._of(VALUES) for _ in range(self.random.choice([1, 1, 2]))}

    def _selector(self) -> Object:
        found: Object = {}
        if self._is(0.5):
            found["matchLabels"] = self._labels()
        if self._is(0.5):
            found["matchExpressions"] = [self._requirement() for _ in range(self.random.choice([1, 2]))]
        return found

    def _requirement(self, *, compares: bool = False) -> Object:
        operator = "Gt" if compares and self._is(0.3) else self._of(OPERATORS)
        number = {"In": 2, "NotIn": 1, "Gt": 1, "Lt": 1}.get(operator, 0)
        if self._wrong():
            number = self.random.choice([0, 1, 2])
        values = {"values": [self._of(VALUES) for _ in range(number)]} if number or self._is(0.3) else {}
        return {"key": self._of(KEYS), "operator": operator, **values}

    def _of(self, values: tuple[Sequence[Any], Sequence[Any]]) -> Any:
        """Choose a valid value. With a small probability, choose one that may be invalid."""
        return self.random.choice(values[1] if self._wrong() else values[0])

    def _wrong(self) -> bool:
        return self._is(self.share / 2)

    def _is(self, share: float) -> bool:
        return self.random.random() < share
