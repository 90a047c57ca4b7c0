"""Test the CI files that users copy: commands exist, versions are pinned, and no job has needless permissions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
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
    """Return the shell commands of each CI job."""
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


def _plan_on_github(folder: Path, base: str, target: str) -> str:
    """Run the planning step as on GitHub, for a pull request whose base commit is `base`.

    Return the comment.
    """
    [step] = [step for step in JOBS["plan"]["steps"] if step.get("id") == "plan"]
    env = {key: value.replace("${{ github.event.pull_request.base.sha }}", base) for key, value in _env(step).items()}
    output = folder / "output"
    _run(step["run"], folder, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(folder / "summary"), **env)
    return output.read_text()


def _plan_on_gitlab(folder: Path, base: str, target: str) -> str:
    """Run the planning job as in GitLab's pipeline for merged results. Return the comment."""
    shas = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": target}
    _run("\n".join(GITLAB["distrain-plan"]["script"]), folder, **shas)
    return (folder / "plan.md").read_text()


def _env(step: dict[str, Any]) -> dict[str, str]:
    return dict(step.get("env", {}))


def _run(script: str, folder: Path, **environment: str) -> None:
    """Run a job's script in a repository, with a fake Helm that accepts every run."""
    programs = folder.parent / "programs"
    programs.mkdir()
    for name, text in (("helm", "true"), ("openssl", "echo 1234")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", script], cwd=folder, env={**os.environ, "PATH": path, **environment}, check=True)


@pytest.mark.parametrize("plan", [_plan_on_github, _plan_on_gitlab])
def test_plan_of_a_merged_result_has_only_what_the_change_does(
    tmp_path: Path, plan: Callable[[Path, str, str], str]
) -> None:
    """The base branch has received commits after the merge request was opened.

    In the pipeline, HEAD is a merge of both branches.
    """
    folder = tmp_path / "team"
    shutil.copytree(CI, folder / "ci" / "distrain")
    (folder / "runs").mkdir()

    def git(*words: str) -> str:
        named = ["git", "-c", "user.name=Jane", "-c", "user.email=jane@example.com", *words]
        return subprocess.run(named, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    def commit(name: str) -> str:
        (folder / name).write_text("workers: {replicas: 2}\n")
        git("add", "--all")
        git("commit", "--message", name)
        return git("rev-parse", "HEAD")

    git("init", "--initial-branch", "main")
    base = commit("runs/old.yaml")
    git("checkout", "-b", "change")
    commit("runs/mine.yaml")
    git("checkout", "main")
    target = commit("runs/others.yaml")
    git("merge", "--no-ff", "--message", "merged", "change")

    comment = plan(folder, base, target)

    assert re.findall("^### (.*)", comment, re.MULTILINE) == ["`mine`: a new run"]


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []


def test_job_that_reads_the_pull_request_may_not_write_and_the_one_that_writes_does_not_run_its_files() -> None:
    # PyYAML reads the key `on` as the boolean true.
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
    # If ${{ }} inserted a branch name into the script, the shell could execute parts of the name.
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_gitlab_image_has_a_version_of_go_that_builds_helm() -> None:
    needed = re.findall(r"^go ([\d.]+)", (REPOSITORY / "lab/builds/go/helm4/go.mod").read_text(), re.MULTILINE)
    image = re.fullmatch(r"golang:(\d+\.\d+\.\d+)-\w+", GITLAB[".distrain"]["image"])

    # The image sets GOTOOLCHAIN=local, so Go cannot download a newer version of itself.
    assert image
    assert [tuple(map(int, each.split("."))) for each in needed] <= [tuple(map(int, image[1].split(".")))]


def test_pre_commit_hook_runs_a_command_of_the_package() -> None:
    [hook] = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())

    assert {"id", "name", "entry", "language", "files"} <= set(hook)
    assert (hook["entry"], hook["language"]) == ("distrain derive --check", "python")
    assert re.search(hook["files"], "runs/run1.yaml")
    assert not re.search(hook["files"], "charts/values.yaml")


def test_pre_commit_checks_values_files_alone_as_the_page_configures_it() -> None:
    """If a repository's configuration sets `files`, it replaces the `files` that the hook itself defines."""
    page = (REPOSITORY / "docs" / "gitops.md").read_text(encoding="utf-8")
    block = textwrap.dedent(page[page.index("    repos:\n") :])
    [repository] = yaml.safe_load(block)["repos"]
    [defined] = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    [used] = repository["hooks"]

    files = {**defined, **used}["files"]

    assert used["id"] == defined["id"]
    assert re.search(files, "runs/run1.yaml")
    assert not re.search(files, "runs/README.md")
