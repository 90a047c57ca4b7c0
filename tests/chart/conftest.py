"""What several tests of the chart share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart import pods
from tests.chart.launching import Bench, greeting_server
from tests.chart.notes import visible_notes
from tests.chart.pods import Pod


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    with pods.make_pod() as pod:
        yield pod


@pytest.fixture(scope="session")
def chart_with_visible_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return visible_notes(tmp_path_factory.mktemp("notes"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with greeting_server(b"SSH-2.0-test\r\n") as port:
        yield Bench(tmp_path, port)
