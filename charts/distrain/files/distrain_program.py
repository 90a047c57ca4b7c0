"""Run a program, pass on its output, find the cause of a failure, and count the failures.

The scripts that import this module run in any image, so the module uses only Python 3.6 and its standard library.
"""

import argparse
import collections
import contextlib
import json
import mmap
import os
import pwd
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Optional

from distrain_memory import oom_kills
from distrain_message import TERMINATION_LOG, unexpected
from distrain_output import Found, HeldBack, no_torchrun, not_started, with_hint
from distrain_sigterm import take_sigterm

# Exit codes of a program. FINISHED: the training is complete. MISTAKE: the user made a mistake, and the program has
# named it. FENCED: a newer run has replaced this one. UNFIT: one worker cannot reach the storage, but the others can;
# the cause starts with the name of that worker's pod. STOPPED: the program stopped at a step boundary, and can resume.
FINISHED, MISTAKE, FENCED, UNFIT, STOPPED = 0, 2, 4, 5, 128 + signal.SIGTERM
KILLED = 128 + signal.SIGKILL
LONGEST_PAUSE = 10
# If the program fails twice within SOON seconds, the script waits before it starts the program again.
SOON = 60
# Wait at least this number of seconds before a restart, so that the old programs of the other pods have ended.
SECONDS_TO_END_TOGETHER = 2
SECONDS_TO_END = 10
# If SIGSTOP has halted the program for SECONDS_HALTED, the script kills the program. The programs in the other pods
# wait at least as long for a step, so they do not give up earlier.
SECONDS_HALTED = 30
# At most MOST_KEPT failures are stored for the next launcher. They always fit into SHARED_BYTES.
MOST_KEPT, SHARED_BYTES = 5000, 16 << 20
# Operators and Kubernetes assume that an exit code above 127 means that a signal killed the process.
HIGHEST_FAILURE = 127

# How a program ended: its exit code, the cause of a failure, and whether the program itself named the cause.
Ended = collections.namedtuple("Ended", "code cause is_named")


def is_final(ended: Ended) -> bool:
    """Tell whether starting the program again would be useless."""
    return ended.code in (FINISHED, FENCED) or (ended.code == MISTAKE and ended.is_named)


def failure_code(code: int) -> int:
    """Return the exit code of a final failure."""
    return code if 0 < code <= HIGHEST_FAILURE else 1


def unnamed_user(environment: dict) -> dict:
    """Return variables for a user who is not in /etc/passwd: a user name (for Python's getpass) and a home folder."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        # tempfile.gettempdir() would fail on a full disk.
        homes = (environment.get("HOME", "/"), environment.get("TMPDIR", ""), "/tmp", "/var/tmp")
        is_own = (home for home in homes if os.path.isdir(home) and os.access(home, os.W_OK))
        name = environment.get("USER") or f"user{os.getuid()}"
        return {"USER": name, "HOME": next(is_own, "/tmp")}
    return {}


def write(output: bytes) -> None:
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()


class Program:
    """A running command, in its own session.

    `program` is the training program that the command runs. For mpirun, `program` is the program that mpirun starts on
    the ranks.

    Set `are_ranks_elsewhere` if the ranks run in other pods.
    """

    def __init__(self, command: list, environment: dict, program: list, are_ranks_elsewhere: bool = False) -> None:
        self.program, self.found, self.are_ranks_elsewhere = program, Found(), are_ranks_elsewhere
        self.held_back = HeldBack()
        # `is_killed_here`: this script has sent SIGKILL. `oom_kills`: the number of this pod's processes that the
        # kernel had killed before the start.
        self.is_killed_here, self.oom_kills = False, oom_kills()
        self.name = os.path.basename(command[0])
        self.process = subprocess.Popen(
            command, env={**environment, **unnamed_user(environment)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.cause, self.rest, self.is_open = "", b"", True
        self.killer: Optional[threading.Timer] = None
        self.halted_since: Optional[float] = None
        self.was_told = False

    def pass_on_output(self, seconds: float) -> bool:
        """Pass on the output of the next `seconds`, including unfinished lines.

        Return whether the program still runs.
        """
        if not self.is_open:
            time.sleep(min(seconds, 0.1))
            return self.process.poll() is None
        readable, _, _ = select.select([self.process.stdout], [], [], seconds)
        if self.was_told:
            # Forget a step that was found before this point: the program may have printed its line before SIGTERM, even
            # if the script searched the line only later. Output that is read from here on was written after SIGTERM.
            self.found.step, self.was_told = "", False
        if not readable:
            # The pipe of a program that has ended may stay open forever: a child process may still hold it.
            return self.process.poll() is None
        chunk = os.read(self.process.stdout.fileno(), 65536)
        self.is_open = bool(chunk)
        write(self.held_back.pass_on(chunk) if self.are_ranks_elsewhere else chunk)
        self.look_for_cause(chunk)
        return True

    def follow(self, is_pod: bool) -> None:
        """Copy the output until the program ends.

        In a pod, also kill all remaining processes: torchrun's ranks have their own sessions.
        """
        while self.process.poll() is None:
            self.kill_when_halted()
            self.pass_on_output(1)
        if is_pod:
            with contextlib.suppress(ProcessLookupError):
                # Kill all processes except process 1 and this one.
                os.kill(-1, signal.SIGKILL)
        while self.pass_on_output(0.1):
            pass

    def kill_when_halted(self) -> None:
        """Kill the program if it has been halted by SIGSTOP for too long.

        A halted program cannot notice that it was halted.
        """
        if not self.is_halted():
            self.halted_since = None
            return
        self.halted_since = self.halted_since or time.monotonic()
        if time.monotonic() - self.halted_since > SECONDS_HALTED:
            self.cause = self.cause or f"{self.name} was halted for {SECONDS_HALTED} s, and so killed"
            self.kill()

    def is_halted(self) -> bool:
        try:
            return bool(os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
        except ChildProcessError:
            # The program has just ended.
            return False

    def serve(self, is_pod: bool) -> bool:
        """Follow the program to its end, and pass SIGTERM on to it. Return whether SIGTERM came."""
        told = []

        def tell(*_: object) -> None:
            told.append(True)
            # Forget a step that was found before: since then, torchrun may have restarted its ranks after a stop.
            self.found.step, self.was_told = "", True
            self.process.terminate()

        signal.signal(signal.SIGTERM, tell)
        self.follow(is_pod)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return bool(told)

    def look_for_cause(self, chunk: bytes) -> None:
        lines = (self.rest + chunk).splitlines(keepends=True)
        # The patterns need only the beginning of a line, so the rest of a long line is dropped.
        is_unfinished = lines and chunk and lines[-1][-1:] not in b"\r\n"
        self.rest = lines.pop()[:4096] if is_unfinished else b""
        self.read(lines)

    def read(self, lines: list) -> None:
        self.found.read(lines)
        self.cause = self.cause or self.found.cause

    def terminate(self) -> bool:
        """Send SIGTERM, and SIGKILL if the program does not end. Return False if SIGTERM was already sent."""
        if self.killer:
            return False
        self.process.terminate()
        self.killer = threading.Timer(SECONDS_TO_END, self.kill)
        self.killer.daemon = True
        self.killer.start()
        return True

    def kill(self) -> None:
        self.is_killed_here = self.is_killed_here or self.process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> Ended:
        """Return how the program ended, once its output has ended. Kill the processes that it has started."""
        code = self.process.wait()
        if self.killer:
            self.killer.cancel()
        self.kill()
        self.look_for_cause(b"")
        code = 128 - code if code < 0 else code
        write(self.held_back.left(code == STOPPED))
        return self.ended_with(code, self.name)

    def ended_with(self, code: int, who: str) -> Ended:
        """Describe how the program, or one of its ranks, ended with this exit code."""
        if not self.cause:
            why = self.found.why_not_started(code, self.program)
            if why:
                return Ended(MISTAKE, why, True)
        cause = self.cause or self.why_killed(code, who)
        return Ended(code, cause or f"{who} ended with exit code {code}; this pod's log says why", bool(self.cause))

    def why_killed(self, code: int, who: str) -> str:
        """Return the likely cause of a SIGKILL, or an empty text if this script sent the SIGKILL."""
        if self.is_killed_here or not (code == KILLED or self.found.killed_hard):
            return ""
        before, self.oom_kills = self.oom_kills, oom_kills()
        if before is not None and self.oom_kills is not None and self.oom_kills > before:
            return (
                "out of memory: a process of this pod was killed at its limit; raise the memory of this pod's role, "
                "such as workers.memory"
            )
        is_unknown = self.are_ranks_elsewhere or before is None or self.oom_kills is None
        # mpirun exits with a rank's exit code. If a shell starts the program, mpirun does not see that a signal killed
        # the program.
        rank = "a rank" if self.are_ranks_elsewhere and self.process.returncode == KILLED else who
        who = self.found.killed_hard or rank
        return f"{who} was killed by signal 9, as when memory runs out; see workers.memory" if is_unknown else ""


def how_stopped(program: Program, code: int) -> str:
    """Return a message that says how the program stopped after its pod received SIGTERM."""
    if program.found.step:
        return f"stopped by SIGTERM at step {program.found.step}"
    return "stopped by SIGTERM" + ("" if code == STOPPED else f"; {program.name} ended with exit code {code}")


def mistake(error: OSError, program: list, image: str = "", is_elastic: bool = False) -> Ended:
    """Return the result of a program that could not be started: an Ended, whose cause says why."""
    if program[0] == "torchrun" and isinstance(error, FileNotFoundError):
        return Ended(MISTAKE, no_torchrun(image, is_elastic), True)
    return Ended(MISTAKE, not_started(program, with_hint(str(error.strerror))), True)


class Restarts:
    """Counts the failures of a program.

    The program is started again as long as it fails at most `most` times within `window` seconds.

    The failures are stored in memory that forked processes share, so the count is not lost when a child process is
    killed. It is not a file, because a failed program may have filled the disk. Unused pages take no memory.
    """

    def __init__(self, most: int, window: float) -> None:
        self.most, self.window = most, window
        self.shared = mmap.mmap(-1, SHARED_BYTES)

    @property
    def failures(self) -> list:
        """Return the failures within the window, as (time, cause)."""
        now = time.monotonic()
        return [(when, cause) for when, cause in self.read() if now - when < self.window]

    def read(self) -> list:
        lines = self.shared[: self.shared.find(b"\0", 0)].splitlines()
        return [tuple(json.loads(line.decode())) for line in lines]

    def add(self, cause: str) -> bool:
        """Count a failure. Return whether the program may be started again."""
        self.write([(time.monotonic(), cause)])
        return len(self.failures) <= self.most

    def write(self, failures: list) -> None:
        lines = b"".join(json.dumps([when, cause[:2000]]).encode() + b"\n" for when, cause in failures)
        end = self.shared.find(b"\0", 0)
        if end + len(lines) >= len(self.shared):
            # Many thousands of failures are stored, most of them from before the window. Count anew.
            self.shared[:], end = bytes(len(self.shared)), 0
        self.shared[end : end + len(lines)] = lines

    def pause(self) -> float:
        """Return the seconds to wait before the next start.

        The pause gives the user time to look at a pod that fails at once.
        """
        times = [when for when, _ in self.failures]
        soon = sum(times[-1] - when < SOON for when in times)
        return min(LONGEST_PAUSE, 2 ** (soon - 1)) if soon > 1 else 0

    def line(self) -> str:
        # The last failure counts, even if this process was held up for longer than the window.
        failures = self.failures or self.read()[-1:]
        return f"starting again (restart {len(failures)} of {self.most} in {self.window:g} s): {failures[-1][1]}"

    def cause(self) -> str:
        """Return the first cause, followed by the last one. Later failures may be consequences of the first."""
        failures = self.failures or self.read()[-1:]
        first, last = failures[0][1], failures[-1][1]
        if len(failures) == 1:
            return first
        more = "" if first == last else f"; the last: {last}"
        return f"{first} (the first of {len(failures)} failures within {self.window:g} s{more})"

    def as_text(self) -> str:
        """Return the failures in one line, so that a launcher on another machine can continue the count."""
        failures, ago = self.failures[-MOST_KEPT:], time.time() - time.monotonic()
        times = [round(when + ago) for when, _ in failures]
        return json.dumps([times, failures[0][1][:200], failures[-1][1][:200]]) if failures else ""

    def take_up(self, text: str) -> None:
        """Add the failures that a launcher on another machine has counted."""
        times, first, last = json.loads(text)
        ago = time.time() - time.monotonic()
        whens = [min(when - ago, time.monotonic()) for when in times]
        self.write([(when, last if index else first) for index, when in enumerate(whens)])


def parse(name: str, argv: list) -> tuple:
    """Parse a script's command line: return its options, and the command that it has to run."""
    own, program = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(usage=name + " [options] -- PROGRAM [its arguments]", allow_abbrev=False)
    add = parser.add_argument
    add("--max-restarts", type=int, default=0, help="how often a failed program is started again, within the window")
    add("--restart-window", type=float, default=3600, help="seconds that a restart counts for")
    add("--image", default="", help="the image's name, for what is said of it")
    add("--termination-log", default=TERMINATION_LOG, help="where the cause of a failure goes")
    options = parser.parse_args(own)
    if not program:
        parser.error("needs a program after --")
    return options, program


def run_as_child(work: Any, restarts: Restarts, say: Any, give_up: Any) -> int:
    """Call `work` in a child process, and again if a signal kills the child. Return the child's exit code.

    `work` receives True if it was called before, so that it can tell a restart from the first start. `give_up` receives
    the cause if no restart is left or an error was not expected, reports the cause, and returns the exit code. Process
    1 only watches the child and reaps processes, so that the container survives if the child is killed.
    """
    asked, is_again = [], False
    while True:
        # Block SIGTERM until both processes have a handler: without a handler, process 1 would ignore SIGTERM.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pid = os.fork()
        if pid == 0:
            work_and_exit(work, is_again, give_up)
        signal.signal(signal.SIGTERM, lambda *_, child=pid: (asked.append(True), os.kill(child, signal.SIGTERM)))
        take_sigterm()
        status = wait_for(pid)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        if asked:
            return STOPPED
        may_start_again = restarts.add(f"signal {os.WTERMSIG(status)} killed it, this pod's own process")
        end_the_others()
        if not may_start_again:
            return give_up(restarts.cause())
        say(restarts.line())
        is_again = True


def work_and_exit(work: Any, is_again: bool, give_up: Any) -> None:
    """Call `work` in the child process and exit. The child must never return to its parent's code."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        take_sigterm()
        code = work(is_again)
        sys.stdout.flush()
    except Exception as error:
        code = give_up(unexpected(error))
    finally:
        os._exit(code)


def wait_for(pid: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def end_the_others() -> None:
    """Kill the processes that a killed child process has left behind: in a pod, all except process 1."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(-1, signal.SIGKILL)
            while True:
                os.wait()
