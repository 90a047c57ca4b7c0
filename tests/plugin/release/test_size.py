"""Test how the values of a release change if the release gets another size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.release.size import reused, with_gpus, with_workers
from tests.plugin.objects import node
from tests.plugin.program import Run, hold
from tests.plugin.release.recorded import VALUES, Recorded

FULL = {"workers": {"replicas": 2, "gpus": 8}}
Resize = Callable[[], dict[str, Any]]


@pytest.mark.parametrize(
    ("resize", "values"),
    [
        pytest.param(lambda: with_workers({}, FULL, 4), {"workers": {"replicas": 4}}, id="workers"),
        pytest.param(
            lambda: with_workers({"gpus": 16, "x": 1}, FULL, 4),
            {"gpus": 32, "x": 1, "workers": {"replicas": 4}},
            id="total",
        ),
        pytest.param(
            lambda: with_gpus({"gpus": 16, "workers": {"cpu": 4, "gpus": 8}}, FULL, 32),
            {"gpus": 32, "workers": {"cpu": 4, "gpus": 8, "replicas": 4}},
            id="more-of-the-same",
        ),
        pytest.param(
            lambda: with_gpus({"gpus": 16, "workers": {"replicas": 2, "cpu": 4, "gpus": 8}}, FULL, 12),
            {"gpus": 12, "workers": {"cpu": 4}},
            id="left-to-derive",
        ),
        pytest.param(lambda: with_gpus({"workers": {"gpus": 8}}, FULL, 4), {"gpus": 4}, id="no-section-left"),
    ],
)
def test_release_at_another_size_keeps_its_other_values(resize: Resize, values: dict[str, Any]) -> None:
    assert resize() == values


def test_gpus_of_a_run_on_the_cpu_are_refused() -> None:
    with pytest.raises(
        ValuesError,
        match=r"^--gpus: the run trains on CPUs, because workers.gpus is 0; give the number of workers with "
        r"--workers N",
    ):
        with_gpus({}, {"workers": {"replicas": 2, "gpus": 0}}, 8)


def test_reused_values_merge_as_helm_merges_them() -> None:
    old = {"a": {"b": 1, "c": 2}, "d": [1], "e": {"f": 1}, "g": 1}
    given = {"a": {"b": 3}, "d": [2], "e": None}

    assert reused(given, old) == {"a": {"b": 3, "c": 2}, "d": [2], "g": 1}


@pytest.mark.usefixtures("signals")
@pytest.mark.either_helm
def test_total_of_a_rescale_is_spread_again(run: Run, running: Recorded) -> None:
    hold(running.api, [node("a", gpu="8"), node("b", gpu="8")])

    assert run("rescale", "run1", "--gpus", "16", "--yes").code == 0

    given = yaml.safe_load(running.upgrades[0][0].source.stdin or b"")
    assert given == {**VALUES, "gpus": 16, "workers": {"replicas": 16, "gpus": 1}}
