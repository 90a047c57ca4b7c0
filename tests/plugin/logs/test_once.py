"""Test `logs` without --follow as a user runs it, against a fake API."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distrain import console
from distrain.apiserver.connection import CONNECTIONS
from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.kubelet import Kubelet
from tests.plugin.objects import Object
from tests.plugin.program import Run
from tests.plugin.status.runs import (
    FIXED,
    MPI,
    MX,
    NAMESPACE,
    PLAIN,
    PYTORCH,
    ROLES,
    TF,
    live,
    pod,
    renamed,
    serve,
    step,
)

KUBEFLOW = "/apis/kubeflow.org/v1/namespaces/team"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"
UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]


@pytest.fixture
def up(api: FakeApi, kubelet: Kubelet) -> Kubelet:
    """Serve a run. Each pod of the run has logged a line that contains the pod's name."""
    serve(api, MPI, pods=UP)
    for each in UP:
        kubelet.start(each["metadata"]["name"])
        kubelet.write(each["metadata"]["name"], f"of {each['metadata']['name']}")
    return kubelet


@pytest.mark.parametrize(
    ("job", "roles", "speaker"),
    [
        pytest.param([MPI], ["launcher", "worker"], "run1-launcher", id="mpi"),
        pytest.param(PLAIN, ["launcher", "worker"], "run1-launcher", id="plain"),
        pytest.param([PYTORCH], ["worker"], "run1-worker-0", id="pytorch-elastic"),
        pytest.param([FIXED], ["master", "worker"], "run1-master-0", id="pytorch-master"),
        pytest.param([MX], ["scheduler", "server", "worker"], "run1-worker-0", id="mxnet"),
        pytest.param([TF], ["chief", "ps", "worker"], "run1-chief-0", id="tensorflow"),
    ],
)
def test_launcher_or_rank_0_is_printed(
    api: FakeApi, kubelet: Kubelet, logs: Run, job: list[Object], roles: list[str], speaker: str
) -> None:
    pods = [pod(role, number) for role in roles for number in range(2 if role == "worker" else 1)]
    serve(api, *job, pods=pods)
    for each in pods:
        kubelet.start(each["metadata"]["name"])
        kubelet.write(each["metadata"]["name"], each["metadata"]["name"])

    shown = logs("run1")

    assert (shown.code, shown.out, shown.err) == (0, f"{speaker}\n", "")


@pytest.mark.parametrize("kind", ROLES)
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("has_next", [False, True], ids=["alone", "next-pod-pending"])
def test_main_log_is_printed_after_its_pod_has_ended_while_other_pods_run(
    api: FakeApi, kubelet: Kubelet, logs: Run, kind: str, phase: str, has_next: bool
) -> None:
    job, speaker, others = ROLES[kind]
    ended = renamed(pod(speaker, phase=phase), "ended")
    following = [renamed(pod(speaker, phase="Pending"), "next")] if has_next else []
    serve(api, *job, pods=[*following, ended, *(pod(role) for role in others)])
    kubelet.start("ended")
    kubelet.write("ended", "why the program has ended")

    shown = logs("run1")

    assert (shown.code, shown.out, shown.err) == (0, "why the program has ended\n", "")


def test_plain_run_whose_key_is_made_has_not_ended(api: FakeApi, logs: Run) -> None:
    keygen, *others = PLAIN
    made = {**keygen, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    serve(api, made, *others, pods=[pod("launcher", phase="Pending")])

    shown = logs("run1")

    assert (shown.code, shown.err) == (4, "distrain: run1: no pod has started yet; add --follow to wait for a pod\n")


@pytest.mark.parametrize(
    ("job", "pods", "words"),
    [
        pytest.param([MPI], [pod("worker", 0)], "its launcher has no pod now", id="no-launcher"),
        pytest.param(
            PLAIN, [pod("worker", 0), pod("launcher", phase="Pending")], "run1-launcher has not started", id="pending"
        ),
        pytest.param([FIXED], [pod("worker", 0)], "its master has no pod now", id="no-master"),
        pytest.param([MX], [pod("scheduler"), pod("server")], "its worker has no pod now", id="no-worker"),
    ],
)
def test_missing_pod_is_named_while_others_run(
    api: FakeApi, logs: Run, job: list[Object], pods: list[Object], words: str
) -> None:
    serve(api, *job, pods=pods)

    shown = logs("run1")

    rest = "--all prints the logs of the other pods, and --follow waits for the run's main log"
    assert (shown.code, shown.err) == (4, f"distrain: run1: {words}; {rest}\n")


def test_worker_that_tells_the_newest_step_is_rank_0(api: FakeApi, kubelet: Kubelet, logs: Run) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), pod("worker", 1)])
    for number in range(2):
        kubelet.start(f"run1-worker-{number}")
        kubelet.write(f"run1-worker-{number}", step(7, at=100.0 + number).partition(" ")[2].strip())

    assert '"unix_seconds": 101.0' in logs("run1").out


def test_all_prints_each_pod_behind_its_role_and_number(up: Kubelet, logs: Run) -> None:
    shown = logs("run1", "--all")

    assert shown.code == 0
    assert shown.out == "launcher | of run1-launcher\nworker-0 | of run1-worker-0\nworker-1 | of run1-worker-1\n"


def test_part_of_a_log_is_asked_of_the_server(up: Kubelet, logs: Run) -> None:
    logs("run1", "--tail", "3", "--since", "10m")
    logs("run1", "--previous")

    assert up.readings[0][1] == {
        "container": "launcher", "timestamps": "true", "sinceSeconds": "600", "tailLines": "3"
    }  # fmt: skip
    assert up.readings[1][1] == {"container": "launcher", "timestamps": "true", "previous": "true"}


def test_previous_prints_the_container_before_the_restart(up: Kubelet, logs: Run) -> None:
    up.restart("run1-launcher")
    up.write("run1-launcher", "again")

    assert logs("run1", "-p").out == "of run1-launcher\n"
    assert logs("run1").out == "again\n"


@pytest.mark.parametrize("flags", [["--previous"], ["--previous", "--all"]])
def test_previous_log_that_is_not_there_is_said_in_a_line(up: Kubelet, logs: Run, flags: list[str]) -> None:
    shown = logs("run1", *flags)

    assert (shown.code, shown.out) == (4, "")
    assert shown.err.startswith("distrain: run1: there is no such log: the log of run1-launcher: ")
    assert "; leave out --previous: if the program was started again in the same container, " in shown.err
    assert len(shown.err.splitlines()) == 1


def test_log_of_a_container_that_is_not_there_yet_is_no_failure_of_the_cluster(
    api: FakeApi, kubelet: Kubelet, logs: Run
) -> None:
    serve(api, MPI, pods=[pod("launcher")])
    kubelet.logs["run1-launcher"] = []

    shown = logs("run1")

    assert (shown.code, shown.out) == (4, "")
    assert shown.err.endswith("; add --follow to wait for it\n")


def test_timestamps_are_printed_on_request(up: Kubelet, logs: Run) -> None:
    assert logs("run1", "--timestamps").out == "2026-01-01T00:00:00.250000000Z of run1-launcher\n"


ODD = b"tab\there \x1b[31mred\x1b[0m \x1b]0;title\x07 \xff 1 %\r100 %\r"


def test_lines_go_into_a_pipe_as_they_are(up: Kubelet, logs: Run) -> None:
    up.write("run1-launcher", ODD)

    assert logs("run1").out.encode(errors="surrogateescape") == b"of run1-launcher\n" + ODD + b"\n"


def test_lines_are_cleaned_for_a_terminal(up: Kubelet, logs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", lambda: 80)
    up.write("run1-launcher", ODD, ODD.replace(b"\r", b""), "x" * 2000)

    lines = logs("run1").out.splitlines()

    assert lines[1] == "100 %"
    assert lines[2] == "tab\there red \\x1b]0;title\\x07 \\xff 1 %100 %"
    assert lines[3] == "x" * 2000


def test_line_of_1_mb_is_printed_whole(up: Kubelet, logs: Run) -> None:
    up.write("run1-launcher", "x" * 10**6, "end")

    assert logs("run1").out == f"of run1-launcher\n{'x' * 10**6}\nend\n"


def test_connection_that_breaks_is_made_again(api: FakeApi, up: Kubelet, logs: Run) -> None:
    api.troubles[f"{NAMESPACE}/pods/run1-launcher/log"] = [0, 503]

    assert logs("run1").out == "of run1-launcher\n"


def test_thousand_workers_take_few_connections(api: FakeApi, kubelet: Kubelet, logs: Run) -> None:
    workers = [pod("worker", number) for number in range(1000)]
    serve(api, PYTORCH, pods=workers)
    for worker in workers:
        kubelet.start(worker["metadata"]["name"])
        kubelet.write(worker["metadata"]["name"], "a")

    shown = logs("run1", "--all")

    assert shown.out.splitlines() == [f"worker-{number} | a" for number in range(1000)]
    assert kubelet.most_open <= CONNECTIONS


def test_logs_that_may_not_be_read_are_said_in_one_line(api: FakeApi, up: Kubelet, logs: Run) -> None:
    answer = api.stream
    api.stream = lambda path, query: 403 if "worker" in path and path.endswith("/log") else answer(path, query)

    shown = logs("run1", "--all")

    assert (shown.code, shown.out) == (0, "launcher | of run1-launcher\n")
    assert shown.err.startswith("distrain: the log of run1-worker-0 cannot be read: ")
    assert shown.err.endswith(" (and 1 more)\n")
    api.stream = lambda path, query: 403 if path.endswith("/log") else None
    assert logs("run1", "--all").code == 3


def test_run_that_is_not_there_is_named(logs: Run) -> None:
    shown = logs("run1")

    assert (shown.code, shown.out) == (2, "")
    assert "run1: there is no run of this name in namespace team" in shown.err


def test_release_of_another_chart_is_told_apart(api: FakeApi, logs: Run) -> None:
    api.answers[f"{NAMESPACE}/secrets"] = [{"metadata": {"name": "s", "labels": {"owner": "helm", "name": "run1"}}}]

    assert "run1: is a Helm release, but has no job of distrain's chart" in logs("run1", "-f").err


def test_run_without_a_started_pod_says_how_to_wait(api: FakeApi, logs: Run) -> None:
    serve(api, MPI, pods=[pod("launcher", phase="Pending")])

    shown = logs("run1")

    assert (shown.code, shown.out) == (4, "")
    assert shown.err == "distrain: run1: no pod has started yet; add --follow to wait for a pod\n"


OTHER_KINDS = (
    "/apis/batch/v1/namespaces/team/jobs",
    *(f"{KUBEFLOW}/{name}s" for name in ("tfjob", "mxjob", "pytorchjob")),
)


@pytest.mark.parametrize("flags", [[], ["--all"], ["-f"]])
def test_other_kinds_that_may_not_be_listed_are_said_in_a_line(
    api: FakeApi, up: Kubelet, logs: Run, flags: list[str]
) -> None:
    api.answers |= dict.fromkeys(OTHER_KINDS, 403)
    if flags == ["-f"]:
        serve_ended(api, up)

    shown = logs("run1", *flags)

    assert shown.code == 0
    assert "of run1-launcher" in shown.out
    [line] = shown.err.splitlines()
    assert line.startswith("distrain: not read: jobs of namespace team cannot be read: ")
    assert line.endswith(" (and 3 more kinds)")


def serve_ended(api: FakeApi, up: Kubelet) -> None:
    """End the run and all its pods, so that `logs --follow` ends."""
    api.answers[MPI_JOBS] = [live({**MPI, "status": {}}, "Succeeded")]
    api.answers[f"{NAMESPACE}/pods"] = [pod("launcher", phase="Succeeded")]
    up.end("run1-launcher")


def test_log_that_may_not_be_read_is_named_although_other_kinds_may_not_be_listed(
    api: FakeApi, up: Kubelet, logs: Run
) -> None:
    api.answers |= dict.fromkeys(OTHER_KINDS, 403)
    api.stream = lambda path, query: 403 if path.endswith("/log") else None

    shown = logs("run1")

    assert shown.code == 3
    assert shown.err.splitlines()[-1].startswith("distrain: the log of run1-launcher cannot be read: ")


def test_pods_that_may_not_be_listed_are_said_in_a_line(api: FakeApi, up: Kubelet, logs: Run) -> None:
    api.answers[f"{NAMESPACE}/pods"] = 403

    shown = logs("run1")

    assert (shown.code, len(shown.err.splitlines())) == (3, 1)
    assert "pods of namespace team cannot be read" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["-f", "-p"], "--previous: shows a container that has ended", id="follow-and-previous"),
        pytest.param(["--save", "d", "-f"], "--follow: --save always writes whole logs", id="save-and-follow"),
        pytest.param(["--tail", "-1"], "-1", id="tail"),
        pytest.param(["--since", "soon"], '"soon" is no duration', id="since"),
    ],
)
def test_contradictions_are_refused(logs: Run, arguments: list[str], words: str) -> None:
    shown = logs("run1", *arguments)

    assert shown.code == 2
    assert words in shown.err


def test_reader_that_has_ended_ends_it_with_141(up: Kubelet, api: FakeApi, tmp_path: Path) -> None:
    up.write("run1-launcher", *("x" * 1000 for _ in range(1000)))
    command = [sys.executable, "-m", "distrain", "logs", "run1", "--kubeconfig", str(api.kubeconfig(tmp_path))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"of run1-launcher\n"
        process.stdout.close()
        assert process.stderr.read() == b""

    assert process.returncode == 141
