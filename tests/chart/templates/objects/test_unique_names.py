"""Test that no two objects of a release have the same name.

Helm would keep only the last of several objects with one name.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.chart.kinds import every_kind
from tests.chart.templates.objects.everything import everything


@every_kind
def test_no_two_objects_have_one_name(helm: Path, kind: str) -> None:
    names = Counter((one["kind"], one["metadata"]["name"]) for one in everything(helm, kind))

    assert [name for name, number in names.items() if number > 1] == []
