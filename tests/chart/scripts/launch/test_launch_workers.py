"""Test how distrain-launch finds the workers, through sshd and through kubectl."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lab.waiting import free_port
from tests.chart.scripts.launching import Bench, greeting_server, launch, read
from tests.chart.scripts.pods import Pod, load, wait_for


def test_missing_workers_are_named(bench: Bench) -> None:
    # Only the worker at 127.0.0.1 sends sshd's greeting.
    code, output = bench.run("exit 0", "--workers-timeout=0.5", hostfile="127.0.0.1 slots=1\n127.0.0.9 slots=1\n")

    assert code == 1
    assert bench.cause == (
        f"distrain: launcher.workersTimeout: 1 of 2 workers did not answer on port {bench.port} within 0.5 s: "
        "127.0.0.9 (connection refused); see why with kubectl describe pod"
    ), output


def test_next_launcher_of_one_that_missed_workers_ends_as_it_did(bench: Bench) -> None:
    first, _ = bench.run(
        "exit 0", "--workers-timeout=0.5", "--keep-outcome", hostfile="127.0.0.1 slots=1\n127.0.0.9 slots=1\n"
    )
    cause = bench.cause

    second, output = bench.run("echo runs", "--keep-outcome", hostfile="127.0.0.1 slots=1\n")

    assert (first, second) == (1, 1)
    assert "127.0.0.9 (connection refused)" in cause
    assert bench.cause == cause
    assert "runs\n" not in output


@pytest.mark.parametrize(("rsh", "words"), [("ssh", "the image has no ssh; use one with"), ("kubexec", "")])
def test_image_needs_ssh_only_where_ranks_start_through_it(
    rsh: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("distrain-launch")
    monkeypatch.setattr(module.shutil, "which", {"mpirun": "/bin/mpirun"}.get)
    found = ""

    try:
        assert module.check_image(SimpleNamespace(mpirun=["mpirun"], rsh=rsh)) == "/bin/mpirun"
    except module.LaunchError as error:
        found = str(error)

    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(socket.gaierror(-2, "Name or service not known"), "no address yet", id="no-name"),
        pytest.param(
            socket.gaierror(-3, "Temporary failure in name resolution"), "the name server does not answer", id="no-dns"
        ),
        pytest.param(TimeoutError("timed out"), "no answer", id="no-answer"),
        pytest.param(OSError(113, "No route to host"), "no route to host", id="other"),
    ],
)
def test_reason_is_in_plain_words(monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    module = load("distrain_workers.py")
    monkeypatch.setattr(module.socket, "create_connection", fail)
    monkeypatch.setattr(module, "ssh_arguments", lambda *_: "")
    ssh = module.Ssh(SimpleNamespace(ssh_port=2222, ssh_folder="/nowhere"))

    assert ssh.why_no_answer("host") == reason


def gather(module: ModuleType, hosts: list[str], way: object, timeout: float, folder: Path) -> None:
    """Wait until these hosts answer, as the launcher does when it starts."""
    hostfile = folder / "hostfile"
    hostfile.write_text("".join(f"{host} slots=1\n" for host in hosts))
    options = SimpleNamespace(
        mpirun=["sh"], rsh="kubexec", hostfile=str(hostfile), workers_timeout=timeout, rescale="replace",
        keep_outcome=False, end_workers=False,
    )  # fmt: skip
    module.Run(options, [], way, module.Restarts(0, 1), False).gather(0)


def test_progress_names_a_few_of_many(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = load("distrain-launch")
    assert (module.SECONDS_BETWEEN_REPORTS, module.SECONDS_BETWEEN_TRIES) == (10, 1)
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(module, "time", clock)
    nobody = SimpleNamespace(why_absent=lambda _: "no address yet", unfit={}, tries_at_once=32, place=" on port 2222")

    with pytest.raises(module.LaunchError):
        gather(module, [f"run1-worker-{index}.run1.team.svc" for index in range(7)], nobody, 15, tmp_path)

    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("distrain-launch: 10 s: waiting for 7 of 7 workers: run1-worker-0 (no address yet), ")
    assert line.endswith("run1-worker-4 (no address yet), and 2 more")


def test_port_that_refuses_or_is_not_sshd_is_no_worker(bench: Bench) -> None:
    with greeting_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        _, other = bench.run("exit 0", "--workers-timeout=0.1", f"--ssh-port={port}")
    _, refused = bench.run("exit 0", "--workers-timeout=0.1", f"--ssh-port={free_port()}")

    assert "localhost (what answers is not sshd)" in other
    assert "localhost (connection refused)" in refused


def test_sigterm_while_waiting_ends_at_once(bench: Bench) -> None:
    asked: list[bool] = []
    with greeting_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", count=lambda: asked.append(True)) as port:
        launcher = bench.start("exit 0", "--workers-timeout=600", f"--ssh-port={port}")
        wait_for(lambda: asked)

        launcher.terminate()

        assert launcher.wait(timeout=300) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


@pytest.mark.parametrize(
    ("hostfile", "words"),
    [
        pytest.param("", "hostfile: names no worker", id="empty"),
        pytest.param("host:4\n", "hostfile: expected lines of the form `host slots=number`", id="another-form"),
        pytest.param("host slots=four\n", "hostfile: expected lines of the form `host slots=number`", id="no-number"),
    ],
)
def test_hostfile_that_names_no_workers_is_reported(bench: Bench, hostfile: str, words: str) -> None:
    code, _ = bench.run(hostfile=hostfile)

    assert code == 1
    assert bench.cause.startswith("distrain: ")
    assert words in bench.cause


KUBEXEC = """\
#!/bin/sh
set -x
POD_NAME=$1
shift
{kubectl} exec ${{POD_NAME}} -- /bin/sh -c "$*"
"""


KUBEXEC_V1ALPHA2 = """\
#!/bin/sh
set -x
POD_NAME=$1
while [ ${{POD_NAME%${{POD_NAME#?}}}} = "-" ]
do
shift
POD_NAME=$1
done
shift
{kubectl} cp /opt/kube/hosts ${{POD_NAME}}:/etc/hosts_of_nodes
{kubectl} exec ${{POD_NAME}} -- /bin/sh -c "cat /etc/hosts_of_nodes >> /etc/hosts && $*"
"""


def kubexec(folder: Path, script: str, kubectl: str) -> str:
    """Write an operator's kubexec.sh with a fake kubectl. Return its path."""
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{kubectl}\n")
    program.chmod(0o755)
    path = folder / "kubexec.sh"
    path.write_text(script.format(kubectl=program))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "script", [pytest.param(KUBEXEC, id="v1"), pytest.param(KUBEXEC_V1ALPHA2, id="v1alpha2-not-as-root")]
)
def test_ranks_start_through_the_operators_kubexec(pod: Pod, script: str) -> None:
    path = kubexec(pod.folder, script, 'test "$1 $2 $3" = "exec run1-worker-0 --" || exit 1; shift 3; exec "$@"')
    options = ["--rsh=kubexec", f"--kubexec={path}"]
    rank = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, ssh: $OMPI_MCA_plm_rsh_args"'

    launcher = launch(
        pod, "--bind-to", "none", "--", "sh", "-c", rank, hostfile="run1-worker-0 slots=2\n", options=options
    )
    code, output = launcher.end()

    assert code == 0, output
    assert sorted(line for line in output.splitlines() if line.startswith("rank")) == [
        "rank 0 of 2, ssh: ",
        "rank 1 of 2, ssh: ",
    ]
    assert "hosts_of_nodes" not in output


def test_workers_that_kubectl_does_not_reach_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load("distrain-launch")
    workers = sys.modules[module.Kubexec.__module__]
    monkeypatch.setattr(workers, "SECONDS_FOR_KUBECTL", 5)
    kubectl = 'test $2 = a && exit 0; test $2 = b && sleep 67; echo "pods \\"$2\\" not found" >&2; exit 1'
    way = module.Kubexec(SimpleNamespace(kubexec=kubexec(tmp_path, KUBEXEC, kubectl)))

    with pytest.raises(module.LaunchError) as caught:
        gather(module, ["a", "b", "c"], way, 0.5, tmp_path)

    assert str(caught.value) == (
        "launcher.workersTimeout: 2 of 3 workers did not answer within 0.5 s: "
        'b (no answer), c (pods "c" not found); see why with kubectl describe pod'
    )
    # Killed processes end asynchronously.
    wait_for(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x0067" in read(path)])
