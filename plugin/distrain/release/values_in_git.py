"""Find out from Argo CD's and Flux's objects where the values of a release are kept, and say what to write there.

The objects may be unreadable for the user, or be in another cluster. The message then says what is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.errors import DistrainError, ForbiddenError, NotFoundError, RefusedError
from distrain.kube import gitops
from distrain.release.owner import ARGO_ANNOTATION, Owner, Ownership, owner
from distrain.workload.wording import listed
from distrain.yaml import yaml_loader

ARGO = "argoproj.io/v1alpha1"
# The namespace of Argo CD's own installation manifests.
ARGO_NAMESPACE = "argocd"
UNKNOWN = "in the git repository that holds it"
# More lines than these are counted, not listed.
MOST_LINES = 5


class Place(Struct, frozen=True):
    """Where the values of a release are kept.

    `owner` has the namespace, too, if it could be found. `where` completes "write LINE ...", and `rest` adds where the
    chart comes from. `parameters` are the values that an Application sets by `where_parameters`, which win over all
    others. `notes` are further sentences. `inline` is None unless the owner itself holds all values.
    """

    owner: Owner
    where: str
    rest: str = ""
    parameters: Sequence[gitops.HelmParameter] = ()
    where_parameters: str = ""
    notes: Sequence[str] = ()
    inline: Mapping[str, Any] | None = None


def refusal(name: str, place: Place, changed: Mapping[str, str | None]) -> RefusedError:
    """Return the error that names what to change instead; `changed` are the changed values as from `settings`."""
    words = f"belongs to {place.owner.words}, which would undo the change: nothing was changed"
    return RefusedError(f"{name}: {words}", *steps(name, place, changed))


def steps(name: str, place: Place, changed: Mapping[str, str | None]) -> list[str]:
    """Return the messages that say what to write where."""
    return [f"{name}: {each}" for each in _steps(place, changed)]


def _steps(place: Place, changed: Mapping[str, str | None]) -> list[str]:
    """Return what to change where. A parameter of an Application wins over its values, so it is changed itself."""
    names = {each.name for each in place.parameters}
    by_parameter = {path: line for path, line in changed.items() if path in names}
    others = {path: line for path, line in changed.items() if path not in names}
    told = [f"{_lines(others)} {place.where}" if others or not by_parameter else ""]
    told += [f"{_lines(by_parameter)} {place.where_parameters}" if by_parameter else ""]
    *first, last = filter(None, told)
    return [*first, last + (f"; {place.rest}" if place.rest else ""), *place.notes]


def _lines(changed: Mapping[str, str | None]) -> str:
    """Return "write `a: 1` and remove `b`"."""
    written = [f"`{line}`" for line in changed.values() if line is not None]
    removed = [f"`{path}`" for path, line in changed.items() if line is None]
    parts = [f"{verb} {_few(words)}" for verb, words in (("write", written), ("remove", removed)) if words]
    return " and ".join(parts) or "change the values"


def _few(words: Sequence[str]) -> str:
    more = len(words) - MOST_LINES
    return listed([*words[:MOST_LINES], f"{more} more"] if more > 0 else words)


def find(cluster: Cluster, found: Owner, namespace: str) -> Place:
    """Return the place where the values of the owner's release in this namespace are kept."""
    if found.kind == "Application":
        return _of_application(cluster, found, namespace)
    return _of_helm_release(cluster, found) if found.kind == "HelmRelease" else _of_kustomization(cluster, found)


def application_named(cluster: Cluster, name: str, namespace: str) -> Owner | None:
    """Return the Application of this name that deploys to the namespace, or None if none can be found."""
    try:
        found = _application(cluster, Owner("Application", name), namespace)
    except DistrainError:
        return None
    return (
        Owner("Application", name, found.metadata.namespace) if found.spec.destination.namespace == namespace else None
    )


def _of_application(cluster: Cluster, found: Owner, namespace: str) -> Place:
    try:
        application = _application(cluster, found, namespace)
    except DistrainError as error:
        return Place(found, f"under spec.source.helm of the Application, {UNKNOWN}", _why_unknown(found, error))
    found = Owner(found.kind, found.name, application.metadata.namespace or found.namespace)
    path, source = _chart_source(application)
    helm = source.helm or gitops.HelmSettings()
    chart = f"the chart is {source.chart or source.path} of {_repository(source)}"
    place = Place(
        found,
        where="",
        rest=chart,
        parameters=helm.parameters or (),
        where_parameters=f"among {path}.helm.parameters of the Application",
        notes=_kept_by(application, found),
    )
    if helm.value_files and helm.values_object is None and not helm.values:
        return replace(place, where=_in_file(application, source, helm.value_files[-1]))
    key = "values" if helm.values and helm.values_object is None else "valuesObject"
    values = helm.values_object if helm.values_object is not None else _parsed(helm.values)
    inline = None if helm.value_files or helm.file_parameters else values
    return replace(place, where=f"under {path}.helm.{key} of the Application", inline=inline)


def _application(cluster: Cluster, found: Owner, namespace: str) -> gitops.Application:
    """Read the Application; raise UnreachableError if it cannot be read, NotFoundError if this cluster has none."""

    def read(at: str) -> gitops.Application:
        return cluster.read_one(paths.of_kind(ARGO, "Application", at, found.name), gitops.Application, found.words)

    if found.namespace:
        return read(found.namespace)
    try:
        every = cluster.read_list(
            f"{paths.root(ARGO)}/applications",
            gitops.Application,
            "Applications",
            fieldSelector=f"metadata.name={found.name}",
        )
    except ForbiddenError as error:
        try:
            return read(ARGO_NAMESPACE)
        except NotFoundError:
            raise error from None
    named = [each for each in every if each.metadata.name == found.name]
    # Argo CD's own namespace is not known, so of several the one that deploys here counts.
    named.sort(key=lambda each: each.spec.destination.namespace != namespace)
    if not named:
        raise NotFoundError(f"{found.words}: the cluster has no such Application")
    return named[0]


def _chart_source(application: gitops.Application) -> tuple[str, gitops.ApplicationSource]:
    """Return the source that has the chart, and its path in the Application."""
    spec = application.spec
    if not spec.sources:
        return "spec.source", spec.source or gitops.ApplicationSource()
    numbered = [(f"spec.sources[{number}]", source) for number, source in enumerate(spec.sources)]
    # Other sources only hold values files, or add plain manifests.
    numbered.sort(key=lambda each: (not each[1].helm, not (each[1].path or each[1].chart)))
    return numbered[0]


def _in_file(application: gitops.Application, source: gitops.ApplicationSource, file: str) -> str:
    """Name the values file and its repository. A file given as $REF/FILE is in the source whose `ref` is REF."""
    if file.startswith("$"):
        ref, _, file = file[1:].partition("/")
        sources = [each for each in application.spec.sources or () if each.ref == ref]
        return f"in {file} of {_repository(sources[0]) if sources else f'the source {ref}'}"
    if "://" in file:
        return f"in {file}"
    below = file.removeprefix("/") if file.startswith("/") or not source.path else f"{source.path}/{file}"
    return f"in {below} of {_repository(source)}"


def _repository(source: gitops.ApplicationSource) -> str:
    return f"{source.repo_url}, revision {source.target_revision or 'HEAD'}"


def _kept_by(application: gitops.Application, found: Owner) -> list[str]:
    """Say who makes the Application itself, as it would undo a change there."""
    metadata = application.metadata
    makers = [f"{each.kind} {each.name}" for each in metadata.owner_references or ()]
    keeper = owner(
        Ownership(metadata.labels or {}, {ARGO_ANNOTATION: (metadata.annotations or {}).get(ARGO_ANNOTATION, "")})
    )
    if keeper and (keeper.kind, keeper.name) != (found.kind, found.name):
        makers.append(keeper.words)
    return [f"the Application itself is made by {listed(makers)}: change it there"] if makers else []


def _of_helm_release(cluster: Cluster, found: Owner) -> Place:
    try:
        release = _read(cluster, "helm.toolkit.fluxcd.io", found, gitops.HelmRelease)
    except DistrainError as error:
        return Place(found, f"under spec.values of the HelmRelease, {UNKNOWN}", _why_unknown(found, error))
    keeper = owner(Ownership(release.metadata.labels or {}, {}))
    kept = UNKNOWN
    if keeper and keeper.kind == "Kustomization":
        kept = f"in {_kustomized(cluster, keeper)}"
    where, rest = f"under spec.values of the HelmRelease, {kept}", ""
    if chart := release.spec.chart:
        source = _source(cluster, chart.spec.source_ref, found.namespace)
        # The API server writes * where the HelmRelease names no version.
        version = f" {chart.spec.version}" if chart.spec.version not in ("", "*") else ""
        rest = f"the chart is {chart.spec.chart}{version} of {source}"
        if file := _last_values_file(release.spec, chart.spec):
            where, rest = f"in {file} of {source}", f"the chart is {chart.spec.chart} there"
    elif ref := release.spec.chart_ref:
        rest = f"the chart is {_source(cluster, ref, found.namespace)}"
    return Place(found, where, rest)


def _last_values_file(spec: gitops.HelmReleaseSpec, chart: gitops.ChartSpec) -> str:
    """Return the values file in git that wins over the others, or an empty text if values outside of git win over it.

    The values files of a HelmRepository are in the chart's package, which nobody changes for one run.
    """
    is_in_git = chart.source_ref.kind in ("GitRepository", "Bucket")
    is_last = is_in_git and chart.values_files and not spec.values and not spec.values_from
    return chart.values_files[-1] if is_last and chart.values_files else ""


def _of_kustomization(cluster: Cluster, found: Owner) -> Place:
    return Place(found, f"in the values from which {_kustomized(cluster, found)} is rendered")


def _kustomized(cluster: Cluster, found: Owner) -> str:
    """Name the folder and the repository that the Kustomization applies."""
    try:
        made = _read(cluster, "kustomize.toolkit.fluxcd.io", found, gitops.Kustomization)
    except DistrainError as error:
        return f"the files of {found.words} ({_why_unknown(found, error)})"
    source = _source(cluster, made.spec.source_ref, made.metadata.namespace or found.namespace)
    return f"{made.spec.path or '.'} of {source}"


def _source(cluster: Cluster, ref: gitops.NamedReference, namespace: str) -> str:
    """Return "GitRepository runs in namespace flux-system (https://..., branch main)"."""
    named = Owner(ref.kind, ref.name, ref.namespace or namespace)
    words = f"{ref.kind} {ref.name} in namespace {named.namespace}"
    try:
        spec = _read(cluster, "source.toolkit.fluxcd.io", named, gitops.FluxSource).spec
    except DistrainError:
        return words
    revision = spec.ref or gitops.FluxRevision()
    # Flux takes the first of these fields that is set.
    fields = ("digest", "commit", "name", "semver", "tag", "branch")
    followed = next((f", {each} {getattr(revision, each)}" for each in fields if getattr(revision, each)), "")
    return f"{words} ({spec.url}{followed})"


def _read(cluster: Cluster, group: str, found: Owner, form: type[Any]) -> Any:
    """Read an object of Flux in the version that the cluster serves."""
    served = [api for api in cluster.served(group) if api.endswith(f"/{found.kind}")]
    if not served:
        raise NotFoundError(f"{found.kind} of {group} is not served")
    path = paths.of_kind(served[0].rpartition("/")[0], found.kind, found.namespace, found.name)
    return cluster.read_one(path, form, f"{found.kind} {found.name}")


def _why_unknown(found: Owner, error: DistrainError) -> str:
    if isinstance(error, ForbiddenError):
        return f"you may not read the {found.kind}, so its repository and file are not known"
    if isinstance(error, NotFoundError):
        return f"this cluster has no such {found.kind}, so its repository and file are not known"
    return f"the {found.kind} cannot be read, so its repository and file are not known"


def _parsed(text: str | None) -> Mapping[str, Any]:
    """Return values that an Application holds as text; Argo CD refuses other text than a map."""
    found = yaml_loader.load(text or "{}")
    return found if isinstance(found, dict) else {}
