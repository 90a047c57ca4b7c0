"""Provide a function that produces a cause in a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.testbed import Namespace
from tests.cluster.why.case import Case, Said
from tests.cluster.why.produce import said_of

Explain = Callable[[Case], Said]


@pytest.fixture
def explain(own_namespace: Namespace, helm4: Path, on_s3: list[str], tmp_path: Path) -> Iterator[Explain]:
    """Return a function that produces a cause, and returns what `status` reports."""
    yield lambda case: said_of(case, own_namespace, helm4, tmp_path)
    own_namespace.helm(helm4, "uninstall", "run1", "--ignore-not-found")
