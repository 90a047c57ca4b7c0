"""Define the arguments of each command. `helptext.py` has the help texts, `arguments.py` the common parser.

This module neither runs a command nor imports a command's libraries: `cli.py` imports the module that `command` names.
"""

from __future__ import annotations

import argparse
import os

from distrain import __version__
from distrain.command_line import cloud, flags, helptext, positionals, predict
from distrain.command_line.actions import GenerateName, OneManifest
from distrain.command_line.arguments import Group, Parser, Version, endpoint, goal, named, release_name
from distrain.command_line.labels import selector
from distrain.command_line.numbers import count, lines, revisions, seconds, total, workers

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence

# An example for --name-template.
NAME_TEMPLATE = "run-{{ randAlpha 4 | lower }}"
# Without -o, a report is written to this folder.
REPORT = "distrain-report"
# The name of a release for which the user gives no name, as in `helm template`.
NAMELESS = "release-name"


def parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of all commands, which raises ValuesError for wrong arguments.

    `words` is the command line: only the commands that occur in it get their arguments, because adding arguments takes
    time.
    """
    program = "helm distrain" if "HELM_PLUGIN_NAME" in os.environ else "distrain"
    parser = Parser(prog=program, topic=helptext.PROGRAM)
    parser.add_argument("--version", action=Version, nargs=0, const=__version__, help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for name, add_arguments in COMMANDS.items():
        command = parser.commands[name] = commands.add_parser(name, topic=name)
        command.set_defaults(command=name)
        if words is None or name in words:
            add_arguments(command)
    return parser


def _add_init(parser: Parser) -> None:
    parser.add_argument("--framework", metavar="NAME", help="tensorflow, pytorch or mxnet")
    parser.add_argument("--model", metavar="NAME", help="mnist, resnet50 or vgg16, or module:function of your own")
    parser.add_argument("--gpus", type=total, metavar="N", help="GPUs of the whole job; 0 trains on CPUs")
    parser.add_argument("--data", metavar="URI", help="s3://bucket/path, an absolute folder, or synthetic")
    parser.add_argument("--image", metavar="IMAGE", help="the trainer's image in your registry: repository:tag")
    parser.add_argument("--strategy", metavar="NAME", help="allreduce or parameter-server")
    parser.add_argument(
        "--kind", metavar="KIND", help="MPIJob, PyTorchJob, MXJob, TFJob, Plain or auto; by the cluster if unset"
    )
    parser.add_argument("-o", "--output", type=named, metavar="FILE", help="write this file, not to stdout")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    _add_nodes(parser)
    flags.add_chart(parser)
    flags.add_cluster(parser)


def _add_derive(parser: Parser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="print no file, exit 2 when the file's derived lines are stale"
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="with --check: files to check, each by itself")
    nodes = _add_nodes(parser)
    words = "nodes of this type of EKS, GKE or AKS, as many as needed; no cluster"
    nodes.add_argument("--instance", type=named, metavar="TYPE", help=words)
    parser.add_argument("-o", "--output", choices=["yaml", "json"], default="yaml", help="form of the values")
    flags.add_common(parser)


def _add_template(parser: Parser) -> None:
    positionals.add(parser, "the release's name", default=NAMELESS)
    _add_naming(parser)
    parser.add_argument("-s", "--show-only", action="append", default=[], metavar="FILE", help="this template alone")
    parser.add_argument("--no-hooks", action="store_true", help="leave out the chart's hooks")
    parser.add_argument("--skip-tests", action="store_true", help="leave out the job of `helm test`")
    parser.add_argument("--offline", action="store_true", help="ask no cluster; take the newest version of each kind")
    _add_nodes(parser)
    flags.add_common(parser)


def _add_check(parser: Parser) -> None:
    positionals.add(parser, "the release's name")
    parser.add_argument(
        "--manifest",
        action=OneManifest,
        type=named,
        metavar="FILE",
        help="check a manifest from any tool, not values; - reads stdin",
    )
    parser.add_argument("--release", metavar="NAME", type=release_name, help="the same as NAME, for --manifest")
    parser.add_argument(
        "--snapshot", type=named, metavar="FILE", help="a file that snapshot or kubectl wrote; no cluster"
    )
    parser.add_argument(
        "--assume-nodes",
        metavar="4x8",
        action="append",
        default=[],
        help="nodes that will be added: count x GPUs, or count x type, as in 4xp5.48xlarge",
    )
    words = "ask no cluster; use only the nodes of --snapshot or --assume-nodes"
    parser.add_argument("--offline", action="store_true", help=words)
    parser.add_argument("--why", type=named, metavar="NODE", help="explain one node instead")
    flags.add_output(parser, "form of the answer; markdown is for a pull request", "markdown")
    flags.add_common(parser)


def _add_install(parser: Parser) -> None:
    positionals.add(parser, "name of the new release")
    _add_naming(parser)
    flags.add_wait(parser)
    words = "then show the run as `status --watch` does, until it has ended; Ctrl-C leaves it running"
    parser.add_argument("--follow", action="store_true", help=words)
    flags.add_atomic(parser, "uninstall")
    parser.add_argument("--allow-busy", action="store_true", help="install a job that has to wait for room, too")
    flags.add_dry_run(parser, "print what would be installed")
    parser.add_argument("--create-namespace", action="store_true", help="create the namespace if it is missing")
    flags.add_revision(parser)
    flags.add_common(parser)


def _add_import(parser: Parser) -> None:
    words = "a file, - for stdin, or a job in the cluster such as MPIJob/NAME"
    parser.add_argument("source", metavar="SOURCE", type=named, help=words)
    parser.add_argument("-o", "--output", type=named, metavar="FILE", help="write this file, not to stdout")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    flags.add_chart(parser)
    flags.add_cluster(parser)


def _add_cluster_command(parser: Parser) -> None:
    cloud.add(parser)
    flags.add_values(parser)


def _add_predict(parser: Parser) -> None:
    predict.add(parser)
    flags.add_values(parser)


def _add_snapshot(parser: Parser) -> None:
    parser.add_argument(
        "-o", "--output", type=named, metavar="FILE", help="write this file, not to stdout; NAME.gz is compressed"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    flags.add_cluster(parser)


def _add_doctor(parser: Parser) -> None:
    flags.add_output(parser, "form of the answer")
    flags.add_common(parser)


def _add_status(parser: Parser) -> None:
    words = "the release's name; without it, one line for each run"
    parser.add_argument("name", metavar="NAME", nargs="?", type=release_name, help=words)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="without NAME: the runs of all namespaces")
    words = "without NAME: the runs with these labels, as for kubectl: team=a,cost!=b"
    parser.add_argument("-l", "--selector", metavar="SELECTOR", type=selector, help=words)
    parser.add_argument("-w", "--watch", action="store_true", help="show each change, until Ctrl-C")
    parser.add_argument("--wait", action="store_true", help="wait for what --for says, or for the run's failure")
    words = "what --wait waits for: Succeeded if unset, Running, or step=N; implies --wait"
    parser.add_argument("--for", dest="wait_for", type=goal, metavar="GOAL", help=words)
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help="limit of --wait, none if unset")
    words = "the run's record, for figures that no log tells any more: a folder, or s3://bucket/team/run1"
    parser.add_argument("--record", type=named, metavar="PLACE", help=words)
    _add_endpoint(parser)
    flags.add_output(parser, "form of the answer")
    flags.add_cluster(parser)


def _add_logs(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", type=release_name, help="the release's name")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the run has ended")
    words = "every pod of the run; its role and number come before each line"
    parser.add_argument("--all", action="store_true", help=words)
    parser.add_argument("--since", type=seconds, metavar="TIME", help="only lines of the last 10m, say")
    parser.add_argument("--tail", type=lines, metavar="N", help="only the last N lines of each pod")
    words = "the log of the container before the present one, if it has restarted"
    parser.add_argument("-p", "--previous", action="store_true", help=words)
    parser.add_argument("--timestamps", action="store_true", help="begin each line with its time")
    words = "write every pod's log, the events and the run's objects into this folder, without secrets"
    parser.add_argument("--save", type=named, metavar="FOLDER", help=words)
    flags.add_cluster(parser)


def _add_report(parser: Parser) -> None:
    words = "a release's name, a folder with a slash such as ./run1, s3://bucket/team/run1, or a record.jsonl"
    parser.add_argument("runs", metavar="RUN", nargs="+", type=named, help=words)
    words = f"write report.html and report.png into this folder, {REPORT} if unset"
    parser.add_argument("-o", "--output", type=named, metavar="FOLDER", default=REPORT, help=words)
    parser.add_argument("--force", action="store_true", help="replace a report that is there")
    _add_endpoint(parser)
    flags.add_cluster(parser)


def _add_endpoint(parser: Parser) -> None:
    words = "the S3 server's URL, if not that of the release or of AWS_ENDPOINT_URL"
    parser.add_argument("--endpoint", type=endpoint, metavar="URL", help=words)


def _add_completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=["bash", "zsh", "fish"], help="bash, zsh or fish")


def _add_nodes(parser: Parser) -> Group:
    nodes = parser.add_exclusive()
    nodes.add_argument("--node-gpus", type=count, metavar="N", help="nodes of N GPUs, as many as needed; no cluster")
    nodes.add_argument(
        "--snapshot", type=named, metavar="FILE", help="a file that snapshot or kubectl wrote; no cluster"
    )
    return nodes


def _add_upgrade(parser: Parser) -> None:
    positionals.add(parser, "the release's name", may_lack=False)
    parser.add_argument("-i", "--install", action="store_true", help="install the release if it does not exist")
    parser.add_argument("--create-namespace", action="store_true", help="with --install: create a missing namespace")
    _add_change(parser)
    parser.add_argument(
        "--from",
        dest="values_before",
        action="append",
        type=named,
        default=[],
        metavar="FILE",
        help="with --dry-run: values file before the change, repeatable; no cluster is asked",
    )
    flags.add_revision(parser)
    flags.add_common(parser)
    reuse = parser.add_exclusive()
    reuse.add_argument("--reset-values", action="store_true", help="take the chart's defaults and the values given")
    reuse.add_argument("--reuse-values", action="store_true", help="merge the values given over the release's")
    reuse.add_argument(
        "--reset-then-reuse-values", action="store_true", help="the same, with the defaults of the new chart"
    )


def _add_rescale(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", type=release_name, help="the release's name")
    size = parser.add_exclusive(required=True)
    size.add_argument("--gpus", type=count, metavar="N", help="GPUs in all; workers keep their size if it divides N")
    size.add_argument("--workers", type=workers, metavar="N", help="number of workers; their size stays the same")
    _add_change(parser)
    flags.add_revision(parser)
    flags.add_chart(parser)
    flags.add_cluster(parser)
    parser.set_defaults(value_flags=[])


def _add_change(parser: Parser) -> None:
    flags.add_dry_run(parser, "print the plan")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    flags.add_output(parser, "form of the plan; markdown is for a pull request", "markdown")
    flags.add_wait(parser)
    flags.add_atomic(parser, "roll back")
    parser.add_argument("--allow-busy", action="store_true", help="upgrade to a job that has to wait for room, too")
    words = "revisions that Helm keeps; 0 is all, 10 if unset"
    parser.add_argument("--history-max", type=revisions, default=10, metavar="N", help=words)


def _add_naming(parser: Parser) -> None:
    """Add --generate-name and --name-template; `naming` stores which of them was given, and the template.

    If the user gives both flags, the template is used.
    """
    words = "name the release after the chart and the time"
    parser.add_argument("-g", "--generate-name", dest="naming", action=GenerateName, nargs=0, help=words)
    words = f"name the release by a template, as in {NAME_TEMPLATE}"
    parser.add_argument("--name-template", dest="naming", type=_name_template, metavar="TEXT", help=words)


def _name_template(text: str) -> tuple[str, str]:
    if not text:
        raise argparse.ArgumentTypeError(f"the template is empty; write it as in {NAME_TEMPLATE}")
    return "--name-template", text


# Each command's arguments, in the order in which --help lists them.
COMMANDS = {
    "init": _add_init,
    "import": _add_import,
    "derive": _add_derive,
    "template": _add_template,
    "check": _add_check,
    "install": _add_install,
    "upgrade": _add_upgrade,
    "rescale": _add_rescale,
    "status": _add_status,
    "logs": _add_logs,
    "report": _add_report,
    "snapshot": _add_snapshot,
    "cluster": _add_cluster_command,
    "predict": _add_predict,
    "doctor": _add_doctor,
    "completion": _add_completion,
}
