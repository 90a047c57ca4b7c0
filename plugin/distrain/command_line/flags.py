"""Add the flags that several commands share: values, chart, cluster, format of the answer, waiting, and revisions."""

from __future__ import annotations

import os

from distrain.command_line.actions import HelmFlag, Timeout, ToHelm, ValueFlag
from distrain.command_line.arguments import Group, Parser, dry_run, named
from distrain.command_line.labels import labels
from distrain.command_line.numbers import seconds

# The chart is next to the modules: a folder in a wheel and in the plugin's archive, a symbolic link in a checkout.
CHART = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir, "chart"))
# Helm's flags for single values, each with a description.
VALUE_FLAGS = {
    "--set": "set a value: workers.replicas=4,workers.gpus=8",
    "--set-string": "the same, always as text",
    "--set-json": 'set a value to JSON: env=\'[{"name": "N", "value": "1"}]\'',
    "--set-file": "set a value to what a file holds: KEY=FILE",
    "--set-literal": "set a value to the text as it stands, commas and all",
}


def add_wait(parser: Parser) -> None:
    parser.add_argument("--wait", action="store_true", help="follow until the first step of the training")
    parser.add_argument(
        "--wait-for", choices=["first-step", "pods"], help="what --wait waits for: first-step if unset; implies --wait"
    )
    words = "limit of --wait, 10m if unset, and of each hook of the chart"
    parser.add_argument("--timeout", action=Timeout, type=seconds, metavar="TIME", help=words)


def add_revision(parser: Parser) -> None:
    """Add Helm's flags for the revision that a command creates: --description, --labels and --no-hooks."""
    parser.add_argument("--description", action=ToHelm, metavar="TEXT", help="description of the revision")
    words = "labels of the revision's Secret"
    parser.add_argument("-l", "--labels", action=ToHelm, type=labels, metavar="KEY=VALUE", help=words)
    parser.add_argument("--no-hooks", action="store_true", help="do not run the chart's hooks")
    parser.set_defaults(helm_flags=[])


def add_atomic(parser: Parser, undo: str) -> None:
    """Add the flag --atomic, under its names in Helm 3 and in Helm 4."""
    words = f"the same as --wait, but {undo} a job that cannot start"
    parser.add_argument("--atomic", "--rollback-on-failure", action="store_true", help=words)


def add_output(parser: Parser, words: str, *more: str) -> None:
    parser.add_argument("-o", "--output", choices=["text", "json", "yaml", *more], default="text", help=words)


def add_dry_run(parser: Parser, words: str) -> None:
    parser.alone["--dry-run"] = "client"
    words = f"{words}, and change nothing; =server lets the API server validate, too"
    parser.add_argument("--dry-run", type=dry_run, default="none", metavar="[=client|server]", help=words)


def add_common(parser: Parser) -> None:
    add_values(parser)
    add_cluster(parser)


def add_values(parser: Parser) -> None:
    values_group = parser.add_titled("values, as for helm install")
    values_group.add_argument("-f", "--values", action=ValueFlag, metavar="FILE", help="values file; - reads stdin")
    for flag, words in VALUE_FLAGS.items():
        values_group.add_argument(flag, action=ValueFlag, metavar="KEY=VALUE", help=words)
    parser.set_defaults(value_flags=[])
    add_chart(values_group)


def add_chart(parser: Parser | Group) -> None:
    parser.add_argument(
        "--chart",
        type=named,
        default=CHART,
        metavar="FOLDER",
        help="the chart, a folder or a .tgz file, if not distrain's own",
    )


def add_cluster(parser: Parser) -> None:
    cluster = parser.add_titled("cluster, as for helm")
    cluster.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the release")
    cluster.add_argument("--kube-context", metavar="NAME", help="context of the kubeconfig")
    cluster.add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig, if not $KUBECONFIG")
    cluster.add_argument("--kube-apiserver", action=HelmFlag, metavar="URL", help="address of the API server")
    cluster.add_argument("--kube-token", action=HelmFlag, help="bearer token")
    cluster.add_argument(
        "--kube-ca-file", action=HelmFlag, metavar="FILE", help="authority of the server's certificate"
    )
    cluster.add_argument("--kube-tls-server-name", action=HelmFlag, metavar="NAME", help="name in that certificate")
    cluster.add_argument(
        "--kube-insecure-skip-tls-verify", action=HelmFlag, nargs=0, help="do not check the server's certificate"
    )
    cluster.add_argument("--kube-as-user", action=HelmFlag, metavar="NAME", help="user to impersonate")
    cluster.add_argument("--kube-as-group", action=HelmFlag, metavar="NAME", help="a group of that user; repeatable")
    cluster.add_argument(
        "--request-timeout",
        type=seconds,
        metavar="TIME",
        help="limit of the wait for the API server's answer, 65s if unset; 0 waits without end",
    )
    parser.set_defaults(kube_as_groups=[])
