"""Which rights distrain's users need, and the RBAC objects that grant those they lack.

Pure functions. The rights are those that the API server asks for while Helm, the plugin or kubectl does its work on
what the chart renders: a Role among it takes no more, as its maker has the rights that it gives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from distrain.workload.wording import listed

RBAC = "rbac.authorization.k8s.io"
KUBEFLOW = "kubeflow.org"
# Stands for the name in a grant, where the cluster does not tell who asks.
SOMEBODY = "REPLACE-WITH-THE-USER"
SERVICE_ACCOUNT = "system:serviceaccount:"

# Helm makes, reads, changes and removes each object.
MANAGED = ("get", "create", "patch", "delete")
# Helm 4 also lists and watches those that it waits for, as it does for `helm test`.
WAITED_FOR = (*MANAGED, "list", "watch")
# Where Helm keeps its releases.
RELEASES = ("get", "list", "create", "update", "delete")
PLAIN = "Plain"
# The Secret of a Plain job's key, which its test shares.
SSH_KEY = ("", "secrets")
# The resources of a job beside the ServiceAccount that each has.
RESOURCES: Mapping[str, Sequence[tuple[str, str]]] = {
    "MPIJob": ((KUBEFLOW, "mpijobs"), ("", "configmaps")),
    "PyTorchJob": ((KUBEFLOW, "pytorchjobs"), ("", "configmaps")),
    "TFJob": ((KUBEFLOW, "tfjobs"), ("", "configmaps")),
    "MXJob": ((KUBEFLOW, "mxjobs"), ("", "configmaps")),
    PLAIN: (
        ("batch", "jobs"),
        ("", "configmaps"),
        SSH_KEY,
        ("", "services"),
        (RBAC, "roles"),
        (RBAC, "rolebindings"),
    ),
}
# The Pod of a hook, and what it needs: of `helm test` beside the test's job, and of the one that ends a job before an
# upgrade that replaces it.
HOOK = (("", "pods"), ("", "configmaps"), ("", "serviceaccounts"), (RBAC, "roles"), (RBAC, "rolebindings"))
# Kinds that all-reduce; the others have no test.
TESTED = ("MPIJob", "PyTorchJob", PLAIN)


class Right(Struct, frozen=True, order=True):
    """One verb on one resource (a subresource after a slash), in the run's namespace or in all of them."""

    group: str
    resource: str
    verb: str
    cluster_wide: bool = False

    @property
    def of(self) -> str:
        """The resource, as kubectl writes it."""
        where = " of all namespaces" if self.cluster_wide and self.resource != "nodes" else ""
        return f"{self.resource}.{self.group}{where}" if self.group else f"{self.resource}{where}"


class Purpose(Struct, frozen=True):
    """Something a user does, and the rights that it takes; without a `needed` one no job can be installed."""

    name: str
    rights: tuple[Right, ...]
    needed: bool = False


def installing(kind: str) -> str:
    """Return the name of the purpose to install, upgrade and uninstall jobs of a kind."""
    return f"install {kind}"


def purposes(kinds: Sequence[str]) -> list[Purpose]:
    """Return what users do with jobs of these kinds."""
    managed = [_purpose(installing(kind), dict.fromkeys(RESOURCES[kind], MANAGED)) for kind in kinds]
    tests = {of: WAITED_FOR for kind in kinds if kind in TESTED for of in (*RESOURCES[kind], *HOOK) if of != SSH_KEY}
    return [
        _purpose("install any job", {("", "secrets"): RELEASES, ("", "serviceaccounts"): MANAGED}, needed=True),
        *managed,
        Purpose("helm distrain check", (Right("", "nodes", "list", True), Right("", "pods", "list", True))),
        _purpose("helm distrain install --wait", {("", "pods"): ("list",), ("", "events"): ("list",)}),
        _purpose("helm upgrade", dict.fromkeys(HOOK, WAITED_FOR)),
        _purpose("helm test", {**tests, ("", "pods/log"): ("get",)}),
        _purpose("kubectl logs", {("", "pods"): ("get", "list"), ("", "pods/log"): ("get",)}),
    ]


def asked(kinds: Sequence[str]) -> list[Right]:
    """Return every right that matters for jobs of these kinds, once each."""
    return sorted({right for purpose in purposes(kinds) for right in purpose.rights})


def described(rights: Iterable[Right]) -> str:
    """Return "create/patch mpijobs.kubeflow.org and configmaps, list pods"."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.of, []).append(right.verb)
    alike: dict[str, list[str]] = {}
    for resource, names in verbs.items():
        alike.setdefault("/".join(names), []).append(resource)
    return ", ".join(f"{names} {listed(resources)}" for names, resources in alike.items())


def grants(missing: Iterable[Right], namespace: str, user: str | None) -> list[dict[str, Any]]:
    """Return the objects that give the user exactly these rights: a Role, a ClusterRole, and their bindings."""
    rights = sorted(set(missing))
    here = [right for right in rights if not right.cluster_wide]
    everywhere = [right for right in rights if right.cluster_wide]
    return [*_grant("Role", here, namespace, user), *_grant("ClusterRole", everywhere, "", user)]


def _purpose(name: str, verbs: Mapping[tuple[str, str], Sequence[str]], *, needed: bool = False) -> Purpose:
    found = [Right(group, resource, verb) for (group, resource), names in verbs.items() for verb in names]
    return Purpose(name, tuple(found), needed)


def _grant(kind: str, rights: Sequence[Right], namespace: str, user: str | None) -> list[dict[str, Any]]:
    if not rights:
        return []
    rules, subject = _rules(rights), _subject(user)
    # By its content, so that a later grant takes nothing back: `kubectl apply` replaces an object of the same name.
    content = json.dumps([rules, subject, namespace], sort_keys=True)
    name = f"distrain-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    head = {"apiVersion": f"{RBAC}/v1"}
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    binding = {**head, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}
    return [{**head, "kind": kind, "metadata": metadata, "rules": rules}, binding]


def _rules(rights: Sequence[Right]) -> list[dict[str, list[str]]]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": names} for (group, resource), names in verbs.items()
    ]


def _subject(user: str | None) -> dict[str, str]:
    if user and user.startswith(SERVICE_ACCOUNT):
        namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": RBAC, "kind": "User", "name": user or SOMEBODY}
