"""Test the files for CI that users copy: what they run exists, all is pinned, and no job has needless rights."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.builds.golang import HELM4_VERSION
from lab.paths import REPOSITORY

CI = REPOSITORY / "docs" / "ci"
GITHUB: dict[Any, Any] = yaml.safe_load((CI / "github.yaml").read_text())
GITLAB: dict[Any, Any] = yaml.safe_load((CI / "gitlab.yaml").read_text())
JOBS = GITHUB["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]


def _scripts() -> dict[str, str]:
    """Return the shell text of each job."""
    found = {f"github-{name}": "\n".join(step.get("run", "") for step in job["steps"]) for name, job in JOBS.items()}
    jobs = {name: job for name, job in GITLAB.items() if isinstance(job, dict) and "script" in job}
    return found | {name: "\n".join([*job["before_script"], *job["script"]]) for name, job in jobs.items()}


@pytest.mark.parametrize("script", [pytest.param(text, id=name) for name, text in _scripts().items()])
def test_job_runs_scripts_that_are_there(script: str, tmp_path: Path) -> None:
    named = re.findall(r"ci/distrain/([\w.]+)", script)

    assert named
    assert all((CI / name).is_file() for name in named)
    (tmp_path / "script").write_text(script)
    subprocess.run(["bash", "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize("text", [(CI / "github.yaml").read_text(), (CI / "gitlab.yaml").read_text()])
def test_helm_is_the_tested_version_and_the_package_has_a_sum(text: str) -> None:
    assert re.findall(r"HELM: (v\S+)", text) == [HELM4_VERSION]
    assert "sha256sum --check" in text
    assert "latest" not in text


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []


def test_job_that_reads_the_pull_request_may_not_write_and_the_one_that_writes_does_not_run_its_files() -> None:
    # PyYAML reads the key `on` as true.
    assert set(GITHUB[True]) == {"pull_request"}
    assert GITHUB["permissions"] == {}
    assert JOBS["plan"]["permissions"] == {"contents": "read"}
    assert JOBS["comment"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    [checkout] = [step for step in JOBS["comment"]["steps"] if "uses" in step]
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"


def test_no_checkout_leaves_its_token_on_disk() -> None:
    checkouts = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]

    assert len(checkouts) == 2
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_words_of_a_pull_request_are_no_part_of_a_script() -> None:
    # A branch's name in ${{ }} would be run by the shell.
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_gitlab_image_has_a_version_of_go_that_builds_helm() -> None:
    needed = re.findall(r"^go ([\d.]+)", (REPOSITORY / "lab/builds/go/helm4/go.mod").read_text(), re.MULTILINE)
    image = re.fullmatch(r"golang:(\d+\.\d+\.\d+)-\w+", GITLAB[".distrain"]["image"])

    # The image's own Go is the only one there: it sets GOTOOLCHAIN=local.
    assert image
    assert [tuple(map(int, each.split("."))) for each in needed] <= [tuple(map(int, image[1].split(".")))]


def test_pre_commit_hook_runs_a_command_of_the_package() -> None:
    [hook] = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())

    assert {"id", "name", "entry", "language", "files"} <= set(hook)
    assert (hook["entry"], hook["language"]) == ("distrain derive --check", "python")
    assert re.search(hook["files"], "runs/run1.yaml")
    assert not re.search(hook["files"], "charts/values.yaml")
