"""Name the fields in a manifest's pods that Kubernetes does not know.

`kubectl apply` refuses them. The API server drops such fields when Helm or an operator sends them. So a misspelt
nodeSelector has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

# Kubernetes 1.34, api/openapi-spec/swagger.json: the fields of io.k8s.api.core.v1.PodSpec and Container
POD_FIELDS = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os",
    "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources",
    "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes",
})  # fmt: skip
CONTAINER_FIELDS = frozenset({
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
    "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules", "securityContext",
    "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
    "volumeDevices", "volumeMounts", "workingDir",
})  # fmt: skip


def unknown_fields(name: str, item: dict[str, Any]) -> Iterator[str]:
    """Yield the unknown fields of the pods in the object `name`.

    Each unknown field comes with the field that the user may have meant.
    """
    for owner, found, known in dict.fromkeys(_found(item)):
        close = get_close_matches(found, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield f"{found} of {name}: a {owner} has no such field{hint}"


def _found(item: Any) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield the unknown fields, each with the object that contains it.

    Only the spec of a pod has a list named `containers`.
    """
    if isinstance(item, list):
        for each in item:
            yield from _found(each)
    if not isinstance(item, dict):
        return
    if not isinstance(item.get("containers"), list):
        for each in item.values():
            yield from _found(each)
        return
    yield from (("pod", str(field), POD_FIELDS) for field in item if field not in POD_FIELDS)
    for container in [*item["containers"], *(item.get("initContainers") or [])]:
        if isinstance(container, dict):
            fields = (str(field) for field in container if field not in CONTAINER_FIELDS)
            yield from (("container", field, CONTAINER_FIELDS) for field in fields)
