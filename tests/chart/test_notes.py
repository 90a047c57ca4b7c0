"""What a user reads after `helm install`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, render, run


@pytest.fixture(scope="module")
def chart_with_visible_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the chart with its notes as a resource: without a cluster Helm 3 renders no notes."""
    chart = Path(shutil.copytree(CHART, tmp_path_factory.mktemp("notes") / "distrain"))
    notes = chart / "templates" / "NOTES.txt"
    text = notes.read_text(encoding="utf-8")
    wrapped = f'{{{{- define "notes" -}}}}\n{text}{{{{- end }}}}\nnotes: {{{{ include "notes" . | toJson }}}}\n'
    notes.rename(notes.with_name("notes.yaml")).write_text(wrapped, encoding="utf-8")
    return chart


def notes(helm: Path, chart: Path, *assignments: str) -> str:
    arguments = [word for assignment in assignments for word in ("--set", assignment)]
    only = ("--namespace", "team", "--show-only", "templates/notes.yaml")
    done = run(helm, "template", "run1", str(chart), *only, *arguments)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


def test_notes_say_the_next_three_commands(helm: Path, chart_with_visible_notes: Path) -> None:
    job = render(helm, "--namespace", "team").name

    text = notes(helm, chart_with_visible_notes)

    commands = [line.strip() for line in text.splitlines() if "kubectl" in line]
    assert commands == [
        f"kubectl --namespace team get pods --selector training.kubeflow.org/job-name={job} --watch",
        f"kubectl --namespace team logs --follow job/{job}-launcher",
        "kubectl --namespace team describe mpijob,pods --selector app.kubernetes.io/instance=run1",
    ]


def test_notes_say_the_size(helm: Path, chart_with_visible_notes: Path) -> None:
    text = notes(helm, chart_with_visible_notes, "workers.replicas=3", "workers.gpus=4")

    assert ": 12 ranks on 3 workers.\n" in text


S3 = ["data.source=s3", "data.uri=s3://digits"]


@pytest.mark.parametrize(
    ("assignments", "words", "without"),
    [
        pytest.param([], "WARNING: output.uri is empty", ["output.uri=s3://r"], id="nothing-is-kept"),
        pytest.param(S3, "WARNING: s3.secretName is empty", [*S3, "s3.secretName=keys"], id="no-s3-keys"),
        pytest.param(["s3.insecureTLS=true"], "WARNING: s3.insecureTLS is true", [], id="any-certificate"),
        pytest.param(
            ["output.uri=s3://r/"], "log and results go to s3://r/team/run1\n", [], id="where-the-output-goes"
        ),
        pytest.param(["command={train}"], "Your own command runs: trainer.*, data.* and", [], id="own-command"),
        pytest.param(["workers.gpus=0"], "2 ranks on 2 workers, on the CPU.", [], id="no-gpus"),
    ],
)
def test_notes_tell_what_one_should_know(
    helm: Path, chart_with_visible_notes: Path, assignments: list[str], words: str, without: list[str]
) -> None:
    told = notes(helm, chart_with_visible_notes, *assignments)
    not_told = notes(helm, chart_with_visible_notes, *without)

    assert words in told
    assert words not in not_told
