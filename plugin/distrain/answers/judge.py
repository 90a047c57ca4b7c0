"""Carry out the command `check`: judge a job, and print the report or the explanation of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from distrain import console, kube
from distrain.answers.formats import MARKDOWN, dumped
from distrain.apiserver.target import namespace_alone
from distrain.check import live_cluster
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import ClusterState, over
from distrain.check.explain import why
from distrain.check.gpus import gpus_of
from distrain.check.markdown import check_markdown
from distrain.check.refusals import PreparedJob
from distrain.check.report import report
from distrain.check.snapshot import snapshot_file
from distrain.check.text import summary
from distrain.lint.rules import warnings
from distrain.request.request import NAMELESS, Request
from distrain.workload.manifest import Job, from_manifest

if TYPE_CHECKING:
    from distrain.derive.room import Room


class Described(NamedTuple):
    """A job, the name of its GPU resource, and its merged values.

    The last two are empty if a manifest describes the job.
    """

    job: Job
    gpu_resource: str | None = None
    values: Mapping[str, Any] | None = None


def answer(request: Request, manifest: str | None) -> int:
    """Judge the job that the manifest or the values describe, print the verdict and return its exit code."""
    options = request.options
    job, gpu_resource, values = _described(request, manifest)
    more = assumed_nodes(options.assume_nodes, gpu_resource or gpus_of(job))
    prepared, state = _examined(request, job, gpu_resource, more)
    if options.why:
        console.answer_people("\n".join(why(options.why, prepared.job, state)))
        return 0
    found = replace(report(prepared, state, more), warnings=warnings(values, job, state.nodes) if values else [])
    if options.output == MARKDOWN:
        console.answer_people(check_markdown(request.name or NAMELESS, found, prepared.job))
        return found.verdict.exit_code
    if options.output != "text":
        console.answer(dumped(to_builtins(found), options.output))
        return found.verdict.exit_code
    in_cluster = not _is_offline(request) and request.cluster.target.in_cluster
    lines = summary(found, prepared.job, answer_last=in_cluster)
    console.answer_people("\n".join(lines))
    if in_cluster:
        console.leave(lines[-1])
    return found.verdict.exit_code


def _is_offline(request: Request) -> bool:
    return bool(request.options.snapshot or request.options.offline)


def _described(request: Request, manifest: str | None) -> Described:
    if manifest is not None:
        return Described(from_manifest(manifest, f"--manifest: {request.options.manifest}", judges_all=True))
    if _is_offline(request):
        return _described_offline(request)
    found = request.new_job(is_release=False)
    return Described(found.job, found.gpu_resource, found.values)


def _described_offline(request: Request) -> Described:
    """Render the job for the API versions that the snapshot lists.

    Without a snapshot, use the newest API version of the job's kind.
    """
    # Import only here, for jobs from values: a job from a manifest needs no derived values.
    from distrain.derive.measured import measured
    from distrain.helm.record_size import with_record
    from distrain.helm.render import Template

    options, source, helm = request.options, request.source, request.helm
    namespace = namespace_alone(options.namespace)

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        """Return the capacity of the assumed nodes. With a snapshot, this function is not used."""
        return measured(assumed_nodes(options.assume_nodes, gpu_resource), over(()), namespace, render(), gpu_resource)

    def template() -> Template:
        served = request.snapshot.capabilities if request.snapshot else None
        return Template(request.name or NAMELESS, namespace, served, has_valid_values=True, has_test=False)

    complete = request.completed(source, ask, template, is_final=False)
    rendering = helm.render(complete, template())
    job = rendering.job().of_release(request.name or NAMELESS)
    values = request.merged_values(source)
    if complete is not source:
        values = _with_derived(values, (complete.stdin or b"").decode())
    job = with_record(job, complete.chart, values, rendering.manifest)
    return Described(job, (values.get("workers") or {}).get("gpuResource"), values)


def _with_derived(values: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the merged values plus the keys that derive has added to `workers`.

    This is faster than running Helm again to merge them.
    """
    from distrain.yaml import yaml_loader

    derived = (yaml_loader.load(text) or {}).get("workers") or {}
    plain = {key: value for key, value in derived.items() if not isinstance(value, dict | list)}
    return {**values, "workers": {**(values.get("workers") or {}), **plain}}


def _examined(
    request: Request, job: Job, gpu_resource: str | None, more: Sequence[kube.Node]
) -> tuple[PreparedJob, ClusterState]:
    """Read the nodes and the objects that the job depends on, from the cluster or the file.

    The pods of the release that the job replaces are treated as if they had ended.
    """
    options = request.options
    if not _is_offline(request):
        cluster = request.cluster
        return live_cluster.examined(cluster, job, cluster.target.namespace, gpu_resource, request.name, more)
    found = request.snapshot or snapshot_file.Contents()
    namespace = namespace_alone(options.namespace)
    return snapshot_file.examined(found, job, namespace, gpu_resource, request.name, more)
