"""Define the fixtures of the launcher's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.scripts.launch.workers import Workers
from tests.chart.scripts.launching import Bench


@pytest.fixture
def workers(bench: Bench) -> Iterator[Workers]:
    workers = Workers(bench)
    yield workers
    workers.fall_silent(*list(workers.answering))
