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
        pytest.param(
            lambda: with_gpus({"workers": {"cpu": 4, "shm": "8Gi"}}, FULL, 12, lambda: {"shm"}),
            {"gpus": 12, "workers": {"cpu": 4}},
            id="derived-before",
        ),
        pytest.param(
            lambda: with_gpus({"workers": {"shm": "8Gi"}}, FULL, 32, lambda: {"shm"}),
            {"workers": {"shm": "8Gi", "replicas": 4}},
            id="derived-before-for-workers-of-the-same-size",
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


# One worker on a whole node, beside the launcher, as `derive` divides the nodes of the next test.
WHOLE = {"replicas": 1, "gpus": 8, "cpu": 95, "memory": "800Gi", "shm": "8Gi"}


@pytest.mark.usefixtures("signals")
@pytest.mark.either_helm
@pytest.mark.parametrize(
    ("own", "total", "expected"),
    [
        pytest.param({}, 4, {"gpus": 4, "cpu": 47, "memory": "400Gi", "shm": "4Gi"}, id="all-derived"),
        pytest.param(
            {}, 14, {"replicas": 2, "gpus": 7, "cpu": 83, "memory": "700Gi", "shm": "7Gi"}, id="spread-further"
        ),
        pytest.param({"cpu": 9}, 4, {"gpus": 4, "memory": "400Gi", "shm": "4Gi"}, id="own-cpu"),
        pytest.param({"shm": "9Gi"}, 4, {"gpus": 4, "cpu": 47, "memory": "400Gi"}, id="own-shm"),
        pytest.param({"memory": "10Gi", "shm": "5Gi"}, 4, {"gpus": 4, "cpu": 47, "shm": "4Gi"}, id="shm-of-own-memory"),
        pytest.param({"cpu": None}, 4, {"gpus": 4, "memory": "400Gi", "shm": "4Gi"}, id="no-cpu"),
    ],
)
def test_what_was_derived_is_derived_again_for_another_total(
    run: Run, running: Recorded, own: dict[str, Any], total: int, expected: dict[str, Any]
) -> None:
    hold(running.api, [node(name, gpu="8", cpu="96", memory="801Gi") for name in ("a", "b")])
    running.be(values={"gpus": 8, "workers": {**WHOLE, **own}})

    outcome = run("rescale", "run1", "--gpus", str(total), "--yes")

    assert outcome.code == 0, outcome.err
    given = yaml.safe_load(running.upgrades[0][0].source.stdin or b"")
    assert given["workers"] == {**WHOLE, **own, **expected}
