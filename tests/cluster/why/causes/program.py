"""Causes in the program: its image, its memory, its exit, or the connections between its ranks."""

from __future__ import annotations

from tests.cluster.why.case import Case, Said
from tests.cluster.why.stages import foreign_ssh_key, lost_pods

LAUNCHER = "run1-launcher-x7k2p"
READ_LOG = f"read `kubectl --namespace team logs {LAUNCHER}`"
ONCE = {"job.maxRestarts": 0}
# The lab's API server already listens on this port of the node.
TAKEN = 6443

CASES = (
    Case(
        "program not found",
        Said(
            "Failed",
            "command: no-such-program: No such file or directory",
            "correct command, or use an image that holds it",
        ),
        {"command": ["no-such-program"], **ONCE},
    ),
    Case(
        "script not found",
        Said(
            "Failed",
            "command: python3: can't open file '/no.py': [Errno 2] No such file or directory",
            "correct command, or use an image that holds it",
        ),
        {"command": ["python3", "/no.py"], **ONCE},
    ),
    Case(
        "program that raises an error",
        Said("Failed", f"{LAUNCHER}: ValueError: no such model", READ_LOG),
        {"command": ["python3", "-c", "raise ValueError('no such model')"], **ONCE},
    ),
    Case(
        "program that ends with an exit code alone",
        Said("Failed", f"{LAUNCHER}: mpirun ended with exit code 3", READ_LOG),
        {"command": ["sh", "-c", "exit 3"], **ONCE},
    ),
    Case(
        "image without Python",
        Said(
            "Failed",
            "image.repository: the image distrain/pause:lab has no python3 or no /usr/bin/env, which start the pods' "
            "scripts",
            "use an image with Python 3.6 or newer",
        ),
        {"image.repository": "distrain/pause", "image.tag": "lab", **ONCE},
    ),
    Case(
        "image without torchrun",
        Said(
            "Failed",
            "image.repository: the image distrain/tensorflow:0.1.0 has no torchrun, which starts the ranks of an "
            "elastic PyTorchJob",
            "use an image with PyTorch, set job.elastic to false, or choose another job.kind",
        ),
        {"framework": "pytorch", "command": ["python3", "train.py"], **ONCE},
    ),
    Case(
        "out of memory",
        Said(
            "Failed",
            "rank 0 on run1-worker-0 was killed by signal 9, as when memory runs out",
            "raise workers.memory, or lower trainer.batchSize",
        ),
        {"workers.memory": "150Mi", **ONCE},
        trains=True,
    ),
    Case(
        "loss that is no number",
        Said(
            "Failed",
            "trainer.learningRate: the loss is nan at step 7",
            "lower trainer.learningRate or lengthen trainer.warmup (1 such steps in a row, and trainer.maxBadSteps "
            "is 0)",
        ),
        {"trainer.learningRate": 1e30, "trainer.maxBadSteps": 0, "trainer.optimizer": "sgd", **ONCE},
        trains=True,
    ),
    Case(
        "port in use",
        Said(
            "Starting",
            f"ssh.port: port {TAKEN} is in use on the node",
            "choose another ssh.port",
        ),
        {
            "workers.podSpec.hostNetwork": True,
            "workers.podSpec.dnsPolicy": "ClusterFirstWithHostNet",
            "podSecurity": "privileged",
            "ssh.port": TAKEN,
            **ONCE,
        },
        pod_security="privileged",
    ),
    Case(
        "SSH key refused",
        Said(
            "Failed",
            "ssh: a worker does not let the launcher in: Permission denied (publickey)",
            "give ssh.secretName a Secret whose authorized_keys has its id_rsa.pub, or leave it empty",
        ),
        {"job.kind": "Plain", **ONCE},
        stage=foreign_ssh_key,
    ),
    Case(
        "backoff limit, with no pod left",
        Said(
            "Failed",
            "job.maxRestarts: no restart is left: Job has reached the specified backoff limit",
            "read the run's record with `status --record`, or raise it",
        ),
        {"command": ["sh", "-c", "exit 3"], **ONCE},
        deed=lost_pods,
    ),
    Case(
        "deadline exceeded",
        Said(
            "Failed",
            "job.activeDeadlineSeconds: the run was active for longer than this",
            "raise it: with checkpoint.uri the run goes on from its last checkpoint",
        ),
        {"job.activeDeadlineSeconds": 5, **ONCE},
    ),
    Case(
        "suspended",
        Said(
            "Suspended",
            "job.suspend is true: the run has no pods",
            "`helm distrain upgrade run1 --reuse-values --set job.suspend=false --namespace team` lets it go on",
        ),
        {"job.suspend": True},
    ),
)
