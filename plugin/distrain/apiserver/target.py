"""Choose the cluster and the namespace of a command, for Helm and for the plugin's own requests.

Helm passes its flags to a plugin in the environment. With `python -m distrain`, --namespace, --kube-context and
--kubeconfig are arguments, and the parser puts Helm's other flags into the environment.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from msgspec import Struct

from distrain.apiserver import kubeconfig as config
from distrain.errors import UnreachableError, ValuesError

# Environment variables and files that describe a pod's cluster and its ServiceAccount.
SERVICE_HOST, SERVICE_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
OWN_NAMESPACE = TOKEN.with_name("namespace")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# The texts that Go parses as true.
TRUE = ("1", "t", "T", "true", "TRUE", "True")


class Overrides(Struct, frozen=True):
    """Values of Helm's flags that override the kubeconfig, such as --kube-apiserver."""

    server: str = ""
    token: str = ""
    ca_file: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    tls_server_name: str = ""
    insecure: bool = False

    def __repr__(self) -> str:
        # The text leaves out the token and the server, because the server's URL may contain a password.
        return f"Overrides(user={self.user!r})"


class Target(Struct, frozen=True):
    """A kubeconfig, one of its contexts, and a namespace.

    The kubeconfig is one path, or several paths joined as in KUBECONFIG.

    Without a kubeconfig, the target is the server that the overrides name. Without such a server, the target is the
    cluster of the pod in which the plugin runs, and the user is the pod's ServiceAccount.
    """

    kubeconfig: str
    context: str
    namespace: str
    overrides: Overrides = Overrides()
    # The kubeconfig and the context that the user gave on the command line; empty if not given.
    given: tuple[str, str] = ("", "")

    @property
    def helm_flags(self) -> str:
        """Return the flags with which a `helm` command in a message reaches this target."""
        return self._flags("--kube-context")

    @property
    def kubectl_flags(self) -> str:
        return self._flags("--context")

    @property
    def kubectl_cluster_flags(self) -> str:
        """Return the flags with which `kubectl` reaches this cluster, without the flag --namespace.

        They are for commands about nodes or namespaces, and for commands that set --namespace themselves. The text is
        empty if the target is the kubeconfig's current context. Otherwise it begins with a space.
        """
        return "".join(f" {flag}" for flag in self._given("--context"))

    def _flags(self, context: str) -> str:
        return " ".join([f"--namespace {self.namespace}", *self._given(context)])

    def _given(self, context: str) -> list[str]:
        pairs = zip((context, "--kubeconfig"), reversed(self.given), strict=True)
        return [f"{flag} {shlex.quote(name)}" for flag, name in pairs if name]

    @property
    def in_cluster(self) -> bool:
        return not self.kubeconfig and not self.overrides.server


def choose(*, kubeconfig: str | None, context: str | None, namespace: str | None) -> Target:
    """Choose the target from flags, then Helm's environment, then the kubeconfig's current context.

    In a pod without any of these, the target is the pod's own cluster. Raises UnreachableError if there is no
    kubeconfig, and ValuesError if the kubeconfig lacks the context.
    """
    overrides = _overrides()
    namespace = _said_namespace(namespace)
    path = kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    if not kubeconfig and not context and _only_in_cluster(path):
        _refuse_impersonation(overrides)
        return Target("", "", namespace or _own_namespace(), overrides)
    found = config.load(path)
    if found is None and overrides.server and not kubeconfig and not context:
        return Target("", "", namespace or "default", overrides)
    if found is None:
        raise UnreachableError(f"KUBECONFIG: there is no file {path}; set it to your cluster's kubeconfig file")
    name = context or os.environ.get("HELM_KUBECONTEXT") or found.current
    if name not in found.contexts and (name or not overrides.server):
        raise ValuesError(_no_context(path, name, sorted(found.contexts)))
    own = _checked(found.contexts[name].namespace if name else None, "KUBECONFIG: contexts.context.namespace")
    given = (kubeconfig or "", context or os.environ.get("HELM_KUBECONTEXT", ""))
    return Target(path, name, namespace or own or "default", overrides, given)


def _no_context(path: str, name: str, known: list[str]) -> str:
    found = f'{path} has no context "{name}"' if name else f"{path} has no current-context"
    if not known:
        return f"KUBECONFIG: {found} and lists no contexts; set it to your cluster's kubeconfig file"
    return f"--kube-context: {found}; choose one of these: {', '.join(known)}"


def namespace_alone(namespace: str | None) -> str:
    """Return the namespace from the flags or from Helm's environment, for commands that use no cluster."""
    return _said_namespace(namespace) or "default"


def _said_namespace(namespace: str | None) -> str | None:
    return _checked(namespace or os.environ.get("HELM_NAMESPACE"), "--namespace")


def _checked(namespace: str | None, origin: str) -> str | None:
    """Return the namespace; raise ValuesError if Kubernetes does not allow this name."""
    if namespace and not NAMESPACE.fullmatch(namespace):
        words = "is not a valid namespace name: use a-z, 0-9 and -, 63 characters at most"
        raise ValuesError(f"{origin}: {namespace!r} {words}")
    return namespace


def _overrides() -> Overrides:
    def said(name: str) -> str:
        return os.environ.get(f"HELM_KUBE{name}", "")

    return Overrides(
        server=said("APISERVER"),
        token=said("TOKEN"),
        ca_file=said("CAFILE"),
        user=said("ASUSER"),
        groups=tuple(group for group in said("ASGROUPS").split(",") if group),
        tls_server_name=said("TLS_SERVER_NAME"),
        insecure=said("INSECURE_SKIP_TLS_VERIFY") in TRUE,
    )


def _refuse_impersonation(overrides: Overrides) -> None:
    """Raise ValuesError if the user asks for impersonation in a pod without a kubeconfig.

    Without a kubeconfig, Helm ignores impersonation. So Helm would install the release as the pod's ServiceAccount.
    """
    if overrides.user or overrides.groups:
        words = "without a kubeconfig Helm ignores this variable; unset it, or set KUBECONFIG"
        raise ValuesError(f"HELM_KUBEASUSER: is set, but this pod has no kubeconfig, only its ServiceAccount: {words}")


def _only_in_cluster(path: str) -> bool:
    """Tell whether the plugin can reach a cluster only as the ServiceAccount of the pod in which the plugin runs."""
    if any(os.environ.get(name) for name in ("KUBECONFIG", "HELM_KUBECONTEXT", "HELM_KUBEAPISERVER")):
        return False
    return SERVICE_HOST in os.environ and TOKEN.is_file() and not os.path.isfile(path)


def _own_namespace() -> str:
    return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.is_file() else "default"
