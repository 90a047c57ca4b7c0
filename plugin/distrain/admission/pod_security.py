"""PodSecurity: find the pods that violate the Pod Security Standard of their namespace.

The namespace's labels set the standard.

The rules are taken from k8s.io/pod-security-admission v0.36.2. An older API server has only the checks of its own
version. The API server's configuration can also exempt pods, or enforce a level without a label. No API shows the API
server's configuration, so this module ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from distrain.admission.pod_security_baseline import BASELINE
from distrain.admission.pod_security_check import Check, Pod
from distrain.admission.pod_security_restricted import RESTRICTED
from distrain.admission.refusal import Refusal
from distrain.kube.selectors import Labels
from distrain.verdict import Verdict
from distrain.workload.kinds import INIT_CONTAINERS
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording, listed

LEVEL = "pod-security.kubernetes.io/enforce"
VERSION = f"{LEVEL}-version"
# The oldest Kubernetes that the chart supports (Chart.yaml, kubeVersion).
OLDEST = 27
# The strictest level comes first.
CHECKS: dict[str, Sequence[Check]] = {"restricted": (*BASELINE, *RESTRICTED), "baseline": BASELINE, "privileged": ()}


class Standard(Struct, frozen=True):
    """A level of the Pod Security Standards, with the checks of Kubernetes 1.`minor` or with the latest checks.

    `server` is the minor version of the API server, or None if this version is unknown. The API server does not have
    the checks that later versions of Kubernetes added.
    """

    level: str
    minor: int | None = None
    server: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"


def refusals(job: Job, namespace: str, labels: Labels, say: Wording, server: int | None = None) -> Iterator[Refusal]:
    """Yield a refusal for each violation by the job's pods; `labels` are the namespace's labels.

    `server` is the minor version of the API server, for example 34 for Kubernetes 1.34.
    """
    standard = replace(enforced(labels), server=server)
    roles: dict[str, list[PodRole]] = {}
    for role in job.roles:
        if role.replicas and (words := violated(standard, _pod(role))):
            roles.setdefault(words, []).append(role)
    every = [_pod(role) for role in job.roles if role.replicas]
    # No value changes a container of the operator, so its refusal comes first: the first one is the next step.
    for words, refused in sorted(roles.items(), key=lambda item: not _refused_of_operator(standard, _pod(item[1][0]))):
        step = _next_step(standard, _pod(refused[0]), every, job)
        yield Refusal(Verdict.IMPOSSIBLE, words, f"{listed([*map(say.place, refused)])}: namespace {namespace} {step}")


def not_judged(job: Job, labels: Labels, server: int | None) -> Iterator[str]:
    """Yield a text if the API server's version is unknown, and only some versions refuse the job's pods."""
    standard = enforced(labels)
    for role in job.roles if server is None else ():
        pod, newer = _pod(role), {check.since for check in CHECKS[standard.level] if check.since > OLDEST}
        found = {bool(violated(replace(standard, server=each), pod)) for each in (OLDEST, *newer)}
        if role.replicas and len(found) > 1:
            yield f"the version of the API server, which decides what Pod Security {standard} refuses"


def minor_of(version: str) -> int | None:
    """Return the minor version in a version of Kubernetes such as v1.34.4-eks-1. Return None for other texts."""
    found = re.match(r"v?1\.(\d{1,9})\b", version)
    return int(found[1]) if found else None


def enforced(labels: Labels) -> Standard:
    """Return the standard that a namespace with these labels enforces."""
    # api/helpers.go: PolicyToEvaluate, ParseLevel, ParseVersion
    level = labels.get(LEVEL, "privileged")
    version = re.fullmatch(r"v1\.([0-9]|[1-9][0-9]*)", labels.get(VERSION, ""))
    return Standard(level if level in CHECKS else "restricted", int(version[1]) if version else None)


def violated(standard: Standard, pod: Pod) -> str:
    """Return the API server's message if it refuses the pod because of the standard, otherwise an empty string."""
    found = filter(None, (check.judge(pod) for check in _checks(standard)))
    details = ", ".join(found)
    return f'violates PodSecurity "{standard}": {details}' if details else ""


def _checks(standard: Standard) -> list[Check]:
    """Return the checks of the standard, each in the newest version that the standard and the API server have."""
    # policy/registry.go: populate
    bounds = [minor for minor in (standard.minor, standard.server) if minor is not None]
    known = [each for each in CHECKS[standard.level] if all(each.since <= minor for minor in bounds)]
    newest = {check.name: check for check in known}
    replaced = {check.replaces for check in newest.values()}
    return [check for name, check in newest.items() if name not in replaced]


def _pod(role: PodRole) -> Pod:
    return Pod(role.spec, role.annotations)


def _next_step(standard: Standard, pod: Pod, every: Sequence[Pod], job: Job) -> str:
    admitting = next(
        level for level in CHECKS if not any(violated(replace(standard, level=level), each) for each in every)
    )
    if added := _refused_of_operator(standard, pod):
        head = f"refuses container {listed(added)}, which the operator adds."
        return f"{head} Take a namespace that enforces {admitting}, or another kind of job (job.kind, job.apiVersion)."
    head = f"enforces Pod Security {standard}, which refuses these pods."
    return f"{head} {_change(standard, pod, job)}, or take a namespace that enforces {admitting} (label {LEVEL})."


def _refused_of_operator(standard: Standard, pod: Pod) -> list[str]:
    """If the namespace refuses the pod because of init containers of the operator, return these containers' names."""
    init = pod.spec.init_containers or ()
    own = [each for each in init if each.name not in INIT_CONTAINERS]
    added = [each.name for each in init if each.name in INIT_CONTAINERS]
    without = Pod(replace(pod.spec, init_containers=own), pod.annotations)
    return added if violated(standard, without) != violated(standard, pod) else []


def _change(standard: Standard, pod: Pod, job: Job) -> str:
    # If `podSecurity` is `restricted`, the chart already sets runAsNonRoot.
    if not job.from_chart or pod.security.run_as_non_root:
        return "Change the fields that violate it"
    if standard.level == "restricted":
        return "Set podSecurity: restricted"
    return f"Set podSecurity: {standard.level} and leave out what it forbids"
