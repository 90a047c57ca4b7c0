"""Test that a release is changed correctly even if the program's output goes to a closed pipe or a full disk."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from distrain.apiserver.target import Target
from distrain.helm.program import Source
from distrain.helm.releases import Operation, Releases
from lab.paths import CHART, REPOSITORY
from lab.waiting import wait_until
from tests.chart.rendering import parse
from tests.plugin.fake_api import FakeApi, release_secret, releases
from tests.plugin.objects import Object, pod
from tests.plugin.program import SECRETS, Outcome, Run
from tests.plugin.release.recorded import chart_values, own_objects

VALUES = {"gpus": 2, "workers": {"replicas": 2, "gpus": 1}}
# A fake Helm. If this Helm is called with install, upgrade, uninstall or rollback, it reports success and changes
# nothing. All other commands are passed to the real Helm.
HELM = """\
#!/bin/sh
case "$1" in install | upgrade | uninstall | rollback) echo "$1" >> {calls} ;; esac
case "$1" in
  install | upgrade) echo '{{"info": {{"notes": "These are the notes."}}}}' ;;
  list) echo '[{{"name": "run1", "status": "deployed"}}]' ;;
  uninstall | rollback) ;;
  *) exec {helm} "$@" ;;
esac
"""
INSTALL = ["install", "run1", "--set", "gpus=2,workers.replicas=2,workers.gpus=1"]
NOTES_LOST = (
    "distrain: run1: Helm has made the change; only its notes cannot be printed; "
    "`helm get notes run1 --namespace team` shows them"
)
COMMANDS = {
    "install": INSTALL,
    "install-wait": [*INSTALL, "--wait"],
    "upgrade": ["upgrade", "run1", "--reuse-values", "--set", "trainer.steps=900", "--yes"],
    "rescale": ["rescale", "run1", "--workers", "3", "--yes"],
}
# Each entry contains the target of stdout, the target of stderr, and the expected exit code.
STREAMS = {
    "stdout-without-reader": ("unread", "read", 141),
    "stdout-full": ("full", "read", 5),
    "stderr-without-reader": ("read", "unread", 0),
    "stderr-full": ("read", "full", 0),
    "both-without-reader": ("unread", "unread", 141),
    "stdout-closed": ("closed", "read", 5),
    "both-closed": ("closed", "closed", 5),
}


@dataclass(frozen=True)
class Ended:
    """The exit code and output of the program, and the changes that the program has requested from Helm."""

    code: int
    out: str
    err: str
    changes: list[str]


@dataclass(frozen=True)
class Program:
    """Runs the program in a separate process, with a fake Helm that records the requested changes."""

    folder: Path
    environment: dict[str, str]

    @contextmanager
    def started(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        program = [sys.executable, "-m", "distrain", *command]
        with subprocess.Popen(program, env=self.environment, stderr=subprocess.PIPE, text=True) as process:
            yield process

    def run(self, command: list[str], stdout: str, stderr: str) -> Ended:
        calls = self.folder / "calls"
        calls.write_text("")
        closed = [number for number, kind in ((1, stdout), (2, stderr)) if kind == "closed"]
        with _stream(stdout) as out, _stream(stderr) as err:
            done = subprocess.run(
                [sys.executable, "-m", "distrain", *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                check=False,
                preexec_fn=partial(_close, closed),
            )
        return Ended(done.returncode, done.stdout or "", done.stderr or "", calls.read_text().split())


def _close(numbers: list[int]) -> None:
    for number in numbers:
        os.close(number)


@contextmanager
def _stream(kind: str) -> Iterator[int]:
    """Yield a stdout for the program: a regular file, a pipe without a reader, or a full disk."""
    if kind != "unread":
        path = "/dev/full" if kind == "full" else os.devnull
        with open(path, "w") as file:
            yield subprocess.PIPE if kind == "read" else file.fileno()
        return
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@pytest.fixture
def program(run: Run, cluster: FakeApi, tmp_path: Path) -> Program:
    """Return the program and a cluster in which it can install run1."""
    cluster.answers[SECRETS] = releases()
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(VALUES))
    calls, helm = tmp_path / "calls", tmp_path / "helm"
    helm.write_text(HELM.format(calls=shlex.quote(str(calls)), helm=shlex.quote(os.environ["HELM_BIN"])))
    helm.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin"), "HELM_BIN": str(helm)}
    return Program(tmp_path, environment)


def _job(run: Run, program: Program) -> tuple[str, Object]:
    """Return run1's manifest, and the job in this manifest."""
    printed = run("template", "run1", "--chart", str(CHART), "-f", str(program.folder / "values.yaml")).out
    manifest = own_objects(printed)
    return manifest, next(item for item in parse(manifest) if item["kind"] == "MPIJob")


def _prepare(name: str, run: Run, program: Program, cluster: FakeApi) -> None:
    """If the command changes a release, the fake API serves a release that is already installed.

    If the command waits for its job, the fake API serves a job that has already succeeded.
    """
    manifest, job = _job(run, program)
    succeeded = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    path = f"/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/{job['metadata']['name']}"
    cluster.answers[path] = {**job, "status": succeeded} if name == "install-wait" else job
    # A rescale waits until these pods exist.
    workers = [pod(f"worker-{number}", on="a") for number in range(3)]
    for worker in workers:
        worker["metadata"]["labels"] = {"app.kubernetes.io/component": "worker"}
    cluster.answers["/api/v1/namespaces/team/pods"] = workers
    cluster.answers["/api/v1/namespaces/team/events"] = []
    if name.startswith("install"):
        return
    made_of = {
        "metadata": {"name": "distrain", "version": "0.1.0"},
        "values": chart_values(),
    }
    secret = release_secret("run1", "deployed", manifest=manifest, values=VALUES, chart=made_of)
    cluster.answers |= {SECRETS: releases(secret), f"{SECRETS}/{secret['metadata']['name']}": secret}


@pytest.mark.either_helm
@pytest.mark.parametrize(
    ("name", "streams"),
    [
        # In the full matrix, every command is tried with every fault of stdout and stderr. By default, every command
        # and every such fault occurs at least once.
        pytest.param(name, streams, id=f"{name}-{streams}", marks=[] if tried else pytest.mark.full)
        for number, name in enumerate(COMMANDS)
        for place, streams in enumerate(STREAMS)
        for tried in [number == place % len(COMMANDS)]
    ],
)
def test_unread_output_undoes_nothing(run: Run, program: Program, cluster: FakeApi, name: str, streams: str) -> None:
    _prepare(name, run, program, cluster)
    stdout, stderr, code = STREAMS[streams]

    ended = program.run(COMMANDS[name], stdout, stderr)

    assert ended.changes == ["install" if name.startswith("install") else "upgrade"], ended.err
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert "Exception ignored" not in ended.err
    if stderr == "read":
        assert NOTES_LOST in ended.err.splitlines()
        assert ended.err.count("distrain: stdout: cannot be written: No space left on device; ") == (stdout == "full")
        assert ended.err.count("distrain: stdout: is closed; ") == (stdout == "closed")
        # The last line on stderr must say what has happened to the release.
        assert ended.err.splitlines()[-1].startswith("distrain: run1: ")
    if stdout == "read":
        assert "These are the notes.\n" in ended.out


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["--help"], id="help", marks=pytest.mark.full),
        pytest.param(["--version"], id="version"),
        pytest.param(["completion", "bash"], id="completion", marks=pytest.mark.full),
        pytest.param(["derive", "--set", "gpus=2", "--node-gpus", "8"], id="derive", marks=pytest.mark.full),
        pytest.param(["check", "run1", "--set", "workers.gpus=1"], id="check"),
        pytest.param(["template", "--offline", "--set", "workers.gpus=1"], id="template", marks=pytest.mark.full),
        pytest.param(["init", "--node-gpus", "8"], id="init", marks=pytest.mark.full),
        pytest.param(["doctor"], id="doctor", marks=pytest.mark.full),
        pytest.param(["install", "run1", "--dry-run"], id="install"),
    ],
)
@pytest.mark.either_helm
def test_answer_that_cannot_be_written_is_a_line_and_an_exit_code(program: Program, command: list[str]) -> None:
    full = program.run(command, "full", "read")
    unread = program.run(command, "unread", "read")

    assert full.code == 5, full.err
    last = full.err.splitlines()[-1]
    assert last == "distrain: stdout: cannot be written: No space left on device; redirect it to a disk with free space"
    assert (unread.code, "Traceback" in full.err + unread.err, "stdout" in unread.err) == (141, False, False)


@pytest.mark.either_helm
def test_closed_stdout_is_a_line_and_an_exit_code(program: Program) -> None:
    closed = program.run(["--version"], "closed", "read")

    assert closed == Ended(5, "", "distrain: stdout: is closed; redirect it to a file or to /dev/null\n", [])


@pytest.mark.either_helm
def test_sigterm_before_any_change_is_a_line_and_an_exit_code(program: Program, cluster: FakeApi) -> None:
    cluster.delays["/version"] = 60

    with program.started(["install", "run1"]) as process:
        wait_until("the first request", lambda: bool(cluster.requests))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=300)

    assert (process.returncode, told) == (130, "distrain: interrupted; nothing was changed\n")


@pytest.mark.either_helm
@pytest.mark.parametrize("command", ["derive", "install"])
def test_full_folder_for_temporary_files_is_a_line_and_an_exit_code(
    run: Run, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TMPDIR", "/full")
    monkeypatch.setattr(Path, "write_text", full)

    ended = run(command, *(["run1"] if command == "install" else []), "--set", "workers.gpus=1")

    line = "distrain: TMPDIR: /full is full; free space there, or set another TMPDIR"
    assert ended == Outcome(5, "", f"{line}\ndistrain: nothing was changed\n")


@pytest.mark.parametrize(
    "printed", ["", "no JSON", "{", '{"info": null}', '{"info": {}}', '{"other": 1}'], ids=lambda printed: printed
)
def test_helm_that_prints_something_else_than_a_release_has_made_it_all_the_same(tmp_path: Path, printed: str) -> None:
    helm = tmp_path / "helm"
    helm.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(printed)}\n")
    helm.chmod(0o755)
    target = Target(str(tmp_path / "kubeconfig"), "fake", "team")

    assert Releases(str(helm)).install("run1", Source(CHART, ()), target, Operation("abc")) == ""
