"""Define what lint rules get (the rendered workers, the merged values and the nodes) and what they yield: warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from distrain import kube
from distrain.kube.quantities import Units, allocatable, allocatable_of, units
from distrain.pods.pod_requests import requested
from distrain.workload.manifest import PodRole
from distrain.workload.wording import SECTIONS

EFA = "vpc.amazonaws.com/efa"


class ValueWarning(Struct, frozen=True):
    """The path of a value, what is wrong with the value, and a better value."""

    path: str
    found: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}: {self.found}; {self.better}"


class Variable(Struct, frozen=True):
    """An environment variable of the workers, and the path of the value that sets it."""

    path: str
    value: str


class Subject(Struct, frozen=True, dict=True):
    """The rendered workers of a run, its merged values, and the nodes of its cluster if they are known.

    Most rules judge only the rendered workers; rules about all pods also judge the `others`. The rules use the values
    only to find the path that a warning names.
    """

    values: Mapping[str, Any]
    workers: PodRole
    nodes: Sequence[kube.Node] = ()
    others: Sequence[PodRole] = ()

    def section(self, name: str, of: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the section of this name in the values, or in the map `of` if it is given.

        A missing section, or a section that is null, is returned as an empty map.
        """
        return (self.values if of is None else of).get(name) or {}

    @property
    def worker_values(self) -> Mapping[str, Any]:
        return self.section("workers")

    @property
    def container(self) -> kube.TemplateContainer:
        """Return the container that runs the ranks."""
        return (self.workers.spec.containers or [kube.TemplateContainer()])[0]

    @property
    def gpu_resource(self) -> str:
        return str(self.worker_values.get("gpuResource") or "")

    @property
    def gpus(self) -> int:
        return self.requests.get(self.gpu_resource, 0)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Return those variables of the workers that have plain values, by name.

        If a variable is set twice, the later value counts.
        """
        found = {name: Variable(f"mpi.env.{name}", str(value)) for name, value in self._mpi_env.items()}
        for path, holder in (("env", self.values), ("workers.env", self.worker_values)):
            named = [each for each in holder.get("env") or () if "value" in each]
            found |= {each["name"]: Variable(f"{path} {each['name']}", str(each["value"])) for each in named}
        rendered = {each.name: each for each in self.container.env or ()}
        return {name: each for name, each in found.items() if name in rendered and not rendered[name].value_from}

    @property
    def _mpi_env(self) -> Mapping[str, Any]:
        return self.section("env", self.section("mpi"))

    @cached_property
    def requests(self) -> Units:
        """Return what the ranks of one worker request, by resource."""
        return {name: units(name, amount) for name, amount in requested(self.container.resources).items()}

    def path_of(self, resource: str) -> str:
        """Return the path of the value that makes the workers request a resource."""
        rdma = self.section("rdma", self.section("network"))
        if resource == rdma.get("resource"):
            return "network.rdma.count"
        if resource == self.gpu_resource:
            return "workers.gpus"
        if self.worker_values.get(resource) is not None:
            return f"workers.{resource}"
        places = self.places(resource, "requests", "limits")
        return next(places, f"workers.resources.requests.{resource}")

    def places(self, resource: str, *kinds: str) -> Iterator[str]:
        """Yield the paths at which a resource is requested or limited. The path that takes precedence comes first."""
        for kind in kinds:
            for path, holder in (("workers.resources", self.worker_values), ("resources", self.values)):
                if resource in self.section(kind, self.section("resources", holder)):
                    yield f"{path}.{kind}.{resource}"

    def pod_spec_path(self, role: PodRole, key: str) -> str:
        """Return the path of a field in a role's podSpec, or in the podSpec at the top level if the role has none."""
        section = SECTIONS.get(role.name, "")
        if self.section("podSpec", self.section(section)).get(key) is not None:
            return f"{section}.podSpec.{key}"
        return f"podSpec.{key}"

    @property
    def has_claims(self) -> bool:
        """Tell whether the workers have resource claims. A claim may add devices, but does not show which devices."""
        return bool(self.workers.spec.resource_claims)

    @property
    def on_host_network(self) -> bool:
        return bool(self.workers.spec.host_network)

    def most(self, resource: str) -> int:
        """Return the largest amount of a resource that any single node has."""
        return max((allocatable_of(node, resource) for node in self.nodes), default=0)

    @cached_property
    def gpu_nodes(self) -> list[Units]:
        """Return the allocatable amounts of those nodes that have at least as many GPUs as a worker."""
        found = map(allocatable, self.nodes)
        return [amounts for amounts in found if amounts.get(self.gpu_resource, 0) >= self.gpus > 0]
