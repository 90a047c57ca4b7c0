"""Define the fields in objects of Argo CD and Flux that say where the values of a release are stored."""

from __future__ import annotations

from typing import Any

from msgspec import field

from distrain.kube.objects import Kube


class NamedReference(Kube):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class GitOpsMetadata(Kube):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[NamedReference] | None = None


class HelmParameter(Kube):
    name: str = ""
    value: str = ""
    force_string: bool = False


class HelmSettings(Kube):
    release_name: str = ""
    values: str | None = None
    values_object: dict[str, Any] | None = None
    value_files: list[str] | None = None
    parameters: list[HelmParameter] | None = None
    file_parameters: list[HelmParameter] | None = None


class ApplicationSource(Kube):
    repo_url: str = field(default="", name="repoURL")
    target_revision: str = ""
    path: str = ""
    chart: str = ""
    ref: str = ""
    helm: HelmSettings | None = None


class Destination(Kube):
    namespace: str = ""


class SourceHydrator(Kube):
    """A source that Argo CD renders into another branch. Argo CD then applies the manifests from that branch."""

    dry_source: ApplicationSource = field(default_factory=ApplicationSource)


class ApplicationSpec(Kube):
    source: ApplicationSource | None = None
    sources: list[ApplicationSource] | None = None
    source_hydrator: SourceHydrator | None = None
    destination: Destination = field(default_factory=Destination)


class ApplicationStatus(Kube):
    """The type that Argo CD has detected for each source: Helm, Kustomize, Directory or Plugin."""

    source_type: str = ""
    source_types: list[str] | None = None


class Application(Kube):
    """An Application of Argo CD."""

    metadata: GitOpsMetadata = field(default_factory=GitOpsMetadata)
    spec: ApplicationSpec = field(default_factory=ApplicationSpec)
    status: ApplicationStatus = field(default_factory=ApplicationStatus)


class ChartSpec(Kube):
    chart: str = ""
    version: str = ""
    values_files: list[str] | None = None
    source_ref: NamedReference = field(default_factory=NamedReference)


class ChartTemplate(Kube):
    spec: ChartSpec = field(default_factory=ChartSpec)


class HelmReleaseSpec(Kube):
    chart: ChartTemplate | None = None
    chart_ref: NamedReference | None = None
    values: dict[str, Any] | None = None
    values_from: list[NamedReference] | None = None


class HelmRelease(Kube):
    """A HelmRelease of Flux."""

    metadata: GitOpsMetadata = field(default_factory=GitOpsMetadata)
    spec: HelmReleaseSpec = field(default_factory=HelmReleaseSpec)


class KustomizationSpec(Kube):
    path: str = ""
    source_ref: NamedReference = field(default_factory=NamedReference)


class Kustomization(Kube):
    """A Kustomization of Flux."""

    metadata: GitOpsMetadata = field(default_factory=GitOpsMetadata)
    spec: KustomizationSpec = field(default_factory=KustomizationSpec)


class FluxRevision(Kube):
    """The revision that a source of Flux follows."""

    branch: str = ""
    tag: str = ""
    semver: str = ""
    name: str = ""
    commit: str = ""
    digest: str = ""


class FluxSourceSpec(Kube):
    url: str = ""
    ref: FluxRevision | None = None


class FluxSource(Kube):
    """A GitRepository, OCIRepository or HelmRepository of Flux."""

    metadata: GitOpsMetadata = field(default_factory=GitOpsMetadata)
    spec: FluxSourceSpec = field(default_factory=FluxSourceSpec)
