"""Read the user's table of prices: a line `TYPE: PRICE` for each instance type. distrain itself contains no prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from distrain import files
from distrain.errors import ValuesError, reason

FLAG = "--prices"
LINE = re.compile(r"([A-Za-z][\w.-]*)\s*:\s*(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)
EXAMPLE = "write TYPE: PRICE, as in p5.48xlarge: 98.32"
Prices = Mapping[str, Decimal]


def read(path: str) -> Prices:
    """Return the price of an hour by instance type. Raise a ValuesError that names the first invalid line."""
    try:
        text = files.read(path, files.VALUES).decode("utf-8-sig")  # Windows editors write a byte order mark.
    except (OSError, ValueError) as error:
        raise ValuesError(f"{FLAG}: {path} cannot be read: {reason(error)}; name another file") from error
    found: dict[str, Decimal] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        entry, place = LINE.fullmatch(content), f"{FLAG}: {path}, line {number}"
        if not entry:
            raise ValuesError(f'{place}: "{content[:60]}" is not a price; {EXAMPLE}')
        if entry[1] in found:
            raise ValuesError(f"{place}: {entry[1]} already has a price; remove one of the two lines")
        found[entry[1]] = Decimal(entry[2])
    if not found:
        raise ValuesError(f"{FLAG}: {path} contains no price; {EXAMPLE}")
    return found


def shown(price: Decimal) -> str:
    """Return a sum with two digits after the decimal point, or more if the price has more."""
    exponent = price.as_tuple().exponent
    digits = max(2, -exponent) if isinstance(exponent, int) else 2
    return f"{price:.{digits}f}"
