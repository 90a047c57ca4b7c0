"""Name a job's pods and amounts in messages: by the path of the chart's value or, without such a value, by the role."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from distrain import kube
from distrain.kube.quantities import text
from distrain.workload.kinds import FACTS, KINDS
from distrain.workload.manifest import MASTER, Job, PodRole

# For each role, the section of the chart's values. The keys are the roles' keys in the replica specs, in lower case.
SECTIONS = {key.lower(): FACTS.roles[role] for kind in KINDS for role, key in kind.roles.items()}


def listed(words: Sequence[str]) -> str:
    """Return a text such as "a, b and c"."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, noun: str) -> str:
    """Return a text such as "1 rank" or "2 ranks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def asked(role: PodRole) -> str:
    amounts = [f"{text(name, amount)} {name}" for name, amount in sorted(role.request.items()) if name != "pods"]
    return listed(amounts) or "no request"


class Wording(Struct, frozen=True):
    """The words with which messages name the parts of one job."""

    job: Job
    gpu_resource: str

    def section(self, role: PodRole) -> str | None:
        """Return the section of the values for the role, or None if the job is not from the chart."""
        return SECTIONS.get(role.name) if self.job.from_chart else None

    def place(self, role: PodRole, key: str = "") -> str:
        """Return the path of the value for a role, or the name of the role if no value sets it."""
        section = self.section(role)
        return f"{section}.{key}" if section and key else section or role.name

    def shared_place(self, role: PodRole, key: str, of: Callable[[kube.TemplateSpec], object]) -> str:
        """Return the path of the role's value, for a message.

        If all roles have the same value, return the path at the top level.
        """
        found = {of(each.spec) for each in self.job.roles if each.replicas}
        if self.job.from_chart and len(self.job.roles) > 1 and found == {of(role.spec)}:
            return key
        return self.place(role, key)

    def amount(self, role: PodRole, resource: str) -> tuple[str, str]:
        """Return two parts of a message about a requested amount: its subject, and the name of the value to lower."""
        keys = {"cpu": "cpu", "memory": "memory"}
        if self.section(role) == "workers":
            keys[self.gpu_resource] = "gpus"
        if self.section(role) and resource in keys:
            path = self.place(role, keys[resource])
            return path, path
        return self.place(role), "the request"

    def size(self, role: PodRole) -> tuple[str, str]:
        """Return two parts of a message about the number of pods: its subject, and the name of the value to lower."""
        if self.section(role) in ("workers", "servers"):
            path = self.place(role, "replicas")
            return path, path
        return role.name, "the number"

    def size_of(self, pods: int) -> int:
        """Convert a number of main pods to the number in the values; for a PyTorchJob, this adds the Master."""
        return pods + (self.job.ranks_beside if self.job.from_chart else 0)

    def main_pods(self) -> str:
        return self.job.main.pods(self.size_of(self.job.main.replicas))

    def all_pods(self) -> str:
        """Return a text such as "3 workers, 2 servers and the scheduler"."""
        counted = MASTER if self.job.from_chart and self.job.ranks_beside else ""
        others = [role for role in reversed(self.job.others) if role.name != counted]
        words = [f"the {role.name}" if role.replicas == 1 else role.pods(role.replicas) for role in others]
        return listed([self.main_pods(), *words])
