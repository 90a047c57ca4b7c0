"""Test what is removed and what stays if an installation fails, is interrupted, or does not start."""

from __future__ import annotations

import signal

import pytest

from distrain.errors import (
    DistrainError,
    ForbiddenError,
    GoneError,
    HelmError,
    LateError,
    NameInUseError,
    StartError,
    StoppedError,
    UnreachableError,
    UnsettledError,
)
from distrain.helm.releases import Operation, Status
from distrain.release.transaction import SIGNALS
from tests.plugin.release.installing import (
    FakeCluster,
    FakeHelm,
    failing,
    install_with,
    send_signal,
)

pytestmark = pytest.mark.usefixtures("signals")


def test_job_that_starts_stays() -> None:
    helm = FakeHelm()

    assert install_with(helm, start=lambda: None) == ["notes"]
    assert helm.uninstalled == []


def test_job_that_cannot_start_stays_and_the_message_tells_how_to_mend_it() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError) as refused:
        install_with(helm, FakeCluster(), failing(StartError("no image")), create_namespace=True)

    mend = "run1: stays installed; mend it with `helm distrain upgrade run1 --namespace team -f ...`"
    remove = "or remove it with `helm uninstall run1 --namespace team`"
    assert refused.value.messages == ("no image", f"{mend}, {remove}")
    assert (refused.value.exit_code, helm.uninstalled) == (4, [])


def test_job_that_is_late_stays_and_the_message_tells_how_to_watch_it() -> None:
    with pytest.raises(StartError) as refused:
        install_with(FakeHelm(), start=failing(LateError("no step in 60 s")))

    watch = "run1: stays installed and may still start; watch it with `kubectl --namespace team get pods --watch "
    remove = "--selector app.kubernetes.io/instance=run1`, or remove it with `helm uninstall run1 --namespace team`"
    assert refused.value.messages == ("no step in 60 s", f"{watch}{remove}")


def test_history_of_a_release_that_was_installed_again_stays() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError):
        install_with(
            helm, start=failing(StartError("no image")), is_atomic=True, operation=Operation("abc", uninstalled=2)
        )

    assert helm.uninstalled == ["run1, history kept"]


def test_job_that_cannot_start_is_uninstalled_again_with_atomic() -> None:
    helm = FakeHelm()

    with pytest.raises(StartError) as refused:
        install_with(helm, start=failing(StartError("no image")), is_atomic=True)

    assert refused.value.messages == ("no image", "run1: uninstalled again")
    assert helm.uninstalled == ["run1"]


UNINSTALLED = "run1: is no longer installed: someone uninstalled it"
NEWER = (
    "run1: someone else has created revision 2 in the meantime, so that revision stays; `helm history run1 --namespace "
    "team` shows it"
)


@pytest.mark.parametrize("is_atomic", [False, True])
@pytest.mark.parametrize(
    ("last", "told"),
    [
        pytest.param(None, UNINSTALLED, id="uninstalled"),
        pytest.param(Status("uninstalled", 1), UNINSTALLED, id="uninstalled-with-its-history"),
        pytest.param(Status("deployed", 2), NEWER, id="newer"),
    ],
)
def test_job_that_someone_removed_is_told_with_what_became_of_the_release(
    last: Status | None, told: str, is_atomic: bool
) -> None:
    helm = FakeHelm()

    def start() -> None:
        helm.last, helm.owner = last, "someone"
        raise GoneError("MPIJob run1 is gone: someone removed it")

    with pytest.raises(GoneError) as gone:
        install_with(helm, start=start, is_atomic=is_atomic)

    assert gone.value.messages == ("MPIJob run1 is gone: someone removed it", told)
    assert (gone.value.exit_code, helm.uninstalled) == (4, [])


def test_job_that_is_gone_from_a_release_that_is_there_undoes_nothing_with_atomic() -> None:
    # Another user's upgrade has ended the job, but Helm has not recorded the revision of that upgrade yet.
    helm = FakeHelm()

    with pytest.raises(GoneError) as gone:
        install_with(helm, start=failing(GoneError("gone")), is_atomic=True)

    assert gone.value.messages[1].startswith("run1: stays installed; mend it with ")
    assert helm.uninstalled == []


def test_newer_revision_stays_after_ctrl_c() -> None:
    helm = FakeHelm()

    def start() -> None:
        helm.last, helm.owner = Status("deployed", 2), "someone"
        send_signal()

    with pytest.raises(StoppedError) as stopped:
        install_with(helm, start=start)

    assert stopped.value.messages == ("interrupted", NEWER)
    assert helm.uninstalled == []


STAYS = (
    "run1: is left as it is; watch it with `kubectl --namespace team get pods --watch "
    "--selector app.kubernetes.io/instance=run1`, or remove it with `helm uninstall run1 --namespace team`"
)


@pytest.mark.parametrize("error", [UnreachableError("silent"), ForbiddenError("pods cannot be read")])
def test_job_that_cannot_be_followed_stays(error: DistrainError) -> None:
    helm = FakeHelm()

    with pytest.raises(type(error)) as unknown:
        install_with(helm, start=failing(error))

    assert unknown.value.messages == (error.messages[0], STAYS)
    assert helm.uninstalled == []


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(
            "pending-install",
            "its status is pending-install; `helm rollback run1 1 --namespace team` corrects it",
            id="not-recorded",
        ),
        pytest.param(HelmError("refused"), "its status cannot be read: refused", id="unknown"),
    ],
)
def test_release_that_helm_could_not_record_stays_and_is_no_success(status: str | DistrainError, told: str) -> None:
    # If Helm has created all objects but cannot record the release's status, it still exits with 0.
    helm = FakeHelm(status=status)

    with pytest.raises(UnsettledError) as unsettled:
        install_with(helm)

    assert unsettled.value.messages == (f"run1: Helm has installed it, but {told}", STAYS)
    assert (unsettled.value.exit_code, helm.uninstalled) == (4, [])


def test_number_of_the_revision_follows_that_of_the_uninstalled_release() -> None:
    with pytest.raises(UnsettledError, match="; `helm rollback run1 3 --namespace team` corrects it"):
        install_with(FakeHelm(status="pending-install"), operation=Operation("abc", uninstalled=2))


def test_internal_error_after_helms_success_undoes_nothing() -> None:
    helm, told = FakeHelm(), list[str]()

    with pytest.raises(ZeroDivisionError) as bug:
        install_with(helm, start=failing(ZeroDivisionError()), told=told)

    # Python prints the notes of an exception at the end of the traceback.
    assert (helm.uninstalled, told, bug.value.__notes__) == ([], ["notes"], [STAYS])


def test_internal_error_while_it_is_undone_says_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    helm = FakeHelm(fails=HelmError("no"))
    monkeypatch.setattr(helm, "has_made", lambda *_: 1 // 0)

    with pytest.raises(ZeroDivisionError) as bug:
        install_with(helm)

    assert bug.value.__notes__ == [STAYS]


def test_helm_is_not_run_if_the_namespace_cannot_be_created() -> None:
    class Silent(FakeCluster):
        def create_namespace(self, _: str, __: dict[str, str]) -> str:
            raise UnreachableError("silent")

    helm = FakeHelm()
    helm.during = failing(AssertionError("Helm was run"))

    with pytest.raises(UnreachableError) as refused:
        install_with(helm, Silent(), create_namespace=True)

    words = "namespace team: may have been created; try again, or remove it with `kubectl delete namespace team`"
    assert refused.value.messages == ("silent", words)


def test_failed_installation_is_removed() -> None:
    helm = FakeHelm(fails=HelmError("admission webhook says no"))

    with pytest.raises(HelmError) as refused:
        install_with(helm)

    words = "run1: Helm could not install it: admission webhook says no"
    assert refused.value.messages == (words, "run1: uninstalled again")


@pytest.mark.parametrize("error", [NameInUseError("taken"), HelmError("connection lost")])
def test_release_that_another_user_made_meanwhile_stays(error: DistrainError) -> None:
    helm = FakeHelm(fails=error, owner="another")

    with pytest.raises(type(error)) as refused:
        install_with(helm, FakeCluster("mpijobs/run1", owner="run1"))

    assert helm.uninstalled == []
    assert refused.value.messages[-1] == "nothing was changed"


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        pytest.param(
            FakeCluster("mpijobs/run1", owner="run1"),
            "run1: left without a release: MPIJob run1; `kubectl --namespace team delete mpijobs.kubeflow.org/run1` "
            "deletes what is left",
            id="left",
        ),
        pytest.param(FakeCluster("mpijobs/run1", owner="run2"), "nothing was changed", id="of-another-release"),
        pytest.param(FakeCluster(), "nothing was changed", id="nothing"),
    ],
)
def test_installation_that_fails_because_someone_uninstalled_it_tells_what_is_left(
    cluster: FakeCluster, told: str
) -> None:
    helm = FakeHelm(fails=HelmError('secrets "sh.helm.release.v1.run1.v1" not found'), owner="nobody")
    helm.last = None

    with pytest.raises(HelmError) as refused:
        install_with(helm, cluster)

    assert refused.value.messages[1:] == (told,)


def test_namespace_stays_if_the_release_in_it_may_stay() -> None:
    cluster = FakeCluster()
    helm = FakeHelm(fails=HelmError("no"), uninstall_fails=True)

    with pytest.raises(HelmError) as refused:
        install_with(helm, cluster, create_namespace=True)

    remove = "`kubectl delete namespace team` removes it and all that is in it"
    assert refused.value.messages[-1] == f"namespace team: was made for this and stays; {remove}"
    assert cluster.deleted == []


def test_uninstall_that_fails_is_reported_with_what_remains() -> None:
    with pytest.raises(StartError) as refused:
        install_with(FakeHelm(uninstall_fails=True), start=failing(StartError("no image")), is_atomic=True)

    assert refused.value.messages[1].startswith("run1: the installation could not be undone: no permission; watch it")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_helm_runs_takes_effect_after_it(number: int) -> None:
    helm = FakeHelm()
    helm.during = lambda: send_signal(number)

    with pytest.raises(StoppedError) as stopped:
        install_with(helm)

    assert stopped.value.messages == ("interrupted", "run1: uninstalled again")


def test_terminal_that_is_closed_undoes_nothing() -> None:
    # Under nohup, the tests would ignore SIGHUP. Then this test would succeed without checking anything, so set a
    # handler for the signal.
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    helm = FakeHelm()
    helm.during = lambda: send_signal(signal.SIGHUP)

    assert install_with(helm, start=lambda: send_signal(signal.SIGHUP)) == ["notes"]
    assert helm.uninstalled == []


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_that_was_ignored_before_stays_ignored(number: int) -> None:
    # nohup starts a program with this signal ignored. A shell script also ignores this signal in its background jobs.
    signal.signal(number, signal.SIG_IGN)
    helm = FakeHelm()
    helm.during = lambda: send_signal(number)

    assert install_with(helm, start=lambda: send_signal(number)) == ["notes"]
    assert helm.uninstalled == []


def test_signal_while_the_notes_are_printed_takes_effect_after_it() -> None:
    class Notes(list[str]):
        def append(self, _: str) -> None:
            send_signal()

    helm = FakeHelm()

    with pytest.raises(StoppedError):
        install_with(helm, told=Notes())

    assert helm.uninstalled == ["run1"]


def test_signal_while_the_start_is_followed_takes_effect_at_once() -> None:
    reached: list[str] = []

    def start() -> None:
        send_signal()
        reached.append("after")

    with pytest.raises(StoppedError):
        install_with(FakeHelm(), start=start)

    assert reached == []


def test_signal_while_the_status_is_read_takes_effect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    helm = FakeHelm()
    monkeypatch.setattr(helm, "status_of", lambda *_: send_signal())

    with pytest.raises(StoppedError):
        install_with(helm)

    assert helm.uninstalled == ["run1"]


def test_failure_of_helm_that_a_signal_caused_is_an_interruption() -> None:
    helm = FakeHelm(fails=HelmError(""), owner="nobody")
    helm.during = send_signal

    with pytest.raises(StoppedError, match=r"^interrupted; nothing was changed$"):
        install_with(helm)


def test_signal_after_the_end_changes_nothing() -> None:
    helm = FakeHelm()

    install_with(helm)
    send_signal()

    assert helm.uninstalled == []


@pytest.mark.parametrize(
    ("objects", "told", "deleted"),
    [
        pytest.param((), "namespace team: deleted again", ["team uid"], id="empty"),
        pytest.param(("configmaps/kube-root-ca.crt",), "namespace team: deleted again", ["team uid"], id="given"),
        pytest.param(("pods/other",), "namespace team: stays, as it holds pods/other by now", [], id="used"),
        pytest.param(("mpijobs/other",), "namespace team: stays, as it holds mpijobs/other by now", [], id="job"),
    ],
)
def test_namespace_made_for_it_goes_unless_it_is_used(objects: tuple[str, ...], told: str, deleted: list[str]) -> None:
    cluster = FakeCluster(*objects)

    with pytest.raises(HelmError) as refused:
        install_with(FakeHelm(fails=HelmError("no")), cluster, create_namespace=True)

    assert refused.value.messages[-1] == told
    assert cluster.deleted == deleted
