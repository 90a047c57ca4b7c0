"""Test the launcher's functions for one worker: how it runs a command there, and when it readmits the worker.

Also test the launcher's defaults.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART
from tests.chart.scripts.launching import greeting_server
from tests.chart.scripts.pods import load


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("distrain_workers.py")
    monkeypatch.setattr(module, "ssh_arguments", lambda *_: "")
    return module


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def ssh(module: ModuleType, port: int = 2222) -> Any:
    return module.Ssh(SimpleNamespace(ssh_port=port, ssh_folder="/nowhere"))


def kubexec(module: ModuleType, agent: Path) -> Any:
    return module.Kubexec(SimpleNamespace(kubexec=str(agent)))


def test_worker_that_was_left_out_counts_again_at_another_address(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {"worker": "127.0.2.1"}
    connect = socket.create_connection
    monkeypatch.setattr(
        module.socket, "create_connection", lambda host, timeout: connect((addresses[host[0]], host[1]), timeout)
    )
    with (
        greeting_server(b"SSH-2.0-test\r\n", "127.0.2.1") as port,
        greeting_server(b"SSH-2.0-test\r\n", "127.0.2.2", port),
    ):
        way = ssh(module, port)
        assert way.why_absent("worker") == ""
        way.leave_out("worker", "cannot reach the storage")
        assert way.why_absent("worker") == "cannot reach the storage"
        addresses["worker"] = "127.0.2.2"
        assert way.why_absent("worker") == ""


@pytest.mark.parametrize(
    ("text", "reason", "output"),
    [
        pytest.param("echo out; echo err >&2", "", "out\n", id="succeeds"),
        pytest.param("echo out; echo first >&2; echo ' last ' >&2; echo >&2; exit 3", "last", "", id="says-why"),
        pytest.param("echo out; exit 3", "exit code 3", "", id="says-nothing"),
        pytest.param("printf '%0300d' 1 >&2; exit 3", "0" * 200, "", id="says-too-much"),
    ],
)
def test_reason_of_a_failed_command_is_its_last_line(
    text: str, reason: str, output: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{script(tmp_path / 'ssh', text).parent}:/usr/bin:/bin")

    for way in (ssh(module), kubexec(module, script(tmp_path / "agent", text))):
        assert (way.why_not_run("worker", "true"), way.output("worker", "true")) == (reason, output)


@pytest.mark.parametrize("name", ["hostfile", "known_hosts"])
def test_file_that_does_not_fit_on_the_disk_is_in_memory(
    name: str, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file hostfile cannot be written here, as on a full disk, because a folder has its name.
    (tmp_path / "disk" / "hostfile").mkdir(parents=True)
    (tmp_path / "memory").mkdir()

    def make_folder(prefix: str, dir: str = "") -> str:
        return tempfile.mkdtemp(prefix=prefix, dir=dir) if dir else str(tmp_path / "disk")

    monkeypatch.setattr(module, "MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr(module, "tempfile", SimpleNamespace(mkdtemp=make_folder))

    path = Path(module.own_file(name, "text\n"))

    assert path.read_text() == "text\n"
    assert path.is_relative_to(tmp_path / ("memory" if name == "hostfile" else "disk"))


def test_launcher_finds_memory_if_no_folder_for_temporary_files_has_room(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")

    path = Path(module.own_file("hostfile", "a slots=1\n"))

    assert (path.parents[1], path.read_text()) == (Path("/dev/shm"), "a slots=1\n")
    shutil.rmtree(path.parent)


def test_command_that_does_not_exist_is_named(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert ssh(module).why_not_run("worker", "true") == "ssh: No such file or directory"


def test_worker_has_ten_seconds_through_ssh_and_fifteen_through_kubectl(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds: list[float] = []

    def run(command: list[str], timeout: float) -> tuple[str, str]:
        seconds.append(timeout)
        return "no answer", ""

    monkeypatch.setattr(module, "run", run)
    through_kubectl = kubexec(module, script(tmp_path / "agent", ""))

    for way in (ssh(module), through_kubectl):
        way.why_not_run("worker", "true")
        way.output("worker", "true")
    through_kubectl.why_no_answer("worker")

    assert seconds == [10, 10, 15, 15, 15]


@pytest.mark.parametrize(("number", "more"), [(5, []), (6, ["and 1 more"])])
def test_first_five_absent_workers_are_named(number: int, more: list[str], module: ModuleType) -> None:
    absent = [(f"run1-worker-{each}.run1.team.svc", "no answer") for each in range(number)]

    told = module.names(absent)

    assert told.split(", ") == [*(f"run1-worker-{each} (no answer)" for each in range(5)), *more]


def test_first_five_lost_pods_are_to_be_deleted(capfd: pytest.CaptureFixture[str]) -> None:
    load("distrain-launch").say_what_to_delete({f"run1-worker-{each}.run1.team.svc" for each in range(7)})

    told = [line.rpartition(" ")[2] for line in capfd.readouterr().err.splitlines()]
    assert told == [f"run1-worker-{each}" for each in range(5)]


def test_workers_are_told_to_end_until_all_have_heard_it(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostfile").write_text("a slots=1\nb slots=1\n")
    answers = {"a": iter([""]), "b": iter(["no answer", "no answer", ""])}
    told = []

    def why_not_run(host: str, command: str) -> str:
        told.append((host, command))
        return next(answers[host])

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None))
    monkeypatch.setattr(module, "signal", SimpleNamespace(signal=lambda *_: None, SIGTERM=None, SIG_IGN=None))

    module.end_workers(SimpleNamespace(why_not_run=why_not_run, tries_at_once=1), str(tmp_path / "hostfile"), "USR1")

    assert told == [(host, "kill -USR1 1") for host in "abbb"]


def test_workers_that_were_not_told_to_end_in_time_are_named(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hostfile").write_text("a slots=1\nb slots=1\n")
    now = iter([0.0, 29.0, 30.0, 30.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(module, "signal", SimpleNamespace(signal=lambda *_: None, SIGTERM=None, SIG_IGN=None))
    way = SimpleNamespace(why_not_run=lambda *_: "", tries_at_once=1)

    module.end_workers(way, str(tmp_path / "hostfile"), "USR1")

    assert "1 of 2 workers could not be asked to end: b (no time left); delete their pods" in capfd.readouterr().err


def test_check_of_a_worker_greets_its_sshd(module: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(ssh(module, server.getsockname()[1]).why_no_answer, "127.0.0.1")
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as received:
            connection.sendall(b"SSH-2.0-test\r\n")
            greeting = received.readline()

        assert (greeting, answer.result()) == (b"SSH-2.0-distrain\r\n", "")


def test_connection_has_three_seconds(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = []

    def connect(_: object, timeout: float) -> None:
        seconds.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(module.socket, "create_connection", connect)
    way = ssh(module)

    assert way.why_no_answer("worker") == "no answer"
    assert seconds == [3]
    assert "ConnectTimeout=3" in way.command("worker", "true")


def test_launcher_waits_by_default_as_the_chart_says() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    options, program = load("distrain-launch").parse(["mpirun", "-v", "--", "train", "--fast"])

    assert (options.mpirun, program) == (["mpirun", "-v"], ["train", "--fast"])
    assert options.lost_worker_timeout == values["rescale"]["lostWorkerTimeout"]
    assert options.restart_window == values["job"]["restartWindow"]
    # The chart's default for workersTimeout is empty, which means 1800 s. The chart computes the grace period.
    assert (options.workers_timeout, options.grace) == (1800, 60)
    assert (options.ssh_port, options.max_restarts, options.rescale, options.rsh) == (2222, 0, "replace", "ssh")
