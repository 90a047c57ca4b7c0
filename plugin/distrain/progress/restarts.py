"""Find in a pod's log why its program does not reach a step, although the program or the pod is started again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from distrain import kube
from distrain.progress import causes
from distrain.progress.start import Log
from distrain.progress.steps import after_last_step

# The chart's scripts log this line before they start the program again.
RESTART = re.compile(
    r"^distrain-(?:launch|run|torchrun): starting again \(restart (\d+) of (\d+) in \S+ s\): (.*)$", re.MULTILINE
)
# The last line of a Python traceback. mpirun and torchrun may put a tag before each line.
EXCEPTION = re.compile(r"^(?:\[[^\]]*\](?:<std\w+>)?: ?)?([A-Za-z_][\w.]*(?:Error|Exception)(?:: .*)?)$", re.MULTILINE)
# The trainer logs this line while the storage does not answer.
RETRYING = re.compile(r"(?:\[[^\]]*\](?:<std\w+>)?: ?)?(.*); trying again for \d+ s$")
# `ssh` prints this if a worker refuses the launcher's connection.
SSH = re.compile(
    r"^.*?(?P<words>Permission denied \([^)]*\)|Host key verification failed|Could not resolve hostname [^:\s]+"
    r"|Connection (?:refused|timed out|closed by [\d.]+ port \d+))\.?\r?$",
    re.MULTILINE,
)
OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|ResourceExhausted", re.IGNORECASE)
LONGEST = 300


class FailedStart(Struct, frozen=True):
    """A failed start of the program; `is_own` is true if the cause is in this pod, and not in another pod."""

    pod: str
    words: str
    is_own: bool


def retried(log: Log) -> FailedStart | None:
    """Return the first failure of the program since the last step, or None if there is none."""
    text, name = after_last_step((log.text or "")[log.begin :]), log.pod.metadata.name
    found = RESTART.search(text)
    if not found:
        return None
    number, most, cause = found.groups()
    words = _from_log(log, cause, text[: found.start()]) if causes.only_code(cause) else causes.with_next_step(cause)
    return FailedStart(name, f"{words}; {name} tries again (restart {number} of {most})", causes.is_own(cause))


def explained(logs: Sequence[Log], pod: kube.Pod, cause: str) -> str:
    """Return the cause of this pod's failure. If it only refers to the pod's log, return the cause that the log shows.

    If this log was not read, name the pod.
    """
    if not logs or not causes.only_code(cause):
        return cause
    unread = Log(pod, None, logs[0].kubectl_flags)
    log = next((each for each in logs if each.pod.metadata.name == pod.metadata.name), unread)
    return _from_log(log, cause, log.text or "")


def silent_storage(log: Log) -> str | None:
    """If the storage does not answer now, return the trainer's message about it, otherwise None."""
    retrying = RETRYING.match(last_line_of(log.text or ""))
    return f"{retrying.group(1)}; the run still tries" if retrying else None


def last_line_of(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _from_log(log: Log, cause: str, text: str) -> str:
    """Return the last exception before the failure.

    Return the exit code if no Python program has printed an exception.
    """
    if (refused := list(SSH.finditer(text))) and not EXCEPTION.search(text):
        return (
            f"ssh: a worker does not let the launcher in: {refused[-1]['words']}; "
            "give ssh.secretName a Secret whose authorized_keys has its id_rsa.pub, or leave it empty"
        )
    found = EXCEPTION.findall(text)
    words = found[-1][:LONGEST] if found else cause.partition(causes.SEE_LOG)[0]
    smaller = "lower trainer.batchSize, or " if OUT_OF_MEMORY.search(words) else ""
    name = log.pod.metadata.name
    return f"{name}: {words}; {smaller}read `kubectl {log.kubectl_flags} logs {name}`"
