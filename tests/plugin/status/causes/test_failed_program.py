"""Test that `status` names the cause of a failed program and its pod, whichever pod the operator has left."""

from __future__ import annotations

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import told
from tests.plugin.status.runs import NAMESPACE, ROLES, over, pod, renamed, serve


@pytest.mark.parametrize(
    ("kind", "left"), [(kind, role) for kind, (_, main, others) in ROLES.items() for role in (main, *others)]
)
@pytest.mark.parametrize("is_read", [True, False], ids=["log", "no-right-to-read-logs"])
def test_failed_program_is_explained_by_the_log_of_whatever_pod_is_left(
    api: FakeApi, status: Run, kind: str, left: str, is_read: bool
) -> None:
    message = (
        "distrain: python3 ended with exit code 1; this pod's log says why (the first of 2 failures within 3600 s)"
    )
    end = {"terminated": {"exitCode": 1, "message": message}}
    ended = renamed(pod(left, phase="Failed", containerStatuses=[{"name": left, "state": end}]), "left")
    serve(api, *over(ROLES[kind][0], "Failed"), pods=[ended], left="ZeroDivisionError: division by zero\n")
    if not is_read:
        api.answers[f"{NAMESPACE}/pods/left/log"] = 403

    why = "ZeroDivisionError: division by zero" if is_read else "python3 ended with exit code 1"
    assert told(status("run1")) == ("Failed", f"left: {why}", "read `kubectl --namespace team logs left`")
