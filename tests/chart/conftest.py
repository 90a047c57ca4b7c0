"""Define the fixtures of the chart's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.notes import visible_notes

# test_random_values.py tests that both Helm versions render the same.
WITH_ONE_HELM = [Path(__file__).parent / name for name in ("profiles", "templates", "values")]


@pytest.hookimpl(tryfirst=True)  # This pytest hook must run before the hook that reads the marks of the tests.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run with only one of the two Helm versions by default.

    In the full matrix, every test runs with both Helm versions.
    """
    for item in items:
        if set(WITH_ONE_HELM) & set(item.path.parents):
            item.add_marker("either_helm")


@pytest.fixture(scope="session")
def chart_with_visible_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return visible_notes(tmp_path_factory.mktemp("notes"))
