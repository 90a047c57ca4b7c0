"""List the rights that distrain's users need, and build RBAC objects that grant the missing rights.

Pure functions. The listed rights are those that the API server checks while Helm, the plugin or kubectl work on the
chart's objects. To create the chart's Roles, a user must have every right that they grant; the listed rights already
include these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from distrain.kube.resource import plural
from distrain.workload import kinds
from distrain.workload.gang_schedulers import KUEUE, PLACING
from distrain.workload.wording import listed

RBAC = "rbac.authorization.k8s.io"
# Stands for the user's name in a grant if the cluster does not tell the name.
SOMEBODY = "REPLACE-WITH-THE-USER"
SERVICE_ACCOUNT = "system:serviceaccount:"

# Helm uses these verbs on each object of a release.
MANAGED = ("get", "create", "patch", "delete")
# Helm 4 also lists and watches the objects for which it waits, as in `helm test`.
WAITED_FOR = (*MANAGED, "list", "watch")
# Helm uses these verbs on the Secrets in which it stores releases.
RELEASES = ("get", "list", "create", "update", "delete")
PLAIN = kinds.PLAIN.name
# The Secret that holds the SSH key of a Plain job. The test of the job uses the same Secret.
SSH_KEY = ("", "secrets")
# The resources that each kind of job needs, except for the ServiceAccount that every job has.
RESOURCES: Mapping[str, Sequence[tuple[str, str]]] = {
    **{name: ((kind.group, kind.resource), ("", "configmaps")) for name, kind in kinds.KUBEFLOW.items()},
    PLAIN: (
        ("batch", "jobs"),
        ("", "configmaps"),
        SSH_KEY,
        ("", "services"),
        (RBAC, "roles"),
        (RBAC, "rolebindings"),
    ),
}
# The resources that each hook of the chart creates. A `helm test` creates them as well as its own job. Before an
# upgrade replaces a job, another hook ends the old job; this hook creates the same resources.
HOOK = (("", "pods"), ("", "configmaps"), ("", "serviceaccounts"), (RBAC, "roles"), (RBAC, "rolebindings"))
# The kinds of jobs that use all-reduce; the chart has a test only for these kinds.
TESTED = kinds.running("allreduce")
# `status` and `logs` list the objects of these resources and of each kind of job, and watch them with --follow.
WATCHED = (("batch", "jobs"), ("", "pods"))
READ = {
    ("", "pods/log"): ("get",),
    ("", "events"): ("list",),
    ("", "persistentvolumeclaims"): ("get",),
    ("", "configmaps"): ("list",),
}
# What `status` and `logs` read in addition if the cluster serves these kinds of a queue or a gang scheduler.
HOLDING = {
    (KUEUE.group, "Workload"): ("list",),
    **{(each.group, each.kind): ("get",) for each in PLACING},
}


class Right(Struct, frozen=True, order=True):
    """One verb on one resource, in the release's namespace or cluster-wide.

    In `resource`, a subresource follows a slash.
    """

    group: str
    resource: str
    verb: str
    cluster_wide: bool = False

    @property
    def of(self) -> str:
        """Return the resource as kubectl writes it.

        For pods, also say whether the right is for those of all namespaces.
        """
        where = " of all namespaces" if self.cluster_wide and self.resource == "pods" else ""
        return f"{self.resource}.{self.group}{where}" if self.group else f"{self.resource}{where}"


# What `check` reads for every job. It reads volumes and other objects only for jobs that use them.
CHECKED = (
    Right("", "nodes", "list", cluster_wide=True),
    Right("", "pods", "list", cluster_wide=True),
    Right("scheduling.k8s.io", "priorityclasses", "list", cluster_wide=True),
    Right("", "namespaces", "get"),
    Right("", "resourcequotas", "list"),
    Right("", "limitranges", "list"),
)


class Purpose(Struct, frozen=True):
    """An action of a user, such as installing a job, and the rights that the action needs.

    To install a job, a user must have the rights of every purpose whose `needed` is true.
    """

    name: str
    rights: tuple[Right, ...]
    needed: bool = False


def installing(kind: str) -> str:
    """Return the name of the group of rights with which users install, upgrade and uninstall jobs of this kind."""
    return f"install {kind}"


def purposes(names: Sequence[str], served: Sequence[str] = ()) -> list[Purpose]:
    """Return what users do with jobs of these kinds, and the rights that each action needs.

    `served` lists the APIs that the cluster serves, as group/version/Kind.
    """
    managed = [_purpose(installing(kind), dict.fromkeys(RESOURCES[kind], MANAGED)) for kind in names]
    tests = {of: WAITED_FOR for kind in names if kind in TESTED for of in (*RESOURCES[kind], *HOOK) if of != SSH_KEY}
    return [
        _purpose("install any job", {("", "secrets"): RELEASES, ("", "serviceaccounts"): MANAGED}, needed=True),
        *managed,
        Purpose("helm distrain check", CHECKED),
        _purpose(
            "helm distrain install --wait",
            {("", "pods"): ("list",), ("", "pods/log"): ("get",), ("", "events"): ("list",)},
        ),
        _purpose("helm distrain status and logs", _observing(names, served)),
        _purpose("helm upgrade", dict.fromkeys(HOOK, WAITED_FOR)),
        _purpose("helm test", {**tests, ("", "pods/log"): ("get",)}),
        _purpose("kubectl logs", {("", "pods"): ("get", "list"), ("", "pods/log"): ("get",)}),
    ]


def asked(names: Sequence[str], served: Sequence[str] = ()) -> list[Right]:
    """Return all rights that users of these kinds of job need for any of their actions, without duplicates."""
    return sorted({right for purpose in purposes(names, served) for right in purpose.rights})


def described(rights: Iterable[Right]) -> str:
    """Return a text such as "create/patch mpijobs.kubeflow.org and configmaps, list pods"."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.of, []).append(right.verb)
    alike: dict[str, list[str]] = {}
    for resource, names in verbs.items():
        alike.setdefault("/".join(names), []).append(resource)
    return ", ".join(f"{names} {listed(resources)}" for names, resources in alike.items())


def grants(missing: Iterable[Right], namespace: str, user: str | None) -> list[dict[str, Any]]:
    """Return a Role, a ClusterRole and their bindings with exactly these rights.

    `user` is the name that the API server reports. If `user` is None, the grants contain a placeholder.
    """
    rights = sorted(set(missing))
    here = [right for right in rights if not right.cluster_wide]
    everywhere = [right for right in rights if right.cluster_wide]
    return [*_grant("Role", here, namespace, user), *_grant("ClusterRole", everywhere, "", user)]


def _observing(names: Sequence[str], served: Sequence[str]) -> dict[tuple[str, str], Sequence[str]]:
    """Return the verbs with which `status` and `logs` read runs of these kinds."""
    jobs = [(kinds.KUBEFLOW[name].group, kinds.KUBEFLOW[name].resource) for name in names if name in kinds.KUBEFLOW]
    found = {(api.split("/")[0], api.split("/")[-1]) for api in served}
    held = {(group, plural(kind)): verbs for (group, kind), verbs in HOLDING.items() if (group, kind) in found}
    return {**dict.fromkeys([*jobs, *WATCHED], ("list", "watch")), **READ, **held}


def _purpose(name: str, verbs: Mapping[tuple[str, str], Sequence[str]], *, needed: bool = False) -> Purpose:
    found = [Right(group, resource, verb) for (group, resource), names in verbs.items() for verb in names]
    return Purpose(name, tuple(found), needed)


def _grant(kind: str, rights: Sequence[Right], namespace: str, user: str | None) -> list[dict[str, Any]]:
    if not rights:
        return []
    rules, subject = _rules(rights), _subject(user)
    # The name contains a hash of the content: `kubectl apply` of a later grant must not replace an earlier one.
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
