"""Say the next step of a run that a queue holds back, from the queue's own words.

Kueue's words are those of the condition QuotaReserved (pkg/controller/core/workload_controller.go and
pkg/scheduler/flavorassigner in its sources).
"""

from __future__ import annotations

import re

# Fragments of messages, each with the next step.
ADVICE = (
    (r"LocalQueue \S+ doesn't exist", "create the LocalQueue in this namespace, or correct gang.queue"),
    (r"ClusterQueue \S+ doesn't exist", "the queue belongs to none: ask those who run Kueue"),
    (r"Queue \S+ is (?:inactive|stopped)", "wait, or ask those who run the queue: it admits nothing now"),
    (r"> maximum capacity", "the queue never has so much: {smaller}, or choose another queue"),
    (r"deactivated", "ask those who run the queue; `helm distrain upgrade` with another size asks the queue again"),
)
WAIT = "wait: the queue starts the run when there is room"
NO_WORDS = f"{WAIT}; if it never says why, it does not run, or does not manage this kind of job"


def next_step(words: str, smaller: str) -> str:
    """Return the next step for what the queue says; `smaller` is the command that makes the run smaller."""
    if not words:
        return NO_WORDS
    then = next((then for fragment, then in ADVICE if re.search(fragment, words)), WAIT)
    return then.format(smaller=f"make the run smaller with {smaller}")
