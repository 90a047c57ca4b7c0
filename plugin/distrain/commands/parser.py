"""The command line: each command's arguments, and the texts that --help shows.

Nothing here runs a command or imports what one needs: `cli.py` imports the module named by `command`.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from distrain import __version__
from distrain.errors import ValuesError

# The checkout's chart. `__file__` is resolved first: Helm installs a local plugin as a symbolic link.
CHART = Path(__file__).resolve().parents[3] / "charts" / "distrain"
VALUE_FLAGS = ("--set", "--set-string", "--set-json", "--set-file", "--set-literal")
RELEASE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
# Where Helm keeps its flags of the same name.
HELM_VARIABLES = {
    "kube_apiserver": "HELM_KUBEAPISERVER",
    "kube_token": "HELM_KUBETOKEN",
    "kube_ca_file": "HELM_KUBECAFILE",
    "kube_tls_server_name": "HELM_KUBETLS_SERVER_NAME",
    "kube_insecure_skip_tls_verify": "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
    "kube_as_user": "HELM_KUBEASUSER",
    "kube_as_group": "HELM_KUBEASGROUPS",
}
# As `helm template` names a release that has no name.
NAMELESS = "release-name"

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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValuesError(f"{message}; see `{self.prog} --help`")


class _ValueFlag(argparse.Action):
    """Keep Helm's value flags as they come, all in one list, for Helm to merge in its own order."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        name = "--values" if flag == "-f" else flag
        options.value_flags = [*options.value_flags, (name, value)]


class _HelmFlag(argparse.Action):
    """Put a flag where Helm looks for it: so the Helm that we run heeds it as our own reading does."""

    def __call__(self, parser: Any, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        if self.dest == "kube_as_group":
            options.kube_as_groups = [*options.kube_as_groups, value]
            os.environ[HELM_VARIABLES[self.dest]] = ",".join(options.kube_as_groups)
        else:
            os.environ[HELM_VARIABLES[self.dest]] = "true" if value == [] else value


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; it raises ValuesError for wrong arguments."""
    program = "helm distrain" if "HELM_PLUGIN_NAME" in os.environ else "distrain"
    parser = _Parser(prog=program, description="Size a training job, see whether it fits the cluster, and install it.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_derive(commands)
    _add_template(commands)
    _add_check(commands)
    _add_install(commands)
    _add_doctor(commands)
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
    parser.set_defaults(command="derive")


def _add_check(commands: Any) -> None:
    words = "say whether the job fits the cluster now, and if not, why"
    codes = "Exit codes: 0 fits, 10 busy, 11 impossible, 12 depends, 2 values are wrong, 3 cluster unreachable."
    parser = commands.add_parser("check", help=words, description=f"{words.capitalize()}.", epilog=codes)
    parser.add_argument("name", metavar="NAME", nargs="?", type=_release_name, help="the release's name")
    parser.add_argument("--manifest", metavar="FILE", help="check what any tool rendered, not values; - reads stdin")
    parser.add_argument("--release", metavar="NAME", type=_release_name, help="the same as NAME, for --manifest")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer")
    _add_common(parser)
    parser.set_defaults(command="check")


def _add_install(commands: Any) -> None:
    words = "check that the job fits, then install it as a new release"
    parser = commands.add_parser("install", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("name", metavar="NAME", type=_release_name, help="name of the new release")
    parser.add_argument("--wait", action="store_true", help="follow until all pods run, uninstall what cannot start")
    parser.add_argument("--timeout", type=_seconds, default=600.0, metavar="TIME", help="limit of --wait, 10m if unset")
    parser.add_argument("--allow-busy", action="store_true", help="install a job that has to wait for room, too")
    parser.add_argument("--create-namespace", action="store_true", help="create the namespace if it is missing")
    _add_common(parser)
    parser.set_defaults(command="install")


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
    cluster.add_argument("--kube-apiserver", action=_HelmFlag, metavar="URL", help="address of the API server")
    cluster.add_argument("--kube-token", action=_HelmFlag, help="bearer token")
    cluster.add_argument(
        "--kube-ca-file", action=_HelmFlag, metavar="FILE", help="authority of the server's certificate"
    )
    cluster.add_argument("--kube-tls-server-name", action=_HelmFlag, metavar="NAME", help="name in that certificate")
    cluster.add_argument(
        "--kube-insecure-skip-tls-verify", action=_HelmFlag, nargs=0, help="do not check the server's certificate"
    )
    cluster.add_argument("--kube-as-user", action=_HelmFlag, metavar="NAME", help="user to impersonate")
    cluster.add_argument("--kube-as-group", action=_HelmFlag, metavar="NAME", help="a group of that user; repeatable")
    parser.set_defaults(kube_as_groups=[])


def _add_template(commands: Any) -> None:
    words = "print what an installation would create"
    parser = commands.add_parser("template", help=words, description=f"{words.capitalize()}.")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", type=_release_name, default=NAMELESS, help="the release's name"
    )
    parser.add_argument("--offline", action="store_true", help="ask no cluster; take the newest version of each kind")
    _add_common(parser)
    parser.set_defaults(command="template")


def _add_doctor(commands: Any) -> None:
    words = "say what the cluster has, what you may do in it, and what is missing for a job"
    codes = "Exit codes: 0 a job can run, 11 none can, 2 arguments are wrong, 3 cluster unreachable."
    parser = commands.add_parser("doctor", help=words, description=f"{words.capitalize()}.", epilog=codes)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="form of the answer")
    _add_cluster(parser)
    parser.set_defaults(command="doctor")


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
