"""Name a job's pods and figures in messages: by the path of the chart's value that decides them, else by the role."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from distrain.kube.quantities import text
from distrain.workload.manifest import MASTER, Job, PodRole

# The section of the chart's values that holds a role's figures.
SECTIONS = {
    "launcher": "launcher",
    "chief": "launcher",
    "scheduler": "scheduler",
    "server": "servers",
    "ps": "servers",
    "master": "workers",
    "worker": "workers",
}


def listed(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def asked(role: PodRole) -> str:
    amounts = [f"{text(name, amount)} {name}" for name, amount in sorted(role.request.items()) if name != "pods"]
    return listed(amounts) or "no request"


class Wording(Struct, frozen=True):
    """Words about one job."""

    job: Job
    gpu_resource: str

    def section(self, role: PodRole) -> str | None:
        """Return the section of the values that holds the role's figures; None where there is none."""
        return SECTIONS.get(role.name) if self.job.from_chart else None

    def place(self, role: PodRole, key: str = "") -> str:
        """Return a value's path, or the role's name where no value decides."""
        section = self.section(role)
        return f"{section}.{key}" if section and key else section or role.name

    def amount(self, role: PodRole, resource: str) -> tuple[str, str]:
        """Return what a sentence about an amount begins with, and how it calls what is to be lowered."""
        keys = {"cpu": "cpu", "memory": "memory"} | ({self.gpu_resource: "gpus"} if self._trains(role) else {})
        if self.section(role) and resource in keys:
            path = self.place(role, keys[resource])
            return path, path
        return self.place(role), "the request"

    def size(self, role: PodRole) -> tuple[str, str]:
        """Return the same about the number of pods."""
        if self.section(role) in ("workers", "servers"):
            path = self.place(role, "replicas")
            return path, path
        return role.name, "the number"

    def size_of(self, pods: int) -> int:
        """Return so many pods of the main role as a size of the job, which counts a Master among the workers."""
        return pods + (self.job.ranks_beside if self.job.from_chart else 0)

    def main_pods(self) -> str:
        return self.job.main.pods(self.size_of(self.job.main.replicas))

    def all_pods(self) -> str:
        """Return "3 workers, 2 servers and the scheduler"."""
        counted = MASTER if self.job.from_chart and self.job.ranks_beside else ""
        others = [role for role in reversed(self.job.others) if role.name != counted]
        words = [f"the {role.name}" if role.replicas == 1 else role.pods(role.replicas) for role in others]
        return listed([self.main_pods(), *words])

    def _trains(self, role: PodRole) -> bool:
        return self.section(role) == "workers"
