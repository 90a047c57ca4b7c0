"""Test distrain-launch as a real process, with real workers and mpirun, or with a fake mpirun."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.scripts import pods
from tests.chart.scripts.launching import ENDED, TRAINING, Bench, cause, end_with_children, launch, read
from tests.chart.scripts.pods import SCRIPTS, Pod, Running, wait_for

FULL = pytest.mark.full


@pytest.fixture(scope="module")
def worker(pod: Pod) -> Iterator[Running]:
    worker = pod.start([pod.script("distrain-worker"), *pod.script_options()], FROM_POD="two\nlines")
    wait_for(lambda: pods.is_listening(pod.port))
    yield worker
    worker.kill()


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
@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(["no-such-program"], "no-such-program: No such file or directory", id="not-found"),
        pytest.param(["./readable"], "./readable: not found, or not executable", id="not-executable", marks=FULL),
        pytest.param(["./alien"], "./alien: Exec format error; it is for another kind of processor, ", id="alien"),
        pytest.param(["sh", "-c", "no-such-program"], "sh: 1: no-such-program: not found", id="in-a-shell"),
        pytest.param(
            ["python3 train.py"],
            '"python3 train.py" is one string with spaces, and no program has this name',
            id="word",
            marks=FULL,
        ),
    ],
)
def test_program_that_mpirun_cannot_start_ends_the_run_at_once(pod: Pod, command: list[str], words: str) -> None:
    for name, mode in (("readable", 0o644), ("alien", 0o755)):
        (pod.folder / name).write_bytes(b"\x7fELF of another processor")
        (pod.folder / name).chmod(mode)

    # One rank: a shell writes its message in two parts, and several ranks mix theirs.
    hostfile = "127.0.0.2 slots=1\n"
    arguments = ["--bind-to", "none", "--", *command]
    code, output = launch(pod, *arguments, hostfile=hostfile, options=["--max-restarts=9"]).end()

    assert code == 2, output
    assert cause(pod).startswith(f"distrain: command: {words}")
    assert "starting again" not in output


@pytest.mark.usefixtures("worker")
def test_worker_with_another_host_key_is_refused(pod: Pod) -> None:
    with pods.make_pod() as other:
        # `other` has the same client key as the worker, but another host key. The launcher expects the host key of
        # `other`.
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
        pod, "--bind-to", "none", "--", "sh", "-c", f"touch {pod.folder}/tmp/begun; exec sleep 1061.{pod.port}"
    )
    wait_for(lambda: (pod.folder / "tmp" / "begun").exists())

    launcher.terminate()
    code, output = launcher.end()

    assert code == 143, output
    # SIGTERM ends the program `sleep` without saving anything.
    assert re.fullmatch(r"distrain: stopped by SIGTERM; rank [0-2] was ended by signal 15", cause(pod))
    # Killed processes end asynchronously.
    rank = f"\x001061.{pod.port}".encode()
    wait_for(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline") if rank in read(path)])


def test_mpirun_gets_its_arguments_and_the_sum_of_the_slots(bench: Bench) -> None:
    code, output = bench.run('echo "got: $*"', hostfile="localhost slots=4\n127.0.0.1 slots=3\n")

    assert code == 0
    assert "got: -np 7 --flag program\n" in output


def test_rank_that_waits_gives_way_unless_the_user_wants_it_otherwise(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = bench.run('echo "gives way: $OMPI_MCA_mpi_yield_when_idle"')
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "0")
    _, wanted = bench.run('echo "gives way: $OMPI_MCA_mpi_yield_when_idle"')

    assert "gives way: 1\n" in given
    assert "gives way: 0\n" in wanted


def test_ssh_trusts_the_jobs_key_alone(bench: Bench) -> None:
    _, output = bench.run('echo "$OMPI_MCA_plm_rsh_args"; echo "$PRTE_MCA_plm_ssh_args"')

    four, five = output.splitlines()[-2:]
    assert four == five
    assert {"StrictHostKeyChecking=yes", "HostKeyAlias=distrain", f"{bench.folder}/id_rsa"} <= set(four.split())
    (known_hosts,) = re.findall(r" UserKnownHostsFile=(\S+)", four)
    assert Path(known_hosts).read_text() == "distrain ecdsa-sha2-nistp521 AAAA\n"


KILLED = "distrain: {} was killed by signal 9, as when memory runs out; see workers.memory"


@pytest.mark.parametrize(
    ("mpirun", "code", "cause"),
    [
        pytest.param("exit 0", 0, "", id="success"),
        pytest.param("echo 'distrain: a: b'; exit 0", 0, "", id="success-whatever-was-said", marks=FULL),
        pytest.param("exit 3", 3, ENDED.format(3), id="nothing-said"),
        pytest.param("kill -9 $$", 1, KILLED.format("mpirun"), id="killed"),
        pytest.param("exit 137", 1, KILLED.format("a rank"), id="a-rank-in-a-shell-killed", marks=FULL),
        pytest.param(
            "echo 'mpirun noticed that process rank 3 with PID 12 on node run1-worker-1 exited on signal 9 (Killed).'; "
            "exit 137",
            1,
            KILLED.format("rank 3 on run1-worker-1"),
            id="a-rank-killed",
        ),
        pytest.param(
            "echo 'prterun noticed that process rank 3 with PID 12 on node run1-worker-1.run1.team.svc exited on "
            "signal 9 (Killed).'; exit 137",
            1,
            KILLED.format("rank 3 on run1-worker-1"),
            id="a-rank-of-open-mpi-5-killed",
        ),
        pytest.param(
            "mkdir -p cgroup; echo oom_kill 0 >cgroup/memory.events; exit 137",
            1,
            KILLED.format("a rank"),
            id="killed-elsewhere",
        ),
        pytest.param(
            "echo 'distrain: a: b' >&2; echo 'distrain: c: d'; exit 2", 2, "distrain: a: b", id="first-of-two"
        ),
        pytest.param("echo '[1,0]<stderr>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="tag-output"),
        pytest.param(
            "echo 'Sat Nov 21 07:04:59<stdout>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="timestamp", marks=FULL
        ),
        pytest.param(
            "echo 'Sat Nov 21[1,0]<stderr>:distrain: a: b'; exit 2", 2, "distrain: a: b", id="both", marks=FULL
        ),
        pytest.param(
            "echo '[prterun-x@1,1]<stderr>: distrain: a: b'; exit 2", 2, "distrain: a: b", id="open-mpi-5", marks=FULL
        ),
        pytest.param("printf 'distrain: a: b'; exit 2", 2, "distrain: a: b", id="unfinished-line", marks=FULL),
        pytest.param("printf dis; sleep 0.3; echo 'train: a: b'; exit 2", 2, "distrain: a: b", id="line-in-two-parts"),
        pytest.param(
            "printf '50%%\\r\\ndistrain: a: b\\r\\n'; exit 2",
            2,
            "distrain: a: b",
            id="after-a-progress-bar",
            marks=FULL,
        ),
        pytest.param("echo 'I said distrain: a: b'; exit 2", 2, ENDED.format(2), id="inside-a-line"),
    ],
)
def test_one_line_says_the_cause(bench: Bench, mpirun: str, code: int, cause: str) -> None:
    ended, output = bench.run(mpirun)

    assert (ended, bench.cause) == (code, cause), output


def test_very_long_cause_is_cut(bench: Bench) -> None:
    bench.run("printf 'distrain: '; head -c 100000 /dev/zero | tr '\\0' x; exit 2")

    # Kubernetes truncates the message at 4096 bytes.
    assert bench.cause == "distrain: " + 2000 * "x"


def test_missing_termination_log_is_not_made(bench: Bench) -> None:
    code, output = bench.run("exit 3", f"--termination-log={bench.folder}/none")

    assert code == 3
    assert "distrain: mpirun ended with exit code 3" in output
    assert not (bench.folder / "none").exists()


def test_output_is_passed_on_before_its_line_ends(bench: Bench) -> None:
    launcher = bench.start(f"printf 50%%; {TRAINING}")
    assert launcher.stdout is not None
    timer = threading.Timer(60, end_with_children, [launcher])
    timer.start()
    seen = ""
    try:
        while "50%" not in seen.partition("answer")[2].partition("\n")[2]:
            more = launcher.stdout.read(1)
            assert more, seen
            seen += more
    finally:
        timer.cancel()

    launcher.terminate()
    assert launcher.wait(timeout=300) == 143


def test_process_that_mpirun_leaves_behind_holds_nothing_up(bench: Bench) -> None:
    code, _ = bench.run("sleep 600 & exit 3")

    assert code == 3


def test_image_without_mpirun_is_reported_before_waiting(bench: Bench) -> None:
    launcher = bench.start(hostfile="127.0.0.9 slots=1\n", path_of_mpirun="no-mpirun")

    assert launcher.wait(timeout=300) == 1
    assert bench.cause == "distrain: image.repository: the image has no no-mpirun; use one with Open MPI and OpenSSH"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        pytest.param(
            "--hostfile=/none",
            "/none: No such file or directory; it should be mounted into the launcher of",
            id="hostfile",
        ),
        pytest.param(
            "--ssh-folder=/none",
            "/none/id_rsa.pub: No such file or directory; the job's SSH key should be mounted",
            id="key",
        ),
        pytest.param(
            "--rsh=kubexec",
            "/etc/mpi/kubexec.sh: No such file or directory; the operator should mount this file "
            "into the launcher of an MPIJob v1 ",
            id="kubexec",
        ),
    ],
)
def test_missing_mount_is_reported(bench: Bench, option: str, words: str) -> None:
    code, _ = bench.run("exit 0", option)

    assert code == 1
    assert words in bench.cause


@pytest.mark.parametrize("arguments", [[], ["mpirun"], ["mpirun", "--"], ["--", "program"]])
def test_incomplete_command_line_is_refused(arguments: list[str]) -> None:
    command = [sys.executable, str(SCRIPTS / "distrain-launch"), *arguments]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert "needs mpirun, and a program after --" in done.stderr


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
    command = [sys.executable, str(SCRIPTS / "distrain-launch"), "--rsh=kubexec", "--end-workers", "mpirun", "--", "x"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert "--end-workers needs --rsh=ssh" in done.stderr
