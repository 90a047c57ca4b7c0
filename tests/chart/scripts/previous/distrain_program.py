"""Run a program, pass its output on, find out why it failed, and count how often it has.

Imported by scripts that run in anyone's image: hence Python 3.6 and the standard library alone.
"""

import argparse
import collections
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

from distrain_sigterm import take_sigterm

# How a program ends: the training is finished; a mistake of the user's, which it names; a newer run has taken its
# place; it stopped at a step boundary, and resumes there.
FINISHED, MISTAKE, FENCED, STOPPED = 0, 2, 4, 128 + signal.SIGTERM
LONGEST_PAUSE = 10
# A failure so many seconds after another one is waited after.
SOON = 60
# For pods that start again each by itself: one that comes back before the others have ended waits for them in vain.
SECONDS_TO_END_TOGETHER = 2
SECONDS_TO_END = 10
# As long as the other parts wait for a step at least: then they end, and start again, and wait for this one.
SECONDS_HALTED = 30
# With it the operators and Kubernetes know a failure that is final from a process that was killed.
HIGHEST_FAILURE = 127

# `mpirun --tag-output` and `--timestamp-output` put something that ends in "<stderr>:" before each line.
CAUSE = re.compile(rb"^(?:.*?<std(?:out|err|diag)>: ?)?distrain: (.*)$")

# A program's end: its exit code, the cause of a failure, and whether the program itself has named it.
Ended = collections.namedtuple("Ended", "code cause is_named")


def is_final(ended: Ended) -> bool:
    """Tell whether another start would change nothing."""
    return ended.code in (FINISHED, FENCED) or (ended.code == MISTAKE and ended.is_named)


def failure_code(code: int) -> int:
    """Return the exit code of a final failure."""
    return code if 0 < code <= HIGHEST_FAILURE else 1


class Program:
    """A command at work, in a session of its own."""

    def __init__(self, command: list, environment: dict) -> None:
        self.name = os.path.basename(command[0])
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        self.cause, self.rest, self.is_open = "", b"", True
        self.killer, self.halted_since = None, None

    def pass_on_output(self, seconds: float) -> bool:
        """Copy what comes within so many seconds, unfinished lines too. Return whether the program goes on."""
        if not self.is_open:
            time.sleep(min(seconds, 0.1))
            return self.process.poll() is None
        readable, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not readable:
            # A process that it has left behind may hold the pipe open for ever.
            return self.process.poll() is None
        chunk = os.read(self.process.stdout.fileno(), 65536)
        self.is_open = bool(chunk)
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        self.look_for_cause(chunk)
        return True

    def follow(self, is_pod: bool) -> None:
        """Copy all output until the end, and end what is left in the pod: a torchrun's ranks are in other sessions."""
        while self.process.poll() is None:
            self.kill_when_halted()
            self.pass_on_output(1)
        if is_pod:
            with contextlib.suppress(ProcessLookupError):
                # All but process 1 and this one.
                os.kill(-1, signal.SIGKILL)
        while self.pass_on_output(0.1):
            pass

    def kill_when_halted(self) -> None:
        """Kill it when a SIGSTOP has held it up for long: no thread of its own could notice."""
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
            # It has just ended.
            return False

    def serve(self, is_pod: bool) -> bool:
        """Follow it to the end, and pass SIGTERM on to it. Return whether there was one."""
        told = []
        signal.signal(signal.SIGTERM, lambda *_: (told.append(True), self.process.terminate()))
        self.follow(is_pod)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return bool(told)

    def look_for_cause(self, chunk: bytes) -> None:
        lines = (self.rest + chunk).splitlines(keepends=True)
        # A line's beginning is enough to know it.
        is_unfinished = lines and chunk and lines[-1][-1:] not in b"\r\n"
        self.rest = lines.pop()[:4096] if is_unfinished else b""
        self.read(lines)

    def read(self, lines: list) -> None:
        """Keep what the first rank to fail names as its cause."""
        self.cause = self.cause or first_cause(lines)

    def terminate(self) -> bool:
        """Have it end now; kill it when it does not. Return whether it was not told so before."""
        if self.killer:
            return False
        self.process.terminate()
        self.killer = threading.Timer(SECONDS_TO_END, self.kill)
        self.killer.daemon = True
        self.killer.start()
        return True

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> Ended:
        """Say how it has ended, once its output has. Nothing that it has started lives on."""
        code = self.process.wait()
        if self.killer:
            self.killer.cancel()
        self.kill()
        self.look_for_cause(b"")
        code = 128 - code if code < 0 else code
        return Ended(
            code, self.cause or f"{self.name} ended with exit code {code}; this pod's log says why", bool(self.cause)
        )


def first_cause(lines: list) -> str:
    """Return what follows `distrain: ` on the first line that has it, or nothing."""
    matches = filter(None, (CAUSE.match(line.rstrip(b"\r\n")) for line in lines))
    return next((match.group(1).decode(errors="replace") for match in matches), "")


class Restarts:
    """So many failures within so many seconds that a program is started again."""

    def __init__(self, most: int, window: float) -> None:
        self.most = most
        self.window = window
        self.failures = []

    def add(self, cause: str) -> bool:
        """Count a failure. Return whether the program may start again."""
        now = time.monotonic()
        recent = [(when, what) for when, what in self.failures if now - when < self.window]
        self.failures = [*recent, (now, cause)]
        return len(self.failures) <= self.most

    def pause(self) -> float:
        """Return the seconds to wait before the next start: what fails at once would else leave no time to look."""
        last = self.failures[-1][0]
        soon = sum(last - when < SOON for when, _ in self.failures)
        return min(LONGEST_PAUSE, 2 ** (soon - 1)) if soon > 1 else 0

    def line(self) -> str:
        count, most, cause = len(self.failures), self.most, self.failures[-1][1]
        return f"starting again (restart {count} of {most} in {self.window:g} s): {cause}"

    def cause(self) -> str:
        """Return the first cause first: what came later may only follow from it."""
        first, last = self.failures[0][1], self.failures[-1][1]
        if len(self.failures) == 1:
            return first
        more = "" if first == last else f"; the last: {last}"
        return f"{first} (the first of {len(self.failures)} failures within {self.window:g} s{more})"


def parse(name: str, argv: list) -> tuple:
    """Return the options of what watches over a program, and the program's command."""
    own, program = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(usage=name + " [options] -- PROGRAM [its arguments]", allow_abbrev=False)
    add = parser.add_argument
    add("--max-restarts", type=int, default=0, help="how often a failed program is started again, within the window")
    add("--restart-window", type=float, default=3600, help="seconds that a restart counts for")
    add("--termination-log", default="/dev/termination-log", help="where the cause of a failure goes")
    options = parser.parse_args(own)
    if not program:
        parser.error("needs a program after --")
    return options, program


def fail(cause: str, code: int, termination_log: str) -> int:
    """Print the cause, leave it where Kubernetes takes a container's termination message from, and return the code."""
    line = "distrain: " + cause[:2000]
    print(line, file=sys.stderr, flush=True)
    try:
        # Not created: outside Kubernetes it is missing and nobody looks for it.
        with open(termination_log, "r+", encoding="utf-8") as log:
            log.write(line)
            log.truncate()
    except OSError:
        pass
    return code


def run_as_child(work: object, restarts: Restarts, say: object) -> int:
    """Do the work in a child process, anew when a signal kills it, and tell it so. Return its exit code.

    Process 1 only watches then: whatever kills the one that works, the container lives on. It reaps what others leave.
    """
    asked, is_again = [], False
    while True:
        # Until both have a handler: process 1 would lose the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pid = os.fork()
        if pid == 0:
            work_and_exit(work, is_again)
        signal.signal(signal.SIGTERM, lambda *_, child=pid: (asked.append(True), os.kill(child, signal.SIGTERM)))
        take_sigterm()
        status = wait_for(pid)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        cause = f"signal {os.WTERMSIG(status)} killed it"
        if asked or not restarts.add(cause):
            return STOPPED if asked else 1
        end_the_others()
        say(restarts.line())
        is_again = True


def work_and_exit(work: object, is_again: bool) -> None:
    """Do the work as the child process, which takes up nothing of its parent's afterwards."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        take_sigterm()
        code = work(is_again)
        sys.stdout.flush()
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def wait_for(pid: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == pid:
            return status


def end_the_others() -> None:
    """End what the killed one has left; in a pod that is all but process 1."""
    if os.getpid() != 1:
        return
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait()
    except (ProcessLookupError, ChildProcessError):
        pass
