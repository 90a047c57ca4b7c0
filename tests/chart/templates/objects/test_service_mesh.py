"""Test the labels and annotations that keep service mesh proxies out of the pods, or that request such proxies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Yaml, render_with
from tests.chart.templates.objects.everything import everything, pods

# In these kinds, the workers belong to a Job or StatefulSet. Labels in the pod template of a Job or StatefulSet must
# not change while workers run.
FIXED = ("plain", "mpijob-v1alpha2")
NONE = {"sidecar": "false", "ambient": "none", "linkerd": "disabled"}
ASKED = {
    "istio": {"sidecar": "true", "ambient": None, "linkerd": "disabled"},
    "linkerd": {"sidecar": "false", "ambient": "none", "linkerd": "enabled"},
    "none": NONE,
}


def seen(pod: Yaml) -> dict[str, str | None]:
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert labels["sidecar.istio.io/inject"] == annotations["sidecar.istio.io/inject"]
    return {
        "sidecar": labels["sidecar.istio.io/inject"],
        "ambient": labels.get("istio.io/dataplane-mode"),
        "linkerd": annotations.get("linkerd.io/inject"),
    }


def is_of_job(pod: Yaml) -> bool:
    return pod["metadata"]["labels"]["app.kubernetes.io/component"] not in ("preflight", "replace", "test", "keygen")


@every_kind
def test_no_mesh_adds_its_proxy_by_default(helm: Path, kind: str) -> None:
    found = pods(everything(helm, kind))

    of_hooks = [pod for pod in found if "name" in pod["metadata"]]
    assert len(of_hooks) in (2, 3)
    assert [seen(pod) for pod in of_hooks] == [NONE] * len(of_hooks)
    expected = {**NONE, "ambient": None, "linkerd": None} if kind in FIXED else NONE
    of_job = [seen(pod) for pod in found if "name" not in pod["metadata"]]
    assert of_job
    assert [told for told in of_job if told != expected] == []


@every_kind
@pytest.mark.parametrize("mesh", ASKED)
def test_value_says_which_mesh_the_pods_of_the_job_are_in(helm: Path, kind: str, mesh: str) -> None:
    found = pods(everything(helm, kind, f"serviceMesh={mesh}", "networkPolicy.egress[0].ports[0].port=15012"))

    assert [seen(pod) for pod in found if is_of_job(pod) and seen(pod) != ASKED[mesh]] == []
    assert [seen(pod) for pod in found if not is_of_job(pod) and seen(pod) != NONE] == []


@every_kind
def test_labels_and_annotations_of_the_user_come_over_those_of_the_chart(helm: Path, kind: str) -> None:
    mine = ("podLabels.istio\\.io/dataplane-mode=ambient", "podAnnotations.linkerd\\.io/inject=ingress")

    rendered = render_with(helm, (*KINDS[kind], *mine))

    assert seen(rendered.replicas["Worker"]["template"]) == {**NONE, "ambient": "ambient", "linkerd": "ingress"}


@every_kind
def test_mesh_replaces_a_job_only_where_kubernetes_fixes_the_labels_of_its_pods(helm: Path, kind: str) -> None:
    before = render_with(helm, KINDS[kind]).content

    assert (render_with(helm, (*KINDS[kind], "serviceMesh=none")).content != before) == (kind == "plain")
