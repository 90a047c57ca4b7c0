"""Run the command `init`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml
from msgspec import Struct
from msgspec.structs import replace

from distrain import console
from distrain.answers.output_file import refuse_existing
from distrain.apiserver.capabilities import Capabilities
from distrain.apiserver.target import namespace_alone
from distrain.check.cluster_state import over
from distrain.command_line.arguments import meant
from distrain.derive import models
from distrain.derive.complete import Given, Measure, derive
from distrain.derive.measured import measuring
from distrain.derive.rendering import UNINSTALLED
from distrain.errors import HelmError, UnreachableError, ValuesError
from distrain.helm.chart import chart_folder, refuse_broken
from distrain.helm.program import Source
from distrain.helm.render import Helm, Template, find
from distrain.init.images import FoundImage, found_image, trainers_name
from distrain.init.nodes import GPU_CPUS, GPU_GIBIBYTES, AssumedNodes, SuggestedNodes, of_nodes, stated
from distrain.init.values_file import Wish, text
from distrain.request.request import Request
from distrain.values import commented_yaml
from distrain.workload.wording import counted

# The default number of GPUs per node, as in most GPU servers.
NODE_GPUS = 8
DEFAULT_MODEL = "resnet50"
# `init` tries these kinds of jobs in this order. The chart's rules decide which kind is possible.
KINDS = ("auto", "MPIJob", "Plain")
FRAMEWORKS = ("tensorflow", "pytorch")
# The chart's messages say `--set job.kind=…`. `init` has the flags --kind and --strategy instead, so it replaces this
# text.
FLAG = re.compile(r"--set (?:job\.)?(strategy|kind)=")
SYNTHETIC = "synthetic"
# Text that is not UTF-8, and characters that would end a comment or that YAML does not allow.
UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
DATA = re.compile(f"/.|s3://[a-z0-9]|{SYNTHETIC}$")
# Models that are made for one data set. With random data, the training of these models would seem to fail.
DATA_MODELS = ("mnist",)


class Ground(Struct, frozen=True):
    """The nodes for which the values file is written: those of a cluster, or assumed nodes.

    If a cluster was read, `capabilities` are those of the cluster, `images` lists the images on each node, and
    `helm_flags` make Helm use this cluster.
    """

    suggested: SuggestedNodes
    measure: Measure
    capabilities: Capabilities | None = None
    images: Sequence[Sequence[str]] = ()
    is_assumed: bool = False
    helm_flags: str = ""


class Maker(Struct, frozen=True):
    """Writes a values file for a Wish, with the help of Helm and the chart."""

    helm: Helm
    chart: Path
    ground: Ground

    def source(self, wish: Wish) -> Source:
        schema = json.loads((self.chart / "values.schema.json").read_text())
        values = commented_yaml.parse((self.chart / "values.yaml").read_text(), schema)
        return Source(self.chart, ()).with_text(text(wish, self.ground.suggested, values, schema))

    def first_served(self, wishes: Iterable[Wish]) -> Wish:
        """Return the first Wish (job kind, framework and other choices) that the chart accepts for this cluster.

        If the chart refuses all of these combinations, raise the error about the first one.
        """
        refusals: list[ValuesError] = []
        for wish in wishes:
            # The kind of the job does not depend on the number of workers and GPUs, which is computed later.
            source = self.source(wish)
            sizeless = source._replace(flags=(*source.flags, "--set", "gpus=null"))
            template = Template(UNINSTALLED.name, UNINSTALLED.namespace, self.ground.capabilities)
            try:
                _ = self.helm.render(sizeless, template).manifest
            except ValuesError as error:
                refusals.append(ValuesError(FLAG.sub(r"--\1 ", error.messages[0])))
            except HelmError:
                # Perhaps Helm failed because the chart's schema refuses a value. Then `values` raises an error that is
                # easier to understand.
                self.helm.values(source)
                raise
            else:
                return wish
        raise refusals[0]

    def file(self, wish: Wish) -> str:
        source = self.source(wish)
        derived = derive(Given(self.helm, source, ((source.stdin or b"").decode(),), None), ask=self.ground.measure)
        for note in derived.notes:
            console.say(note)
        return derived.text


def run(options: argparse.Namespace) -> int:
    chart = chart_folder(options.chart)
    _refuse_wrong(options, chart)
    refuse_broken(chart, options.chart)
    target = Path(options.output) if options.output else None
    if target:
        refuse_existing(target, force=options.force)
    maker = Maker(find(), chart, _ground(options))
    wish = maker.first_served(_wishes(options, maker.ground.suggested))
    image = None if options.image else _image(wish, maker)
    wish = replace(wish, image=image.name) if image else wish
    _tell(wish, maker.ground, image, options)
    made = maker.file(wish)
    if not target:
        console.answer(made.rstrip("\n"))
        return 0
    try:
        with target.open("w" if options.force else "x", encoding="utf-8") as file:
            file.write(made)
    except OSError as error:
        raise ValuesError(f"--output: {target} cannot be written: {error.strerror}; name another file") from error
    command = f"helm distrain check -f {shlex.quote(str(target))}{maker.ground.helm_flags}"
    console.say(f"wrote {target}; `{command}` says whether it fits")
    return 0


def _refuse_wrong(options: argparse.Namespace, chart: Path) -> None:
    """Raise ValuesError, with the name of the flag, for values that the chart's schema would refuse later."""
    try:
        top = json.loads((chart / "values.schema.json").read_text())["properties"]
        entries = {"framework": top["framework"], "strategy": top["strategy"], "kind": top["job"]["properties"]["kind"]}
        choices = {flag: entry["enum"] for flag, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValuesError(f"--chart: {chart} is not distrain's chart; name the folder of distrain's chart") from error
    for flag in ("model", "data", "image"):
        if UNWRITABLE.search(getattr(options, flag) or ""):
            raise ValuesError(f"--{flag}: contains a control character, or is not UTF-8; write it as plain text")
    for flag, known in choices.items():
        _refuse_unknown(flag, getattr(options, flag), known)
    if options.model and ":" not in options.model:
        _refuse_unknown("model", options.model, models.names(), ", or module:function, which makes one of your own")
    if options.data and not DATA.match(options.data):
        mistake = "is not a source of data; write s3://bucket/path, /path/of/a/folder, or synthetic for random data"
        raise ValuesError(f"--data: {options.data} {mistake}")
    if options.model in DATA_MODELS and not options.data:
        words = f"is missing: {options.model} needs images of digits; name their bucket or folder (docs/data.md)"
        raise ValuesError(f"--data: {words}, or --data {SYNTHETIC}, which only measures speed")


def _refuse_unknown(flag: str, value: str | None, choices: list[str], more: str = "") -> None:
    if value is None or value in choices:
        return
    raise ValuesError(f'--{flag}: there is no "{value}"; choose {", ".join(choices)}{more}{meant(value, choices)}')


def _wishes(options: argparse.Namespace, suggested: SuggestedNodes) -> Iterator[Wish]:
    """Yield a Wish for each combination of job kind and framework that the arguments allow.

    If the user gives the kind or the framework, every Wish has it.
    """
    gpus = suggested.gpus if options.gpus is None else options.gpus
    for kind in [options.kind] if options.kind else KINDS:
        for framework in [options.framework] if options.framework else FRAMEWORKS:
            yield Wish(
                framework=framework,
                strategy=options.strategy or "allreduce",
                kind=kind,
                model=options.model or DEFAULT_MODEL,
                gpus=gpus,
                data="" if options.data == SYNTHETIC else options.data or "",
                image=options.image or "",
                file=options.output or "run.yaml",
            )


def _ground(options: argparse.Namespace) -> Ground:
    """Take the nodes from the arguments or from the cluster. Otherwise assume common nodes, and say so."""
    if options.node_gpus:
        return _usual(options.node_gpus)
    request = Request(options)
    if found := request.snapshot:
        measure = measuring(found.nodes, over(found.pods), namespace_alone(options.namespace))
        return Ground(of_nodes(found.nodes), measure, found.capabilities)
    try:
        cluster, capabilities = request.cluster, request.capabilities
        nodes = cluster.nodes()
        measure = measuring(nodes, cluster.over_pods, cluster.target.namespace)
        images, flags = [node.names for node in cluster.node_images()], f" {cluster.target.helm_flags}"
        return Ground(of_nodes(nodes), measure, capabilities, images, helm_flags=flags)
    except UnreachableError as error:
        words = f"nodes of {NODE_GPUS} GPUs and an operator for the job are assumed"
        reason = error.messages[0].partition(";")[0]
        console.say(f"no cluster can be read ({reason}): {words}; add --node-gpus N, the GPUs of a node")
        return _usual(NODE_GPUS)


def _usual(node_gpus: int) -> Ground:
    return Ground(stated(node_gpus), lambda job, gpu_resource: AssumedNodes(node_gpus), is_assumed=True)


def _image(wish: Wish, maker: Maker) -> FoundImage | None:
    """Return the trainer's image that is on the nodes, or None if no node lists such an image."""
    version = str(yaml.safe_load((maker.chart / "Chart.yaml").read_text()).get("appVersion", ""))
    return found_image(trainers_name(wish.framework, wish.gpus), version, maker.ground.images)


def _tell(wish: Wish, ground: Ground, image: FoundImage | None, options: argparse.Namespace) -> None:
    """Print the values that the plugin has chosen for the user, and the nodes that it left out."""
    if image:
        others = "" if image.nodes == image.of else "; the other nodes have to pull it"
        console.say(f"image: {image.name}, already on {image.nodes} of {counted(image.of, 'node')}{others}")
    elif not options.image:
        name = f"{trainers_name(wish.framework, wish.gpus)}, the trainer's image for {'GPUs' if wish.gpus else 'CPUs'}"
        looked = "" if ground.is_assumed or not ground.images else f", and no node has {name}"
        step = "replace the placeholder in image.repository, which `helm distrain check` refuses"
        console.say(f"no --image was given{looked}; {step}")
    if ground.is_assumed and wish.gpus:
        amounts = f"{GPU_CPUS} CPUs and {GPU_GIBIBYTES}Gi for each GPU"
        console.say(f"workers.cpu, workers.memory: {amounts} are assumed; correct them for your nodes")
    if not wish.data and not options.data:
        console.say(
            "no --data: the run trains on random images, to measure speed; to train on your own data, add --data URI"
        )
    chosen = [] if options.framework else [f"framework {wish.framework}"]
    chosen += [] if options.model else [f"model {wish.model}"]
    chosen += [] if options.gpus is not None else [counted(wish.gpus, "GPU")]
    if wish.kind != "auto" and not options.kind:
        chosen.append(f"job.kind {wish.kind}, for want of an operator")
    if chosen:
        console.say(f"chosen: {', '.join(chosen)}")
    for taint in ground.suggested.left_out if wish.gpus else ():
        console.say(
            f"GPU nodes with the taint {taint} are left out; if the run may use them, add the taint to "
            "workers.tolerations"
        )
