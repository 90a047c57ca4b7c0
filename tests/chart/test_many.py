"""Test that lab/builds/go/render prints the same bytes as `helm template`.

The tests that render thousands of values files use this program instead of Helm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.many import Pod, Rendering, Request, render_many, violations
from tests.chart.rendering import CHART, VALUES, run, template

FILES = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(VALUES.glob("*.yaml"))}
ODD = {
    "nothing": {},
    "misspelt": {"worker": {}},
    "wrong-type": {"workers": {"replicas": "x"}},
    "removed": {"workers": {"gpus": None}},
    "refused-by-a-rule": {"gpus": 5},
    "large-numbers": {"mpi": {"mca": {"btl": None, "a": 1.5, "b": 10000000000}}, "trainer": {"steps": 2000000000}},
    "text": {"podAnnotations": {"a": "é \u2028 'x' \"y\" # {{ z }}"}, "x-note": [1]},
}


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_renders_and_refuses_as_helm_template_does(helm: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    program: Path = request.getfixturevalue(helm)
    cases: dict[str, Any] = {**FILES, **ODD}

    rendered = {
        name: answer[helm]
        for name, answer in zip(cases, render_many(Request(name, cases[name]) for name in cases), strict=True)
    }

    assert rendered == {name: by_helm(program, values, tmp_path / f"{name}.yaml") for name, values in cases.items()}


def by_helm(helm: Path, values: dict[str, Any], file: Path) -> Rendering:
    """Return the output of the real `helm template`."""
    file.write_text(json.dumps(values), encoding="utf-8")
    done = run(helm, "template", "run1", str(CHART), "--namespace", "default", "--values", str(file))
    return Rendering(manifest=done.stdout, error=done.stderr.removeprefix("Error: ").removesuffix("\n"))


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("", id="nothing"),
        pytest.param("--set workers.replicas=3,workers.gpus=10000000 --set trainer.learningRate=1e-3", id="numbers"),
        pytest.param("--set-string podAnnotations.a=1 --set podAnnotations.b=2", id="text-for-a-number"),
        pytest.param('--set-json trainer.extraArgs=["--a",1] --set image.tag=v1', id="json"),
        pytest.param(f"--values {VALUES / 'vgg16.yaml'} --set workers.gpus=null -n team", id="file-and-namespace"),
        pytest.param("--set job.kind=auto --api-versions kubeflow.org/v1/MPIJob", id="api-versions"),
        pytest.param("--set workers.replicas=0", id="refused-by-the-schema"),
        pytest.param("--set gpus=5", id="refused-by-a-rule"),
        pytest.param("--set =", id="no-assignment"),
        pytest.param("--values /absent.yaml", id="no-file"),
    ],
)
def test_takes_arguments_as_helm_template_does(helm: Path, arguments: str) -> None:
    ours, helms = template(helm, *arguments.split()), run(helm, "template", "run1", str(CHART), *arguments.split())

    assert (ours.returncode, ours.stdout, ours.stderr) == (helms.returncode, helms.stdout, helms.stderr)


def test_pods_are_judged_by_the_standard_they_name() -> None:
    spec = {"containers": [{"name": "a", "image": "b", "securityContext": {"runAsUser": 0}}]}

    restricted, baseline = violations([Pod("restricted", spec), Pod("baseline", spec)])

    assert baseline == ""
    assert "runAsUser=0" in restricted
