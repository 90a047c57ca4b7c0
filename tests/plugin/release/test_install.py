"""The command `install`: what it refuses, what it completes, and what it takes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import kube
from distrain.apiserver.target import Target
from distrain.commands import install as command
from distrain.errors import (
    DistrainError,
    ForbiddenError,
    HelmError,
    NameInUseError,
    StartError,
    StoppedError,
    UnreachableError,
)
from distrain.helm.program import Source
from distrain.helm.releases import Operation
from distrain.release import install
from distrain.release.install import Release, Tools
from distrain.release.interrupts import SIGNALS, Interrupts
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import node, pod
from tests.plugin.program import SECRETS, Outcome, Run, hold, wrote_nothing

RELEASE = Release("run1", Source(Path("chart"), ()), Target("config", "context", "team"))
OPERATION = Operation("abc")


def test_release_name_in_use_is_refused_before_anything(run: Run, cluster: FakeApi) -> None:
    cluster.answers[SECRETS] = releases(release_secret("run1", "deployed"))

    outcome = run("install", "run1")

    assert outcome == Outcome(
        2,
        "",
        "distrain: run1: a release of this name is deployed in namespace team; choose another name, change it with "
        "`helm distrain upgrade run1`, or remove it with `helm uninstall run1 --namespace team`\n",
    )
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


def test_busy_cluster_is_no_obstacle_when_the_user_says_so(run: Run, cluster: FakeApi) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3")])
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", "workers.gpus=4", "--allow-busy")

    # The installation is tried; what answers here is no whole Kubernetes.
    assert outcome.code == 4
    assert "distrain: busy: " in outcome.err
    assert "distrain: run1: Helm could not install it: " in outcome.err


@pytest.mark.parametrize(
    ("settings", "installs"),
    [
        pytest.param("workers.gpus=4", False, id="nobody"),
        pytest.param("workers.gpus=4,gang.scheduler=volcano", True, id="gang"),
        pytest.param("workers.gpus=16,gang.scheduler=volcano", False, id="gang-that-waits-for-ever"),
    ],
)
def test_job_that_a_queue_holds_back_may_wait(run: Run, cluster: FakeApi, settings: str, installs: bool) -> None:
    hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3")])
    cluster.answers[SECRETS] = releases()

    outcome = run("install", "run1", "--set", settings)

    assert ("Helm could not install it" in outcome.err) == installs


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, cluster: FakeApi) -> list[tuple[Release, Operation]]:
    """What Helm was to install, in place of an installation."""
    cluster.answers[SECRETS] = releases()
    found: list[tuple[Release, Operation]] = []
    monkeypatch.setattr(command, "install", lambda _, release, operation, **__: found.append((release, operation)))
    return found


@pytest.mark.parametrize(
    ("settings", "hooks"),
    [
        pytest.param("workers.gpus=1", True, id="off"),
        pytest.param("workers.gpus=1,preflight.enabled=true", False, id="on"),
    ],
)
def test_chart_does_not_check_what_was_checked_and_keeps_its_values(
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
        "distrain: warning: run1: MPIJob run1-old runs, and Helm knows it no more: `helm uninstall` leaves it there; "
        "`kubectl --namespace team delete mpijobs.kubeflow.org run1-old` ends it\n"
    )


class FakeHelm:
    """Has the release once it is installed; `owner` is whose operation made it."""

    def __init__(
        self, *, fails: DistrainError | None = None, owner: str = "abc", uninstall_fails: bool = False
    ) -> None:
        self.fails, self.owner, self.uninstall_fails = fails, owner, uninstall_fails
        self.during: Callable[[], None] = lambda: None
        self.uninstalled: list[str] = []

    def install(self, *_: Any) -> str:
        self.during()
        if self.fails:
            raise self.fails
        return "notes"

    def has_made(self, _: str, operation: Operation, __: Target) -> bool:
        return operation.name == self.owner

    def uninstall(self, name: str, _: Target) -> None:
        if self.uninstall_fails:
            raise HelmError("no permission")
        self.uninstalled.append(name)


class FakeCluster:
    """A cluster without the namespace; `objects` are put into it by somebody else."""

    def __init__(self, *objects: str) -> None:
        self.objects = objects
        self.deleted: list[str] = []

    def create_namespace(self, _: str) -> str:
        return "uid"

    def named(self, _: str, __: str, plural: str) -> list[kube.Named]:
        names = [name.partition("/")[2] for name in self.objects if name.startswith(f"{plural}/")]
        return [kube.Named(kube.Metadata(name=name)) for name in names]

    def delete_namespace(self, name: str, uid: str) -> None:
        self.deleted.append(f"{name} {uid}")


def _install(
    helm: Any,
    cluster: Any = None,
    start: Callable[[], None] | None = None,
    create_namespace: bool = False,
    told: list[str] | None = None,
) -> list[str]:
    """Install with these fakes and return what was told; `start` stands for the wait for the job's start."""
    told = [] if told is None else told
    fake: Any = cluster or FakeCluster()
    tools = Tools(helm, fake, Interrupts(), told.append, told.append)
    followed: Any = start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "until_started", lambda _, follow, __: follow())
        install.install(tools, RELEASE, OPERATION, create_namespace=create_namespace, followed=followed)
    return told


def _fail(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def _signal(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


pytestmark = [pytest.mark.usefixtures("signals"), pytest.mark.either_helm]


def test_job_that_starts_stays() -> None:
    helm = FakeHelm()

    assert _install(helm, start=lambda: None) == ["notes"]
    assert helm.uninstalled == []


def test_job_that_cannot_start_is_uninstalled_again() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError) as refused:
        _install(helm, start=_fail(StartError("no image")))

    assert refused.value.messages == ("no image", "run1: uninstalled again")
    assert helm.uninstalled == ["run1"]


STAYS = (
    "run1: is left as it is; watch it with `kubectl --namespace team get pods --watch "
    "--selector app.kubernetes.io/instance=run1`, or remove it with `helm uninstall run1 --namespace team`"
)


@pytest.mark.parametrize("error", [UnreachableError("silent"), ForbiddenError("pods cannot be read")])
def test_job_that_cannot_be_followed_stays(error: DistrainError) -> None:
    helm = FakeHelm()

    with pytest.raises(type(error)) as unknown:
        _install(helm, start=_fail(error))

    assert unknown.value.messages == (error.messages[0], STAYS)
    assert helm.uninstalled == []


def test_mistake_of_our_own_after_helms_success_undoes_nothing() -> None:
    helm, told = FakeHelm(), list[str]()

    with pytest.raises(ZeroDivisionError):
        _install(helm, start=_fail(ZeroDivisionError()), told=told)

    assert (helm.uninstalled, told) == ([], ["notes", STAYS])


def test_namespace_that_cannot_be_made_leaves_helm_alone() -> None:
    class Silent(FakeCluster):
        def create_namespace(self, _: str) -> str:
            raise UnreachableError("silent")

    helm = FakeHelm()
    helm.during = _fail(AssertionError("Helm was run"))

    with pytest.raises(UnreachableError) as refused:
        _install(helm, Silent(), create_namespace=True)

    assert refused.value.messages == ("silent",)


def test_what_a_failed_installation_left_is_removed() -> None:
    helm = FakeHelm(fails=HelmError("admission webhook says no"))

    with pytest.raises(HelmError) as refused:
        _install(helm)

    words = "run1: Helm could not install it: admission webhook says no"
    assert refused.value.messages == (words, "run1: uninstalled again")


@pytest.mark.parametrize("error", [NameInUseError("taken"), HelmError("connection lost")])
def test_release_that_somebody_else_made_meanwhile_is_left_alone(error: DistrainError) -> None:
    helm = FakeHelm(fails=error, owner="another")

    with pytest.raises(type(error)):
        _install(helm)

    assert helm.uninstalled == []


def test_uninstall_that_fails_is_told_with_what_remains() -> None:
    with pytest.raises(StartError) as refused:
        _install(FakeHelm(uninstall_fails=True), start=_fail(StartError("no image")))

    assert refused.value.messages[1].startswith("run1: could not be uninstalled again: no permission; watch it with")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_helm_runs_takes_effect_after_it(number: int) -> None:
    helm = FakeHelm()
    helm.during = lambda: _signal(number)

    with pytest.raises(StoppedError) as stopped:
        _install(helm)

    assert stopped.value.messages == ("interrupted", "run1: uninstalled again")


def test_terminal_that_is_closed_undoes_nothing() -> None:
    helm = FakeHelm()
    helm.during = lambda: _signal(signal.SIGHUP)

    assert _install(helm, start=lambda: _signal(signal.SIGHUP)) == ["notes"]
    assert helm.uninstalled == []


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_that_was_ignored_before_stays_ignored(number: int) -> None:
    # As under nohup, and for what a shell's script runs in the background.
    signal.signal(number, signal.SIG_IGN)
    helm = FakeHelm()
    helm.during = lambda: _signal(number)

    assert _install(helm, start=lambda: _signal(number)) == ["notes"]
    assert helm.uninstalled == []


def test_signal_while_the_start_is_followed_takes_effect_at_once() -> None:
    reached: list[str] = []

    def start() -> None:
        _signal()
        reached.append("after")

    with pytest.raises(StoppedError):
        _install(FakeHelm(), start=start)

    assert reached == []


def test_failure_of_helm_that_a_signal_caused_is_an_interruption() -> None:
    helm = FakeHelm(fails=HelmError(""), owner="nobody")
    helm.during = _signal

    with pytest.raises(StoppedError, match=r"^interrupted; nothing was changed$"):
        _install(helm)


def test_signal_after_the_end_changes_nothing() -> None:
    helm = FakeHelm()

    _install(helm)
    _signal()

    assert helm.uninstalled == []


@pytest.mark.parametrize(
    ("objects", "told", "deleted"),
    [
        pytest.param((), "namespace team: deleted again", ["team uid"], id="empty"),
        pytest.param(("configmaps/kube-root-ca.crt",), "namespace team: deleted again", ["team uid"], id="given"),
        pytest.param(("pods/other",), "namespace team: stays, as it holds pods/other by now", [], id="used"),
    ],
)
def test_namespace_made_for_it_goes_unless_it_is_used(objects: tuple[str, ...], told: str, deleted: list[str]) -> None:
    cluster = FakeCluster(*objects)

    with pytest.raises(HelmError) as refused:
        _install(FakeHelm(fails=HelmError("no")), cluster, create_namespace=True)

    assert refused.value.messages[-1] == told
    assert cluster.deleted == deleted
