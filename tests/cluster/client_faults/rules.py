"""Check that a command keeps the promises of docs/plugin.md when a fault hits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cluster.client_faults.faults import SIGNALS, STREAMS
from tests.cluster.client_faults.release_state import BEFORE, CHANGED, ROLLED_BACK

# The record of one case, as `bench.py` writes it.
Line = Mapping[str, Any]

CODES = (0, 2, 3, 4, 5, 130, 141)
# If nothing has changed after the command, the last line that it prints must contain a text of UNDONE or NEXT. If
# something has changed, the last line must contain a text of NEXT, so that the user knows what to do next.
UNDONE = ("uninstalled again", "rolled back to revision 1", "nothing was changed", "deleted again")
NEXT = (
    "helm uninstall",
    "helm rollback",
    "helm distrain upgrade",
    "kubectl delete namespace",
    "check KUBECONFIG",
    "try again",
)


def broken(line: Line) -> str:
    """Describe the rule that this case broke. Return "" if it broke none."""
    command, fault, *_ = line["case"]
    code, word, told = line["codes"][-1], line["states"][-1], line["lines"][-1]
    last = told[-1] if told else ""
    if not line["is_reached"]:
        return "the moment of the fault did not come"
    if code not in CODES or any("Traceback" in each for each in told):
        return f"exit code {code}, or a traceback"
    if code == 0 and word != CHANGED:
        return "exit code 0, but the change is not complete"
    if (fault in STREAMS or fault.startswith("nohup")) and word != CHANGED:
        return "undone without a reason"
    if fault in SIGNALS and code == 130 and word not in (BEFORE, ROLLED_BACK):
        return "stopped by a signal, but not undone"
    if fault == "2>&-" or code in (0, 5, 141):
        return ""
    if not any(words in last for words in (*UNDONE, *NEXT)):
        return "the last line says neither what is there nor how to go on"
    if word not in (BEFORE, ROLLED_BACK) and not any(words in last for words in NEXT):
        return "the last line says that nothing is left, but something is"
    is_left = command.startswith("install") and word == BEFORE and line["has_namespace"]
    if is_left and not any("namespace" in each for each in told):
        return "the namespace stays, and no line says so"
    return ""
