"""Test the command `status` for all runs of a namespace, or of all namespaces, as a user runs it against a fake API."""

from __future__ import annotations

import time
from urllib.parse import quote_plus

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    BY_ARGO,
    LABELS,
    MPI,
    NAMESPACE,
    PYTORCH,
    UP,
    WAITING,
    live,
    rows_of,
    serve,
    step,
)


def test_all_runs_have_a_line_each(api: FakeApi, status: Run) -> None:
    other = live(MPI, release="run2", labels={**LABELS, "app.kubernetes.io/instance": "run2"})
    serve(api, PYTORCH, {**other, "metadata": {**other["metadata"], "name": "run2-1234abcd"}}, pods=WAITING)

    shown = status()

    header, first, second = shown.out.splitlines()
    assert header.split() == ["NAME", "KIND", "PHASE", "WORKERS", "STEP", "AGE", "WHY"]
    assert first.split()[:4] == ["run1", "PyTorchJob", "Pending", "1/2"]
    assert first.endswith("run1-worker-1: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
    assert second.split()[:4] == ["run2", "MPIJob", "Pending", "0/2"]


def test_run_whose_label_argo_cd_has_changed_is_found_by_its_own_label(api: FakeApi, status: Run) -> None:
    others = live(MPI, release="run2", labels={**BY_ARGO, "distrain/instance": "run2"})
    serve(api, live(MPI, labels=BY_ARGO), others, pods=UP, run1_launcher=step(100, at=time.time()))

    rows = rows_of(status("run1"))

    assert (rows["run1"], rows["workers"].split()[0]) == ("Running", "2")
    assert [line.split()[0] for line in status().out.splitlines()[1:]] == ["run1", "run2"]
    assert status("app").err.startswith("distrain: app: there is no run of this name")


def test_namespace_without_runs_says_so(status: Run) -> None:
    shown = status()

    assert (shown.code, shown.out) == (0, "")
    assert shown.err == "distrain: there is no run in namespace team\n"


@pytest.mark.parametrize("arguments", [[], ["run1"], ["--watch"], ["run1", "--wait"]])
def test_namespace_that_is_not_there_is_said(api: FakeApi, status: Run, arguments: list[str]) -> None:
    del api.answers[NAMESPACE]

    shown = status(*arguments)

    words = (
        '--namespace: there is no namespace "team"; correct --namespace, or the namespace of the kubeconfig\'s context'
    )
    assert (shown.code, shown.out, shown.err) == (2, "", f"distrain: {words}\n")


def test_namespace_that_may_not_be_read_is_taken_for_one_that_is_there(api: FakeApi, status: Run) -> None:
    api.answers[NAMESPACE] = 403

    assert status().err == "distrain: there is no run in namespace team\n"


@pytest.mark.parametrize(
    ("selector", "term"),
    [
        pytest.param("bad selector!!", "bad selector!!", id="no-key"),
        pytest.param("team=a,cost in a", "cost in a", id="no-set"),
        pytest.param("team=a,,b", "", id="empty-term"),
        pytest.param("team=a b", "team=a b", id="value"),
        pytest.param("", "", id="empty"),
    ],
)
def test_selector_that_cannot_be_read_is_refused(status: Run, selector: str, term: str) -> None:
    shown = status("-l", selector)

    assert (shown.code, shown.err.startswith(f'distrain: -l/--selector: "{term}" selects no labels: write ')) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    "selector", ["team=a,cost!=b", "team in (a, b),!x", "example.com/a notin (b),c==d", "a,size>3", "a=", " a = b "]
)
def test_selector_of_kubernetes_is_asked_for(api: FakeApi, status: Run, selector: str) -> None:
    assert status("-l", selector).code == 0
    assert any(quote_plus(f"distrain,{selector}") in request for request in api.requests)


def test_runs_of_all_namespaces_are_listed_with_their_namespace(api: FakeApi, status: Run) -> None:
    job = live(PYTORCH, namespace="other", labels={**LABELS, "team": "a"})
    api.answers |= {"/apis/kubeflow.org/v1/pytorchjobs": [job], "/api/v1/pods": []}

    shown = status("-A", "-l", "team=a")

    assert shown.out.splitlines()[1].split()[:4] == ["other", "run1", "PyTorchJob", "Pending"]
    lists = [request for request in api.requests if "labelSelector" in request]
    assert all("app.kubernetes.io%2Fname%3Ddistrain%2Cteam%3Da" in request for request in lists)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["run1", "-A"], "--all-namespaces: lists all runs", id="all-and-one"),
        pytest.param(["run1", "-l", "a=b"], "--selector: lists all runs", id="selector-and-one"),
        pytest.param(["--wait"], "--wait: waits for one run; name it", id="wait-for-all"),
        pytest.param(["run1", "--wait", "--watch"], "--watch: never ends by itself", id="wait-and-watch"),
        pytest.param(["run1", "--for=Faild"], 'there is no "Faild"; choose Succeeded, Running or step=N', id="goal"),
        pytest.param(["run1", "--for=step=x"], 'there is no "step=x"', id="step"),
    ],
)
def test_contradictions_are_refused(status: Run, arguments: list[str], words: str) -> None:
    shown = status(*arguments)

    assert shown.code == 2
    assert words in shown.err
