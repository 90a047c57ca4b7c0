"""Read a release that Argo CD or Flux manages. Instead of changing the release, say what to change in git."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from msgspec.structs import replace

from distrain.errors import RefusedError, ValuesError
from distrain.helm.program import Source
from distrain.helm.render import Template
from distrain.kube.gitops import HelmParameter
from distrain.release import values_in_git
from distrain.release.changes import settings
from distrain.release.current import Current, OwnedJob, owned_job, owner_of
from distrain.release.owner import Owner
from distrain.release.size import Values, differing
from distrain.release.values_in_git import Place
from distrain.request.rendered_job import RenderedJob
from distrain.request.request import NAMELESS, Request
from distrain.yaml import yaml_writer

Wanted = Callable[[OwnedJob], Values]


def source_of(chart: Source, values: Values) -> Source:
    """Return the chart, with these values as the only values that the user sets."""
    return chart.with_text(yaml_writer.dump(values))


def chart_version(source: Source) -> str:
    return str(yaml.safe_load((source.chart / "Chart.yaml").read_text())["version"])


def refuse_taken(request: Request, name: str) -> None:
    """Raise RefusedError if Flux has installed the release of this name."""
    revision = request.helm.releases.revision(name, request.cluster.target)
    if found := owner_of(revision) if revision else None:
        raise _new_refusal(request, name, found)


def refuse_applied(request: Request, name: str) -> None:
    """Raise RefusedError if Argo CD or Flux has applied a job of this name without Helm."""
    if found := owned_job(request.cluster, name, request.cluster.target.namespace):
        raise _new_refusal(request, name, found.owner)


def _new_refusal(request: Request, name: str, found: Owner) -> RefusedError:
    place = values_in_git.find(request.cluster, found, request.cluster.target.namespace)
    return values_in_git.refusal(name, place, settings({}, request.helm.given_values(request.source)))


def with_values_files(request: Request, current: Current) -> Current:
    """Return the release of a HelmRelease; all of its values count as the user's values.

    The reason is that Flux merges the files in spec.chart.spec.valuesFiles into the chart's defaults, so Helm does not
    record the values in these files as the user's values.
    """
    every = request.helm.releases.all_values(request.options.name, request.cluster.target)
    return replace(current, revision=replace(current.revision, values=every))


def is_of_helm_release(current: Current) -> bool:
    return current.owner is not None and current.owner.kind == "HelmRelease"


def in_git(request: Request, current: Current, found: RenderedJob) -> RefusedError:
    """Return the error that refuses to change a job whose values are in git. Its messages say what to change in git."""
    assert current.owner
    place = values_in_git.find(request.cluster, current.owner, found.release.target.namespace)
    old, new = current.revision.values, request.helm.given_values(found.release.source)
    if is_of_helm_release(current):
        defaults = request.helm.merged_values(source_of(request.source, {}))
        old, new = differing(old, defaults), differing(request.helm.merged_values(found.release.source), defaults)
    return values_in_git.refusal(request.options.name, place, settings(old, new))


def applied_from_git(request: Request, owned: OwnedJob, wanted: Wanted) -> Current:
    """Return the current state of a job that has no Helm release. The values come from the job's Application.

    Raise RefusedError if the values are in a file in git, which the plugin cannot read.
    """
    name, cluster = request.options.name, request.cluster
    namespace = cluster.target.namespace
    place = values_in_git.find(cluster, owned.owner, namespace)
    if place.inline is None:
        raise _refusal(name, place, wanted(owned), is_dry_run=bool(request.options.dry_run))
    values = _own_values(request, place)
    source = source_of(request.source, values)
    template = Template(name or NAMELESS, namespace, request.capabilities, has_valid_values=True)
    rendering = request.helm.render(source, template)
    # Imported here, because only a change needs pyhelm3.
    from distrain.helm.releases import Revision

    revision = Revision(0, "deployed", chart_version(source), values, rendering.manifest)
    pods = cluster.release_pods(namespace, name)
    return Current(revision, rendering.job(), owned.state, pods, owner=owned.owner)


def _refusal(name: str, place: Place, wanted: Values, *, is_dry_run: bool) -> RefusedError:
    error = values_in_git.refusal(name, place, settings({}, wanted))
    if is_dry_run:
        plan = f"helm distrain upgrade {name} --dry-run --from BEFORE -f AFTER"
        step = f"{name}: its values are in git, not in the cluster; `{plan}` shows the plan from two files"
        error.messages = (*error.messages, step)
    return error


def _own_values(request: Request, place: Place) -> dict[str, Any]:
    """Return the values of the Application, overridden by the Application's parameters.

    Argo CD passes them to Helm in the same way.

    Raise ValuesError if the chart's schema refuses the values.
    """
    source = source_of(request.source, dict(place.inline or {}))
    words = tuple(word for each in place.parameters for word in _flag(each))
    source = source._replace(flags=(*source.flags, *words))
    try:
        return request.helm.given_values(source)
    except ValuesError as error:
        raise ValuesError(*(f"{place.owner.words}: {message}" for message in error.messages)) from error


def _flag(parameter: HelmParameter) -> tuple[str, str]:
    """Return the flag of Helm that sets a parameter.

    As in Argo CD, each comma in the value is escaped, except in a list like {a,b}.
    """
    value = parameter.value
    is_list = value.startswith("{") and value.endswith("}")
    escaped = value if is_list else value.replace(",", "\\,")
    return "--set-string" if parameter.force_string else "--set", f"{parameter.name}={escaped}"
