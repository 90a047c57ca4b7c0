"""Test that a number gives the same job in a values file and with --set, where Helm reads fractions as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.kinds import KINDS
from tests.chart.mutations import SCHEMA, Schema, leaves, resolved
from tests.chart.rendering import set_arguments, template
from tests.matrix import one_of

# Whole numbers and fractions to try: FEW by default, ALL in the full matrix. The schema of a value may allow only some
# of these numbers.
FEW = (("2.0", "1e3", "17179869184"), ("0.10", "5e-5"))
ALL = (("1", "2.0", "1e3", "1000", "1000000", "1e6", "17179869184"), ("0.10", "0.1", "0.00005", "5e-5"))
# For some numbers, a rule of the chart requires other values, which are set together with the number.
NEEDS = {
    "gpus": ("workers.replicas=1", "workers.gpus={value}"),
    **dict.fromkeys(
        ("trainer.epochs", "trainer.evaluateEvery", "trainer.warmupEpochs"), ("data.source=s3", "data.uri=s3://b/p")
    ),
    "trainer.augment.testResize": ("trainer.extraArgs[0]=--image-size=2",),
    "ssh.port": ("podSecurity=privileged", "runAsUser=0"),
}
# The chart refuses these values, because the workers' grace period applies to all pods.
REFUSED = {f"{role}.podSpec.terminationGracePeriodSeconds" for role in ("launcher", "servers", "scheduler")}
# FORMS maps a kind of job to the paths of values that this kind accepts and an MPIJob does not.
FORMS = {
    "mxjob-v1": ("scheduler.", "servers."),
    "pytorchjob-elastic": ("workers.minReplicas", "workers.maxReplicas"),
}


def numbers() -> Iterator[tuple[str, Schema]]:
    """Yield each value that may be a number.

    In a map such as mpi.env, the user chooses the keys, so such maps are left out. The only exception is
    workers.resources.limits.cpu, which stands for all quantities.
    """
    yield "workers.resources.limits.cpu", SCHEMA["definitions"]["quantity"]
    for path, entry in leaves():
        if path in REFUSED:
            continue
        known = resolved(entry)
        if {"number", "integer"} & set(known["type"] if isinstance(known["type"], list) else [known["type"]]):
            yield path, known


def file_of(folder: Path, path: str, spelling: str) -> str:
    """Write a values file with the number as a user would write it."""
    text: Any = "@"
    for key in reversed(path.split(".")):
        text = {key: text}
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(text).replace("'@'", spelling), encoding="utf-8")
    return str(file)


def ways(folder: Path, path: str, spelling: str) -> dict[str, list[str]]:
    """Return Helm's arguments that set the value to this number.

    There is one entry for each way: a values file, or one of three flags.
    """
    return {
        "file": ["--values", file_of(folder, path, spelling)],
        "set": ["--set", f"{path}={spelling}"],
        "set-string": ["--set-string", f"{path}={spelling}"],
        "set-json": ["--set-json", f"{path}={json.dumps(float(spelling))}"],
    }


@pytest.mark.parametrize("spellings", one_of([FEW, ALL]), ids=["few", "all"])
@pytest.mark.parametrize(("path", "entry"), [pytest.param(*one, id=one[0]) for one in numbers()])
def test_number_renders_the_same_however_it_is_given(
    helm: Path, tmp_path: Path, path: str, entry: Schema, spellings: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    form = next((form for form, starts in FORMS.items() if path.startswith(starts)), "mpijob-v2beta1")
    found: dict[float, set[str]] = {}
    whole, fractions = spellings
    for spelling in whole + fractions * ("number" in entry["type"]):
        needs = [need.format(value=int(float(spelling))) for need in NEEDS.get(path, ())]
        for given in ways(tmp_path, path, spelling).values():
            done = template.__wrapped__(helm, *set_arguments(*KINDS[form], *needs), *given)
            if done.returncode == 0:
                found.setdefault(float(spelling), set()).add(done.stdout)

    assert found
    assert {number for number, texts in found.items() if len(texts) > 1} == set()
