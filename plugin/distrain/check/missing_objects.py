"""Refuse pods that need a Secret, ConfigMap or ServiceAccount that does not exist."""

from __future__ import annotations

from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies, needs_of_container, needs_of_volume
from distrain.verdict import Verdict
from distrain.workload.chart_objects import s3_secret
from distrain.workload.controllers import ObjectName
from distrain.workload.manifest import PodRole
from distrain.workload.wording import Wording

# The chart's volume that holds the Secret of the value `ssh.secretName`.
SSH_VOLUME = "ssh-auth"
SSH_KEYS = ("id_rsa", "id_rsa.pub", "authorized_keys")


def missing(found: Dependencies, namespace: str, what: ObjectName, role: PodRole, say: Wording) -> Refusal:
    """Refuse the pods of a role because the Secret, ConfigMap or ServiceAccount `what` does not exist."""
    kind, name = what
    absent, them = f"there is no {kind} {name} in namespace {namespace}", "it"
    if not found.has_namespace:
        absent, them = f"there is neither namespace {namespace} nor {kind} {name}", "both"
    keys = _keys(what, role)
    command = f"kubectl {found.kubectl_flags} create secret generic {name} {keys}"
    how = f"{'' if found.has_namespace else ', the Secret'} with `{command}`" if keys else ""
    step = f"{_place(what, role, say)}: {absent}, without which its pods do not start. Create {them}{how}."
    return Refusal(Verdict.IMPOSSIBLE, _not_found(kind, name, namespace), step)


def _keys(what: ObjectName, role: PodRole) -> str:
    """Return kubectl's flags for the keys of a Secret that the role's pods read. Return "" if they are not known."""
    if what[0] == "Secret" and SSH_VOLUME in _volumes(what, role):
        return " ".join(f"--from-file={key}" for key in SSH_KEYS)
    containers = [*(role.spec.init_containers or ()), *(role.spec.containers or ())]
    read = [each.value_from.secret_key_ref for one in containers for each in one.env or () if each.value_from]
    keys = dict.fromkeys(each.key for each in read if each and ("Secret", each.name) == what and not each.optional)
    return " ".join(f"--from-literal={key}=..." for key in keys)


def _volumes(what: ObjectName, role: PodRole) -> list[str]:
    return [each.name for each in role.spec.volumes or () if what in needs_of_volume(each)]


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
    if volumes := _volumes(what, role):
        return "ssh.secretName" if SSH_VOLUME in volumes else "volumes"
    main, *sidecars = role.spec.containers or ()
    if what in needs_of_container(main):
        return "env"
    return say.place(role, "sidecars" if any(what in needs_of_container(each) for each in sidecars) else "podSpec")


def _not_found(kind: str, name: str, namespace: str) -> str:
    """Return the message of kubelet, or of the admission plugin ServiceAccount, about a missing object."""
    words = f'{kind.lower()} "{name}" not found'
    return f"error looking up service account {namespace}/{name}: {words}" if kind == "ServiceAccount" else words
