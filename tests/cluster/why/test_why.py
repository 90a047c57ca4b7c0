"""Test that `status` names each cause that keeps a run from going on, with the next step, for an ordinary user.

`make test` tries one cause of each sort, and `make bench-why` all of them.
"""

from __future__ import annotations

import pytest

from tests.cluster.why.case import Case
from tests.cluster.why.causes import gang
from tests.cluster.why.conftest import Explain
from tests.cluster.why.table import SORTS

# A cause that disturbs other tests on the lab is never the first of its sort.
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
