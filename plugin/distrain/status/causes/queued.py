"""If a queue holds a run back, find out from the queue's message what the user should do.

Kueue's messages come from the condition QuotaReserved (pkg/controller/core/workload_controller.go and
pkg/scheduler/flavorassigner in its sources) and from admission checks. Volcano's messages come from events of its
plugins.
"""

from __future__ import annotations

import re

# Parts of messages, each with what the user should do.
ADVICE = (
    (r"LocalQueue \S+ doesn't exist", "create the LocalQueue in this namespace, or correct gang.queue"),
    (r"ClusterQueue \S+ doesn't exist", "the queue names a ClusterQueue that does not exist: ask those who run Kueue"),
    (r"Queue \S+ is (?:inactive|stopped)", "wait, or ask those who run the queue: it admits nothing now"),
    (r"> maximum capacity", "the queue never has so much: {smaller}, or choose another queue"),
    (r"^admission check \S+ is Rejected", "ask those who run the queue why its check refuses the run"),
    (
        r"^admission check ",
        "wait: the quota is reserved; `kubectl {flags} get provisioningrequests` shows what an autoscaler says",
    ),
    (
        r"PodsReady timeout",
        "wait: the queue tries again; `kubectl {flags} get events` says what kept the pods from being ready",
    ),
    (r"Preempted to accommodate", "wait: another run took its place; with checkpoint.uri it goes on where it was"),
    (r"untolerated taint", "tolerate it with workers.tolerations, or choose another queue"),
    (r"doesn't match node affinity", "correct workers.nodeSelector or workers.affinity, or choose another queue"),
    (r"no topology domains at level", "ask those who run the queue: no node of its flavor has this label"),
    (r"topology \S+ (?:doesn't allow|allows) to fit", "wait, ask for a wider topology, or {smaller}"),
    (r"queue resource quota insufficient", "free some of the queue's capability, {smaller}, or choose another queue"),
    (r"resource in cluster is overused", "wait: Volcano lets in what the cluster has room for, or {smaller}"),
    (r"deactivated", "ask those who run the queue; `helm distrain upgrade` with another size asks the queue again"),
)
WAIT = "wait: the queue starts the run when there is room"
NO_WORDS = f"{WAIT}; if it never says why, it does not run, or does not manage this kind of job"


def next_step(words: str, smaller: str, flags: str) -> str:
    """Return what the user should do, judging by the message of the queue.

    `smaller` is the command that makes the run smaller. `flags` make kubectl use the namespace.
    """
    if not words:
        return NO_WORDS
    then = next((then for fragment, then in ADVICE if re.search(fragment, words)), WAIT)
    return then.format(smaller=f"make the run smaller with {smaller}", flags=flags)
