"""Test that the number of processors is that of the container's CPU limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distrain_trainer.processors import count_processors

SEEN = 8


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"cpu.max": "200000 100000\n"}, 2, id="v2"),
        pytest.param({"cpu.max": "max 100000\n"}, SEEN, id="v2-no-limit"),
        pytest.param({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3, id="v1"),
        pytest.param({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, SEEN, id="v1-no-limit"),
        pytest.param({"cpu.max": "50000 100000\n"}, 1, id="half-a-processor"),
        pytest.param({"cpu.max": "1600000 100000\n"}, SEEN, id="more-than-there-are"),
        pytest.param({}, SEEN, id="no-cgroups"),
    ],
)
def test_limit_of_the_container_counts(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(SEEN)))
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    assert count_processors(tmp_path) == expected
