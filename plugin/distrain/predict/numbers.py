"""Write numbers for people."""

from __future__ import annotations

import math

# A number is shown with at least this number of significant digits.
DIGITS = 3


def short(number: float) -> str:
    """Return a number with at least three significant digits, never with an exponent: 0.0125, 1.5, 1,152."""
    if number <= 0:
        return "0"
    places = DIGITS - 1 - math.floor(math.log10(number))
    if places <= 0:
        return f"{number:,.0f}"
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".")


def told(number: float) -> str:
    """Return a number as the user may have written it, with all its digits and without an exponent."""
    return f"{number:.10f}".rstrip("0").rstrip(".")
