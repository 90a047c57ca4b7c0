"""Warn of pods that cannot resolve the names of the job's pods.

The job uses names without the domain of the cluster. The resolver appends the domain only to names with fewer dots than
`ndots`. The name of a pod has up to four parts, `pod.service.namespace.svc`, so `ndots` must be 4 or more; kubelet sets
5. A pod whose dnsPolicy is Default, or ClusterFirst on the node's network, uses the node's resolver. This resolver does
not know the names of the cluster:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.lint.subject import Subject, ValueWarning
from distrain.workload.manifest import PodRole

LEAST_DOTS = 4


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    """Yield one warning for each value, even if the value affects several roles."""
    found = [each for role in (subject.workers, *subject.others) for each in _of_role(subject, role)]
    yield from dict.fromkeys(found)


def _of_role(subject: Subject, role: PodRole) -> Iterator[ValueWarning]:
    policy = role.spec.dns_policy
    lost = "so that the names of the job's pods are not found"
    if policy == "Default" or (policy == "ClusterFirst" and role.spec.host_network):
        why = "uses the node's resolver" if policy == "Default" else "uses the node's resolver on the node's network"
        found = f"is {policy}, which {why}, {lost}"
        yield ValueWarning(subject.pod_spec_path(role, "dnsPolicy"), found, "leave it out")
        return
    dots = _dots(role.spec)
    if dots is not None and dots < LEAST_DOTS:
        found = f"sets ndots to {dots}, less than {LEAST_DOTS}, {lost}"
        yield ValueWarning(subject.pod_spec_path(role, "dnsConfig"), found, "leave ndots out, or set it to 5")


def _dots(spec: kube.TemplateSpec) -> int | None:
    """Return the option `ndots`, or None if it is missing or not a number."""
    options = (spec.dns_config and spec.dns_config.options) or ()
    texts = [each.value or "" for each in options if each.name == "ndots"]
    return int(texts[-1]) if texts and texts[-1].isdecimal() else None
