"""Explain why a run whose pods all run makes no step yet: what the launcher says about workers that do not answer."""

from __future__ import annotations

import re

# What the launcher's check of a worker (charts/distrain/files/distrain_workers.py) finds, and the next step.
ADVICE = (
    (r"\(no address yet\)", "wait: a pod's name gets its address when the pod is ready; if it lasts, see to the DNS"),
    (r"\(connection refused\)", "wait until sshd runs there; if this lasts, read the log of the worker"),
    (r"\(no answer\)", "a NetworkPolicy or a service mesh may drop the packets: allow ssh.port between the run's pods"),
    (r"\(what answers is not sshd\)", "something else has this port in the worker: choose another ssh.port"),
    (r"\(sshd says nothing\)", "wait: the worker's node is busy, or a service mesh holds the connection"),
)


def next_step(waits: str) -> str:
    """Return the next step for what the launcher waits for, an empty text if nothing is known."""
    return next((then for fragment, then in ADVICE if re.search(fragment, waits)), "")
