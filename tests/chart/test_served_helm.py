"""The tests render the chart in one long-lived process instead of with Helm.

Test that the plugin gets the same output from both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver.capabilities import Capabilities
from distrain.errors import DistrainError
from distrain.helm.program import Source
from distrain.helm.render import Helm, Template
from lab.paths import CHART, REPOSITORY
from tests.chart import served_helm

pytestmark = pytest.mark.either_helm

VGG16 = str(REPOSITORY / "values" / "vgg16.yaml")
PLAIN = Template("run1", "team", None)
ON_A_CLUSTER = Template("run1", "team", Capabilities("v1.34.0", ("kubeflow.org/v1/MPIJob",)), has_valid_values=True)


@pytest.fixture
def annotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note").write_text("a,b\n")


def _read(helm: Path, source: Source, template: Template) -> Any:
    """Return what the plugin reads through Helm: the values and the manifests, or the error."""
    try:
        program = Helm(str(helm))
        program.expect_text(source.chart, template)
        values = program.values(source)
        text = source.with_text((source.stdin or b"{}").decode())
        manifests = [program.render(each, template).manifest for each in (source, text)]
        return values, manifests
    except DistrainError as error:
        return type(error), str(error)


@pytest.mark.usefixtures("annotation")
@pytest.mark.parametrize(
    ("source", "template"),
    [
        pytest.param(Source(CHART, ()), PLAIN, id="nothing"),
        pytest.param(Source(CHART, ("--values", VGG16)), ON_A_CLUSTER, id="file"),
        pytest.param(Source(CHART, ("--values", "-"), b"workers: {replicas: 3, gpus: 10000000}"), PLAIN, id="stdin"),
        pytest.param(
            Source(CHART, ("--values", "-", "--set", "trainer.steps=7", "--set-string", "podAnnotations.a=1"), b"{}"),
            ON_A_CLUSTER,
            id="stdin-and-numbers",
        ),
        pytest.param(
            Source(CHART, ("--set-file", "podAnnotations.a=note", "--set-literal", "podAnnotations.b=a,b")),
            PLAIN,
            id="files-and-literals",
        ),
        pytest.param(Source(CHART, ("--set-json", 'trainer.extraArgs=["<é>",1]')), ON_A_CLUSTER, id="json"),
    ],
)
def test_values_and_manifest_are_those_of_helm(
    helm: Path, source: Source, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_helm = _read(helm, source, template)
    monkeypatch.setattr("distrain.helm.processes._started", served_helm.started)
    # Without `_helm`, the test fails if the plugin starts a Helm process.
    monkeypatch.delattr(served_helm, "_helm")

    assert _read(helm, source, template) == by_helm


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(Source(CHART, ("--set", "workers.replica=3")), id="schema"),
        pytest.param(Source(CHART, ("--set", "gpus=5")), id="rule"),
        pytest.param(Source(CHART, ("--set", "gpus")), id="flag"),
        pytest.param(Source(CHART, ("--values", "/absent.yaml")), id="file"),
        pytest.param(Source(CHART, ("--values", "-"), b"a: b: c"), id="stdin"),
        pytest.param(Source(CHART.parent, ()), id="chart"),
    ],
)
def test_refusal_is_helms(helm: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    by_helm = _read(helm, source, PLAIN)
    monkeypatch.setattr("distrain.helm.processes._started", served_helm.started)

    assert isinstance(by_helm[0], type)
    assert _read(helm, source, PLAIN) == by_helm


def test_setting_of_helm_reaches_helm(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_DRIVER", "nothing")
    by_helm = _read(helm, Source(CHART, ()), PLAIN)
    monkeypatch.setattr("distrain.helm.processes._started", served_helm.started)

    assert "HELM_DRIVER" in by_helm[1]
    assert _read(helm, Source(CHART, ()), PLAIN) == by_helm
