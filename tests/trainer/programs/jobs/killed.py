"""Runs inside the image: run a training to its end, and kill its processes one after another.

    python3 killed.py PLAN RANKS COMMAND...

PLAN is a JSON list with an entry [victim, lines, share] for each kill. When the log has shown `lines` steps since the
last start, the program waits `share` times 0.15 s, and then kills the victim. If `lines` is 0, the program kills the
victim while the training restarts. This kill comes `share` times the expected restart time after the previous kill.

Killed processes are restarted in the same way as in the pods. A rank (`rank N`) is restarted by torchrun, or by
distrain-launch through the sshd of a worker. If the victim is `torchrun`, all processes of its container are killed,
torchrun included, and torchrun is started again. The processes of an MXJob or TFJob (`scheduler 0`, `server 0`, `worker
1`, `chief 0`, `ps 0`) are restarted by distrain-run.

The program prints the output of all starts. The last line begins with `chaos: ` and contains the outcome of each kill.
The exit code is that of the last start.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

SCRIPTS = Path("/opt/distrain/bin")
# This environment variable marks the processes of this run, because /proc also contains processes of other tests.
MARK = f"CHAOS={uuid.uuid4()}"
STEP = re.compile(r"(\d+)\timages/sec: ([\d.]+)")
RESUMED = re.compile(r"resumed from \S+: step (\d+),")
HEADER = "Step\tImg/sec"
SECONDS_AFTER_LINE = 0.15
# A restart is expected to take this part of the time that the first start took. The first start takes longer than a
# restart.
PART_OF_START = 0.7


@dataclass
class Kill:
    """A planned kill and its outcome.

    `after_checkpoint` is True if HEAD named a checkpoint before the kill, and always False if the checkpoints are in
    S3. `seconds_to_step` is the time from the kill to the next step, or None if another kill came before that step.
    """

    victim: str
    lines: int
    share: float
    at: float = 0.0
    after_checkpoint: bool = False
    last_step: int = 0
    step_seconds: float = 0.0
    resumed_step: int | None = None
    seconds_to_step: float | None = None


class Chaos:
    def __init__(self, plan: list[tuple[str, int, float]], batch_size: int, checkpoints: Path) -> None:
        self.left = [Kill(*each) for each in plan]
        self.done: list[Kill] = []
        self.batch_size = batch_size
        self.checkpoints = checkpoints
        self.begun = time.monotonic()
        self.cold_start = 0.0
        self.step, self.step_seconds, self.lines = 0, 0.0, 0
        self.trains = self.is_armed = self.is_over = False
        self.dead: set[int] = set()

    def hear(self, line: str) -> None:
        """Process a line of the log. If the next kill is due, start its timer.

        Other processes print too, so the trainer's output may begin in the middle of a line.
        """
        if HEADER in line:
            self.trains = True
        elif resumed := RESUMED.search(line):
            if self.done:
                self.done[-1].resumed_step = int(resumed[1])
        elif self.trains and (found := STEP.match(line)):
            self.step, self.step_seconds = int(found[1]), self.batch_size / float(found[2])
            self.lines += 1
            self._count_seconds()
            if self.left and not self.is_armed and 0 < self.left[0].lines <= self.lines:
                self._arm(SECONDS_AFTER_LINE * self.left[0].share)

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.cold_start = self.cold_start or now - self.begun
        if self.done and self.done[-1].seconds_to_step is None:
            self.done[-1].seconds_to_step = now - self.done[-1].at

    def _arm(self, seconds: float) -> None:
        self.is_armed = True
        timer = threading.Timer(seconds, self._kill, [self.left.pop(0)])
        timer.daemon = True
        timer.start()

    def _kill(self, kill: Kill) -> None:
        processes = victims(kill.victim, self.dead)
        while not processes and not self.is_over:
            time.sleep(0.02)
            processes = victims(kill.victim, self.dead)
        if self.is_over:
            return
        # These processes die together with the victim, so the next kill must not choose one of them.
        self.dead |= {pid for name, pids in marked().items() if name != "torchrun" for pid in pids}
        kill.after_checkpoint = self._has_checkpoint()
        for pid in processes:
            send_kill(pid)
        kill.at, kill.last_step, kill.step_seconds = time.monotonic(), self.step, self.step_seconds
        self.done.append(kill)
        self.trains, self.lines, self.is_armed = False, 0, False
        if self.left and not self.left[0].lines:
            self._arm(PART_OF_START * self.cold_start * self.left[0].share)

    def _has_checkpoint(self) -> bool:
        """Return whether HEAD names a checkpoint. A run that starts again resumes only from this checkpoint."""
        try:
            return json.loads((self.checkpoints / "HEAD").read_text())["checkpoint"] is not None
        except (OSError, ValueError):
            return False

    def run(self, command: list[str]) -> int:
        """Run a command to its end. Return its exit code."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            self.hear(line)
        return process.wait()

    def outcome(self) -> str:
        return f"chaos: {json.dumps({'cold_start': self.cold_start, 'kills': [asdict(kill) for kill in self.done]})}"


def main() -> int:
    plan, ranks, *command = sys.argv[1:]
    options = dict(itertools.pairwise(command))
    chaos = Chaos(json.loads(plan), int(options["--batch-size"]), Path(options["--checkpoint"]))
    worker = None
    if command[0] == "mpirun":
        worker, launcher = start_worker(int(ranks))
        command = [*launcher, *command]
        chaos.begun = time.monotonic()
    while (code := chaos.run(command)) == -signal.SIGKILL:
        pass
    chaos.is_over = True
    if worker is not None:
        worker.terminate()
        worker.wait()
    print(chaos.outcome(), flush=True)
    return code


def start_worker(ranks: int) -> tuple[subprocess.Popen[bytes], list[str]]:
    """Start distrain-worker on loopback.

    Return the worker's process, and the beginning of the command that starts the ranks: distrain-launch with its
    options.
    """
    folder = Path(tempfile.mkdtemp())
    key = folder / "id_rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", str(key)], check=True)
    shutil.copy(f"{key}.pub", folder / "authorized_keys")
    # No network interface of the container has this address, so mpirun starts the ranks through ssh, as it would on
    # another machine.
    host = "127.0.0.2"
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    (folder / "hostfile").write_text(f"{host} slots={ranks}\n")
    options = [f"--ssh-port={port}", f"--ssh-folder={folder}"]
    worker = subprocess.Popen([str(SCRIPTS / "distrain-worker"), *options, "--grace=11"], env=environment())
    # With a restart window of one second, many restarts do not make the launcher's pauses longer.
    restarts = ["--max-restarts=1000", "--restart-window=1", f"--hostfile={folder}/hostfile"]
    return worker, [str(SCRIPTS / "distrain-launch"), *options, *restarts]


def environment() -> dict[str, str]:
    name, _, value = MARK.partition("=")
    return {**os.environ, name: value}


def victims(which: str, dead: set[int]) -> list[int]:
    """Return the ids of the processes to kill now.

    For the victim torchrun, these are all processes in its container.
    """
    found = marked()
    if which == "torchrun":
        # Kill torchrun first, because otherwise it would restart the other processes.
        return [pid for each in ("torchrun", *found) for pid in found[each]] if which in found else []
    return [pid for pid in found.get(which, []) if pid not in dead][:1]


def marked() -> dict[str, list[int]]:
    """Return the process ids of this run, keyed by process name: rank N, worker N, mpirun, torchrun and others."""
    found: dict[str, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # The process has ended in the meantime, or belongs to another user.
            continue
        name = name_of(variables, arguments)
        if MARK in variables and name:
            found.setdefault(name, []).append(int(folder.name))
    return found


def name_of(variables: list[str], arguments: list[str]) -> str:
    for variable in variables if "distrain_trainer" in arguments[:4] else []:
        name, _, value = variable.partition("=")
        if name in ("OMPI_COMM_WORLD_RANK", "RANK"):
            return f"rank {value}"
        if name in ("MX_CONFIG", "TF_CONFIG"):
            task = json.loads(value)["task"]
            return f"{task['type']} {task['index']}"
    programs = {os.path.basename(argument) for argument in arguments[:2]}
    return next((each for each in ("mpirun", "orted", "torchrun") if each in programs), "")


def send_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
