"""Judge the job of `check`, and print the report or the explanation of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import to_builtins

from distrain import console, kube
from distrain.answers.formats import MARKDOWN, dumped
from distrain.apiserver.target import namespace_alone
from distrain.check import live_cluster, snapshot_file
from distrain.check.assumed_nodes import assumed_nodes
from distrain.check.cluster_state import ClusterState, over
from distrain.check.explain import why
from distrain.check.gpus import gpus_of
from distrain.check.markdown import check_markdown
from distrain.check.refusals import PreparedJob
from distrain.check.report import report
from distrain.check.text import summary
from distrain.request.request import NAMELESS, Request
from distrain.workload.manifest import Job, from_manifest

if TYPE_CHECKING:
    from distrain.derive.room import Room


def answer(request: Request, manifest: str | None) -> int:
    """Judge the job that the manifest or the values describe, print the verdict and return its exit code."""
    options = request.options
    job, gpu_resource = _job(request, manifest)
    more = assumed_nodes(options.assume_nodes, gpu_resource or gpus_of(job))
    prepared, state = _examined(request, job, gpu_resource, more)
    if options.why:
        console.answer_people("\n".join(why(options.why, prepared.job, state)))
        return 0
    found = report(prepared, state, more)
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


def _job(request: Request, manifest: str | None) -> tuple[Job, str | None]:
    """Return the job and the resource name of its GPUs; the name is None if no value sets it."""
    if manifest is not None:
        return from_manifest(manifest, "--manifest", judges_all=True), None
    if _is_offline(request):
        return _offline_job(request)
    found = request.new_job(is_release=False)
    return found.job, found.gpu_resource


def _offline_job(request: Request) -> tuple[Job, str | None]:
    """Render the job for what the snapshot says is served, otherwise with the newest API version of its kind."""
    # Imported for values only: a manifest's job needs no derived values.
    from distrain.derive.measured import measured
    from distrain.helm.render import Template

    options, source, helm = request.options, request.source, request.helm
    namespace = namespace_alone(options.namespace)

    def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
        """Return the capacity of the assumed nodes; a snapshot file would replace this function."""
        return measured(assumed_nodes(options.assume_nodes, gpu_resource), over(()), namespace, render(), gpu_resource)

    values = request.merged_values(source)

    def template() -> Template:
        served = request.snapshot.capabilities if request.snapshot else None
        return Template(request.name or NAMELESS, namespace, served, has_valid_values=True, has_test=False)

    complete = request.completed(source, ask, template, is_final=False)
    job = helm.render(complete, template()).job().of_release(request.name or NAMELESS)
    return job, (values.get("workers") or {}).get("gpuResource")


def _examined(
    request: Request, job: Job, gpu_resource: str | None, more: Sequence[kube.Node]
) -> tuple[PreparedJob, ClusterState]:
    """Read the job's dependencies and the nodes from the cluster or the file; the release's pods count as free."""
    options = request.options
    if not _is_offline(request):
        cluster = request.cluster
        return live_cluster.examined(cluster, job, cluster.target.namespace, gpu_resource, request.name, more)
    found = request.snapshot or snapshot_file.Contents()
    namespace = namespace_alone(options.namespace)
    return snapshot_file.examined(found, job, namespace, gpu_resource, request.name, more)
