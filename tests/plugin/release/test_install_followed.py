"""Test that `install --follow` shows the installed run until the run has ended."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from distrain.changes import creation
from distrain.request import run_record
from distrain.status import follow
from tests.plugin.fake_api import FakeApi, releases
from tests.plugin.objects import Object, mpi_job
from tests.plugin.program import SECRETS, Outcome, Run, wrote_nothing
from tests.plugin.report import records
from tests.plugin.status.runs import live, pod, serve, step

pytestmark = pytest.mark.either_helm
INSTALL = ("install", "run1", "--set", "workers.gpus=1", "--follow")


@pytest.fixture
def installs(cluster: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace Helm's installation by a function that makes the fake API serve the objects of a run."""
    cluster.answers[SECRETS] = releases()
    objects: list[Object] = []
    monkeypatch.setattr(creation, "install", lambda *_, **__: serve_run(cluster, *objects))
    return objects


def serve_run(cluster: FakeApi, job: Object, *pods: Object) -> None:
    serve(cluster, job, pods=list(pods), run1_launcher=step(1000))


@pytest.mark.parametrize(("end", "code"), [("Succeeded", 0), ("Failed", 4)])
def test_it_ends_as_the_run_does(run: Run, installs: list[Any], end: str, code: int) -> None:
    installs += [live(mpi_job(workers=2, gpus=1), end), pod("launcher", phase=end)]

    shown = run(*INSTALL)

    assert shown.code == code
    assert shown.out.splitlines()[-1].startswith(f"run1: {end}")


def test_it_ends_with_the_figures_of_the_record_if_the_main_log_is_gone(
    run: Run, installs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run_record.Found(records.record(records.rescaled()))
    monkeypatch.setattr(run_record, "of_release", lambda *_: found)
    installs += [live(mpi_job(workers=2, gpus=1), "Succeeded"), pod("worker", phase="Succeeded")]

    shown = run(*INSTALL)

    assert shown.code == 0
    assert "step 200 of 200" in shown.out.splitlines()[-1]


def test_ctrl_c_leaves_the_run_and_says_how_to_see_it_again(
    run: Run, installs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    installs += [live(mpi_job(workers=2, gpus=1)), pod("launcher"), pod("worker"), pod("worker", 1)]
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=_interrupt, monotonic=time.monotonic))

    shown = run(*INSTALL)

    assert shown.code == 130
    again = "`helm distrain status run1 --namespace team --watch` shows it again"
    assert shown.err.splitlines()[-1] == f"distrain: run1: the run goes on; {again}"


def _interrupt(_: float) -> None:
    raise KeyboardInterrupt


def test_nothing_is_followed_that_is_not_installed(run: Run, cluster: FakeApi) -> None:
    refused = run(*INSTALL, "--dry-run")

    words = "--follow: shows the run that is installed, but --dry-run installs nothing; leave out one of the two flags"
    assert refused == Outcome(2, "", f"distrain: {words}\n")
    assert wrote_nothing(cluster)
