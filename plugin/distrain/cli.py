"""The command line of `helm distrain`. Only this module prints and exits.

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from distrain import __version__, doctor_command, template_command, values
from distrain.check import Report, check, summary
from distrain.cluster import Cluster, connect
from distrain.derive import Given, derive
from distrain.errors import DistrainError, StoppedError, UnreachableError, ValuesError
from distrain.helm import Helm, Source, find
from distrain.install import Release, follow, install, refuse_taken_name, refuse_what_does_not_fit, remains
from distrain.job import Job, from_manifest
from distrain.room import MeasuredNodes, Room, StatedNodes, read_snapshot
from distrain.snapshot import take
from distrain.start import lasting
from distrain.target import Target, choose
from distrain.wait import Followed
from distrain.wording import listed

# The checkout's chart. `__file__` is resolved first: Helm installs a local plugin as a symbolic link.
CHART = Path(__file__).resolve().parents[2] / "charts" / "distrain"
VALUE_FLAGS = ("--set", "--set-string", "--set-json", "--set-file", "--set-literal")
RELEASE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")

DERIVE_DESCRIPTION = """\
`gpus: 32` becomes workers.replicas and workers.gpus: whole nodes first, and the fewest workers. What you have set
yourself stays. Comments stay, too; each derived line says from what. The cluster is asked only where the total is yet
to be spread and neither --node-gpus nor --snapshot says how large a node is."""
DERIVE_EXAMPLES = """\
examples:
  gpus: 32 in run.yaml, on nodes of 8 GPUs, without a cluster:
    helm distrain derive -f run.yaml --node-gpus 8 > derived.yaml
    helm install run1 charts/distrain -f derived.yaml
  the same from what a cluster has free, and what a file says of one:
    helm distrain derive -f run.yaml
    kubectl get nodes,pods -A -o json > nodes.json
    helm distrain derive -f run.yaml --snapshot nodes.json
  another size; lines that were derived follow:
    helm distrain derive -f derived.yaml --set gpus=64 --node-gpus 8
  in CI: is the committed file still what follows from its own values?
    helm distrain derive -f derived.yaml --check"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A job judged against its cluster, ready to be installed."""

    release: Release
    cluster: Cluster
    helm: Helm
    job: Job
    values: dict[str, Any]

    def report(self, running: str | None = None) -> Report:
        """Judge the job; the pods of the release named `running` make room for it."""
        gpu_resource = self.value("workers", "gpuResource")
        return check(self.cluster, self.job, self.release.target.namespace, gpu_resource, running)

    @property
    def is_queued(self) -> bool:
        """Tell whether somebody holds the job back until there is room for all of it."""
        return bool((self.values.get("gang") or {}).get("scheduler", "none") != "none")

    def checked_release(self) -> Release:
        """Return the release without the chart's own check, which would ask the same again, and refuse what we let."""
        source = self.release.source
        if not (self.values.get("preflight") or {}).get("enabled"):
            return self.release
        without = replace(source, flags=(*source.flags, "--set", "preflight.enabled=false"))
        return replace(self.release, source=without)

    def value(self, section: str, key: str) -> str:
        try:
            return str(self.values[section][key])
        except (KeyError, TypeError) as error:
            raise ValuesError(f"--chart: it has no value {section}.{key}; is it distrain's chart?") from error


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        options = _parser().parse_args(arguments)
        code: int = options.command(options)
    except DistrainError as error:
        for message in error.messages:
            _say(message)
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; nothing was installed")
        return StoppedError.exit_code
    return code


def _check(options: argparse.Namespace) -> int:
    # Whether or not the release runs already: its pods tell.
    running = options.release or options.name
    if options.manifest:
        return _check_manifest(options, running)
    plan = _plan(options, running or "check")
    return _answer(plan.report(running), plan.job, plan.release.target, options.output)


def _check_manifest(options: argparse.Namespace, running: str | None) -> int:
    """Check what any tool rendered; Helm is not needed, and the cluster may be the one around us."""
    job = from_manifest(_manifest(options), "--manifest")
    target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
    report = check(connect(target), job, target.namespace, release=running)
    return _answer(report, job, target, options.output)


def _answer(report: Report, job: Job, target: Target, form: str) -> int:
    if form == "json":
        print(json.dumps(report.as_dict(), indent=2))
    else:
        # The end of a pod's log becomes its termination message.
        print("\n".join(summary(report, job, answer_last=target.in_cluster)))
    return report.exit_code


def _manifest(options: argparse.Namespace) -> str:
    if options.value_flags:
        raise ValuesError("--manifest: it goes without values; leave out -f and --set, or --manifest")
    if options.manifest == "-":
        return sys.stdin.read()
    try:
        return Path(options.manifest).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValuesError(f"--manifest: {options.manifest} cannot be read: {reason}; name another file") from error


def _install(options: argparse.Namespace) -> int:
    plan = _plan(options, options.name, new=True)
    report = plan.report()
    refuse_what_does_not_fit(report, allow_busy=options.allow_busy or plan.is_queued)
    for line in summary(report, plan.job):
        _say(line)
    try:
        print(install(plan.helm, plan.checked_release(), create_namespace=options.create_namespace), flush=True)
        if options.wait:
            _follow(plan, options.timeout)
    except KeyboardInterrupt as error:
        raise StoppedError(f"interrupted; {plan.release.name} may go on starting; {remains(plan.release)}") from error
    return 0


def _follow(plan: Plan, timeout: float) -> None:
    release = plan.release
    followed = Followed(plan.job, release.name, release.target.namespace, plan.value("s3", "secretName"), timeout)
    follow(plan.cluster, plan.helm, release, followed, _say)
    started = listed([role.pods(role.replicas) for role in reversed(lasting(plan.job))])
    _say(f"{release.name}: all pods run: {started}")


def _doctor(options: argparse.Namespace) -> int:
    lines, code = doctor_command.answer(options)
    print("\n".join(lines))
    return code


def _template(options: argparse.Namespace) -> int:
    print(template_command.answer(options, _source(options)), end="")
    return 0


def _plan(options: argparse.Namespace, name: str, *, new: bool = False) -> Plan:
    """Go from arguments to a job, the cheap refusals first: values, then the cluster, then the chart's own rules."""
    source, helm = _source(options), find()
    merged = helm.merged_values(source)
    values.check(merged, source.chart)
    if (merged.get("job") or {}).get("enabled") is False:
        raise ValuesError("job.enabled: is false, so there is no job to check; set it to true, or use `helm install`")
    target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
    release = Release(name, source, target)
    cluster = connect(target)
    capabilities = cluster.capabilities()
    if new:
        refuse_taken_name(helm, release)
    job = from_manifest(helm.render(name, source, target.namespace, capabilities), "--chart")
    return Plan(release, cluster, helm, job, merged)


def _derive(options: argparse.Namespace) -> int:
    source = _source(options)
    given = Given(find(), source, tuple(_texts(source)), _stated(options))
    derived = derive(given, ask=None if options.check else _asker(options))
    for note in derived.notes:
        _say(note)
    if options.check:
        if derived.stale:
            raise ValuesError(derived.stale[0])
        print("derived values are up to date")
    else:
        print(json.dumps(derived.values, indent=2) if options.output == "json" else derived.text.rstrip("\n"))
    return 0


def _texts(source: Source) -> Iterator[str]:
    for flag, value in zip(source.flags[::2], source.flags[1::2], strict=True):
        if flag == "--values":
            try:
                yield ((source.stdin or b"") if value == "-" else Path(value).read_bytes()).decode()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ValuesError(f"--values: {value} cannot be read: {reason}; name a file") from error


def _stated(options: argparse.Namespace) -> Callable[[Job, str], Room] | None:
    """Return what --node-gpus or --snapshot say of the nodes."""
    if options.node_gpus:
        return lambda job, gpu_resource: StatedNodes(options.node_gpus)
    if options.snapshot:
        snapshot = read_snapshot(options.snapshot, options.namespace or "default")
        return lambda job, gpu_resource: MeasuredNodes(snapshot, job, gpu_resource)
    return None


def _asker(options: argparse.Namespace) -> Callable[[Job, str], Room]:
    def ask(job: Job, gpu_resource: str) -> Room:
        try:
            target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
            cluster = connect(target)
            snapshot = take(cluster.nodes(), cluster.pods(), target.namespace)
        except UnreachableError as error:
            words = "; or say --node-gpus N, the GPUs of a node, or --snapshot FILE"
            raise UnreachableError(error.messages[0] + words) from error
        return MeasuredNodes(snapshot, job, gpu_resource)

    return ask


def _source(options: argparse.Namespace) -> Source:
    chart = Path(options.chart)
    if not (chart / "Chart.yaml").is_file():
        raise ValuesError(f"--chart: {chart} is no chart's folder; name the folder that holds its Chart.yaml")
    flags = tuple(word for flag in options.value_flags for word in flag)
    stdin = sys.stdin.buffer.read() if ("--values", "-") in options.value_flags else None
    return Source(chart, flags, stdin)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValuesError(f"{message}; see `{self.prog} --help`")


class _ValueFlag(argparse.Action):
    """Keep Helm's value flags as they come, all in one list, for Helm to merge in its own order."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        name = "--values" if flag == "-f" else flag
        options.value_flags = [*options.value_flags, (name, value)]


def _parser() -> _Parser:
    program = "helm distrain" if "HELM_PLUGIN_NAME" in os.environ else "distrain"
    parser = _Parser(prog=program, description="Size a training job, see whether it fits the cluster, and install it.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_derive(commands)
    _add_check(commands)
    _add_install(commands)
    _add_common(template_command.add(commands, _template, _release_name))
    _add_cluster(doctor_command.add(commands, _doctor))
    return parser


def _add_derive(commands: Any) -> None:
    words = "print the values with what follows from them: workers, GPUs, CPU, memory, and the figures of the run"
    parser = commands.add_parser(
        "derive",
        help=words,
        description=f"{words.capitalize()}.\n\n{DERIVE_DESCRIPTION}",
        epilog=DERIVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="print nothing, exit 2 when the file's derived lines are stale"
    )
    nodes = parser.add_mutually_exclusive_group()
    nodes.add_argument("--node-gpus", type=_count, metavar="N", help="nodes of N GPUs, as many as it takes; no cluster")
    nodes.add_argument("--snapshot", metavar="FILE", help="nodes and pods as kubectl printed them; no cluster")
    parser.add_argument("-o", "--output", choices=["yaml", "json"], default="yaml", help="form of the values")
    _add_common(parser)
    parser.set_defaults(command=_derive)


def _add_check(commands: Any) -> None:
    words = "say whether the job fits the cluster now, and if not, why"
    codes = "Exit codes: 0 fits, 10 busy, 11 impossible, 12 depends, 2 values are wrong, 3 cluster unreachable."
    parser = commands.add_parser("check", help=words, description=f"{words.capitalize()}.", epilog=codes)
    parser.add_argument("name", metavar="NAME", nargs="?", type=_release_name, help="the release's name")
    parser.add_argument("--manifest", metavar="FILE", help="check what any tool rendered, not values; - reads stdin")
    parser.add_argument("--release", metavar="NAME", type=_release_name, help="the same as NAME, for --manifest")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer")
    _add_common(parser)
    parser.set_defaults(command=_check)


def _add_install(commands: Any) -> None:
    words = "check that the job fits, then install it as a new release"
    parser = commands.add_parser("install", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("name", metavar="NAME", type=_release_name, help="name of the new release")
    parser.add_argument("--wait", action="store_true", help="follow until all pods run, uninstall what cannot start")
    parser.add_argument("--timeout", type=_seconds, default=600.0, metavar="TIME", help="limit of --wait, 10m if unset")
    parser.add_argument("--allow-busy", action="store_true", help="install a job that has to wait for room, too")
    parser.add_argument("--create-namespace", action="store_true", help="create the namespace if it is missing")
    _add_common(parser)
    parser.set_defaults(command=_install)


def _add_common(parser: argparse.ArgumentParser) -> None:
    values_group = parser.add_argument_group("values, as for helm install")
    values_group.add_argument("-f", "--values", action=_ValueFlag, metavar="FILE", help="values file; - reads stdin")
    for flag in VALUE_FLAGS:
        values_group.add_argument(flag, action=_ValueFlag, metavar="KEY=VALUE")
    parser.set_defaults(value_flags=[])
    parser.add_argument("--chart", default=CHART, metavar="FOLDER", help="folder of the chart, if not this checkout's")
    _add_cluster(parser)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("cluster, as for helm")
    cluster.add_argument("-n", "--namespace", help="namespace of the release")
    cluster.add_argument("--kube-context", metavar="NAME", help="context of the kubeconfig")
    cluster.add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig, if not $KUBECONFIG")


def _release_name(name: str) -> str:
    if len(name) > 53 or not RELEASE_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f'"{name}" is no release name: use a-z, 0-9 and -, 53 characters at most')
    return name


def _count(number: str) -> int:
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f'"{number}" is no number of GPUs: write 8')
    return int(number)


def _seconds(duration: str) -> float:
    """Read a duration as Helm writes it: 90s, 10m, 1h30m."""
    found = DURATION.fullmatch(duration)
    if not duration or not found:
        raise argparse.ArgumentTypeError(f'"{duration}" is no duration: write 90s, 10m or 1h30m')
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _say(line: str) -> None:
    print(f"distrain: {line}", file=sys.stderr, flush=True)
