"""Test that if a run is blocked, `status` names the cause and the next step.

The test runs `status` with the permissions of an ordinary user.

`make test` tries one cause of each category, and `make bench-why` tries all causes.
"""

from __future__ import annotations

import pytest

from tests.cluster.why.case import Case
from tests.cluster.why.causes import gang
from tests.cluster.why.conftest import Explain
from tests.cluster.why.table import SORTS

# `make test` tries the first cause of each category, unless this cause disturbs other tests.
FULL = pytest.mark.full
PARAMETERS = [
    pytest.param(case, id=case.name, marks=[FULL] if number or case.disturbs else [])
    for cases in SORTS.values()
    if cases is not gang.CASES
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("case", PARAMETERS)
def test_cause_is_named_with_the_next_step(case: Case, explain: Explain) -> None:
    assert explain(case) == case.said
