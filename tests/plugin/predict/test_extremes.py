"""Test that no input leads to impossible numbers: with random constants, and with extreme numbers for each flag."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from typing import Any, NoReturn

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from distrain.command_line.predict import LARGEST, LARGEST_COUNT, SMALLEST
from distrain.errors import ValuesError
from distrain.predict import helm_test
from distrain.predict.constants import Given, constants_of
from distrain.predict.gradients import buckets, even
from distrain.predict.network import Size
from distrain.predict.numbers import short
from distrain.predict.sizes import Limits, Price, Row, chosen, powers, rows
from distrain.predict.text import answer, text
from distrain.predict.work import Work

EXPONENT = re.compile(r"\de[+-]\d")
INPUTS = st.floats(SMALLEST, LARGEST)
COUNTS = st.integers(1, LARGEST_COUNT)
NO_RATES: st.SearchStrategy[Mapping[int, float]] = st.just({})


def _strict(words: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(words, parse_constant=refuse)


@st.composite
def _works(draw: st.DrawFn, most: int = 1000) -> Work:
    gradients, bucket = 4 * draw(COUNTS), draw(st.integers(1, 2**40))
    size = Size(draw(st.integers(1, most)), draw(st.integers(1, 16)), draw(st.integers(0, 64)))
    found = buckets(even(gradients), bucket)
    samples = draw(st.none() | COUNTS)
    return Work("own", "pytorch", draw(COUNTS), gradients, bucket, found, size, size.slots, None, samples)


def _given(rates: st.SearchStrategy[Mapping[int, float]]) -> st.SearchStrategy[Given]:
    bits = st.none() | INPUTS.map(lambda gigabits: gigabits * 1e9)
    tested = st.builds(helm_test.Tested, st.integers(2, 10_000), st.floats(1e-15, 1), st.floats(0, 1))
    return st.builds(
        Given,
        rate=INPUTS,
        rates=rates,
        tested=st.none() | tested,
        between=bits,
        within=bits,
        latency=st.none() | st.floats(0, 1),
        algorithm=st.sampled_from(["", "tree", "ring", "hierarchical"]),
    )


def _all_reduce(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if row.exchange == "all-reduce"]


@given(_works(), _given(NO_RATES), st.decimals(0, 10**9, places=9), st.integers(1, 16))
@settings(deadline=None)
def test_numbers_of_every_size_can_be(work: Work, stated: Given, hour: Decimal, shared: int) -> None:
    found = constants_of(work, stated)
    price = Price(hour, shared)
    predicted = rows(work, found.constants, powers(1000, work.size.workers), price)

    for row in predicted:
        assert 0 < row.seconds < math.inf
        assert 0 < row.rate < math.inf
        assert 0 < row.efficiency <= 1
        assert row.rate == pytest.approx(row.size.ranks * work.batch / row.seconds)
        if row.hours is not None and row.cost is not None:
            assert row.hours == pytest.approx((work.samples or 0) / row.rate / 3600)
            assert row.cost == pytest.approx(float(hour) * math.ceil(row.size.workers / shared) * row.hours)
    told = answer(work, found, predicted, chosen(predicted, Limits()))
    assert _strict(json.dumps(told)) == told
    assert EXPONENT.search(text(work, found, predicted, chosen(predicted, Limits()), Limits())) is None


@given(_works(), _given(NO_RATES))
@settings(deadline=None)
def test_more_workers_never_make_a_step_shorter_nor_more_efficient(work: Work, stated: Given) -> None:
    found = _all_reduce(rows(work, constants_of(work, stated).constants, powers(1000, work.size.workers)))

    for less, more in pairwise(found):
        assert more.seconds >= less.seconds * (1 - 1e-9)
        assert more.efficiency <= less.efficiency * (1 + 1e-9)


@given(
    _works(8),
    _given(st.dictionaries(st.integers(1, 64), st.floats(1e-3, 1e6), min_size=2, max_size=5)),
)
@settings(deadline=None)
def test_measured_size_that_the_model_misses_is_told(work: Work, stated: Given) -> None:
    found = None
    # `constants_of` refuses a record if the network would take longer than the steps, or if its ranks do not fill whole
    # workers.
    with suppress(ValuesError):
        found = constants_of(work, stated)
    assume(found is not None)
    assert found
    for ranks, rate in stated.rates.items():
        slots = min(ranks, work.size.slots)
        if ranks % slots == 0:
            sized = replace(work, size=Size(ranks // slots, slots))
            row = _all_reduce(rows(sized, found.constants, [ranks // slots]))[0]
            is_told = any(f"record: {ranks} ranks reached" in note for note in found.notes)
            assert is_told or row.rate == pytest.approx(rate, rel=0.12)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(1.0, "1", id="one"),
        pytest.param(999.7, "1,000", id="below-a-thousand"),
        pytest.param(9.999, "10", id="below-ten"),
        pytest.param(1152.4, "1,152", id="thousand"),
        pytest.param(0.0000123, "0.0000123", id="small"),
        pytest.param(28000.0, "28,000", id="large"),
    ],
)
def test_number_for_people_has_no_exponent(number: float, words: str) -> None:
    assert short(number) == words
