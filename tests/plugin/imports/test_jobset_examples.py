"""Test that TrainJobs, JobSets and MPIJobs v1alpha1 become values from which the chart renders the same pods."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.identify import find_job, text_of
from distrain.imports.read import finished, read
from distrain.imports.values_file import written
from distrain.yaml.yaml_loader import load, load_all
from lab.builds import module_sources
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, job_of, judge_for
from tests.plugin.imports.comparison import differences
from tests.plugin.imports.drafts import accepting
from tests.plugin.imports.jobset_comparison import expected

TRAINER = module_sources.folder("github.com/kubeflow/trainer/v2@v2.3.0")
OPERATOR = module_sources.folder("github.com/kubeflow/mpi-operator@v0.3.0")
OWN = sorted(Path(__file__).with_name("jobset_examples").iterdir())
JOB = """
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: job}}
spec:
  runtimeRef: {{kind: {kind}, name: {name}}}
  trainer: {{numNodes: 2, command: [{program}], resourcesPerNode: {{limits: {{nvidia.com/gpu: 2}}}}}}
"""
SECRETS = ("hunter2", "s3cr3t")
# A runtime with one of these mlPolicies is refused, because none of distrain's job kinds can run it.
REFUSED = ("jax", "xgboost", "flux")
# In these files, the compared jobs differ in a field that the import lists as left out. LISTED maps each file to the
# path of this field in the compared job, and to its path in the source.
LISTED = {
    "examples/02-runtime-patches.yaml": ("spec.containers[0].env[1]", "spec.trainer.env[1]"),
    "runtimes/torch_distributed_with_cache.yaml": (
        "spec.initContainers[0]",
        "runtime.spec.template.spec.replicatedJobs[0]",
    ),
}


def _runtimes() -> list[Path]:
    """Return Kubeflow Trainer's own runtimes, and the runtimes in its examples."""
    files = sorted(TRAINER.glob("manifests/base/runtimes/**/*.yaml"))
    files += sorted(TRAINER.glob("examples/**/*runtime.yaml"))
    return [path for path in files if "TrainingRuntime" in path.read_text()]


def _trainjobs() -> list[Path]:
    return [path for path in sorted(TRAINER.glob("examples/**/*.yaml")) if "kind: TrainJob" in path.read_text()]


def _of_units() -> list[Path]:
    files = sorted((OPERATOR / "examples").rglob("*.yaml"))
    return [path for path in files if "kubeflow.org/v1alpha1\n" in path.read_text()]


def _name(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.name}" if "pkg" in path.parts else path.name


def _with_job(runtime: Path) -> str:
    """Return a runtime's text, followed by a TrainJob that uses the runtime."""
    text = runtime.read_text()
    [found] = [each for each in load_all(text) if str(each.get("kind")).endswith("TrainingRuntime")]
    program = "mpirun, python, train.py" if "mpi" in found["spec"]["mlPolicy"] else "torchrun, train.py"
    return text + JOB.format(kind=found["kind"], name=found["metadata"]["name"], program=program)


def _completed(path: Path) -> str:
    """Return the text of a file with a TrainJob.

    If the file contains no runtime, add the runtime that the TrainJob names, from the same Go module.
    """
    text = path.read_text()
    [job] = [each for each in load_all(text) if each and each["kind"] == "TrainJob"]
    name = job["spec"]["runtimeRef"]["name"]
    for runtime in () if "TrainingRuntime\nmetadata" in text else _runtimes():
        if f"  name: {name}\n" in runtime.read_text() and runtime.is_relative_to(path.parents[2]):
            return f"{text}\n---\n{runtime.read_text()}"
    return text


TEXTS = {
    **{_name(path): path.read_text() for path in (*OWN, *_of_units())},
    **{_name(path): _with_job(path) for path in _runtimes()},
    **{_name(path): _completed(path) for path in _trainjobs()},
}
TAKEN = [
    name for name, text in TEXTS.items() if not re.search(rf"^    ({'|'.join(REFUSED)}): {{}}", text, re.MULTILINE)
]


@functools.cache
def imported(name: str) -> Draft:
    draft = read(find_job(text_of(TEXTS[name].encode(), name), name), name)
    finished(draft, judge_for(draft.kind, draft.version), name)
    return draft


@pytest.mark.parametrize("name", TAKEN)
def test_rendered_pods_are_those_of_the_source_but_for_what_is_listed(name: str) -> None:
    draft = imported(name)

    job = job_of(draft.values(), draft.kind, draft.version)

    source = expected([each for each in load_all(TEXTS[name]) if each])
    found = [*differences(source, job, draft)]
    path, place = LISTED.get(name, ("", ""))
    assert [each for each in found if not path or not each.endswith(path)] == []
    assert not path or (found and place in dict(draft.lost))


@pytest.mark.parametrize("name", TAKEN)
def test_file_has_the_values_and_no_credential(name: str) -> None:
    draft = imported(name)

    text = written(draft, name, "run.yaml", DEFAULTS, SCHEMA)

    assert [secret for secret in SECRETS if secret in text] == []
    assert _over(DEFAULTS, load(text)) == _over(DEFAULTS, draft.values())
    assert [*yaml.safe_load(text)] == sorted(yaml.safe_load(text), key=list(SCHEMA["properties"]).index)


def _over(below: Any, over: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(over, dict):
        return over
    return {**below, **{key: _over(below.get(key), value) for key, value in over.items()}}


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in TAKEN])
def test_runtime_that_starts_its_ranks_another_way_is_refused(name: str) -> None:
    with pytest.raises(
        ValuesError, match=r"runtime\.spec\.mlPolicy: is (jax|xgboost|flux), but distrain can start ranks only"
    ):
        read(find_job(TEXTS[name], name), name)


@pytest.mark.parametrize("path", [*_trainjobs(), *(path for path in OWN if "trainjob" in path.name)], ids=_name)
def test_trainjob_without_its_runtime_is_read_as_far_as_it_goes(path: Path) -> None:
    documents = [each for each in TEXTS[_name(path)].split("\n---") if "TrainJob" in each]
    [text] = [each for each in documents if "kind: TrainJob" in each]

    draft = read(find_job(text, "f"), "f")
    finished(draft, accepting, "f")

    assert "is not in the source, so its pods are not carried over" in draft.notes[0]
