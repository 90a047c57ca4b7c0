"""Run the program with some of the random broken inputs.

The program must always answer with clear lines, never with a traceback.

`make bench-inputs` runs 20,000. If the program's answer has a mistake, the test prints the seed, the input and the
answer.
"""

from __future__ import annotations

import pytest

from tests.matrix import one_of
from tests.plugin.inputs.bench import failures

IN_PROCESS = [range(100), range(100, 300)]
# With each of these seeds, the test starts the program in a process of its own.
AS_PROCESSES = [range(300, 320), range(320, 400), *(range(first, first + 100) for first in range(400, 800, 100))]


@pytest.mark.parametrize("seeds", one_of(IN_PROCESS), ids=str)
def test_broken_input_is_answered_with_lines(seeds: range) -> None:
    assert "\n".join(failures(seeds)) == ""


@pytest.mark.parametrize("seeds", one_of(AS_PROCESSES), ids=str)
def test_program_itself_answers_with_lines(seeds: range) -> None:
    assert "\n".join(failures(seeds, as_process=True)) == ""
