"""Causes outside the run: evictions, a lost node, and operators that do not run."""

from __future__ import annotations

from tests.cluster.why.case import Case, Said
from tests.cluster.why.stages import halted_kubelet, limits, stopped_operator, volume

LAUNCHER = "run1-launcher-x7k2p"
WORKER = "run1-worker-0"
ONCE = {"job.maxRestarts": 0}
# mpirun writes the ranks' output into the launcher's log. So this program fills the launcher's log, until the launcher
# exceeds its limit of ephemeral storage.
PRINTS = ["python3", "-c", "while True: print('x' * 100000, flush=True)"]
WRITES = ["sh", "-c", "dd if=/dev/zero of=/data/x bs=1M count=20; sleep 3600"]
DOCTOR = "`helm distrain doctor --namespace team`"


CASES = (
    Case(
        "launcher evicted",
        Said(
            "Failed",
            f"{LAUNCHER}: evicted: Pod ephemeral local storage usage exceeds the total limit of containers 20Mi",
            "log and write less: the LimitRange of the namespace sets this limit",
        ),
        {"command": PRINTS, **ONCE},
        stage=limits("Container", default={"ephemeral-storage": "20Mi"}),
    ),
    Case(
        "worker evicted",
        Said(
            "Starting",
            f'{WORKER}: evicted: Usage of EmptyDir volume "data" exceeds the limit "1Mi"',
            "raise the sizeLimit of volume data, or write less there",
        ),
        {**volume({"emptyDir": {"sizeLimit": "1Mi"}}), "command": WRITES, **ONCE},
    ),
    Case(
        "node lost",
        Said(
            "Pending",
            f"node distrain-lab does not answer: {LAUNCHER} and 1 more ran there",
            "bring the node back; if it is off for good, `kubectl delete node NODE` lets the pods start elsewhere",
        ),
        deed=halted_kubelet,
        disturbs=True,
    ),
    Case(
        "mpi-operator does not run",
        Said(
            "Pending",
            "mpi-operator has not answered: the MPIJob has no status, and no pod was made yet",
            f"wait; if this lasts, mpi-operator does not run: {DOCTOR} shows its pods",
        ),
        stage=stopped_operator("mpi-operator", "mpi-operator"),
        disturbs=True,
    ),
)
