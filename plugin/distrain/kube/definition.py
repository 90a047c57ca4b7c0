"""Define a CustomResourceDefinition: the kind of an operator, and the versions in which the cluster serves it."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Kube, Metadata


class DefinedNames(Kube):
    kind: str = ""


class DefinedVersion(Kube):
    name: str = ""
    served: bool = False


class DefinitionSpec(Kube):
    group: str = ""
    names: DefinedNames = field(default_factory=DefinedNames)
    versions: list[DefinedVersion] | None = None


class CustomResourceDefinition(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: DefinitionSpec = field(default_factory=DefinitionSpec)

    @property
    def served(self) -> list[tuple[str, str]]:
        """Return the API versions that are served, each with the kind."""
        versions = [each.name for each in self.spec.versions or () if each.served]
        return [(f"{self.spec.group}/{version}", self.spec.names.kind) for version in versions]
