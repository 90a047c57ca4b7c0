"""lab/go/render: says byte for byte what `helm template` says, so that the tests with thousands of values mean it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.many import Pod, Rendering, Request, render_many, violations
from tests.chart.rendering import CHART, VALUES, run

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

    assert rendered == {name: template(program, values, tmp_path / f"{name}.yaml") for name, values in cases.items()}


def template(helm: Path, values: dict[str, Any], file: Path) -> Rendering:
    """Return what Helm itself prints."""
    file.write_text(json.dumps(values), encoding="utf-8")
    done = run(helm, "template", "run1", str(CHART), "--namespace", "default", "--values", str(file))
    return Rendering(manifest=done.stdout, error=done.stderr.removeprefix("Error: ").removesuffix("\n"))


def test_pods_are_judged_by_the_standard_they_name() -> None:
    spec = {"containers": [{"name": "a", "image": "b", "securityContext": {"runAsUser": 0}}]}

    restricted, baseline = violations([Pod("restricted", spec), Pod("baseline", spec)])

    assert baseline == []
    assert any("runAsUser=0" in violation for violation in restricted)
