"""Read the state of the cluster after a command: the release, its job and its namespace."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from lab.builds import golang
from lab.cluster import client
from lab.paths import KUBECONFIG

NAME = "run1"
CHANGED, BEFORE, ROLLED_BACK = "changed", "as before", "rolled back"


@dataclass(frozen=True)
class State:
    """The release's revisions as (number, status), the job's workers and steps, and whether the namespace exists."""

    revisions: list[tuple[int, str]]
    workers: int | None
    has_new_steps: bool
    has_namespace: bool

    def word(self, command: str) -> str:
        """Return one of the words CHANGED, BEFORE and ROLLED_BACK if the release and its job are both in this state.

        If they contradict each other, describe the last revision and the job.
        """
        last = self.revisions[-1] if self.revisions else None
        if command.startswith("install"):
            return {(1, "deployed"): CHANGED, None: BEFORE if self.workers is None else "no release, but a job"}.get(
                last, self._between(command)
            )
        is_new = self._has_new_job(command)
        if last == (2, "deployed") and is_new:
            return CHANGED
        if last and last[1] == "deployed" and self.workers and not is_new:
            return BEFORE if last[0] == 1 else ROLLED_BACK
        return self._between(command)

    def _has_new_job(self, command: str) -> bool:
        return self.workers == 2 if command == "rescale" else bool(self.workers) and self.has_new_steps

    def _between(self, command: str) -> str:
        number, status = self.revisions[-1] if self.revisions else (0, "no release")
        job = "no job" if self.workers is None else "new job" if self._has_new_job(command) else "old job"
        return f"{number} {status}, {'a job' if command.startswith('install') and self.workers else job}"


def read(namespace: str) -> State:
    job = _job(namespace)
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"] if job else None
    return State(
        _revisions(namespace),
        spec["replicas"] if spec else None,
        "--steps=900" in json.dumps(spec),
        bool(client.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name")),
    )


def _job(namespace: str) -> dict[str, dict[str, dict[str, dict[str, int]]]] | None:
    found = client.kubectl("-n", namespace, "get", "pytorchjob", NAME, "--ignore-not-found", "-o", "json")
    job = json.loads(found) if found.strip() else None
    return job if job and "deletionTimestamp" not in job["metadata"] else None


def _revisions(namespace: str) -> list[tuple[int, str]]:
    command = [str(golang.binary("helm4")), "history", NAME, "-n", namespace, "-o", "json"]
    command += ["--kubeconfig", str(KUBECONFIG)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [(each["revision"], each["status"]) for each in json.loads(done.stdout)] if not done.returncode else []
