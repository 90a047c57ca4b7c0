"""Test that the operators' examples and typical jobs become values from which the chart renders the same job."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.imports.draft import Draft
from distrain.imports.identify import find_job, text_of
from distrain.imports.read import finished, read
from distrain.imports.values_file import written
from distrain.yaml.yaml_loader import load
from lab.builds import module_sources
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, job_of, judge_for
from tests.plugin.imports.comparison import differences

OPERATORS = [module_sources.folder(module) for module in module_sources.SUMS if "operator@" in module]
OWN = Path(__file__).with_name("examples")
SECRETS = (
    "pa55w0rd-x",
    "hunter2",
    "hf_abcdefghijklmnop",
    "wJalrXUtn",
    "AKIAEXAMPLE",
    "s3cr3t",
    "0123456789abcdef0123\n",
    "abcdef123456",
)
KINDS = ("MPIJob", "PyTorchJob", "TFJob", "MXJob")


def _examples() -> list[Path]:
    """Return the operators' examples and distrain's own.

    If several releases contain the same example, return it only once.
    """
    files = [path for folder in OPERATORS for path in sorted((folder / "examples").rglob("*.y*ml"))]
    texts = {path.read_text(): path for path in files}
    found = [path for text, path in texts.items() if any(f"kind: {kind}" in text.replace('"', "") for kind in KINDS)]
    return [*found, *sorted(OWN.iterdir())]


def _name(path: Path) -> str:
    return path.name if path.is_relative_to(OWN) else str(path.relative_to(OPERATORS[0].parent))


# Examples that the import refuses, each with a word of its message.
REFUSED = {"tune": "MXTune"}
# test_jobset_examples.py tests the v1alpha1 examples.
OTHERS = ("v1alpha1", "mxnet/mxnet-mnist")
TAKEN = [path for path in _examples() if not any(name in str(path) for name in (*REFUSED, *OTHERS))]


@functools.cache
def imported(path: Path) -> tuple[dict[str, Any], Draft]:
    found = find_job(text_of(path.read_bytes(), path.name), path.name)
    draft = read(found, path.name)
    finished(draft, judge_for(draft.kind, draft.version), path.name)
    return found.job, draft


@pytest.mark.parametrize("path", TAKEN, ids=_name)
def test_rendered_job_is_that_of_the_source_but_for_what_is_listed(path: Path) -> None:
    source, draft = imported(path)

    job = job_of(draft.values(), draft.kind, draft.version)

    assert [*differences(source, job, draft)] == []


@pytest.mark.parametrize("path", TAKEN, ids=_name)
def test_file_has_the_values_and_no_credential(path: Path) -> None:
    _, draft = imported(path)

    text = written(draft, path.name, "run.yaml", DEFAULTS, SCHEMA)

    found, values = load(text), draft.values()
    assert _over(DEFAULTS, found) == _over(DEFAULTS, values)
    assert [secret for secret in SECRETS if secret in text] == []
    keys = list(yaml.safe_load(text))
    assert keys == sorted(keys, key=list(SCHEMA["properties"]).index)


def _over(below: Any, over: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(over, dict):
        return over
    return {**below, **{key: _over(below.get(key), value) for key, value in over.items()}}
