"""Define the fixtures of the chart's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.notes import visible_notes


@pytest.fixture(scope="session")
def chart_with_visible_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return visible_notes(tmp_path_factory.mktemp("notes"))
