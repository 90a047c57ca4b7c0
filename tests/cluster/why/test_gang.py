"""Test that `status` reports why a gang scheduler does not place the run's pods."""

from __future__ import annotations

import pytest

from lab.cluster.operators import Operators
from tests.cluster.why.case import Case
from tests.cluster.why.causes import gang
from tests.cluster.why.conftest import Explain

OPERATORS = Operators(gang=True)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in gang.CASES])
def test_gang_that_does_not_fit_is_explained(case: Case, explain: Explain) -> None:
    assert explain(case) == case.said
