"""Convert a program that the source gives as one line for a shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distrain.imports.draft import Draft
from distrain.imports.launch import shell
from distrain.imports.launch.options import Launch, carry_options
from distrain.imports.launch.program import program_of
from distrain.imports.ledger import Path, text
from distrain.values.placeholder import PROGRAM

COMMAND = ("command",)
# The variables that the chart sets if the values name a Secret for S3.
OF_S3 = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}


def carry_line(draft: Draft, line: str, path: Path) -> None:
    """Set the command from a line such as `mpirun -np 4 python train.py`, and other values from mpirun's options."""
    carry_words(draft, shell.words_of(line), text(path))
    draft.know(path)


def _taken(draft: Draft) -> set[str]:
    """Return the names of variables that already have another value in the pods.

    A variable for a credential in the command must not have one of these names.
    """
    plain = {str(entry["name"]) for entry in draft.value(("env",), []) if "value" in entry}
    return plain | (OF_S3 if draft.has(("s3", "secretName")) else set())


def carry_words(draft: Draft, line: Sequence[str], place: str, given: Mapping[str, str] | None = None) -> None:
    """Set the command from the words of a line at this place of the source.

    `given` is a map from names to values, for the variables that the line may use.
    """
    program = program_of(line, given)
    plain = shell.words_of(program.words[2]) if len(program.words) == 3 and program.words[:2] == ("sh", "-c") else ()
    words, variables = draft.credentials.words(plain or program.words, _taken(draft))
    how = f", without {program.starter} and its options" if program.starter else ""
    draft.choose(COMMAND, words, f"{place}{how}")
    for variable in variables:
        draft.append(("env",), [variable], f"a credential in {place}")
    for left, why in program.left:
        draft.drop(f"{place}: {left}", why)
    if program.is_open:
        draft.note(f"command: write the program that each rank has to run in the place of {PROGRAM}")
    slots = max(1, draft.value(("workers", "gpus"), 0))
    launch = Launch(place, draft.value(("workers", "replicas"), 1), slots)
    carry_options(draft, launch, program.options)
