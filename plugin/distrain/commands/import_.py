"""Run the command `import`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from distrain import console, files
from distrain.answers.output_file import refuse_existing, replacing
from distrain.apiserver import paths
from distrain.apiserver.capabilities import Capabilities
from distrain.errors import ForbiddenError, HelmError, NotFoundError, ValuesError, reason
from distrain.helm.chart import chart_folder, refuse_broken
from distrain.helm.program import Source
from distrain.helm.render import Helm, Template, find
from distrain.imports.accepted import Judge
from distrain.imports.credentials import hidden
from distrain.imports.draft import Draft
from distrain.imports.identify import JOBSET, MPIJOB, TRAINJOB, Found, find_job, text_of, with_runtime
from distrain.imports.jobsets.runtime import NAMESPACED_RUNTIME, RUNTIMES, reference
from distrain.imports.read import finished, read
from distrain.imports.values_file import secret_command, written
from distrain.kube.resource import plural
from distrain.request.request import Request
from distrain.workload.chart_objects import instance_of
from distrain.workload.kinds import KUBEFLOW, Kind
from distrain.yaml import yaml_writer

IN_CLUSTER = re.compile(r"([A-Za-z]+)(?:\.(?:trainer\.)?kubeflow\.org|\.jobset\.x-k8s\.io)?/([a-z0-9][a-z0-9.-]*)")
# The chart does not create objects of these kinds.
OTHERS = {"trainjob": TRAINJOB, "jobset": JOBSET}
# The chart is rendered for this version of Kubernetes, whose API has all pod fields that the chart can write.
KUBERNETES = "v1.34.0"


class Origin(Struct, frozen=True):
    """What is to be imported, its name in messages and in the file, and the flags that select its cluster."""

    found: Found
    name: str
    words: str
    helm_flags: str = ""


def run(options: argparse.Namespace) -> int:
    chart = chart_folder(options.chart)
    refuse_broken(chart, options.chart)
    target = Path(options.output) if options.output else None
    if target:
        refuse_existing(target, force=options.force)
    origin, draft = _imported(options, chart)
    made = _text(draft, chart, origin.words, options.output or "run.yaml")
    if target:
        with replacing(target) as file:
            file.write(made.encode())
    else:
        console.answer(made.rstrip("\n"))
    _tell(draft, target, origin.helm_flags)
    return 0


def _imported(options: argparse.Namespace, chart: Path) -> tuple[Origin, Draft]:
    """Read the job to import. In the messages of a ValuesError, hide the credentials that the job contains."""
    try:
        origin = _origin(options)
        draft = read(origin.found, origin.name)
        finished(draft, _judge(find(), chart, draft), origin.name)
    except ValuesError as error:
        raise ValuesError(*map(hidden, error.messages)) from None
    return origin, draft


def _origin(options: argparse.Namespace) -> Origin:
    named = IN_CLUSTER.fullmatch(options.source)
    if named and not Path(options.source).exists():
        if kind := _kind(named[1]):
            return _in_cluster(Request(options), kind, named[2])
        if other := OTHERS.get(named[1].lower().removesuffix("s")):
            return _other_in_cluster(Request(options), other, named[2])
    origin = "stdin" if options.source == "-" else options.source
    try:
        content = files.read(options.source, files.VALUES)
    except OSError as error:
        words = "name a file, - for stdin, or KIND/NAME for a job in the cluster"
        raise ValuesError(f"{origin}: cannot be read: {reason(error)}; {words}") from error
    found = find_job(text_of(content, origin), origin)
    return Origin(found, origin, f"{origin}: {found.words}")


def _kind(word: str) -> Kind | None:
    singular = word.lower().removesuffix("s")
    return next((kind for kind in KUBEFLOW.values() if kind.name.lower() == singular), None)


def _in_cluster(request: Request, kind: Kind, name: str) -> Origin:
    cluster = request.cluster
    namespace, origin = cluster.target.namespace, f"{kind.name}/{name}"
    served = cluster.served(kind.group)
    older = [MPIJOB[0]] * (MPIJOB[1] == kind.name)
    for api_version in (*(version.api_version for version in kind.versions), *older):
        if f"{api_version}/{kind.name}" not in served:
            continue
        path = paths.of_kind(api_version, kind.name, namespace, name)
        try:
            job = cluster.read_one(path, dict, f"{kind.name} {name}")
        except NotFoundError:
            continue
        _refuse_release(job, origin, cluster.target.helm_flags)
        job = {**job, "apiVersion": api_version, "kind": kind.name}
        words = f"{origin} in namespace {namespace} ({api_version})"
        return Origin(Found(job), origin, words, f" {cluster.target.helm_flags}")
    raise _absent(request, kind.name, origin, kind.resource)


def _absent(request: Request, kind: str, origin: str, resource: str) -> ValuesError:
    target = request.cluster.target
    words = f"`kubectl {target.kubectl_flags} get {resource}` lists what there is"
    return ValuesError(f"{origin}: there is no such {kind} in namespace {target.namespace}; {words}")


def _other_in_cluster(request: Request, api: tuple[str, str], name: str) -> Origin:
    """Read a job of a kind that the chart does not create. For a TrainJob, read its runtime, too."""
    (version, kind), cluster = api, request.cluster
    namespace, origin = cluster.target.namespace, f"{kind}/{name}"
    job = cluster.read_optional(paths.of_kind(version, kind, namespace, name), dict, f"{kind} {name}")
    if job is None:
        raise _absent(request, kind, origin, f"{plural(kind)}.{version.partition('/')[0]}")
    job = {**job, "apiVersion": version, "kind": kind}
    found = with_runtime(job, _runtime(request, job)) if api == TRAINJOB else Found(job)
    return Origin(found, origin, f"{origin} in namespace {namespace} ({version})", f" {cluster.target.helm_flags}")


def _runtime(request: Request, job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the runtime that a TrainJob names, or None if the runtime does not exist or the user may not read it."""
    kind, name = reference(job)
    if kind not in RUNTIMES or not name:
        return None
    namespace = request.cluster.target.namespace if kind == NAMESPACED_RUNTIME else ""
    path = paths.of_kind(TRAINJOB[0], kind, namespace, name)
    try:
        return request.cluster.read_optional(path, dict, f"{kind} {name}")
    except ForbiddenError:
        return None


def _refuse_release(job: dict[str, Any], origin: str, helm_flags: str) -> None:
    if release := instance_of((job.get("metadata") or {}).get("labels")):
        words = f"`helm {helm_flags} get values {release}` prints its values"
        raise ValuesError(f"{origin}: is the job of the release {release}; {words}")


def _judge(helm: Helm, chart: Path, draft: Draft) -> Judge:
    """Return a function that renders the chart with given values, and returns the error messages.

    It renders for the newest API version of the job's kind, and for the version of the imported job.
    """

    def judge(values: dict[str, Any]) -> Sequence[str]:
        source = Source(chart, ()).with_text(yaml_writer.dump(values))
        for template in _templates(draft):
            try:
                _ = helm.render(source, template).manifest
            except ValuesError as error:
                return error.messages
            except HelmError:
                # Perhaps Helm failed because the chart's schema refuses a value. Then `values` raises an error that is
                # easier to understand.
                try:
                    helm.values(source)
                except ValuesError as error:
                    return error.messages
                raise
        return ()

    return judge


def _templates(draft: Draft) -> Iterator[Template]:
    yield Template(draft.name, draft.namespace or "default", None)
    versions = KUBEFLOW[draft.kind].versions if draft.kind in KUBEFLOW else ()
    for version in versions:
        if version.name == draft.version and version is not versions[0]:
            apis = (version.api_version, f"{version.api_version}/{version.kind}")
            yield Template(draft.name, draft.namespace or "default", Capabilities(KUBERNETES, apis))


def _text(draft: Draft, chart: Path, source: str, file: str) -> str:
    defaults = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    return written(draft, source, file, defaults, schema)


def _tell(draft: Draft, target: Path | None, flags: str) -> None:
    """Print what is left out, what the user must look at, and the command that creates the Secret."""
    for place, why in draft.lost:
        console.say(f"left out: {place}: {why}")
    for words in draft.notes:
        console.say(hidden(words))
    if lines := secret_command(draft):
        console.say("the values contain no credentials; this command creates the Secret that the values name:")
        console.say_text("\n".join(lines))
    if target:
        command = f"helm distrain check -f {shlex.quote(str(target))}{flags}"
        console.say(f"wrote {target}; `{command}` says whether it fits")
