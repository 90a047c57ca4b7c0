"""The job's name: the same for what a running job takes over, another for what it cannot."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.chart.rendering import CHART, VALUES, render


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("workers.replicas=4", id="size"),
        pytest.param("podLabels.team=vision", id="label"),
        pytest.param("podAnnotations.note=mine", id="annotation"),
        pytest.param("job.cleanPodPolicy=None", id="what-the-operator-reads-while-the-job-runs"),
        pytest.param("gpus=2", id="check-alone"),
        pytest.param("job.kind=MPIJob", id="what-auto-picked"),
        pytest.param("global.x=1", id="value-for-others"),
    ],
)
def test_name_stays(helm: Path, change: str) -> None:
    assert render(helm, "--set", change).name == render(helm).name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("image.tag=0.2.0", id="image"),
        pytest.param("workers.gpus=2", id="slots"),
        pytest.param("workers.shm=2Gi", id="worker-pod"),
        pytest.param("launcher.memory=1Gi", id="launcher-pod"),
        pytest.param("trainer.learningRate=0.1", id="argument"),
        pytest.param("mpi.env.NCCL_DEBUG=INFO", id="environment"),
        pytest.param("ssh.port=2223", id="port"),
        pytest.param("job.backoffLimit=1", id="launcher-retries"),
        pytest.param("job.activeDeadlineSeconds=60", id="deadline"),
    ],
)
def test_name_changes(helm: Path, change: str) -> None:
    assert render(helm, "--set", change).name != render(helm).name


@pytest.fixture
def changed_chart(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHART, tmp_path / "distrain"))


def test_name_stays_in_another_version_of_the_chart(helm: Path, changed_chart: Path) -> None:
    chart_yaml = changed_chart / "Chart.yaml"
    chart_yaml.write_text(chart_yaml.read_text().replace("\nversion: 0.1.0", "\nversion: 0.9.0"))

    rendered = render(helm, chart=changed_chart)

    assert rendered.job["metadata"]["labels"]["helm.sh/chart"] == "distrain-0.9.0"
    assert rendered.name == render(helm).name
    assert "0.9.0" not in str(rendered.job["spec"])


@pytest.mark.parametrize("script", ["distrain-launch", "distrain-worker"])
def test_name_changes_with_the_scripts(helm: Path, changed_chart: Path, script: str) -> None:
    with (changed_chart / "files" / script).open("a") as file:
        file.write("# changed\n")

    assert render(helm, chart=changed_chart).name != render(helm).name


def test_both_helms_give_the_same_name(helm3: Path, helm4: Path) -> None:
    for values in sorted(VALUES.glob("*.yaml")):
        arguments = ("--values", str(values))
        assert render(helm3, *arguments).name == render(helm4, *arguments).name


def test_name_is_the_release_and_a_hash(helm: Path) -> None:
    rendered = render(helm)

    assert re.fullmatch(r"run1-[0-9a-f]{8}", rendered.name)
    assert rendered.scripts["metadata"]["name"] == f"{rendered.name}-scripts"


def test_longest_name_leaves_room_for_the_last_worker(helm: Path) -> None:
    longest = 53 * "a"

    small, large = (render(helm, "--set", f"workers.replicas={size}", release=longest).name for size in (1, 1000))

    assert small == large
    assert len(f"{large}-worker-999") == 63


def test_releases_that_are_cut_alike_have_different_names(helm: Path) -> None:
    one, other = (render(helm, release=43 * "a" + end).name for end in ("-one", "-two"))

    assert one != other


def test_name_cut_at_a_dash_has_no_two(helm: Path) -> None:
    name = render(helm, release=42 * "a" + "-bc").name

    assert re.fullmatch(r"a{42}-[0-9a-f]{8}", name)
