"""Test the chart as a subchart: the condition that enables it, and the values that it shares with sibling charts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.chart.documents import REAL_CLUSTER
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import CHART, REPOSITORY, parse, refusal, render, render_with, run, set_arguments

PREFLIGHT = "preflight.enabled=true"
REGISTRY = "global.imageRegistry=mirror.example.com/hub"
ABOVE = """apiVersion: v2
name: above
version: 0.1.0
dependencies:
  - {name: distrain, version: 0.1.0, condition: distrain.enabled}
"""


@pytest.fixture
def above(tmp_path: Path) -> Path:
    """Return a chart that has distrain's chart as a conditional subchart."""
    (tmp_path / "Chart.yaml").write_text(ABOVE, encoding="utf-8")
    shutil.copytree(CHART, tmp_path / "charts" / "distrain")
    return tmp_path


@pytest.mark.parametrize(("enabled", "kinds"), [("true", {"MPIJob"}), ("false", set())])
def test_chart_above_leaves_the_job_out_by_its_condition(
    helm: Path, above: Path, enabled: str, kinds: set[str]
) -> None:
    done = run(helm, "template", "run1", str(above), "--set", f"distrain.enabled={enabled}")

    assert done.returncode == 0, done.stderr
    assert {one["kind"] for one in parse(done.stdout)} & {"MPIJob"} == kinds


def test_switch_without_a_condition_is_refused(helm: Path) -> None:
    words = refusal(helm, "--set", "enabled=false")

    assert "distrain: enabled: is false, but Helm installs this chart nevertheless; add `condition" in words


@every_kind
def test_registry_and_pull_secrets_of_the_chart_above_are_on_every_pod(helm: Path, kind: str) -> None:
    shared = (REGISTRY, "global.imagePullSecrets={mirror,login}")
    values = ("image.repository=registry.example.com:5000/team/tensorflow", "image.pullSecrets={login,mine}", PREFLIGHT)
    version = render_with(helm, KINDS[kind]).job["apiVersion"]
    served = [*REAL_CLUSTER[:2], "--api-versions", f"{version}/{render_with(helm, KINDS[kind]).job['kind']}"]

    rendered = render(helm, *set_arguments(*KINDS[kind], *shared, *values), *served)

    pods = [*rendered.pods().values(), *(hook["spec"] for hook in rendered.hooks if hook["kind"] == "Pod")]
    assert len(pods) > len(rendered.pods())
    for pod in pods:
        assert pod["containers"][0]["image"] == "mirror.example.com/hub/team/tensorflow:0.1.0"
        assert pod["imagePullSecrets"] == [{"name": "mirror"}, {"name": "login"}, {"name": "mine"}]


@pytest.mark.parametrize(
    ("image", "found"),
    [
        pytest.param("team/checker:1", "team/checker:1", id="no-registry"),
        pytest.param("localhost/checker", "checker", id="this-machine"),
        pytest.param("localhost:5000/checker:1", "checker:1", id="port"),
        pytest.param("registry.example.com/a/b@sha256:0", "a/b@sha256:0", id="digest"),
        pytest.param("checker:1.2", "checker:1.2", id="one-word"),
    ],
)
def test_registry_of_the_parent_chart_replaces_the_images_own(helm: Path, image: str, found: str) -> None:
    values = (REGISTRY, PREFLIGHT, f"preflight.image={image}")

    hooks = render(helm, *set_arguments(*values), *REAL_CLUSTER).hooks

    images = [one["spec"]["containers"][0]["image"] for one in hooks if one["kind"] == "Pod"]
    assert f"mirror.example.com/hub/{found}" in images


def test_null_of_the_chart_above_is_nothing(helm: Path) -> None:
    nulls = ("--set-json", 'global={"imageRegistry": null, "imagePullSecrets": null}')

    assert render(helm, *nulls).text == render(helm).text


@pytest.mark.parametrize("image", ["Team/App", "team/app/", "a//b", "registry.example.com/Team/app", "team/app-"])
def test_image_that_kubelet_refuses_is_refused(helm: Path, image: str) -> None:
    assert "/image/repository" in refusal(helm, *set_arguments(f"image.repository={image}"))


@pytest.mark.parametrize(
    "image", ["", "app", "localhost/a_b/c__d", "Registry.example.com:5000/a/b-c.d", "10.0.0.1:5000/x"]
)
def test_image_that_kubelet_accepts_is_accepted(helm: Path, image: str) -> None:
    render_with(helm, (f"image.repository={image}",))


def test_pull_secrets_of_the_chart_above_may_be_maps(helm: Path) -> None:
    rendered = render_with(helm, ("global.imagePullSecrets[0].name=mirror",))

    assert rendered.pod("Worker")["imagePullSecrets"] == [{"name": "mirror"}]


@pytest.mark.parametrize(("enabled", "jobs"), [("false", {"run1-small"}), ("true", {"run1-small", "run1-large"})])
def test_chart_of_the_page_has_both_runs(helm4: Path, tmp_path: Path, enabled: str, jobs: set[str]) -> None:
    page = (REPOSITORY / "docs" / "umbrella.md").read_text(encoding="utf-8")
    chart, values = re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "Chart.yaml").write_text(chart, encoding="utf-8")
    (tmp_path / "values.yaml").write_text(values, encoding="utf-8")
    shutil.copytree(CHART, tmp_path / "charts" / "distrain")

    done = run(helm4, "template", "run1", str(tmp_path), "--set", f"large.enabled={enabled}")

    assert done.returncode == 0, done.stderr
    objects = parse(done.stdout)
    found = {one["metadata"]["name"]: one for one in objects if one["kind"] == "PyTorchJob"}
    assert found.keys() == jobs
    labels = found["run1-small"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == "run1.small"
    assert "/default/run1.small'" in str(found["run1-small"])
    assert "'image': 'registry.example.com/distrain/pytorch:0.1.0'" in str(found["run1-small"])
