"""Test the command `install`: the jobs that it refuses, and the values that it passes to the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.changes import creation as command
from distrain.helm.program import Source
from distrain.helm.releases import Operation
from distrain.progress.wait import Followed
from distrain.release.transaction import Release
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import node, pod
from tests.plugin.program import SECRETS, Outcome, Run, hold, wrote_nothing

pytestmark = pytest.mark.either_helm

# MultiKueue runs the job in another cluster, whose nodes are unknown here.
ELSEWHERE = "gang.scheduler=kueue,gang.queue=team-a,job.managedBy=kueue.x-k8s.io/multikueue"


def test_release_name_in_use_is_refused_before_anything(run: Run, cluster: FakeApi) -> None:
    cluster.answers[SECRETS] = releases(release_secret("run1", "deployed"))

    outcome = run("install", "run1")

    assert outcome == Outcome(
        2,
        "",
        "distrain: run1: a release of this name is deployed in namespace team; choose another name, change it with "
        "`helm distrain upgrade run1 --namespace team`, or remove it with `helm uninstall run1 --namespace team`\n",
    )
    assert wrote_nothing(cluster)


def test_release_that_a_killed_helm_left_is_refused_with_the_way_out(run: Run, cluster: FakeApi) -> None:
    cluster.answers[SECRETS] = releases(release_secret("run1", "pending-install"))

    outcome = run("install", "run1")

    assert outcome == Outcome(
        2,
        "",
        "distrain: run1: a release of this name is pending-install in namespace team; choose another name, "
        "wait if another helm command is still changing it, or remove it with `helm uninstall run1 "
        "--namespace team`\n",
    )


@pytest.mark.parametrize(
    ("statuses", "way"),
    [
        ("deployed failed failed", "undo its last change with `helm rollback run1 1 --namespace team`, "),
        ("failed failed", ""),
        ("deployed uninstalling", "wait if another helm command is still changing it, "),
    ],
)
def test_release_that_no_upgrade_can_change_is_refused_with_a_way_that_works(
    run: Run, cluster: FakeApi, statuses: str, way: str
) -> None:
    found = [release_secret("run1", status, version=number) for number, status in enumerate(statuses.split(), 1)]
    cluster.answers[SECRETS] = releases(*found)

    outcome = run("install", "run1")

    words = f"a release of this name is {statuses.split()[-1]} in namespace team; choose another name, {way}or remove"
    assert outcome == Outcome(2, "", f"distrain: run1: {words} it with `helm uninstall run1 --namespace team`\n")


def test_uninstalled_release_with_a_history_is_refused_with_the_way_to_install_it_again(
    run: Run, cluster: FakeApi
) -> None:
    cluster.answers[SECRETS] = releases(release_secret("run1", "uninstalled"))

    outcome = run("install", "run1")

    again = "install it again with `helm distrain upgrade --install run1 --namespace team`"
    remove = "or remove it with `helm uninstall run1 --namespace team`"
    words = f"a release of this name is uninstalled in namespace team; choose another name, {again}, {remove}"
    assert outcome == Outcome(2, "", f"distrain: run1: {words}\n")


def test_namespace_that_is_not_there_is_refused_before_anything(run: Run, cluster: FakeApi) -> None:
    cluster.answers |= {SECRETS: releases(), "/api/v1/namespaces/team": 404}

    outcome = run("install", "run1")

    words = 'distrain: --namespace: there is no namespace "team"; create it, or add --create-namespace\n'
    assert outcome == Outcome(2, "", words)
    assert wrote_nothing(cluster)


@pytest.mark.parametrize(
    ("gpus", "code", "words"),
    [
        pytest.param(4, 10, "distrain: busy: workers.replicas: 2 workers fit only once other pods end", id="busy"),
        pytest.param(16, 11, "distrain: impossible: workers.gpus: 16 nvidia.com/gpu asked", id="impossible"),
    ],
)
def test_job_that_does_not_fit_is_not_installed(run: Run, cluster: FakeApi, gpus: int, code: int, words: str) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3")])
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", f"workers.gpus={gpus}")

    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(words)
    assert ("--allow-busy" in outcome.err) == (code == 10)
    assert wrote_nothing(cluster)


def test_busy_cluster_is_accepted_when_the_user_allows_it(run: Run, cluster: FakeApi) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3")])
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", "workers.gpus=4", "--allow-busy")

    # The fake API is not a complete Kubernetes, so Helm fails. The test checks that the command has tried to install.
    assert outcome.code == 4
    assert "distrain: busy: " in outcome.err
    assert "distrain: run1: Helm could not install it: " in outcome.err


@pytest.mark.parametrize(
    ("settings", "installs"),
    [
        pytest.param("workers.gpus=4", False, id="nobody"),
        pytest.param("workers.gpus=4,gang.scheduler=volcano", True, id="gang"),
        pytest.param("workers.gpus=16,gang.scheduler=volcano", False, id="gang-that-waits-for-ever"),
        pytest.param(f"workers.gpus=16,{ELSEWHERE}", True, id="another-cluster"),
    ],
)
def test_job_that_a_queue_holds_back_may_wait(run: Run, cluster: FakeApi, settings: str, installs: bool) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3")])
    cluster.serve_group("scheduling.volcano.sh", {"v1beta1": ["PodGroup"]})
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", settings)

    assert ("Helm could not install it" in outcome.err) == installs


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, cluster: FakeApi) -> list[tuple[Release, Operation]]:
    """Replace Helm's installation by a function that records its arguments."""
    cluster.answers[SECRETS] = releases()
    found: list[tuple[Release, Operation]] = []
    monkeypatch.setattr(
        command, "install", lambda _, release, operation, *__, **___: found.append((release, operation))
    )
    return found


@pytest.mark.parametrize(
    ("settings", "hooks"),
    [
        pytest.param("workers.gpus=1", True, id="off"),
        pytest.param("workers.gpus=1,preflight.enabled=true", False, id="on"),
    ],
)
def test_preflight_does_not_repeat_the_check_and_the_values_stay(
    run: Run, installed: list[tuple[Release, Operation]], settings: str, hooks: bool
) -> None:
    assert run("install", "run1", "--set", settings).code == 0

    release, operation = installed[0]
    assert operation.hooks == hooks
    assert release.source.flags == ("--set", settings)


def test_total_is_spread_and_installed_so(run: Run, cluster: FakeApi, installed: list[Any], tmp_path: Path) -> None:
    hold(cluster, [node("a", gpu="8"), node("b", gpu="8")])
    values = tmp_path / "values.yaml"
    values.write_text("gpus: 16\n")

    assert run("install", "run1", "-f", str(values), "--set", "trainer.steps=7").code == 0

    source = installed[0][0].source
    assert source.flags == ("--values", "-")
    given = yaml.safe_load(source.stdin)
    assert (given["gpus"], given["trainer"]) == (16, {"steps": 7})
    assert (given["workers"]["replicas"], given["workers"]["gpus"]) == (2, 8)


def test_explicit_values_are_installed_as_they_are(run: Run, installed: list[Any], tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("gpus: 2\nworkers: {replicas: 2, gpus: 1}\n")

    assert run("install", "run1", "-f", str(values)).code == 0

    assert installed[0][0].source == Source(installed[0][0].source.chart, ("--values", str(values)))


def test_dry_run_prints_what_would_be_installed(run: Run, cluster: FakeApi, installed: list[Any]) -> None:
    outcome = run("install", "run1", "--dry-run", "--set", "gpus=2")

    kinds = [item["kind"] for item in yaml.safe_load_all(outcome.out) if item]
    assert (outcome.code, "MPIJob" in kinds, installed) == (0, True, [])


def test_job_that_an_earlier_release_left_is_warned_of(run: Run, cluster: FakeApi, installed: list[Any]) -> None:
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    metadata = {"name": "run1-old", "labels": labels, "annotations": {"meta.helm.sh/release-name": "run1"}}
    cluster.answers["/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"] = [{"metadata": metadata}]

    outcome = run("install", "run1", "--set", "workers.gpus=1")

    assert (outcome.code, len(installed)) == (0, 1)
    assert outcome.err.startswith(
        "distrain: warning: run1: MPIJob run1-old runs, and Helm no longer knows it: `helm uninstall` leaves it there; "
        "`kubectl --namespace team delete mpijobs.kubeflow.org run1-old` ends it\n"
    )


@pytest.mark.parametrize("command", ["install", "upgrade --install"])
@pytest.mark.parametrize(
    "status", [{}, {"conditions": [{"type": "Succeeded", "status": "True"}]}], ids=["runs", "ended"]
)
def test_job_that_helm_would_take_over_from_an_earlier_release_is_refused(
    run: Run, cluster: FakeApi, installed: list[Any], command: str, status: dict[str, Any]
) -> None:
    cluster.answers[SECRETS] = releases()
    name = next(
        item["metadata"]["name"]
        for item in yaml.safe_load_all(run("template", "run1", "--set", "workers.gpus=1").out)
        if item and item["kind"] == "MPIJob"
    )
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    metadata = {"name": name, "labels": labels, "annotations": {"meta.helm.sh/release-name": "run1"}}
    job = {"metadata": metadata, "status": status}
    jobs = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"
    cluster.answers |= {jobs: [job], f"{jobs}/{name}": job}

    outcome = run(*command.split(), "run1", "--set", "workers.gpus=1")

    left = f"run1: MPIJob {name} is left from an earlier release of this name"
    takeover = "Helm would take it over with its old pods"
    deletion = f"delete it with `kubectl --namespace team delete mpijobs.kubeflow.org {name}`, then try again"
    assert (outcome.code, outcome.err) == (2, f"distrain: {left}, and {takeover}; {deletion}\n")
    assert installed == []


@pytest.mark.parametrize(
    ("flags", "waits_for"),
    [
        pytest.param([], None, id="no-wait"),
        pytest.param(["--wait"], "first-step", id="wait"),
        pytest.param(["--wait-for=pods"], "pods", id="wait-for"),
        pytest.param(["--atomic"], "first-step", id="atomic"),
        pytest.param(["--atomic", "--wait-for", "pods"], "pods", id="atomic-pods"),
    ],
)
def test_flags_choose_what_is_waited_for(
    run: Run, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, flags: list[str], waits_for: str | None
) -> None:
    cluster.answers[SECRETS] = releases()
    found: list[Followed | None] = []
    monkeypatch.setattr(command, "install", lambda *_, followed, **__: found.append(followed))

    assert run("install", "run1", "--set", "workers.gpus=1", *flags).code == 0

    assert [followed and followed.waits_for for followed in found] == [waits_for]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(("--wait",), "--wait", id="wait"),
        pytest.param(("--wait-for", "pods"), "--wait-for", id="wait-for"),
        pytest.param(("--atomic",), "--atomic", id="atomic"),
    ],
)
def test_nobody_waits_for_the_start_of_a_suspended_job(
    run: Run, cluster: FakeApi, flags: tuple[str, ...], named: str
) -> None:
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", "job.suspend=true", *flags)

    words = f"job.suspend: is true, so the job has no pods, and {named} would wait for nothing"
    step = f"leave {named} out, or set job.suspend to false"
    assert outcome == Outcome(2, "", f"distrain: {words}; {step}\n")
    assert wrote_nothing(cluster)


@pytest.mark.parametrize("used", ["0", "3"], ids=["fits", "busy"])
def test_suspended_job_is_installed_and_waits(
    run: Run, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, used: str
) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu=used)])
    cluster.answers[SECRETS] = releases()
    installed: list[Followed | None] = []
    monkeypatch.setattr(command, "install", lambda *_, followed, **__: installed.append(followed))

    outcome = run("install", "run1", "--set", "workers.gpus=4,job.suspend=true")

    assert (outcome.code, installed) == (0, [None])
    assert "run1: the job is suspended: it waits until an upgrade sets job.suspend to false" in outcome.err
    assert "the suspended job goes on" in outcome.err
