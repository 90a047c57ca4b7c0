"""Test that the chart refuses every recipe that the trainer would refuse by its values alone, before it reads data."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from distrain_trainer.config import parse as trainer_parse
from distrain_trainer.errors import ArgumentError
from tests.chart.many import Request, render_many
from tests.chart.rendering import Rendered, parse

Values = dict[str, Any]

RANDOM = 150
SHARES = (0, 1, 0.5, 2, -0.5, "0", "1", "1.0", "0.000", "9e-0", "1e-400", "5e-5", 5e-5, None)
LISTS: tuple[list[Any] | None, ...] = (
    [], [0.5], [0.08, 1], [1, 0.08], ["0.75", "1e-1"], [0, 1], ["0", 1], [0.5, 0.5], [2, 1], [1, 2], [30, 60],
    [60, 30], [30, 30], [0.2, 0.3, 0.4], [300], None,
)  # fmt: skip
# The values to try for each key. Most of them are wrong, alone or together with another value.
TRIED: dict[str, tuple[Any, ...]] = {
    "optimizer": ("sgd", "adam", "lars", "lamb"),
    "learningRate": SHARES,
    "warmup": (0, 5),
    "warmupEpochs": (*SHARES, 5),
    "schedule": ("constant", "cosine", "step", None),
    "milestones": LISTS,
    **dict.fromkeys(("decayFactor", "weightDecay", "labelSmoothing", "ema"), SHARES),
    "evaluateEvery": (0, 1, 5, None),
    "augment.flip": (True, False, None),
    **{f"augment.{key}": LISTS for key in ("scale", "ratio", "mean", "std")},
    "augment.testResize": (0, 1, 100, 224, 256, None),
    "extraArgs": (
        [], ["--image-size=224"], ["--image-size", 224], ["--image-size", "100"],
        ["--image-size=224", "--classes=9", "--image-size=256"],
    ),
    "steps": (0, 10, None),
    "epochs": (0, 10, None),
    "maxBadSteps": (-1, 0, None),
    "seed": (-1, 0),
}  # fmt: skip


def of(*pairs: tuple[str, Any], strategy: str = "allreduce", uri: str = "s3://images") -> Values:
    """Return the chart's values with these keys of trainer."""
    trainer: Values = {}
    for path, value in pairs:
        group, _, key = path.rpartition(".")
        (trainer.setdefault(group, {}) if group else trainer)[key] = value
    return {"framework": "mxnet", "strategy": strategy, "data": {"uri": uri}, "trainer": trainer}


def recipes() -> Iterator[Values]:
    """Yield each value alone, some values in pairs, and random values of several keys."""
    yield from (of((key, value)) for key, values in TRIED.items() for value in values)
    for mean, std in itertools.product(LISTS, LISTS):
        yield of(("augment.mean", mean), ("augment.std", std))
    for milestones in LISTS:
        yield of(("schedule", "step"), ("milestones", milestones))
    for size, scale in itertools.product(TRIED["extraArgs"], LISTS):
        yield of(("extraArgs", size), ("augment.scale", scale), ("augment.ratio", [0.75, 1.5]))
    for size, resize in itertools.product(TRIED["extraArgs"], TRIED["augment.testResize"]):
        yield of(("extraArgs", size), ("augment.testResize", resize))
    chance = random.Random(1)
    for _ in range(RANDOM):
        keys = chance.sample(list(TRIED), 3)
        told = [(key, chance.choice(TRIED[key])) for key in keys]
        yield of(*told, strategy=chance.choice(["allreduce", "parameter-server"]), uri=chance.choice(["", "s3://b"]))


@pytest.fixture(scope="module")
def rendered() -> list[tuple[Values, list[str]]]:
    """The recipes that the chart accepts, each with the trainer's arguments."""
    tried = list(recipes())
    answers = render_many(Request(str(index), values, helms=("helm4",)) for index, values in enumerate(tried))
    return [
        (values, arguments_in(answer["helm4"].manifest))
        for values, answer in zip(tried, answers, strict=True)
        if not answer["helm4"].error
    ]


def arguments_in(manifest: str) -> list[str]:
    """Return the trainer's arguments, which begin with --framework."""
    pod = next(iter(Rendered(manifest, parse(manifest), []).replicas.values()))["template"]["spec"]
    words = [*pod["containers"][0].get("command", []), *pod["containers"][0].get("args", [])]
    return list(words[next(index for index, word in enumerate(words) if word.startswith("--framework")) :])


def test_trainer_accepts_every_recipe_that_the_chart_accepts(rendered: list[tuple[Values, list[str]]]) -> None:
    refused = []
    for values, arguments in rendered:
        try:
            trainer_parse(arguments)
        except ArgumentError as error:
            refused.append(f"{values['trainer']}: {error}")

    assert refused == []


def test_chart_accepts_and_refuses_many_recipes(rendered: list[tuple[Values, list[str]]]) -> None:
    assert 150 < len(rendered) < len(list(recipes())) - 150
