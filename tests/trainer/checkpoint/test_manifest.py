"""Test which manifests are read, and that a checkpoint is loaded only if it has exactly the arrays of the state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain_trainer.checkpoint.arrays import Field, Fields
from distrain_trainer.checkpoint.manifest import Manifest, NewerError, state_difference
from tests.trainer.fixtures.counter_run import begin, save_step

WEIGHT = Field("F32", (2,))
START = {"model.a": WEIGHT, "model.b": WEIGHT, "optimizer.iteration": Field("I64", ()), "group.0.lr": Field("F64", ())}
LATER = {f"optimizer.{name}.{slot}": WEIGHT for name in "ab" for slot in ("m", "v")}
WHOLE = {**START, **LATER}


def without(name: str) -> Fields:
    return {other: field for other, field in WHOLE.items() if other != name}


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(WHOLE, id="whole"),
        pytest.param(START, id="before-the-optimizers-first-step"),
        pytest.param({**START, "optimizer.a.m": WEIGHT, "optimizer.a.v": WEIGHT}, id="weight-that-had-no-gradient"),
        pytest.param({**WHOLE, "scaler.scale": Field("F32", ())}, id="of-fp16"),
        pytest.param(without("group.0.lr"), id="constant-of-a-newer-framework"),
    ],
)
def test_state_with_all_arrays_is_loaded(there: Fields) -> None:
    assert state_difference(there, START, LATER) is None


@pytest.mark.parametrize("name", [name for name in WHOLE if not name.startswith("group.")])
def test_array_that_is_missing_is_named(name: str) -> None:
    found = state_difference(without(name), START, LATER)

    assert found == f"strategy or trainer.model: {name} is missing there and {WHOLE[name].type_name} here"


@pytest.mark.parametrize("name", ["model.c", "optimizer.beta", "optimizer.c.m", "optimizer.a.n", "updates"])
def test_array_that_nothing_here_takes_is_named(name: str) -> None:
    found = state_difference({**WHOLE, name: WEIGHT}, START, LATER)

    assert found == f"strategy or trainer.model: {name} is float32 there and missing here"


@pytest.mark.parametrize("name", ["model.a", "optimizer.a.m"])
def test_array_of_another_shape_or_type_is_named(name: str) -> None:
    larger, longer = Field("F32", (2, 1)), Field("F64", (2,))

    assert state_difference({**WHOLE, name: larger}, START, LATER) == (
        f"trainer.model: {name} is float32[2, 1] there and float32[2] here"
    )
    assert state_difference({**WHOLE, name: longer}, START, LATER) == (
        f"trainer.model: {name} is float64 there and float32 here"
    )


def test_manifests_of_this_and_of_former_formats_are_read(tmp_path: Path) -> None:
    save_step(begin(tmp_path))
    told = json.loads((tmp_path / "1-10" / "manifest.json").read_text())

    def format_of(number: int) -> int:
        return Manifest.from_json(json.dumps({**told, "format": number}).encode()).format

    assert [format_of(number) for number in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(NewerError, match="its format is 4, and this trainer reads 1 to 3"):
        format_of(4)
