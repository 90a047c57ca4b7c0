"""Find out from objects of Argo CD and Flux where the values of a release are kept, and say what to write there.

The user may not have the right to read these objects, or the objects may be in another cluster. If the objects cannot
be read, the message says only what is known.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from distrain.apiserver import paths
from distrain.apiserver.cluster import Cluster
from distrain.errors import DistrainError, ForbiddenError, NotFoundError, RefusedError
from distrain.kube import gitops
from distrain.release.owner import ARGO_ANNOTATION, Owner, Ownership, application, owner
from distrain.workload.wording import listed
from distrain.yaml import yaml_loader

ARGO = "argoproj.io/v1alpha1"
# Argo CD's own installation manifests use this namespace.
ARGO_NAMESPACE = "argocd"
UNKNOWN = "in the git repository that holds it"
# If there are more than MOST_LINES lines, the rest is counted and not listed.
MOST_LINES = 5


class ChartSource(Struct, frozen=True):
    """The source in an Argo CD Application that contains the chart; `path` is where the Application has this source.

    If Argo CD does not render the chart itself, `rendered_from` names the place of the values. It completes the
    sentence "write LINE ...".
    """

    path: str
    source: gitops.ApplicationSource
    rendered_from: str = ""


class Place(Struct, frozen=True):
    """Where the values of a release are kept.

    `owner` also has the namespace, if it could be found. `where` completes the sentence "write LINE ...", and `rest`
    adds where the chart comes from. `parameters` are the values that an Application sets in its field
    `where_parameters`; they override all other values. `notes` are further sentences. `inline` has the values if the
    owner itself contains all of them, otherwise it is None.
    """

    owner: Owner
    where: str
    rest: str = ""
    parameters: Sequence[gitops.HelmParameter] = ()
    where_parameters: str = ""
    notes: Sequence[str] = ()
    inline: Mapping[str, Any] | None = None


def refusal(name: str, place: Place, changed: Mapping[str, str | None]) -> RefusedError:
    """Return the error that refuses a change of a release, and says what to change in git instead.

    `changed` are the changed values as `settings` returns them.
    """
    words = f"belongs to {place.owner.words}, which would undo the change: nothing was changed"
    return RefusedError(f"{name}: {words}", *steps(name, place, changed))


def steps(name: str, place: Place, changed: Mapping[str, str | None]) -> list[str]:
    """Return the messages that say what to write, and where to write it."""
    return [f"{name}: {each}" for each in _steps(place, changed)]


def _steps(place: Place, changed: Mapping[str, str | None]) -> list[str]:
    """Return what to change and where.

    A parameter of an Application overrides the Application's values, so the parameter must be changed.
    """
    names = {each.name for each in place.parameters}
    by_parameter = {path: line for path, line in changed.items() if path in names}
    others = {path: line for path, line in changed.items() if path not in names}
    told = [f"{_lines(others)} {place.where}" if others or not by_parameter else ""]
    told += [f"{_lines(by_parameter)} {place.where_parameters}" if by_parameter else ""]
    *first, last = filter(None, told)
    return [*first, last + (f"; {place.rest}" if place.rest else ""), *place.notes]


def _lines(changed: Mapping[str, str | None]) -> str:
    """Return a text such as "write `a: 1` and remove `b`"."""
    written = [f"`{line}`" for line in changed.values() if line is not None]
    removed = [f"`{path}`" for path, line in changed.items() if line is None]
    parts = [f"{verb} {_few(words)}" for verb, words in (("write", written), ("remove", removed)) if words]
    return " and ".join(parts) or "change the values"


def _few(words: Sequence[str]) -> str:
    more = len(words) - MOST_LINES
    return listed([*words[:MOST_LINES], f"{more} more"] if more > 0 else words)


def find(cluster: Cluster, found: Owner, namespace: str) -> Place:
    """Return where this owner keeps the values of its release in the namespace."""
    if found.kind == "Application":
        return _of_application(cluster, found, namespace)
    return _of_helm_release(cluster, found) if found.kind == "HelmRelease" else _of_kustomization(cluster, found)


def application_named(cluster: Cluster, named: str, namespace: str) -> Owner | None:
    """Return the Application that deploys to the namespace, or None if no such one can be found.

    `named` is APP or NAMESPACE_APP.
    """
    if not (wanted := application(named)):
        return None
    try:
        found = _application(cluster, wanted, namespace)
    except DistrainError:
        return None
    is_there = found.spec.destination.namespace == namespace
    return Owner(wanted.kind, wanted.name, found.metadata.namespace) if is_there else None


def _of_application(cluster: Cluster, found: Owner, namespace: str) -> Place:
    try:
        application = _application(cluster, found, namespace)
    except DistrainError as error:
        return Place(found, f"under spec.source.helm of the Application, {UNKNOWN}", _why_unknown(found, error))
    found = Owner(found.kind, found.name, application.metadata.namespace or found.namespace)
    chart = _chart_source(application)
    place = Place(found, chart.rendered_from, notes=_kept_by(application, found))
    return place if chart.rendered_from else _of_helm(application, chart, place)


def _of_helm(application: gitops.Application, chart: ChartSource, place: Place) -> Place:
    """Add to `place` the location of the values that Argo CD passes to Helm."""
    path, source = f"{chart.path}.helm", chart.source
    helm = source.helm or gitops.HelmSettings()
    place = replace(
        place,
        rest=f"the chart is {source.chart or source.path} of {_repository(source)}",
        parameters=helm.parameters or (),
        where_parameters=f"among {path}.parameters of the Application",
    )
    has_text = bool(helm.values) and helm.values_object is None
    file = _in_file(application, source, helm.value_files[-1] if helm.value_files else "")
    if file and helm.values_object is None and not has_text:
        return replace(place, where=file)
    key = "values" if has_text else "valuesObject"
    values = _parsed(helm.values) if helm.values_object is None else helm.values_object
    if values is None:
        note = f"{path}.values of the Application is no YAML of the form KEY: VALUE; Argo CD cannot apply it"
        place = replace(place, notes=[*place.notes, note])
    inline = None if helm.value_files or helm.file_parameters else values
    return replace(place, where=f"under {path}.{key} of the Application", inline=inline)


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
    # The namespace in which Argo CD runs is not known. If several Applications have this name, use the one that deploys
    # to this namespace.
    named.sort(key=lambda each: each.spec.destination.namespace != namespace)
    if not named:
        raise NotFoundError(f"{found.words}: the cluster has no such Application")
    return named[0]


def _chart_source(application: gitops.Application) -> ChartSource:
    """Return the source that contains the chart."""
    spec, status = application.spec, application.status
    if spec.source_hydrator:
        dry = spec.source_hydrator.dry_source
        # Before version 3.3, Argo CD has no field `helm` here. It then reads the values from files beside the chart.
        where = "" if dry.helm else f"among the values of {_path(dry)}"
        return ChartSource("spec.sourceHydrator.drySource", dry, where)
    if not spec.sources:
        source = spec.source or gitops.ApplicationSource()
        return ChartSource("spec.source", source, _rendered_from(source, status.source_type))
    types = itertools.chain(status.source_types or (), itertools.repeat(""))
    numbered = [
        ChartSource(f"spec.sources[{number}]", source, _rendered_from(source, kind))
        for number, (source, kind) in enumerate(zip(spec.sources, types, strict=False))
    ]
    # Other sources only contain values files, or add plain manifests.
    numbered.sort(
        key=lambda each: (not each.source.helm, bool(each.rendered_from), not (each.source.path or each.source.chart))
    )
    return numbered[0]


def _rendered_from(source: gitops.ApplicationSource, kind: str) -> str:
    """If Argo CD does not render the chart itself, say where the values are; otherwise return an empty text."""
    return "" if source.helm or kind in ("", "Helm") else f"in the values from which {_path(source)} is rendered"


def _path(source: gitops.ApplicationSource) -> str:
    return f"{source.path or '.'} of {_repository(source)}"


def _in_file(application: gitops.Application, source: gitops.ApplicationSource, file: str) -> str:
    """Name the values file and its repository. Return an empty text if the file belongs to the chart.

    If a file is written as $REF/FILE, it is in the source whose `ref` is REF.
    """
    if file.startswith("$"):
        ref, _, file = file[1:].partition("/")
        sources = [each for each in application.spec.sources or () if each.ref == ref]
        return f"in {file} of {_repository(sources[0]) if sources else f'the source {ref}'}"
    if "://" in file:
        return f"in {file}"
    # Two kinds of files are not the place for a run's values: the files of a chart in a registry, which a commit cannot
    # change, and the chart's own values.yaml, which all runs share.
    if not file or source.chart or posixpath.normpath(file) == "values.yaml":
        return ""
    below = file.lstrip("/") if file.startswith("/") else posixpath.normpath(posixpath.join(source.path, file))
    return f"in {below} of {_repository(source)}"


def _repository(source: gitops.ApplicationSource) -> str:
    return f"{source.repo_url}, revision {source.target_revision or 'HEAD'}"


def _kept_by(application: gitops.Application, found: Owner) -> list[str]:
    """Name the owner that creates the Application, because this owner would undo a change of the Application."""
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
    chart, ref = release.spec.chart, release.spec.chart_ref
    rest = ""
    if chart:
        # The API server writes `*` if the HelmRelease names no version.
        version = f" {chart.spec.version}" if chart.spec.version not in ("", "*") else ""
        source = _source(cluster, chart.spec.source_ref, found.namespace)
        rest = f"the chart is {chart.spec.chart}{version} of {source}"
    elif ref:
        rest = f"the chart is {_source(cluster, ref, found.namespace)}"
    where = _in_values_file(cluster, release, found) or f"under spec.values of the HelmRelease, {kept}"
    return Place(found, where, rest)


def _in_values_file(cluster: Cluster, release: gitops.HelmRelease, found: Owner) -> str:
    """Name the values file of the run among the chart's valuesFiles.

    Return an empty text if other values override this file.
    """
    spec = release.spec
    if not spec.chart or not spec.chart.spec.values_files or spec.values or spec.values_from:
        return ""
    chart, ref = spec.chart.spec.chart, spec.chart.spec.source_ref
    file = posixpath.normpath(spec.chart.spec.values_files[-1])
    # Files from a HelmRepository and files in the chart's folder belong to the chart.
    if ref.kind == "HelmRepository" or file.startswith(f"{posixpath.normpath(chart)}/"):
        return ""
    return f"in {file} of {_source(cluster, ref, found.namespace)}"


def _of_kustomization(cluster: Cluster, found: Owner) -> Place:
    return Place(found, f"in the values from which {_kustomized(cluster, found)} is rendered")


def _kustomized(cluster: Cluster, found: Owner) -> str:
    """Return the folder and the repository that the Kustomization applies, in words."""
    try:
        made = _read(cluster, "kustomize.toolkit.fluxcd.io", found, gitops.Kustomization)
    except DistrainError as error:
        return f"the folder of {found.words} ({_why_unknown(found, error)})"
    source = _source(cluster, made.spec.source_ref, found.namespace)
    return f"{made.spec.path or '.'} of {source}"


def _source(cluster: Cluster, ref: gitops.NamedReference, namespace: str) -> str:
    """Return a text such as "GitRepository runs in namespace flux-system (https://..., branch main)"."""
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
        raise NotFoundError(f"this cluster does not serve {found.kind} of {group}")
    path = paths.of_kind(served[0].rpartition("/")[0], found.kind, found.namespace, found.name)
    return cluster.read_one(path, form, f"{found.kind} {found.name}")


def _why_unknown(found: Owner, error: DistrainError) -> str:
    if isinstance(error, ForbiddenError):
        return f"you may not read the {found.kind}, so its repository and file are not known"
    if isinstance(error, NotFoundError):
        return f"this cluster has no such {found.kind}, so its repository and file are not known"
    return f"the {found.kind} cannot be read, so its repository and file are not known"


def _parsed(text: str | None) -> Mapping[str, Any] | None:
    """Return the values that an Application contains as text, or None if the text is not a YAML mapping."""
    try:
        found = yaml_loader.load(text or "") or {}
    except yaml_loader.NotYamlError:
        return None
    return found if isinstance(found, dict) else None
