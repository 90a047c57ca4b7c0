"""Refuse pods that need a Secret, ConfigMap or ServiceAccount that does not exist."""

from __future__ import annotations

from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies, needs_of_container, needs_of_volume
from distrain.verdict import Verdict
from distrain.workload.chart_values import s3_secret
from distrain.workload.controllers import ObjectName
from distrain.workload.manifest import PodRole
from distrain.workload.wording import Wording

# The chart's volume that holds the Secret of the value `ssh.secretName`.
SSH_VOLUME = "ssh-auth"


def missing(found: Dependencies, namespace: str, what: ObjectName, role: PodRole, say: Wording) -> Refusal:
    """Refuse the pods of a role because the Secret, ConfigMap or ServiceAccount `what` does not exist."""
    kind, name = what
    absent, them = f"there is no {kind} {name} in namespace {namespace}", "it"
    if not found.has_namespace:
        absent, them = f"there is neither namespace {namespace} nor {kind} {name}", "both"
    step = f"{_place(what, role, say)}: {absent}, without which its pods do not start. Create {them}."
    return Refusal(Verdict.IMPOSSIBLE, _not_found(kind, name, namespace), step)


def _place(what: ObjectName, role: PodRole, say: Wording) -> str:
    """Return the path of the value that names the missing object.

    If the job does not come from the chart, there is no such value; return the role instead.
    """
    kind, name = what
    if not say.job.from_chart:
        return say.place(role)
    if kind == "ServiceAccount":
        return "serviceAccountName"
    if kind == "Secret" and name == s3_secret(say.job):
        return "s3.secretName"
    volumes = [each.name for each in role.spec.volumes or () if what in needs_of_volume(each)]
    if volumes:
        return "ssh.secretName" if SSH_VOLUME in volumes else "volumes"
    main, *sidecars = role.spec.containers or ()
    if what in needs_of_container(main):
        return "env"
    return say.place(role, "sidecars" if any(what in needs_of_container(each) for each in sidecars) else "podSpec")


def _not_found(kind: str, name: str, namespace: str) -> str:
    """Return the message of kubelet, or of the admission plugin ServiceAccount, about a missing object."""
    words = f'{kind.lower()} "{name}" not found'
    return f"error looking up service account {namespace}/{name}: {words}" if kind == "ServiceAccount" else words
