"""Which cluster and namespace a command is about: decided once, for Helm and for our own reading alike.

Helm hands a plugin its --namespace, --kube-context and --kubeconfig in the environment; run as `python -m distrain`,
the same stand as flags.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME

from distrain.errors import UnreachableError, ValuesError

# Helm's ways past the kubeconfig. Our reading cannot follow them: it would judge another cluster than Helm installs to.
HELM_ONLY = (
    "HELM_KUBEAPISERVER",
    "HELM_KUBETOKEN",
    "HELM_KUBECAFILE",
    "HELM_KUBEASUSER",
    "HELM_KUBEASGROUPS",
    "HELM_KUBETLS_SERVER_NAME",
    "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
)
# Where a pod finds who it is.
TOKEN = Path(SERVICE_TOKEN_FILENAME)
OWN_NAMESPACE = TOKEN.with_name("namespace")


@dataclass(frozen=True, slots=True)
class Target:
    """A kubeconfig (one path, or several joined as in KUBECONFIG), a context of it and a namespace.

    Without kubeconfig and context it is the cluster that we run in, as the pod's own ServiceAccount.
    """

    kubeconfig: str
    context: str
    namespace: str

    @property
    def in_cluster(self) -> bool:
        return not self.kubeconfig


def choose(*, kubeconfig: str | None, context: str | None, namespace: str | None) -> Target:
    """Settle the target from flags, else Helm's environment, else the kubeconfig's own current context.

    In a pod without one it is the cluster around the pod. Raises UnreachableError when there is no kubeconfig,
    ValuesError when it has no such context.
    """
    _refuse_helm_only()
    path = kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    if not kubeconfig and not context and _only_in_cluster(path):
        return Target("", "", namespace or os.environ.get("HELM_NAMESPACE") or _own_namespace())
    configs = [_read(Path(part).expanduser()) for part in path.split(os.pathsep) if Path(part).expanduser().is_file()]
    if not configs:
        raise UnreachableError(f"KUBECONFIG: there is no file {path}; point it to your cluster's kubeconfig")
    contexts = _contexts(configs)
    name = context or os.environ.get("HELM_KUBECONTEXT") or _current(configs)
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise ValuesError(f'--kube-context: {path} has no context "{name}"; it has {known}')
    chosen = namespace or os.environ.get("HELM_NAMESPACE") or contexts[name].get("namespace") or "default"
    return Target(path, name, chosen)


def _refuse_helm_only() -> None:
    for name in HELM_ONLY:
        value = os.environ.get(name, "")
        if value not in ("", "false"):
            raise ValuesError(f"{name}: is set, and goes past the kubeconfig; put it into a kubeconfig context instead")


def _only_in_cluster(path: str) -> bool:
    """Tell whether there is nothing but the ServiceAccount of a pod to go by."""
    if any(os.environ.get(name) for name in ("KUBECONFIG", "HELM_KUBECONTEXT")):
        return False
    return SERVICE_HOST_ENV_NAME in os.environ and TOKEN.is_file() and not Path(path).is_file()


def _own_namespace() -> str:
    return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.is_file() else "default"


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreachableError(f"KUBECONFIG: {path} cannot be read: {' '.join(str(error).split())}") from error
    return config if isinstance(config, dict) else {}


def _current(configs: list[dict[str, Any]]) -> str:
    """The first file that names a context wins, as for Helm and kubectl; the Python client lets the last one win."""
    return next((str(config["current-context"]) for config in configs if config.get("current-context")), "")


def _contexts(configs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    entries = [entry for config in configs for entry in config.get("contexts") or ()]
    return {str(entry.get("name")): entry.get("context") or {} for entry in reversed(entries)}
