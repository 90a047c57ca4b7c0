"""Find in a program's output why it failed, at which step it stopped, and which program could not be started.

The scripts that import this module run in any image, so the module uses only Python 3.6 and its standard library.
"""

import errno
import json
import re
import time
from typing import Any

# A shell exits with NOT_FOUND if it does not find a program, and with NOT_RUN if it finds the program but cannot run
# it.
NOT_RUN, NOT_FOUND = 126, 127

# In bytes. The script searches a longer line only for CAUSE, because the other patterns take seconds for a line of a
# megabyte.
LONGEST = 2000
# If a program runs for more than SOON seconds, its start was successful.
SOON = 30

# `mpirun --tag-output` and `--timestamp-output` add a prefix such as `[1,0]<stderr>:` to each line.
TAG = rb"^(?:.*?<std(?:out|err|diag)>: ?)?"
CAUSE = re.compile(TAG + rb"distrain: (.*)$")
# The trainer's last line when it stops at a step boundary.
STEP = re.compile(TAG + rb"stopped at step (\d+)\b")
# Messages of Open MPI 4 and 5. The reasons: mpirun does not find the program, mpirun has no permission to run the
# program, or the kernel refuses to run it.
MISSED = re.compile(rb"\S+ was unable to find the specified executable file")
REFUSED = re.compile(rb"\S+ was unable to launch the specified application as it could not access")
FORKED = re.compile(rb'.* tried to fork a new process via the "execve" system call but')
FORK_ERROR = re.compile(rb"  Error: +(Exec format error|.* has a bad interpreter on the first line)")
SIGNAL = re.compile(rb".* (rank \d+) (?:.*on node (\S+) )?.*exited on signal (\d+)")
# A shell, env and the dynamic loader print such a line before they give up.
SHELL = re.compile(
    TAG + rb"(.*: (?:(?:command )?not found|No such file or directory|Permission denied|.*Exec format error)"
    rb"|.*: error while loading shared libraries: .*)$"
)
# Python's message about a missing script or module, and the last line of a traceback.
PYTHON = re.compile(TAG + rb"(\S*python\S*: (?:can't open file .*|No module named \S+))$")
ERRNO = re.compile(TAG + rb"\w+Error: \[Errno (2|8|13)\] .*: '(.*)'$")
# mpirun prints BORDER above and below each of its notes. A note on ranks that ended with an exit code begins with one
# of the texts OF_EXIT_CODES (Open MPI 4, help-errmgr-base.txt and help-orterun.txt).
BORDER = b"-" * 74
OF_EXIT_CODES = (b"Primary job ", b"mpirun detected that one or more processes exited with non-zero status")
# Lines that mpirun and torchrun print before and after such notes: log lines, torchrun's traceback, and torchrun's
# report on the ranks.
BOX = re.compile(rb"-{60,}$")
AROUND = re.compile(
    TAG + rb"(?:$|\s|[-=*]{5,}|\[[\w.-]+:\d+\]|[DIWE]\d{4} \d\d:|(?:WARNING|ERROR|INFO):torch|torch\.|Traceback \("
    rb"|Setting OMP_NUM_THREADS|Failures:$|Root Cause \(|\[\d+\]:$|\S+ FAILED$)"
)


class HeldBack:
    """Hold back mpirun's notes on ranks that ended with an exit code, until mpirun's exit code is known.

    After a stop at a step boundary, mpirun reports the ranks' exit code as a failure, although the stop is no failure.
    """

    def __init__(self) -> None:
        self.notes, self.note, self.rest, self.is_within_line = b"", [], b"", False

    def pass_on(self, chunk: bytes) -> bytes:
        """Return the part of the output that is not held back.

        Pass on an unfinished line, too, unless it may be the beginning of a note of mpirun.
        """
        lines, self.rest = (self.rest + chunk).splitlines(keepends=True), b""
        return b"".join(map(self.pass_on_line, lines))

    def pass_on_line(self, line: bytes) -> bytes:
        if line[-1:] not in b"\r\n" and (self.note or not line.strip(b"-")):
            # The line is incomplete. Keep it until the next chunk brings the rest of the line, because only the whole
            # line shows whether a note begins or ends here.
            self.rest = line
            return b""
        is_start, self.is_within_line = not self.is_within_line, line[-1:] not in b"\r\n"
        is_border = is_start and line.rstrip() == BORDER
        if not self.note:
            self.note = [line] if is_border else []
            return b"" if is_border else line
        self.note.append(line)
        if len(self.note) == 2 and not line.startswith(OF_EXIT_CODES):
            before, self.note = self.note[:1], []
            return before[0] + self.pass_on_line(line)
        if is_border:
            self.notes, self.note = self.notes + b"".join(self.note), []
        return b""

    def left(self, are_stopped: bool) -> bytes:
        """Return the output that is still held back when the program has ended.

        Leave out mpirun's notes if the ranks stopped at a step boundary.
        """
        return (b"" if are_stopped else self.notes) + b"".join(self.note) + self.rest


class Found:
    """What was found in the output of a program since it was started."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        # `has_printed`: the program has printed a line, so it has started. `is_in_box`: mpirun is printing an
        # explanation.
        self.has_printed, self.is_in_box = False, False
        # `cause`: the cause that the first failed rank named. `step`: the step at which the ranks stopped. `killed`:
        # the rank that was killed by a signal.
        self.cause, self.step, self.killed = "", "", ""
        # The rank that was killed by SIGKILL, and the name of its worker if mpirun prints that name.
        self.killed_hard = ""
        self.mpirun, self.shell, self.python, self.errors = "", "", "", {}
        self.is_forked = False

    def read(self, lines: list) -> None:
        for line in lines:
            self.read_line(line.rstrip(b"\r\n"))

    def read_line(self, line: bytes) -> None:
        self.cause = self.cause or first_match(CAUSE, line)
        if len(line) > LONGEST:
            self.has_printed = True
            return
        self.step = first_match(STEP, line) or self.step
        killed = SIGNAL.match(line)
        if killed and not self.killed:
            rank, worker, number = text_of(killed)
            self.killed = f"{rank} was ended by signal {number}"
            self.killed_hard = f"{rank}{worker and ' on ' + worker.split('.')[0]}" if number == "9" else ""
        if MISSED.match(line):
            # The words of the operating system, which the other kinds of jobs report.
            self.mpirun = words_of(errno.ENOENT)
        elif REFUSED.match(line):
            self.mpirun = "not found, or not executable"
        self.is_forked = self.is_forked or bool(FORKED.match(line))
        if self.is_forked and not self.mpirun:
            self.mpirun = with_hint(first_match(FORK_ERROR, line))
        self.read_last_words(line)

    def read_last_words(self, line: bytes) -> None:
        """Look in a line of output for a message saying that a program could not be started.

        If the line is no such message, it is the program's own output: set `has_printed`.
        """
        shell, python, error = first_match(SHELL, line), first_match(PYTHON, line), ERRNO.match(line)
        self.shell, self.python = shell or self.shell, python or self.python
        if error:
            number, path = text_of(error)
            self.errors[path] = int(number)
        if BOX.match(line):
            self.is_in_box = not self.is_in_box
        elif not (shell or python or error or self.is_in_box or AROUND.match(line)):
            self.has_printed = True

    def why_not_started(self, code: int, program: list) -> str:
        """Return why another start would fail too, or an empty text if another start may succeed."""
        if code and self.mpirun:
            return not_started(program, self.mpirun)
        # If the program has printed a line or has run for some time, it has started, so the exit code says nothing
        # about its start. A message such as "not found" may then be about an optional helper program.
        if self.has_printed or time.monotonic() - self.started > SOON:
            return ""
        if code and program[0] in self.errors:
            return not_started(program, words_of(self.errors[program[0]]))
        if code in (NOT_RUN, NOT_FOUND):
            return value_of(program) + ": " + (self.shell or f"exit code {code}: a shell could not run a program")
        if code in (1, 2) and self.python:
            return value_of(program) + ": " + self.python + hint_of(self.python)
        return ""


def first_match(pattern: Any, line: bytes) -> str:
    match = pattern.match(line)
    return text_of(match)[0] if match else ""


def text_of(match: Any) -> list:
    return [(group or b"").decode(errors="replace") for group in match.groups()]


def words_of(number: int) -> str:
    names = {errno.ENOENT: "No such file or directory", errno.EACCES: "Permission denied"}
    return names.get(number) or with_hint("Exec format error")


def with_hint(words: str) -> str:
    if words != "Exec format error":
        return words
    return words + "; it is for another kind of processor, or a script without a first line such as #!/bin/sh"


def hint_of(words: str) -> str:
    """Return a hint on what to do if the image has Python but not the trainer."""
    if not words.endswith("No module named distrain_trainer"):
        return ""
    return "; set trainer.delivery to chart, which delivers the trainer, or use an image that contains the trainer"


def not_started(program: list, why: str) -> str:
    """Return the message that says which program could not be started, and why.

    The most common mistake is a command that is written as one word.
    """
    if " " in program[0]:
        split = json.dumps(program[0].split() + program[1:])
        return (
            f'command: "{program[0]}" is one string with spaces, and no program has this name; write command: {split}'
        )
    return f"{value_of(program)}: {program[0]}: {why}"


def value_of(program: list) -> str:
    """Return the path of the value to correct: `command`, or the image if the program is the trainer."""
    is_trainer = program[1:3] == ["-m", "distrain_trainer"] or program[1:2] == ["/opt/distrain/bin/distrain-trainer"]
    return "image.repository" if is_trainer else "command"


def no_torchrun(image: str, is_elastic: bool) -> str:
    """Return the message that says that an image cannot start the ranks of a PyTorchJob."""
    without = f"the image {image} has no torchrun" if image else "the image has no torchrun"
    if is_elastic:
        why, else_set = "which starts the ranks of an elastic PyTorchJob", "job.elastic to false"
        return (
            f"image.repository: {without}, {why}; use an image with PyTorch, set {else_set}, or choose another job.kind"
        )
    why = "which starts the ranks of a worker with several GPUs"
    return f"image.repository: {without}, {why}; use an image with PyTorch, or choose another job.kind"
