"""Test that no option of a program that starts ranks is dropped silently: each option becomes a value or is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from distrain.errors import ValuesError
from distrain.imports import arena_flags
from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.launch.known_options import (
    ACCELERATE,
    ALONE,
    DEEPSPEED,
    HOROVOD,
    MPI,
    ONE,
    SRUN,
    TORCH,
    TWO,
)
from distrain.imports.launch.replaced_options import WHY
from distrain.imports.read import finished, read
from distrain.imports.slurm.header import SHORT, SHOWN
from distrain.redact import HIDDEN
from tests.plugin.imports.drafts import FILE, accepting, drafted, mpi_job, pytorch_job

STARTS = {
    MPI: "mpirun",
    HOROVOD: "horovodrun",
    TORCH: "torchrun",
    ACCELERATE: "accelerate launch",
    DEEPSPEED: "deepspeed",
    SRUN: "srun",
}
# Options that tell mpirun or a similar program how to run the user's program, for example as a Python module. The
# imported command keeps these options unchanged.
OF_PROGRAM = {"no-python", "m", "module"}
# A text and a number that occur nowhere else in a command line.
WORD, NUMBER = "zq1x", "710001"


def _draft(line: str) -> Draft:
    words = [*line.split(), "python", "train.py"]
    if words[0] in ("mpirun", "horovodrun"):
        return drafted(mpi_job({"command": words}))
    if words[0] == "srun":
        return _read(f"#!/bin/bash\n#SBATCH -N 2\n{' '.join(words)}\n")
    return drafted(pytorch_job({"command": words}))


def _read(text: str) -> Draft:
    draft = read(find_job(text, FILE), FILE)
    finished(draft, accepting, FILE)
    return draft


def _told(draft: Draft) -> str:
    origins = [origin for setting in draft.settings.values() for origin in setting.origins]
    return "\n".join(
        [
            draft.name,
            draft.namespace,
            *origins,
            *(place for place, _ in draft.lost),
            *draft.notes,
            json.dumps(draft.values()),
        ]
    )


def _lines() -> Iterator[tuple[str, str]]:
    """Yield command lines.

    With each, yield the text that the import must carry over or list: the value of the option, or the option itself.
    """
    for starter, program in STARTS.items():
        for name in sorted(ONE[starter]):
            dashed = f"-{name}" if len(name) == 1 else f"--{name}"
            yield from ((f"{program} {dashed} {value}", value) for value in (WORD, NUMBER))
        for name in sorted(TWO.get(starter, ())):
            yield f"{program} --{name} a {WORD}", WORD
        alone = {name for name in WHY[starter] if name and name not in ONE[starter]} - {"allow-run-as-root", "mpi"}
        for name in sorted(alone | (set(ALONE) - {"allow-run-as-root"} if starter == MPI else set())):
            dashed = f"-{name}" if len(name) == 1 else f"--{name}"
            yield f"{program} {dashed}", dashed
        if starter != ACCELERATE:
            yield f"/opt/{WORD}/{program}", WORD


@pytest.mark.parametrize("starter", STARTS.values())
def test_each_option_of_what_starts_the_ranks_is_carried_over_or_listed(starter: str) -> None:
    lines = [(line, shown) for line, shown in _lines() if f"{starter} " in line or line.endswith(f"/{starter}")]

    assert len(lines) > 10
    assert [line for line, shown in lines if not _is_told(line, shown)] == []


def _is_told(line: str, shown: str) -> bool:
    """Tell whether the import carries over the option or lists it.

    If the value is a credential or, for srun, possibly free text, it is enough to list the option's name.
    """
    told = _told(_draft(line))
    program, option, *_ = [*line.split(), ""]
    if program == "srun" and SHORT.get(option.lstrip("-"), option.lstrip("-")) not in SHOWN:
        return re.search(rf" {option}\b", told) is not None or shown in told
    return shown in told or f"{line.removesuffix(shown).split()[-1]} {HIDDEN}" in told


@pytest.mark.parametrize("kind", ["mpijob", "pytorchjob", "tfjob"])
def test_each_flag_of_arena_is_carried_over_or_listed(kind: str) -> None:
    untold = []
    for flag in sorted(arena_flags.FLAGS):
        value = "" if flag in arena_flags.ALONE else f" {WORD}={WORD}" if flag in arena_flags.MANY else f" {NUMBER}"
        told = _arena(f"arena submit {kind} --{flag}{value} --image=a/b:1 'python a.py'")
        shown = flag if not value else WORD if flag in arena_flags.MANY else NUMBER
        untold += [flag] if shown not in told and flag not in told else []

    assert untold == []


def _arena(line: str) -> str:
    try:
        return _told(_read(line))
    except ValuesError as refusal:
        return str(refusal)


@pytest.mark.parametrize("kind", ["mpijob", "pytorchjob", "tfjob"])
def test_unknown_flag_of_arena_leaves_the_next_one_and_is_listed_by_its_name(kind: str) -> None:
    draft = _read(f"arena submit {kind} --image a/b:1 --new-switch --env SEED=7 --new-flag {WORD} 'python a.py'")

    assert draft.values()["env"] == [{"name": "SEED", "value": "7"}]
    assert [place for place, _ in draft.lost] == ["new-switch", "new-flag"]


@pytest.mark.parametrize("flag", sorted(arena_flags.FLAGS - {"name", "image", "workers", "gpus", "ps"}))
def test_flag_of_arena_has_a_value_or_a_reason_of_its_own(flag: str) -> None:
    # The flag --namespace gets a plain word. All other flags get a value with "=", which some of them require.
    value = "" if flag in arena_flags.ALONE else f" {WORD}" if flag == "namespace" else f" {WORD}=1"

    draft = _read(f"arena submit tfjob --{flag}{value} --image=a/b:1 'python a.py'")

    assert [place for place, why in draft.lost if why == NO_VALUE] == []
