"""Find the release, chart, values, Helm program and cluster that a command's arguments name, and render the job.

Each command creates one Request and passes it on. A Request reads the chart, the cluster and the like only when a
command first asks for them. So a command never waits for something that it does not use.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from distrain import console
from distrain.command_line.arguments import wrong_name
from distrain.errors import HelmError, UnreachableError, ValuesError, reason
from distrain.request.rendered_job import RenderedJob

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from distrain.apiserver.capabilities import Capabilities
    from distrain.apiserver.cluster import Cluster
    from distrain.check.snapshot.snapshot_file import Contents
    from distrain.derive.complete import Given, Measure
    from distrain.derive.room import Room
    from distrain.helm.program import Source
    from distrain.helm.render import Helm, Template
    from distrain.kube import Node
    from distrain.record.read import Record
    from distrain.workload.manifest import Job

# The end of the error message if a command needs the nodes but cannot read the cluster.
NO_NODES = "; or add --node-gpus N, the GPUs of a node, or --snapshot FILE"
# A rendered job has this name if its release has no name.
NAMELESS = "check"


class Request:
    """The release, the chart, the values and the cluster that a command's arguments name.

    The name of the release is None if `check` is called without a name.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    @cached_property
    def name(self) -> str | None:
        """Return the name of the release. If a flag asks for it, generate a name as Helm does.

        Raise ValuesError if the generated name is not valid for a release.
        """
        options = self.options
        flag, template = getattr(options, "naming", None) or ("", "")
        if not flag:
            return getattr(options, "release", None) or getattr(options, "name", None)
        chart = self.source.chart
        name = self.helm.name_of(template) if template else f"{_word_of(chart)}-{int(time.time())}"
        if words := wrong_name(name):
            raise ValuesError(f"{flag}: {words}")
        console.say(f"{flag}: the release is named {name}")
        return name

    @cached_property
    def source(self) -> Source:
        """Return the chart and the flags for its values; raise ValuesError if the chart or a file does not exist."""
        from distrain.helm import inputs
        from distrain.helm.chart import chart_folder, refuse_broken

        chart = chart_folder(self.options.chart)
        refuse_broken(chart, self.options.chart)
        return inputs.source(chart, self.options.value_flags, lambda url: self.helm.fetched(url))

    @cached_property
    def helm(self) -> Helm:
        from distrain.helm.render import find

        return find()

    @cached_property
    def cluster(self) -> Cluster:
        """Return an object for requests to the cluster; send no request yet. Its `target` contains the namespace."""
        from distrain.apiserver.cluster import connect
        from distrain.apiserver.target import choose

        flags = self.options
        target = choose(kubeconfig=flags.kubeconfig, context=flags.kube_context, namespace=flags.namespace)
        return connect(target, request_timeout=flags.request_timeout)

    @cached_property
    def capabilities(self) -> Capabilities:
        from distrain.workload.kinds import RENDERED_GROUPS

        return self.cluster.capabilities(RENDERED_GROUPS)

    @cached_property
    def snapshot(self) -> Contents | None:
        """Return the content of the file that --snapshot names, or None without this flag."""
        path = getattr(self.options, "snapshot", None)
        if not path:
            return None
        from distrain.check.snapshot.snapshot_file import read_file

        return read_file(path)

    def record(self, release: str, endpoint: str, command: str) -> tuple[Record, str] | None:
        """Read a release's record from the location in its values. Return None if Helm does not know the release.

        `command` is shown in an error message: the user can run it after copying the record to a folder with the
        release's name.
        """
        from distrain.record import source

        target, releases = self.cluster.target, self.helm.releases
        if releases.status(release, target) is None:
            return None
        values = releases.all_values(release, target)
        return source.from_release(release, target.namespace, values, endpoint, command)

    def reach(self) -> None:
        """Send the first request to the cluster. Raise UnreachableError if the cluster does not answer.

        Otherwise Helm might send the first request. If the cluster is down, the user would then see Helm's error.
        """
        _ = self.capabilities

    def given(self, source: Source, template: Callable[[], Template] | None = None) -> Given:
        """Return the input for `derive`. The flags --node-gpus, --instance and --snapshot describe the nodes.

        The job is rendered twice: first to find out how much room the nodes have for it, and later with the derived
        values. The Helm process for the second rendering is started early, during the first one; `template` returns the
        Template of the second rendering.
        """
        from distrain.derive.complete import Given

        helm, chart = self.helm, source.chart
        texts = tuple(text_of(source, path) for path in source.files)
        if template:
            return Given(self.helm, source, texts, self._stated_nodes(), lambda: helm.expect_text(chart, template()))
        # Read the snapshot even if no value depends on the nodes, so that a wrong file is always refused.
        _ = self.snapshot
        return Given(self.helm, source, texts, self._stated_nodes())

    def merged_values(self, source: Source) -> dict[str, Any]:
        """Return the values merged with the chart's defaults; raise ValuesError if the image is still a placeholder."""
        from distrain.values.placeholder import refuse_placeholder

        merged = self.helm.merged_values(source)
        refuse_placeholder(merged)
        return merged

    def completed(
        self, source: Source, ask: Measure, template: Callable[[], Template] | None = None, *, is_final: bool = True
    ) -> Source:
        """Return the source with all values: derive missing values, and print notes on how the GPUs are split.

        `ask` returns the cluster's nodes. It is called only if the GPUs must be split and the arguments do not describe
        the nodes. `template` is the same as in `given`. `is_final` means that the values will be installed, and not
        only checked. Raises ValuesError if the GPUs cannot be split, or if the image is still a placeholder.
        """
        from distrain.derive.complete import completed_source, leaves_open

        merged, given = self.merged_values(source), self.given(source, template)
        if not leaves_open(given, merged, is_final=is_final):
            return source
        complete, notes = completed_source(given, ask)
        for note in notes:
            console.say(note)
        return complete

    def cluster_nodes(self, *, running: str | None = None, hint: str = "") -> Measure:
        """Return a function that reads the cluster's nodes.

        The function treats the pods of the release `running` as if they had ended.

        If the cluster cannot be read, the function raises UnreachableError, whose message ends with the hint.
        """

        def ask(render: Callable[[], Job], gpu_resource: str) -> Room:
            from distrain.derive.measured import measured

            job = render()
            try:
                cluster = self.cluster
                namespace = cluster.target.namespace
                nodes = [*cluster.nodes(), *self._assumed_nodes(gpu_resource)]
                return measured(nodes, cluster.over_pods, namespace, job, gpu_resource, running)
            except UnreachableError as error:
                if not hint:
                    raise
                raise UnreachableError(error.messages[0] + hint) from error

        return ask

    def new_job(self, *, is_release: bool, uninstalled: int = 0) -> RenderedJob:
        """Render the job. The fast checks run first: of the values, then of the cluster, then of the chart's rules.

        `is_release` is true if the command will create a release. The name of the release must then be free, and its
        namespace must exist unless --create-namespace is given. `uninstalled` is the last revision of a release of this
        name that was uninstalled with --keep-history, otherwise 0. If `is_release` is false, the job is only checked
        and not installed.
        """
        refuse_disabled(self.helm.merged_values(self.source))
        self.reach()
        if is_release:
            from distrain.release import namespace
            from distrain.release.install import refuse_taken_name
            from distrain.release.transaction import Release

            if not self.options.create_namespace:
                namespace.refuse_missing(self.cluster, self.cluster.target.namespace)
            if not uninstalled:
                refuse_taken_name(self.helm.releases, Release(self.name or NAMELESS, self.source, self.cluster.target))
        found = self.job(self.source, is_final=is_release)
        # A release of this name may already exist, with any revision number.
        revision = uninstalled + 1 if is_release else 0
        return found._replace(job=found.job.of_release(found.release.name, revision))

    def job(self, source: Source, *, is_final: bool = True, running: str | None = None) -> RenderedJob:
        """Derive the missing values, and render the job for the cluster.

        The nodes are judged as if the pods of the release `running` had ended.
        """
        from distrain.helm.record_size import with_record
        from distrain.helm.render import Template
        from distrain.release.transaction import Release

        def template() -> Template:
            namespace = self.cluster.target.namespace
            return Template(self.name or NAMELESS, namespace, self.capabilities, has_valid_values=True)

        complete = self.completed(source, self.cluster_nodes(running=running), template, is_final=is_final)
        release = Release(self.name or NAMELESS, complete, self.cluster.target)
        rendering = self.helm.render(complete, template())
        values = self.helm.merged_values(complete)
        job = with_record(rendering.job(), complete.chart, values, rendering.manifest)
        return RenderedJob(self, release, rendering.manifest, job, values)

    def _stated_nodes(self) -> Measure | None:
        node_gpus = getattr(self.options, "node_gpus", None)
        if node_gpus:
            from distrain.derive.room import StatedNodes

            return lambda render, gpu_resource: StatedNodes(node_gpus)
        if name := getattr(self.options, "instance", None):
            from distrain.derive.room import nodes_of
            from distrain.instances import table

            instance = table.find(name)
            return lambda render, gpu_resource: nodes_of(instance, render())
        return self._nodes_of_snapshot if getattr(self.options, "snapshot", None) else None

    def _nodes_of_snapshot(self, render: Callable[[], Job], gpu_resource: str) -> Room:
        from distrain.apiserver.target import namespace_alone
        from distrain.check.cluster_state import over
        from distrain.derive.measured import measured

        job, found = render(), self.snapshot
        assert found
        nodes = [*found.nodes, *self._assumed_nodes(gpu_resource)]
        return measured(nodes, over(found.pods), namespace_alone(self.options.namespace), job, gpu_resource)

    def _assumed_nodes(self, gpu_resource: str) -> list[Node]:
        """Return the nodes that --assume-nodes describes. Only `check` has this flag."""
        from distrain.check.assumed_nodes import assumed_nodes

        return assumed_nodes(getattr(self.options, "assume_nodes", ()), gpu_resource)


@contextmanager
def before_changes() -> Iterator[None]:
    """For commands that change a release: if Helm fails in this block, add to the error that nothing was changed."""
    try:
        yield
    except HelmError as error:
        error.messages = (*error.messages, "nothing was changed")
        raise


def import_msgspec() -> None:
    """Import msgspec without typing_extensions, whose import takes 16 ms.

    Python's own module typing has all that msgspec needs.
    """
    if "typing_extensions" in sys.modules or sys.version_info < (3, 11):
        return
    # typeshed does not know that `None` in sys.modules makes an import fail.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def _word_of(chart: Path) -> str:
    """Return the first word of a generated name. The folder of distrain's own chart may have any name."""
    from distrain.helm.chart import OWN

    return "distrain" if chart.resolve() == OWN.resolve() else chart.resolve().name


def refuse_disabled(values: dict[str, Any]) -> None:
    if (values.get("job") or {}).get("enabled") is False:
        raise ValuesError("job.enabled: is false, so there is no job to check; set it to true, or use `helm install`")


def text_of(source: Source, path: str) -> str:
    """Return the text of a values file. For the path `-`, return the text that stdin had."""
    try:
        return source.read(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ValuesError(f"--values: {path} cannot be read: {reason(error)}; name another file") from error
