"""Run the program with a share of the random broken inputs: nothing but lines, whatever comes in.

`make bench-inputs` runs 20,000. A failure prints the seed, the input and the answer.
"""

from __future__ import annotations

import pytest

from tests.plugin.inputs.bench import failures

SEEDS = range(300)
# Each of these starts the program anew. The parts let two test processes share them.
AS_PROCESSES = [range(first, first + 100) for first in range(300, 800, 100)]


def test_broken_input_is_answered_with_lines() -> None:
    assert "\n".join(failures(SEEDS)) == ""


@pytest.mark.parametrize("seeds", AS_PROCESSES, ids=str)
def test_program_itself_answers_with_lines(seeds: range) -> None:
    assert "\n".join(failures(seeds, as_process=True)) == ""
