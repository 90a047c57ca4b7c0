"""Run the program with a share of the random broken inputs: nothing but lines, whatever comes in.

`make bench-inputs` runs 20,000. A failure prints the seed, the input and the answer.
"""

from __future__ import annotations

from tests.plugin.inputs.bench import failures
from tests.plugin.inputs.random_inputs import kind_of

SEEDS = range(300)


def test_broken_input_is_answered_with_lines() -> None:
    assert "\n".join(failures(SEEDS)) == ""


def test_program_itself_answers_with_lines() -> None:
    manifests = [seed for seed in SEEDS if kind_of(seed) in ("manifest", "snapshot")]

    assert "\n".join(failures(manifests[-20:], as_process=True)) == ""
