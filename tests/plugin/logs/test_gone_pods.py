"""Test what `logs` prints if the pod with the main log of a run is gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import MPI, PLAIN, PYTORCH, ROLES, changed, live, over, pod, renamed, serve, subsets

# The next step of a message about a run without logs.
RECORD = (
    "`helm distrain status run1 --namespace team` shows what is known of the run, "
    "and any output of the run is in output.uri"
)


@pytest.mark.parametrize("job", [[MPI], [PYTORCH], PLAIN], ids=["mpi", "pytorch", "plain"])
@pytest.mark.parametrize("flags", [[], ["--all"]])
def test_suspended_run_has_no_pods_but_an_output(
    api: FakeApi, logs: Run, release: Callable[[Object], object], job: list[Object], flags: list[str]
) -> None:
    release({"output": {"uri": "s3://b/c"}})
    serve(api, *(changed(each, suspend=True) for each in job))

    shown = logs("run1", *flags)

    words = f"is suspended, and no log of its {'worker' if job == [PYTORCH] else 'launcher'} is left"
    assert (shown.code, shown.err) == (4, f"distrain: run1: {words}; {RECORD}: s3://b/c\n")


@pytest.mark.parametrize(
    ("kind", "others"), [(kind, others) for kind, (_, _, roles) in ROLES.items() for others in subsets(roles)]
)
@pytest.mark.parametrize("end", ["suspended", "Succeeded", "Failed"])
@pytest.mark.parametrize("has_text", [True, False], ids=["text", "no-text"])
def test_run_whose_main_pod_is_gone_has_no_log_whatever_pods_are_left(
    api: FakeApi, kubelet: Kubelet, logs: Run, kind: str, others: list[str], end: str, has_text: bool
) -> None:
    pods = [pod(role, phase="Succeeded") for role in others]
    serve(api, *over(ROLES[kind][0], end), pods=pods)
    for each in pods:
        kubelet.start(each["metadata"]["name"])
        kubelet.write(each["metadata"]["name"], *(["of another pod"] if has_text else []))

    shown, of_all = logs("run1"), logs("run1", "--all")

    words = f"{'is suspended' if end == 'suspended' else 'has ended'}, and no log of its {ROLES[kind][1]} is left"
    assert (shown.code, shown.out, shown.err) == (4, "", f"distrain: run1: {words}; {RECORD}, if that is set\n")
    assert end == "suspended" or logs("run1", "--follow") == shown
    if others and has_text:
        assert (of_all.code, of_all.out.count("of another pod"), of_all.err) == (0, len(others), "")
    else:
        assert (of_all.code, of_all.out, of_all.err) == (4, "", shown.err)


@pytest.mark.parametrize("kind", ["elastic PyTorchJob", "MXJob"])
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("flag", ["--tail=3", "--follow"])
def test_log_of_another_worker_is_not_passed_off_as_the_main_log(
    api: FakeApi, kubelet: Kubelet, logs: Run, kind: str, end: str, gone: int, flag: str
) -> None:
    left = renamed(pod("worker", 1 - gone, phase=end), f"run1-worker-{1 - gone}")
    serve(api, *over(ROLES[kind][0], end), pods=[left])
    kubelet.start(left["metadata"]["name"])
    kubelet.write(left["metadata"]["name"], "of another worker")
    kubelet.end(left["metadata"]["name"])

    shown, of_all = logs("run1", flag), logs("run1", "--all")

    words = f"has ended, and no log of worker-{gone} is left, so this is the log of another worker"
    assert (shown.code, shown.out) == (0, "of another worker\n")
    assert shown.err == f"distrain: run1: {words}; {RECORD}, if that is set\n"
    assert (of_all.code, of_all.out, of_all.err) == (0, f"worker-{1 - gone} | of another worker\n", "")


def test_run_whose_pods_are_gone_says_where_its_output_may_be(
    api: FakeApi, logs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, live({**MPI, "status": {}}, "Succeeded"))
    monkeypatch.setenv("HELM_BIN", "/nonexistent/helm")

    shown = logs("run1", "-f")

    assert (shown.code, shown.out) == (4, "")
    assert shown.err == f"distrain: run1: has ended, and no log of its launcher is left; {RECORD}, if that is set\n"
