"""Test what the demo prints, without a cluster."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import pytest

from lab.cluster import lifecycle, namespaces
from lab.demo import site as demo_site
from lab.demo import story
from lab.demo.site import Site
from lab.errors import LabError
from lab.paths import KUBECONFIG, REPOSITORY

PLAN = "demo: revision 1 -> 2\n  value     workers.replicas: 2 -> 3\n  lost      nothing: the job goes on\n"


@dataclass(frozen=True)
class FakeSite(Site):
    """A fake lab on which Helm prints a plan and the chart's notes."""

    def helm_answers(self, *arguments: str) -> str:
        return f"{PLAN}Job demo-1234abcd: 3 ranks on 3 workers, on the CPU.\n\nIts log:\n  kubectl logs -f demo\n"


@pytest.fixture
def site() -> Site:
    return FakeSite("tensorflow", "config", "team", None, "https://s3", "bucket", "keys", "image")


def test_notes_are_not_printed_again_when_the_run_is_rescaled(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    story._rescale(site, "Rescale")

    _, _, below = capsys.readouterr().out.partition("--namespace team\n")
    assert below == PLAN


def test_headline_is_the_command_that_runs(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(Site, "tool", lambda _, name, build: name)
    monkeypatch.setattr(Site, "run", lambda _, command: ran.append(shlex.join(command)))

    story._helm(site, "Does it fit?", "check", "-f", story.VALUES, *site.settings())

    (command,) = ran
    assert capsys.readouterr().out.endswith(f"] Does it fit?: {command}\n")
    assert (REPOSITORY / story.VALUES).exists()


def test_answer_of_helm_is_its_stdout_and_the_user_sees_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site = Site("tensorflow", "config", "team", None, "https://s3", "bucket", "keys", "image")
    monkeypatch.setattr(Site, "_helm", lambda _: ["sh", "-c", "echo $0 $1; echo waiting >&2"])

    assert site.helm_answers("distrain", "rescale") == "distrain rescale\n"
    assert capfd.readouterr().err == "waiting\n"


@pytest.mark.parametrize(("given", "epochs"), [("", "1200"), ("50", "50")])
def test_run_that_was_over_too_early_is_answered_with_more_epochs(
    site: Site, monkeypatch: pytest.MonkeyPatch, given: str, epochs: str
) -> None:
    monkeypatch.setenv("EPOCHS", given)

    assert f"trainer.epochs={epochs}" in site.settings()
    with pytest.raises(LabError, match=f"is it that fast[?] Set EPOCHS to more than {epochs}$"):
        story._tell_rescale(site, [])


def test_page_of_the_lab_names_what_the_demo_uses() -> None:
    page = (REPOSITORY / "docs" / "lab.md").read_text(encoding="utf-8")
    _, _, own_runs = page.partition("## Your own runs")
    own_runs, _, _ = own_runs.partition("## What runs")

    assert f"KUBECONFIG={KUBECONFIG} PATH={lifecycle.BIN_DIR}:$PATH" in own_runs
    assert f"HELM_DATA_HOME=~/.cache/distrain/{demo_site.HELM_DATA.name} " in own_runs
    assert f"http://{namespaces.NODE_ADDRESS}:{lifecycle.S3_PORT}" in own_runs
    assert f"`{lifecycle.S3_KEYS}`" in own_runs
