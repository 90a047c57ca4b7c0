"""Define the fixtures of the scripts' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import Bench, greeting_server
from tests.chart.scripts.pods import Pod


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python buffer the output of the scripts, as it does in the pods."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    with pods.make_pod() as pod:
        yield pod


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with greeting_server(b"SSH-2.0-test\r\n") as port:
        yield Bench(tmp_path, port)
