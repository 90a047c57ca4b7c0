"""Start distrain-launch in tests, with real workers and mpirun, or with fakes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chart.scripts import pods
from tests.chart.scripts.pods import Pod, Running

# On its own host, mpirun starts ranks without ssh. mpirun recognizes only 127.0.0.1 as its own host, so this worker has
# another address. The tests start only one real worker, because two Open MPI daemons that share /tmp sometimes wait for
# each other forever. Real pods do not share /tmp, so this does not happen in a cluster.
WORKER = "127.0.0.2 slots=3\n"
ENDED = "distrain: mpirun ended with exit code {}; this pod's log says why"


def launch(pod: Pod, *arguments: str, hostfile: str = WORKER, options: Sequence[str] = ()) -> Running:
    """Start distrain-launch on the machine on which the workers run.

    `arguments` are mpirun's arguments, followed by the program.
    """
    (pod.folder / "hostfile").write_text(hostfile)
    log = pod.folder / "termination-log"
    log.write_text("")
    log.chmod(0o666)
    files = [f"--hostfile={pod.folder}/hostfile", f"--termination-log={log}"]
    return pod.start([pod.script("distrain-launch"), *pod.script_options(), *files, *options, "mpirun", *arguments])


def cause(pod: Pod) -> str:
    return (pod.folder / "termination-log").read_text()


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


# SHORTER replaces waiting times in the scripts by shorter ones.
SHORTER = {
    "SECONDS_BETWEEN_LOOKS = 2": 0.05,
    "SECONDS_BETWEEN_TRIES = 1": 0.05,
    "SECONDS_TO_COME_BACK = 3": 0.5,
    "LONGEST_PAUSE = 10": 0,
    "SECONDS_BETWEEN_CHECKS = 10": 0.1,
    "SECONDS_OF_SILENCE = 30": 1.0,
    "SECONDS_TO_ANSWER = 3": 2.0,
}
REPLACED = (
    *((f"\n{line}\n", f"\n{line.partition(' = ')[0]} = {seconds}\n") for line, seconds in SHORTER.items()),
    ('CGROUP = "/sys/fs/cgroup"', 'CGROUP = "cgroup"'),  # The scripts read this folder instead of the cgroup of a pod.
)
# A fake mpirun. The fake ranks stop at a step boundary when the file `stop` exists, and finish when the test creates
# the file `finish`.
TRAINING = """
rm -f stop
echo "training on $2"
while :; do
    test -e stop && rm stop && exit 143
    test -e finish && exit 0
    sleep 0.02
done
"""
# A fake ssh that records each worker's commands. When the fake ssh gets the command that sends SIGHUP, the fake mpirun
# stops, as the real ranks would. SIGUSR1 and SIGUSR2 would end a real worker, and reach nobody here.
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
echo "$1: $2" >>told
case "$2" in
    "kill -HUP 1") touch stop ;;
    "kill -USR"*) ;;
    *) TMPDIR="$PWD/worker" sh -c "$2" ;;
esac
"""


@dataclass(frozen=True)
class Bench:
    """A folder for running distrain-launch without a cluster.

    Sockets greet like sshd, and scripts replace mpirun and ssh.
    """

    folder: Path
    port: int
    output: int = subprocess.PIPE

    def start(
        self, mpirun: str = "exit 0", *options: str, program: str = "program", **overrides: str
    ) -> subprocess.Popen[str]:
        defaults = {"hostfile": "localhost slots=4\n", "public_key": "ecdsa-sha2-nistp521 AAAA\n", "mode": "600"}
        given = {**defaults, **overrides}
        self.write_hostfile(given["hostfile"])
        (self.folder / "log").write_text("")
        (self.folder / "id_rsa").write_text("a private key\n")
        (self.folder / "id_rsa").chmod(int(given["mode"], base=8))
        (self.folder / "id_rsa.pub").write_text(given["public_key"])
        (self.folder / "worker").mkdir(exist_ok=True)
        fake = self.put_program("mpirun", f"#!/bin/sh\n{mpirun}\n")
        self.put_program("ssh", SSH)
        own = [f"--ssh-port={self.port}", f"--ssh-folder={self.folder}", f"--hostfile={self.folder}/hostfile"]
        script = f"{pods.changed_scripts(*REPLACED).name}/distrain-launch"
        command = [sys.executable, script, *own, f"--termination-log={self.folder}/log"]
        return subprocess.Popen(
            [*command, *options, given.get("path_of_mpirun", str(fake)), "--flag", "--", program],
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder), "PATH": f"{self.folder}:{os.environ['PATH']}"},
            stdout=self.output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, mpirun: str = "exit 0", *options: str, **overrides: str) -> tuple[int, str]:
        process = self.start(mpirun, *options, **overrides)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def put_program(self, name: str, text: str) -> Path:
        # Linux forbids writing to a program file that is being executed, so write a new file and rename it.
        new = self.folder / f"new-{name}"
        new.write_text(text)
        new.chmod(0o755)
        return new.replace(self.folder / name)

    def write_hostfile(self, text: str) -> None:
        """Replace the hostfile atomically, as kubelet does."""
        new = self.folder / "hostfile.new"
        new.write_text(text)
        new.replace(self.folder / "hostfile")

    @property
    def cause(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def told(self) -> list[str]:
        """Return the commands that the workers have received, as "host: command"."""
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []


@contextlib.contextmanager
def greeting_server(
    greeting: bytes, address: str = "127.0.0.1", port: int = 0, count: Callable[[], object] = lambda: None
) -> Iterator[int]:
    """Start a server that sends this greeting to every client and calls `count` for each client.

    Yield the server's port.
    """

    def greet() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                # The server was shut down.
                return
            count()
            # If the launcher is killed, its end resets the connection.
            with connection, contextlib.suppress(OSError):
                connection.sendall(greeting)
                connection.recv(256)

    with socket.create_server((address, port)) as server:
        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def follow(process: subprocess.Popen[str], words: str) -> str:
    """Read a program's output up to a line that contains these words.

    Return all lines that were read, including the line with these words.
    """
    assert process.stdout is not None
    seen = ""
    timer = threading.Timer(60, end_with_children, [process])
    timer.start()
    try:
        for line in process.stdout:
            seen += line
            if words in line:
                return seen
    finally:
        timer.cancel()
    raise AssertionError(f"no line has {words!r}:\n{seen}")


def end_with_children(process: subprocess.Popen[str]) -> None:
    # Kill the parent first, because the parent would restart a killed child.
    for pid in (process.pid, *pods.children(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
