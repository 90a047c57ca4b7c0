"""Convert Kubernetes quantities to integers: thousandths for cpu, and whole units for every other resource."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distrain import kube

# In YAML that a person wrote, a quantity may be a number. The API server always writes strings.
Quantity = str | int | float
Amounts = dict[str, Quantity]
Units = dict[str, int]

BINARY_SUFFIXES = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
SUFFIXES = {
    **{
        suffix: Fraction(1000) ** power
        for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
    },
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
# Python refuses to convert a text of more than 4300 digits to a number.
LONGEST = 1000
# Kubernetes stores the number LARGEST instead of any larger quantity.
LARGEST = 2**63 - 1


class QuantityError(ValueError):
    """The text cannot be parsed as a Kubernetes quantity such as 500m or 2Gi."""


def add(total: Units, more: Mapping[str, int], times: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount * times


@lru_cache(maxsize=4096)
def units(resource: str, quantity: Quantity) -> int:
    """Return a quantity such as "1500m" or "2Gi" as an integer: in millicores for cpu, otherwise in whole units.

    Raises ValueError for a text that is not a quantity.
    """
    return whole(resource, thousandths(quantity))


@lru_cache(maxsize=4096)
def thousandths(quantity: Quantity) -> int:
    """Return a quantity in thousandths, rounded up; raise QuantityError if the text is not a quantity."""
    found = QUANTITY.fullmatch(str(quantity))
    if not found or len(found[0]) > LONGEST:
        shown = quantity if str(quantity).strip() else "an empty text"
        raise QuantityError(f"{shown} is no quantity")
    sign, number, suffix, exponent = found.groups()
    size = SUFFIXES[suffix] if suffix else Fraction(10) ** int(exponent or 0)
    amount = Fraction(f"{sign}{number}") * size
    return math.ceil(min(amount, Fraction(LARGEST)) * 1000)


def text(resource: str, amount: int) -> str:
    """Return an amount as an exact quantity for values files."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    suffix, size = next((each for each in _suffixes(resource) if amount and amount % each[1] == 0), ("", 1))
    return f"{amount // size}{suffix}"


def rounded_down(resource: str, amount: int) -> str:
    """Return an amount, rounded down, as a short quantity that people can read."""
    suffix, size = next((each for each in _suffixes(resource) if amount >= each[1]), ("", 1))
    if not suffix:
        return text(resource, amount)
    return f"{math.floor(amount / size * 10) / 10:g}{suffix}"


def all_units(quantities: Amounts | None) -> Units:
    return {resource: units(resource, quantity) for resource, quantity in (quantities or {}).items()}


def allocatable(node: kube.Node) -> Units:
    return all_units(_given(node))


def allocatable_of(node: kube.Node, resource: str) -> int:
    return units(resource, (_given(node) or {}).get(resource, 0))


def all_thousandths(quantities: Amounts | None) -> Units:
    return {resource: thousandths(quantity) for resource, quantity in (quantities or {}).items()}


def whole(resource: str, amount: int) -> int:
    """Convert thousandths to whole units, rounded up. For cpu, return the thousandths (millicores) unchanged."""
    return amount if resource == "cpu" else -(-amount // 1000)


def _suffixes(resource: str) -> tuple[tuple[str, int], ...]:
    in_bytes = resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")
    in_bytes = in_bytes or resource.endswith("/requests.storage")
    return BINARY_SUFFIXES if in_bytes else ()


def _given(node: kube.Node) -> Amounts | None:
    """Return the node's allocatable amounts, or its capacity if it reports no allocatable amounts."""
    status = node.status
    return status.capacity if status.allocatable is None else status.allocatable
