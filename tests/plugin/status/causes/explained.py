"""Read the line of `status` that says why a run does not continue, and serve events about the run.

Only the tests of causes use these functions.
"""

from __future__ import annotations

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object
from tests.plugin.program import Outcome
from tests.plugin.status.runs import NAMESPACE

SMALLER = "make the run smaller with `helm distrain rescale run1 --workers N --namespace team`"
JOB_UID = "uid-run1-1234abcd"


def told(outcome: Outcome) -> tuple[str, str, str]:
    """Return the phase, the reason and the next step that `status` prints for a run."""
    rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    return rows["run1"], rows.get("why", ""), rows.get("next", "")


def event(uid: str, reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> Object:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid},
        "lastTimestamp": at,
    }


def serve_events(api: FakeApi, *events: Object) -> None:
    api.answers[f"{NAMESPACE}/events"] = list(events)
