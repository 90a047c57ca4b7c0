"""Define argparse actions for flags that argparse's built-in actions cannot handle. Most of these are flags of Helm."""

from __future__ import annotations

import argparse
import os

from distrain.errors import ValuesError

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from typing import Any

# For each of Helm's flags, the environment variable in which Helm passes the flag's value to a plugin.
HELM_VARIABLES = {
    "kube_apiserver": "HELM_KUBEAPISERVER",
    "kube_token": "HELM_KUBETOKEN",
    "kube_ca_file": "HELM_KUBECAFILE",
    "kube_tls_server_name": "HELM_KUBETLS_SERVER_NAME",
    "kube_insecure_skip_tls_verify": "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
    "kube_as_user": "HELM_KUBEASUSER",
    "kube_as_group": "HELM_KUBEASGROUPS",
}


class ValueFlag(argparse.Action):
    """Collect Helm's flags for values in one list, in the order of the command line.

    Helm merges them in its own order.
    """

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        name = "--values" if flag == "-f" else flag
        options.value_flags = [*options.value_flags, (name, value)]


class ToHelm(argparse.Action):
    """Collect flags that are passed to Helm unchanged."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        options.helm_flags = [*options.helm_flags, f"--{self.option_strings[-1].lstrip('-')}", value]


class Timeout(argparse.Action):
    """Store the number of seconds, and pass it to Helm, which uses it as the limit for each hook of the chart."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, __: Any = None) -> None:
        options.timeout = value
        options.helm_flags = [*options.helm_flags, "--timeout", f"{round(value * 1000)}ms"]


class OneManifest(argparse.Action):
    """Store the file's name. Refuse a second file, because argparse would silently use only the last one."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        if options.manifest is not None:
            words = "is given twice, but accepts only one file; join the files, with a line `---` between them"
            raise ValuesError(f"{flag}: {words}")
        options.manifest = value


class HelmFlag(argparse.Action):
    """Store a flag in Helm's environment variable, so that the Helm processes and the plugin's own requests use it."""

    def __call__(self, parser: Any, options: argparse.Namespace, value: Any, flag: Any = None) -> None:
        if self.dest == "kube_as_group":
            options.kube_as_groups = [*options.kube_as_groups, value]
            os.environ[HELM_VARIABLES[self.dest]] = ",".join(options.kube_as_groups)
        else:
            os.environ[HELM_VARIABLES[self.dest]] = "true" if value == [] else value


class GenerateName(argparse.Action):
    """Handle --generate-name: record that Helm generates the release's name, unless --name-template was given."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, *__: Any) -> None:
        options.naming = options.naming or ("--generate-name", "")
