"""Render the notes that a user reads after `helm install`."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from tests.chart.rendering import CHART, run, set_arguments


def visible_notes(folder: Path) -> Path:
    """Copy the chart to the folder, and turn NOTES.txt into a template of a resource.

    Helm 3 renders NOTES.txt only if it can reach a cluster.
    """
    chart = Path(shutil.copytree(CHART, folder / "distrain"))
    notes = chart / "templates" / "NOTES.txt"
    text = notes.read_text(encoding="utf-8")
    wrapped = f'{{{{- define "notes" -}}}}\n{text}{{{{- end }}}}\nnotes: {{{{ include "notes" . | toJson }}}}\n'
    notes.rename(notes.with_name("notes.yaml")).write_text(wrapped, encoding="utf-8")
    return chart


def notes(helm: Path, chart: Path, *assignments: str, is_upgrade: bool = False) -> str:
    only = ("--namespace", "team", "--show-only", "templates/notes.yaml", *(["--is-upgrade"] if is_upgrade else []))
    done = run(helm, "template", "run1", str(chart), *only, *set_arguments(*assignments))
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])
