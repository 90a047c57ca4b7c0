"""Test that a run ends if a step adds or changes an array of the model. Its checkpoints could not be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer.checkpoint.arrays import Field, Fields
from distrain_trainer.errors import ArgumentError
from distrain_trainer.loop import stop_flag
from tests.trainer.fixtures.counter_run import Counter, begin, make_step


class Changing(Counter):
    """A state whose arrays change after `after` steps."""

    def __init__(self, after: int, changed: Fields) -> None:
        super().__init__()
        self._after, self._changed = after, changed

    def fields(self) -> Fields:
        return {**super().fields(), **(self._changed if self.weight[0] >= self._after else {})}


@pytest.mark.parametrize(
    ("changed", "change"),
    [
        pytest.param(
            {"model.late": Field("F32", ())},
            r"late is absent before and float32\[\] after a training step",
            id="added",
        ),
        pytest.param(
            {"model.weight": Field("F64", (2,))},
            r"weight is float64\[1\] before and float64\[2\] after a training step",
            id="grown",
        ),
        pytest.param(
            {"model.weight": Field("I64", (1,))},
            r"weight is float64\[1\] before and int64\[1\] after a training step",
            id="of-another-type",
        ),
    ],
)
@pytest.mark.parametrize("after", [pytest.param(1, id="first-step"), pytest.param(3, id="later-step")])
def test_changed_array_is_named_before_it_is_saved(after: int, changed: Fields, change: str, tmp_path: Path) -> None:
    run = begin(tmp_path, Changing(after, changed))
    for _ in range(after - 1):
        make_step(run)
    if after > 1:  # After the first step, the arrays are checked only before a checkpoint is saved.
        run.request.reason = stop_flag.SIGTERM

    with pytest.raises(ArgumentError, match=rf"^trainer\.model: {change}, but a step must not add or remove arrays"):
        make_step(run)

    assert not [*tmp_path.glob("*/manifest.json")]


def test_optimizer_may_make_its_state_at_the_first_step(tmp_path: Path) -> None:
    state = Changing(1, {"optimizer.weight.momentum": Field("F64", (1,))})

    make_step(begin(tmp_path, state))
