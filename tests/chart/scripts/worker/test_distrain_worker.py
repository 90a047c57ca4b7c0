"""Test distrain-worker as a real process with a real sshd and a real ssh."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests import signal_masks
from tests.chart.scripts import pods
from tests.chart.scripts.pods import SCRIPTS, Pod, Running, load, wait_for
from tests.chart.scripts.worker.sessions import MULTI_LINE, ssh, ssh_command, start_worker


@pytest.fixture(scope="module")
def worker(pod: Pod) -> Iterator[Running]:
    worker = start_worker(pod)
    yield worker
    worker.kill()


@pytest.mark.usefixtures("worker")
def test_session_has_the_pods_environment(pod: Pod) -> None:
    names = "b'MULTI_LINE', b'EMPTY'"

    done = ssh(pod, f'id -u; python3 -c "import os; print([os.environb[name].decode() for name in ({names})])"')

    user, values = done.stdout.decode().splitlines()
    assert ast.literal_eval(values) == [MULTI_LINE, ""]
    assert int(user) == (pods.UID if pods.IS_ROOT else os.getuid())


@pytest.mark.usefixtures("worker")
def test_session_ends_with_the_commands_exit_code(pod: Pod) -> None:
    done = ssh(pod, "echo out; echo err >&2; exit 7")

    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


@pytest.mark.usefixtures("worker")
def test_session_does_not_ignore_a_closed_pipe(pod: Pod) -> None:
    # A session that ignored SIGPIPE would let a command such as `yes` write forever after its reader has gone. Python
    # passes ignored signals on to its child processes.
    done = ssh(pod, "grep SigIgn /proc/self/status")

    ignored = int(done.stdout.split()[1], 16)
    assert ignored & (1 << 12) == 0


@pytest.mark.usefixtures("worker")
def test_another_key_is_refused(pod: Pod) -> None:
    other = pod.key.with_name("other")
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", other], check=True)
    other.chmod(0o644 if pods.IS_ROOT else 0o600)

    done = ssh(pod, "echo in", key="other")

    assert done.returncode == 255
    assert b"Permission denied (publickey)" in done.stderr
    assert done.stdout == b""


@pytest.mark.usefixtures("worker")
def test_only_the_user_reads_the_environment(pod: Pod) -> None:
    holding_secret = [path for path in pod.folder.rglob("*") if path.is_file() and b"hidden" in path.read_bytes()]

    assert [path.name for path in holding_secret] == ["environment"]
    assert holding_secret[0].stat().st_mode & 0o777 == 0o600
    assert holding_secret[0].parent.stat().st_mode & 0o777 == 0o700


as_process_1 = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for a process namespace")


@as_process_1
def test_orphans_of_a_session_are_reaped(pod: Pod, worker: Running) -> None:
    def orphans() -> list[int]:
        return [pid for pid in pods.children(worker.script_pid()) if pods.program(pid) == "sleep"]

    ssh(pod, "setsid sleep 600 >/dev/null 2>&1 < /dev/null &")

    (orphan,) = wait_for(orphans)
    os.kill(orphan, signal.SIGKILL)
    wait_for(lambda: not orphans())


@as_process_1
def test_sigterm_ends_every_rank_soon() -> None:
    with pods.make_pod() as pod:
        pod.change("distrain-worker", "SECONDS_TO_END = 5", "SECONDS_TO_END = 600")
        worker = start_worker(pod)
        script = "trap 'echo rank was asked; exit 1' TERM; echo started; while :; do sleep 0.1; done"
        rank = subprocess.Popen(ssh_command(pod, script), env=pod.environment(), stdout=subprocess.PIPE, text=True)
        assert rank.stdout is not None
        assert rank.stdout.readline() == "started\n"

        worker.terminate()
        code, output = worker.end()

        assert code == 143, output
        assert rank.wait(timeout=300) != 0


@as_process_1
def test_rank_that_ignores_sigterm_ends_too() -> None:
    with pods.make_pod() as pod:
        pod.change("distrain-worker", "SECONDS_TO_END = 5", "SECONDS_TO_END = 1")
        worker = start_worker(pod)
        rank = subprocess.Popen(
            ssh_command(pod, "trap '' TERM; echo started; exec sleep 600"),
            env=pod.environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert rank.stdout is not None
        assert rank.stdout.readline() == "started\n"

        worker.terminate()
        code, _ = worker.end()

        assert code == 143
        assert rank.wait(timeout=300) != 0


@as_process_1
@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGTERM, 143, id="stopped"),
        pytest.param(signal.SIGUSR1, 0, id="success"),
        pytest.param(signal.SIGUSR2, 3, id="failure"),
    ],
)
@pytest.mark.parametrize("arguments", [pytest.param([], id="sshd"), pytest.param(["--no-sshd"], id="no-sshd")])
def test_signal_ends_the_pod_with_its_exit_code(number: signal.Signals, code: int, arguments: list[str]) -> None:
    with pods.make_pod() as pod:
        options = arguments or pod.script_options()
        worker = pod.start([pod.script("distrain-worker"), *options])
        wait_for(lambda: signal_masks.contains("SigCgt", number, worker.script_pid()))

        worker.send(number)

        assert worker.end(timeout=300)[0] == code


@as_process_1
def test_sender_of_a_signal_through_ssh_gets_an_answer() -> None:
    with pods.make_pod() as pod:
        pod.change("distrain-worker", "SECONDS_TO_TELL = 1", "SECONDS_TO_TELL = 5")
        worker = start_worker(pod)

        done = ssh(pod, "kill -USR2 1")

        assert done.returncode == 0, done.stderr
        assert worker.end()[0] == 3


@as_process_1
def test_rank_that_came_through_kubectl_exec_has_time_to_end() -> None:
    with pods.make_pod() as pod:
        worker = pod.start([pod.script("distrain-worker"), "--no-sshd"])
        wait_for(lambda: signal_masks.contains("SigCgt", signal.SIGTERM, worker.script_pid()))
        script = "trap 'sleep 1; echo saved; exit' TERM; echo started; while :; do sleep 0.1; done"
        # Like `kubectl exec`, nsenter starts a process in the pod's namespaces, and this process is not a child of
        # process 1. nsenter forks first, because the calling process must stay outside the namespaces.
        enter = ["nsenter", "--target", str(worker.script_pid()), "--pid", "--mount"]
        rank = subprocess.Popen(
            [*enter, "setpriv", "--reuid", str(pods.UID), "--clear-groups", "sh", "-c", script],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert rank.stdout is not None
        assert rank.stdout.readline() == "started\n"

        worker.terminate()
        code, _ = worker.end()

        assert code == 143
        assert rank.communicate(timeout=300)[0] == "saved\n"


@as_process_1
def test_orphans_are_reaped_without_sshd() -> None:
    with pods.make_pod() as pod:
        worker = pod.start([pod.script("distrain-worker"), "--no-sshd"])
        wait_for(lambda: signal_masks.contains("SigCgt", signal.SIGTERM, worker.script_pid()))
        enter = ["nsenter", "--target", str(worker.script_pid()), "--pid", "--mount"]

        def orphans() -> list[int]:
            return [pid for pid in pods.children(worker.script_pid()) if pods.program(pid) == "sleep"]

        subprocess.run([*enter, "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 </dev/null &"], check=True)

        (orphan,) = wait_for(orphans)
        os.kill(orphan, signal.SIGKILL)
        wait_for(lambda: not orphans())
        worker.kill()


def test_locked_root_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load("distrain-worker")
    monkeypatch.setattr(module.os, "getuid", lambda: 0)
    monkeypatch.setattr(module, "SHADOW", str(tmp_path / "shadow"))
    (tmp_path / "shadow").write_text("root:*:19000:0:99999:7:::\nbin:!:19000::::::\n")
    module.check_image()

    (tmp_path / "shadow").write_text("root:!locked::0:99999:7:::\n")

    with pytest.raises(
        module.WorkerError, match=r"account root of the image is locked, .* usermod --password '\*' root"
    ):
        module.check_image()


def test_taken_port_is_reported() -> None:
    with pods.make_pod() as pod:
        first = start_worker(pod)

        code, output = pod.start([pod.script("distrain-worker"), *pod.script_options()]).end()
        first.kill()

    assert code == 1
    assert "distrain: ssh.port: sshd ended (exit code 255); its last lines say why\n" in output
    assert "Address already in use" in output


def test_missing_key_is_reported(pod: Pod) -> None:
    code, output = pod.start([pod.script("distrain-worker"), "--ssh-folder=/nowhere"]).end()

    assert (code, output) == (
        1,
        "distrain: /nowhere/id_rsa: does not exist, but the job's SSH key should be mounted there\n",
    )


def test_image_without_sshd_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain-worker")
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)

    with pytest.raises(module.WorkerError, match="the image has no sshd; use one with an OpenSSH server"):
        module.check_image()


@pytest.mark.parametrize("script", ["distrain-launch", "distrain-worker"])
def test_image_without_the_user_is_reported(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    module = load(script)
    monkeypatch.setattr(module.os, "getuid", lambda: 54321)
    arguments = [SimpleNamespace(mpirun=["sh"], rsh="ssh")] if script == "distrain-launch" else []

    with pytest.raises(Exception, match=r"no user with uid 54321, which sshd? needs; add one with useradd --uid 54321"):
        module.check_image(*arguments)


def test_user_without_a_shell_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain-worker")
    user = module.pwd.struct_passwd(("trainee", "x", 1000, 1000, "", "/", "/usr/sbin/nologin"))
    monkeypatch.setattr(module.pwd, "getpwuid", lambda _: user)

    with pytest.raises(
        module.WorkerError, match="user trainee is /usr/sbin/nologin, with which sshd cannot run a command"
    ):
        module.check_image()


def test_ranks_have_the_grace_period_that_a_pod_has_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load("distrain-worker")
    made = Mock()
    monkeypatch.setattr(module, "Worker", made)
    monkeypatch.setattr(module, "take_sigterm", lambda: None)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["distrain-worker", "--no-sshd"])

    module.main()

    [(sshd, _, grace, _)] = [call.args for call in made.call_args_list]
    assert (sshd, grace) == ([], 30)


def test_no_process_is_ended_outside_a_container_without_sshd(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("distrain-worker")
    monkeypatch.setattr(module.os, "kill", kill := Mock())

    module.end_everything(None)

    assert not kill.called


def test_folder_of_sshd_is_writable_for_root_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load("distrain-worker")
    folder = tmp_path / "run" / "sshd"
    monkeypatch.setattr(module, "PRIVILEGE_SEPARATION", str(folder))

    # The image of a pod may set any umask. sshd refuses a folder in which group or others may write.
    before = os.umask(0)
    try:
        module.make_folder_of_sshd()
    finally:
        os.umask(before)

    assert oct(folder.stat().st_mode & 0o7777) == "0o755"


@pytest.mark.parametrize("script", [path.name for path in SCRIPTS.glob("distrain*")])
def test_script_is_python_3_6_and_needs_no_package(script: str) -> None:
    tree = ast.parse((SCRIPTS / script).read_text(encoding="utf-8"), feature_version=(3, 6))

    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {path.stem for path in SCRIPTS.glob("*.py")}
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, *own}
    assert "__future__" not in imported
