"""Test that all parts that are released together have the same version."""

from __future__ import annotations

import re

import yaml

import distrain
from distrain.doctor import diagnosis as doctor
from lab.paths import CHART, REPOSITORY


def test_chart_image_and_plugin_carry_the_package_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    plugin = yaml.safe_load((REPOSITORY / "plugin" / "plugin.yaml").read_text())

    assert {chart["version"], chart["appVersion"], plugin["version"]} == {distrain.__version__}


def test_doctor_calls_tested_what_the_lab_runs() -> None:
    modules = {
        name: (REPOSITORY / "lab" / "builds" / "go" / name / "go.mod").read_text() for name in ("helm3", "helm4")
    }
    helms = [re.search(r"helm\.sh/helm/v\d v(\d+)\.(\d+)", text) for text in modules.values()]
    kubernetes = re.search(
        r"k8s\.io/kubernetes v(\d+)\.(\d+)",
        (REPOSITORY / "lab" / "builds" / "go" / "kubernetes" / "go.mod").read_text(),
    )

    assert {int(found[1]): int(found[2]) for found in helms if found} == doctor.TESTED_HELM
    assert kubernetes
    assert (int(kubernetes[1]), int(kubernetes[2])) == doctor.TESTED_KUBERNETES


def test_doctor_wants_the_kubernetes_that_the_chart_wants() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["kubeVersion"] == ">={}.{}-0".format(*doctor.OLDEST_KUBERNETES)
