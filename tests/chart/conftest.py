"""What the tests of the chart's two scripts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart import pods
from tests.chart.pods import Pod


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    with pods.make_pod() as pod:
        yield pod
