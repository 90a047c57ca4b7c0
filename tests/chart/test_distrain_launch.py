"""distrain-launch as a real process: with real workers and mpirun, and with an mpirun that does what a test needs."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.chart import pods
from tests.chart.pods import SCRIPTS, Pod, Running, load, wait_for

# mpirun starts ranks on its own host without ssh, and takes only 127.0.0.1 for its own host. One worker: two of Open
# MPI's daemons that share a /tmp, as two pods never do, now and then wait for each other for ever.
WORKER = "127.0.0.2 slots=3\n"
ENDED = "distrain: mpirun ended with exit code {}; this pod's log says why"


@pytest.fixture(scope="module")
def worker(pod: Pod) -> Iterator[Running]:
    worker = pod.start([pod.script("distrain-worker"), *pod.script_options()], FROM_POD="two\nlines")
    wait_for(lambda: pods.is_listening(pod.port))
    yield worker
    worker.kill()


def launch(pod: Pod, *arguments: str, hostfile: str = WORKER, options: Sequence[str] = ()) -> Running:
    """Start distrain-launch beside the workers; the arguments are mpirun's, then the program."""
    (pod.folder / "hostfile").write_text(hostfile)
    log = pod.folder / "termination-log"
    log.write_text("")
    log.chmod(0o666)
    files = [f"--hostfile={pod.folder}/hostfile", f"--termination-log={log}"]
    return pod.start([pod.script("distrain-launch"), *pod.script_options(), *files, *options, "mpirun", *arguments])


def cause(pod: Pod) -> str:
    return (pod.folder / "termination-log").read_text()


@pytest.mark.usefixtures("worker")
def test_every_slot_gets_a_rank_with_the_workers_environment(pod: Pod) -> None:
    script = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE: $FROM_POD"'

    code, output = launch(pod, "--bind-to", "none", "--", "sh", "-c", script).end()

    assert code == 0, output
    assert sorted(line for line in output.splitlines() if line.startswith("rank")) == [
        "rank 0 of 3: two",
        "rank 1 of 3: two",
        "rank 2 of 3: two",
    ]
    assert "distrain-launch: all 1 workers answer: " in output
    assert cause(pod) == ""


@pytest.mark.usefixtures("worker")
def test_mistake_that_a_rank_names_is_the_cause(pod: Pod) -> None:
    script = 'echo progress; echo "distrain: data.uri: bucket \\"digitz\\" does not exist" >&2; sleep 0.2; exit 2'

    code, output = launch(pod, "--bind-to", "none", "--tag-output", "--", "sh", "-c", script).end()

    assert code == 2, output
    assert cause(pod) == 'distrain: data.uri: bucket "digitz" does not exist'


@pytest.mark.usefixtures("worker")
def test_worker_with_another_host_key_is_refused(pod: Pod) -> None:
    with pods.make_pod() as other:
        # The key to get in is the same; only the host key that the launcher expects is another.
        for name in ("id_rsa", "authorized_keys"):
            other.key.with_name(name).write_bytes(pod.key.with_name(name).read_bytes())
        elsewhere = Pod(other.folder, pod.port)

        code, output = launch(elsewhere, "--", "echo", "ran").end()

    assert code != 0
    assert "Host key verification failed." in output
    assert "\nran\n" not in output


@pytest.mark.usefixtures("worker")
def test_sigterm_ends_the_ranks(pod: Pod) -> None:
    launcher = launch(
        pod, "--bind-to", "none", "--", "sh", "-c", f"touch {pod.folder}/tmp/begun; exec sleep 61.{pod.port}"
    )
    wait_for(lambda: (pod.folder / "tmp" / "begun").exists())

    launcher.terminate()
    code, output = launcher.end()

    assert code == 143, output
    assert cause(pod) == "distrain: stopped by SIGTERM"
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"\x0061.{pod.port}".encode() in read(path)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Bench:
    """distrain-launch without a cluster: a socket that greets as sshd does, and a script in mpirun's place."""

    folder: Path
    port: int

    def start(
        self, mpirun: str = "exit 0", *options: str, program: str = "program", **overrides: str
    ) -> subprocess.Popen[str]:
        defaults = {
            "hostfile": "localhost slots=4\n",
            "public_key": "ecdsa-sha2-nistp521 AAAA\n",
            "mode": "600",
            "pause": "5",
        }
        given = {**defaults, **overrides}
        (self.folder / "hostfile").write_text(given["hostfile"])
        (self.folder / "log").write_text("")
        (self.folder / "id_rsa").write_text("a private key\n")
        (self.folder / "id_rsa").chmod(int(given["mode"], base=8))
        (self.folder / "id_rsa.pub").write_text(given["public_key"])
        fake = self.folder / "mpirun"
        fake.write_text(f"#!/bin/sh\n{mpirun}\n")
        fake.chmod(0o755)
        own = [f"--ssh-port={self.port}", f"--ssh-folder={self.folder}", f"--hostfile={self.folder}/hostfile"]
        script = self.folder / "distrain-launch"
        pause = "SECONDS_BEFORE_RETRY = "
        script.write_text((SCRIPTS / script.name).read_text().replace(pause + "5", pause + given["pause"]))
        command = [sys.executable, script, *own, f"--termination-log={self.folder}/log", *options]
        return subprocess.Popen(
            [*command, given.get("path_of_mpirun", str(fake)), "--flag", "--", program],
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, mpirun: str = "exit 0", *options: str, **overrides: str) -> tuple[int, str]:
        process = self.start(mpirun, *options, **overrides)
        output, _ = process.communicate(timeout=20)
        return process.returncode, output

    @property
    def cause(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with greeting_server(b"SSH-2.0-test\r\n") as port:
        yield Bench(tmp_path, port)


@contextlib.contextmanager
def greeting_server(greeting: bytes) -> Iterator[int]:
    """Yield a port on which every caller gets this greeting."""

    def greet() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(greeting)
                    connection.recv(256)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_mpirun_gets_its_arguments_and_the_sum_of_the_slots(bench: Bench) -> None:
    code, output = bench.run('echo "got: $*"', hostfile="localhost slots=4\n127.0.0.1 slots=3\n")

    assert code == 0
    assert "got: -np 7 --flag program\n" in output


def test_ssh_trusts_the_jobs_key_alone(bench: Bench) -> None:
    _, output = bench.run('echo "$OMPI_MCA_plm_rsh_args"; echo "$PRTE_MCA_plm_ssh_args"')

    four, five = output.splitlines()[-2:]
    assert four == five
    assert {"StrictHostKeyChecking=yes", "HostKeyAlias=distrain", f"{bench.folder}/id_rsa"} <= set(four.split())
    (known_hosts,) = re.findall(r" UserKnownHostsFile=(\S+)", four)
    assert Path(known_hosts).read_text() == "distrain ecdsa-sha2-nistp521 AAAA\n"


@pytest.mark.parametrize(
    ("mpirun", "code", "cause"),
    [
        pytest.param("exit 0", 0, "", id="success"),
        pytest.param("echo 'distrain: a: b'; exit 0", 0, "", id="success-whatever-was-said"),
        pytest.param("exit 3", 3, ENDED.format(3), id="nothing-said"),
        pytest.param("kill -9 $$", 137, ENDED.format(137), id="killed"),
        pytest.param(
            "echo 'distrain: a: b' >&2; echo 'distrain: c: d'; exit 2", 2, "distrain: a: b", id="first-of-two"
        ),
        pytest.param("echo '[1,0]<stderr>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="tag-output"),
        pytest.param("echo 'Sat Nov 21 07:04:59<stdout>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="timestamp"),
        pytest.param("echo 'Sat Nov 21[1,0]<stderr>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="both"),
        pytest.param("echo '[prterun-x@1,1]<stderr>: distrain: a: b'; exit 2", 2, "distrain: a: b", id="open-mpi-5"),
        pytest.param("printf 'distrain: a: b'; exit 2", 2, "distrain: a: b", id="unfinished-line"),
        pytest.param("printf dis; sleep 0.3; echo 'train: a: b'; exit 2", 2, "distrain: a: b", id="line-in-two-parts"),
        pytest.param("printf '50%%\\r\\ndistrain: a: b\\r\\n'; exit 2", 2, "distrain: a: b", id="after-a-progress-bar"),
        pytest.param("echo 'I said distrain: a: b'; exit 2", 2, ENDED.format(2), id="inside-a-line"),
    ],
)
def test_one_line_says_the_cause(bench: Bench, mpirun: str, code: int, cause: str) -> None:
    ended, output = bench.run(mpirun)

    assert (ended, bench.cause) == (code, cause), output


def test_very_long_cause_is_cut(bench: Bench) -> None:
    bench.run("printf 'distrain: '; head -c 100000 /dev/zero | tr '\\0' x; exit 2")

    # Kubernetes takes 4096 bytes.
    assert bench.cause == "distrain: " + 2000 * "x"


def test_missing_termination_log_is_not_made(bench: Bench) -> None:
    code, output = bench.run("exit 3", f"--termination-log={bench.folder}/none")

    assert code == 3
    assert "distrain: mpirun ended with exit code 3" in output
    assert not (bench.folder / "none").exists()


def test_output_is_passed_on_before_its_line_ends(bench: Bench) -> None:
    launcher = bench.start("printf 50%%; sleep 5")
    assert launcher.stdout is not None
    started = time.monotonic()
    seen = ""
    while "50%" not in seen.partition("answer")[2].partition("\n")[2]:
        more = launcher.stdout.read(1)
        assert more, seen
        seen += more

    assert time.monotonic() - started < 4
    launcher.terminate()
    assert launcher.wait(timeout=10) == 143


def test_process_that_mpirun_leaves_behind_holds_nothing_up(bench: Bench) -> None:
    started = time.monotonic()

    code, _ = bench.run("sleep 9 & exit 3")

    assert code == 3
    assert time.monotonic() - started < 5


def test_missing_workers_are_named(bench: Bench) -> None:
    # The greeting comes from 127.0.0.1 alone.
    code, output = bench.run("exit 0", "--workers-timeout=0.5", hostfile="127.0.0.1 slots=1\n127.0.0.9 slots=1\n")

    assert code == 1
    assert bench.cause == (
        f"distrain: launcher.workersTimeout: 1 of 2 workers did not answer on port {bench.port} within 0.5 s: "
        "127.0.0.9 (connection refused); see why with kubectl describe pod"
    ), output


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(socket.gaierror(-2, "Name or service not known"), "no address yet", id="no-name"),
        pytest.param(TimeoutError("timed out"), "no answer", id="no-answer"),
        pytest.param(OSError(113, "No route to host"), "no route to host", id="other"),
    ],
)
def test_reason_is_in_plain_words(monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    module = load("distrain-launch")
    monkeypatch.setattr(module.socket, "create_connection", fail)
    monkeypatch.setattr(module, "ssh_arguments", lambda *_: "")
    ssh = module.Ssh(SimpleNamespace(ssh_port=2222, ssh_folder="/nowhere"))

    assert ssh.why_no_answer("host") == reason


def test_progress_names_a_few_of_many(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = load("distrain-launch")
    assert (module.SECONDS_BETWEEN_REPORTS, module.SECONDS_BETWEEN_TRIES) == (10, 1)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_REPORTS", 0.5)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_TRIES", 0.1)
    nobody = SimpleNamespace(why_no_answer=lambda _: "no address yet", tries_at_once=32, place=" on port 2222")
    hosts = [f"run1-worker-{index}.run1.team.svc" for index in range(7)]

    with pytest.raises(module.LaunchError):
        module.wait_for_workers(hosts, nobody, 0.9)

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("distrain-launch: 1 s: waiting for 7 of 7 workers: run1-worker-0 (no address yet), ")
    assert line.endswith("run1-worker-4 (no address yet), and 2 more")


def test_port_that_refuses_or_is_not_sshd_is_no_worker(bench: Bench) -> None:
    with greeting_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        _, other = bench.run("exit 0", "--workers-timeout=0.1", f"--ssh-port={port}")
    _, refused = bench.run("exit 0", "--workers-timeout=0.1", f"--ssh-port={pods.free_port()}")

    assert "localhost (what answers is not sshd)" in other
    assert "localhost (connection refused)" in refused


def test_sigterm_while_waiting_ends_at_once(bench: Bench) -> None:
    launcher = bench.start("exit 0", hostfile="127.0.0.9 slots=1\n")
    time.sleep(1)
    started = time.monotonic()

    launcher.terminate()

    assert launcher.wait(timeout=10) == 143
    assert time.monotonic() - started < 2
    assert bench.cause == "distrain: stopped by SIGTERM"


@pytest.mark.parametrize(
    ("hostfile", "words"),
    [
        pytest.param("", "hostfile: names no worker", id="empty"),
        pytest.param("host:4\n", "hostfile: expected lines of the form `host slots=number`", id="another-form"),
        pytest.param("host slots=four\n", "hostfile: expected lines of the form `host slots=number`", id="no-number"),
    ],
)
def test_hostfile_that_names_no_workers_is_said(bench: Bench, hostfile: str, words: str) -> None:
    code, _ = bench.run(hostfile=hostfile)

    assert code == 1
    assert bench.cause.startswith("distrain: ")
    assert words in bench.cause


@pytest.mark.parametrize(
    ("option", "words"),
    [
        pytest.param(
            "--hostfile=/none", "/none: No such file or directory; it is mounted into the launcher of", id="hostfile"
        ),
        pytest.param(
            "--ssh-folder=/none", "/none/id_rsa.pub: No such file or directory; the job's SSH key is mounted", id="key"
        ),
        pytest.param(
            "--rsh=kubexec",
            "/etc/mpi/kubexec.sh: No such file or directory; the operator mounts it into the launcher of an MPIJob v1 ",
            id="kubexec",
        ),
    ],
)
def test_what_should_have_been_mounted_is_said(bench: Bench, option: str, words: str) -> None:
    code, _ = bench.run("exit 0", option)

    assert code == 1
    assert words in bench.cause


def test_image_without_mpirun_is_said_before_waiting(bench: Bench) -> None:
    launcher = bench.start(hostfile="127.0.0.9 slots=1\n", path_of_mpirun="no-mpirun")

    assert launcher.wait(timeout=10) == 1
    assert bench.cause == "distrain: image.repository: the image has no no-mpirun; use one with Open MPI and OpenSSH"


@pytest.mark.parametrize("arguments", [[], ["mpirun"], ["mpirun", "--"], ["--", "program"]])
def test_incomplete_command_line_is_refused(arguments: list[str]) -> None:
    command = [sys.executable, SCRIPTS / "distrain-launch", *arguments]

    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    assert done.returncode == 2
    assert "needs mpirun, and a program after --" in done.stderr


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
    """Lay out an operator's kubexec.sh with a kubectl of our own. Return its path."""
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
    monkeypatch.setattr(module, "SECONDS_FOR_KUBECTL", 5)
    kubectl = 'test $2 = a && exit 0; test $2 = b && sleep 67; echo "pods \\"$2\\" not found" >&2; exit 1'
    way = module.Kubexec(SimpleNamespace(kubexec=kubexec(tmp_path, KUBEXEC, kubectl)))

    with pytest.raises(module.LaunchError) as caught:
        module.wait_for_workers(["a", "b", "c"], way, 0.5)

    assert str(caught.value) == (
        "launcher.workersTimeout: 2 of 3 workers did not answer within 0.5 s: "
        'b (no answer), c (pods "c" not found); see why with kubectl describe pod'
    )
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x0067" in read(path)]


def test_failed_mpirun_is_started_again_as_often_as_allowed(bench: Bench) -> None:
    mpirun = f"echo x >>{bench.folder}/tries; test $(wc -l <{bench.folder}/tries) = 3 || exit 5"

    code, output = bench.run(mpirun, "--retries=2", pause="0")

    assert code == 0, output
    assert bench.cause == ""
    said = [line for line in output.splitlines() if "starting again" in line]
    assert said == [
        f"distrain-launch: exit code 5 ({ENDED.format(5)[10:]}); starting again in 0 s, 2 tries left",
        f"distrain-launch: exit code 5 ({ENDED.format(5)[10:]}); starting again in 0 s, the last try",
    ]


def test_last_failure_is_the_cause(bench: Bench) -> None:
    mpirun = f'echo x >>{bench.folder}/tries; echo "distrain: try $(wc -l <{bench.folder}/tries)"; exit 5'

    code, output = bench.run(mpirun, "--retries=1", pause="0")

    assert (code, bench.cause) == (5, "distrain: try 2"), output


def test_sigterm_between_two_tries_ends_at_once(bench: Bench) -> None:
    launcher = bench.start("exit 5", "--retries=9")
    assert launcher.stdout is not None
    while "starting again in 5 s" not in launcher.stdout.readline():
        pass

    launcher.terminate()

    assert launcher.wait(timeout=4) == 143
    assert bench.cause == "distrain: stopped by SIGTERM"


@pytest.fixture
def ending_worker() -> Iterator[tuple[Pod, Running]]:
    """A worker that a test may end."""
    with pods.make_pod() as pod:
        worker = pod.start([pod.script("distrain-worker"), *pod.script_options()])
        wait_for(lambda: pods.is_listening(pod.port))
        yield pod, worker
        worker.kill()


needs_process_1 = pytest.mark.skipif(not pods.IS_ROOT, reason="needs root, for a process namespace")


@needs_process_1
@pytest.mark.parametrize(
    ("program", "code_of_worker"),
    [pytest.param("true", 0, id="success"), pytest.param("exit 7", 3, id="failure")],
)
def test_workers_end_with_the_outcome(ending_worker: tuple[Pod, Running], program: str, code_of_worker: int) -> None:
    pod, worker = ending_worker
    arguments = ["--bind-to", "none", "--", "sh", "-c", program]

    code, output = launch(pod, *arguments, hostfile="127.0.0.2 slots=1\n", options=["--end-workers"]).end()

    assert code == (7 if code_of_worker else 0), output
    assert worker.end()[0] == code_of_worker
    assert "could not be told" not in output


@needs_process_1
def test_workers_that_answered_end_when_others_never_come(ending_worker: tuple[Pod, Running]) -> None:
    pod, worker = ending_worker
    shorten(pod, "SECONDS_TO_END_WORKERS = 30", "SECONDS_TO_END_WORKERS = 3")
    options = ["--end-workers", "--workers-timeout=0.5"]
    # Nobody listens beyond this machine.
    hosts = "127.0.0.2 slots=1\nrun1-worker-9.invalid slots=1\n"

    code, output = launch(pod, "--", "true", hostfile=hosts, options=options).end()

    assert code == 1
    assert cause(pod).startswith("distrain: launcher.workersTimeout: 1 of 2 workers did not answer")
    assert re.search(r"1 of 2 workers could not be told to end: run1-worker-9\.invalid \(.*\); delete", output)
    assert worker.end()[0] == 3


@needs_process_1
def test_stopped_launcher_leaves_the_workers_to_the_next(ending_worker: tuple[Pod, Running]) -> None:
    pod, worker = ending_worker
    begun = pod.folder / "tmp" / "begun"
    arguments = ["--bind-to", "none", "--", "sh", "-c", f"touch {begun}; exec sleep 60"]
    options = ["--end-workers", "--retries=3"]
    launcher = launch(pod, *arguments, hostfile="127.0.0.2 slots=1\n", options=options)
    wait_for(begun.exists)

    launcher.terminate()

    assert launcher.end()[0] == 143
    assert cause(pod) == "distrain: stopped by SIGTERM"
    time.sleep(1.5)
    assert worker.process.poll() is None


def shorten(pod: Pod, line: str, shorter: str) -> None:
    script = Path(pod.script("distrain-launch"))
    text = script.read_text()
    assert text.count(line) == 1
    script.write_text(text.replace(line, shorter))


@pytest.mark.skipif(not pods.IS_ROOT, reason="needs root")
def test_root_may_run_mpirun_and_uses_a_key_that_its_group_may_read(bench: Bench) -> None:
    variables = 'echo "root: $OMPI_ALLOW_RUN_AS_ROOT $OMPI_ALLOW_RUN_AS_ROOT_CONFIRM $PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"'
    _, own = bench.run(f'{variables}; echo "$OMPI_MCA_plm_rsh_args"')
    assert "root: 1 1 1\n" in own
    assert f" -i {bench.folder}/id_rsa " in own

    _, copied = bench.run('echo "$OMPI_MCA_plm_rsh_args"', mode="640")

    (copy,) = (Path(path) for path in re.findall(r" -i (\S+) ", copied.splitlines()[-1]))
    assert copy.parent != bench.folder
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("a private key\n", 0o600)


def test_end_of_workers_needs_ssh() -> None:
    command = [sys.executable, SCRIPTS / "distrain-launch", "--rsh=kubexec", "--end-workers", "mpirun", "--", "x"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    assert done.returncode == 2
    assert "--end-workers needs --rsh=ssh" in done.stderr


@needs_process_1
def test_root_in_an_image_made_for_root_trains() -> None:
    with pods.make_pod(uid=0) as pod:
        worker = pod.start([pod.script("distrain-worker"), *pod.script_options()], FROM_POD="root's")
        wait_for(lambda: pods.is_listening(pod.port))
        rank = 'echo "rank $OMPI_COMM_WORLD_RANK: $(id -u) $FROM_POD $PRTE_ALLOW_RUN_AS_ROOT"'

        arguments = ["--bind-to", "none", "--", "sh", "-c", rank]
        code, output = launch(pod, *arguments, hostfile="127.0.0.2 slots=2\n", options=["--end-workers"]).end()

        assert code == 0, output
        assert {"rank 0: 0 root's 1", "rank 1: 0 root's 1"} <= set(output.splitlines())
        assert worker.end()[0] == 0
