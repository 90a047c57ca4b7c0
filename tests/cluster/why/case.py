"""Define a cause that blocks a run: how the lab produces the cause, and what `status` must report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.testbed import Namespace

Values = Mapping[str, Any]
# Before the run is installed, a stage prepares the namespace and yields additional values for the run. When the stage
# ends, it undoes its changes outside the namespace.
Stage = Callable[[Namespace], AbstractContextManager[Values]]
# A deed is an action on the run after the run has been installed.
Deed = Callable[[Namespace], AbstractContextManager[None]]

# This image contains Python and Open MPI, and the lab has already loaded it, so a pod starts within a second.
IMAGE = "distrain/tensorflow"
PROGRAM: Values = {
    "image.repository": IMAGE,
    "workers.replicas": 1,
    "workers.gpus": 0,
    "command": ["sleep", "3600"],
}
# The first column matches those parts of a report that are different each time the case is run. docs/causes.md shows
# the text in the second column instead.
VOLATILE = (
    (re.compile(r"\brun1-[0-9a-f]{8}\b"), "run1-1234abcd"),
    (re.compile(r"(?<=-launcher-)[a-z0-9]{5}\b"), "x7k2p"),
    (re.compile(r"\b10\.(?:96|244)\.\d+\.\d+\b"), "10.0.0.9"),
    (re.compile(r"\bat step \d+"), "at step 7"),
    (re.compile(r"\(restart \d+ of (\d+)\)"), r"(restart 1 of \1)"),
)


def nothing(_: Namespace) -> AbstractContextManager[Values]:
    return nullcontext({})


def no_deed(_: Namespace) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Said:
    """What `status` reports: the run's phase, the reason, the next step, and what cannot be read.

    In the first moments, `status` may ask a lost node for a log. It then says that it cannot read this log.
    """

    phase: str
    why: str
    next: str
    unread: str = ""


@dataclass(frozen=True)
class Case:
    """A cause that blocks a run: its name, the values of the run, and the report that `status` must give.

    `values` are added to PROGRAM. If `trains` is true, the run does not run PROGRAM, but trains on the digits in S3. If
    `disturbs` is true, no other test can use the lab at the same time. `seconds` limits the wait.
    """

    name: str
    said: Said
    values: Values = field(default_factory=dict)
    stage: Stage = nothing
    deed: Deed = no_deed
    trains: bool = False
    disturbs: bool = False
    pod_security: str = "restricted"
    seconds: float = 180


def masked(words: str, namespace: str) -> str:
    """Replace the parts of a report that differ between two runs of a case."""
    words = words.replace(namespace, "team")
    for pattern, stand_in in VOLATILE:
        words = pattern.sub(stand_in, words)
    return words
