"""Judge what stands around a job: what stops its pods before, or beside, the room on the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from distrain import kube
from distrain.amounts import Units
from distrain.check import claims, limits, quota
from distrain.check.obstacle import IMPOSSIBLE, Obstacle
from distrain.check.rules import JobRules, Namespaces, rules_of, unknown_labels
from distrain.check.surroundings import SYSTEM_PRIORITIES, Surroundings, priority_classes_of
from distrain.controllers import INIT_PYTORCH, KUBECTL_DELIVERY
from distrain.job import Job, PodRole
from distrain.wording import Wording

ENFORCED = "pod-security.kubernetes.io/enforce"
# Operators add these to pods without what `restricted` asks of a container.
UNRESTRICTED = (KUBECTL_DELIVERY.name, INIT_PYTORCH.name)


class Prepared(Struct, frozen=True):
    """A job as its namespace makes it: with the defaults of its LimitRanges, and with the rules of its pods.

    `obstacles` stop it whatever the nodes hold, `unseen` was not judged. Nobody knows the volumes of `open_claims`
    before the first pod has its node.
    """

    job: Job
    namespace: str
    rules: JobRules
    around: Surroundings
    obstacles: tuple[Obstacle, ...] = ()
    unseen: tuple[str, ...] = ()
    open_claims: tuple[str, ...] = ()


def prepare(job: Job, namespace: str, around: Surroundings, gpu_resource: str) -> Prepared:
    job = limits.applied(job, around.limit_ranges or ())
    say = Wording(job, gpu_resource)
    storage = claims.judged(job, around, say)
    priorities = [_priority(role, around) for role in job.roles]
    rules = rules_of(
        job,
        namespace,
        Namespaces(around.namespaces if namespace in (around.namespaces or {}) else None),
        priorities=(min(priorities), max(priorities)),
        volumes=storage.rules,
        exclusive_claims=storage.exclusive,
        beside=storage.near,
    )
    obstacles = [
        *_gates(job, say),
        *_priorities(job, around, say),
        *_pod_security(job, namespace, around, say),
        *limits.refusals(job, around.limit_ranges or (), say),
        *_missing(around, say),
        *storage.obstacles,
    ]
    quotas = quota.not_judged(job, around.quotas or ())
    unseen = [*around.unseen, *unknown_labels(job), *storage.unseen, *quotas]
    return Prepared(job, namespace, rules, around, tuple(obstacles), tuple(unseen), tuple(storage.open))


def with_quotas(prepared: Prepared, own: Units, gpu_resource: str) -> list[Obstacle]:
    """Return all obstacles, the quotas' too, of which the run's own pods free a part."""
    say = Wording(prepared.job, gpu_resource)
    quotas = quota.refusals(prepared.job, prepared.around.quotas or (), say, own)
    return list(dict.fromkeys([*prepared.obstacles, *quotas]))


def _priority(role: PodRole, around: Surroundings) -> int:
    """Return the priority of the role's pods; 0 where it cannot be known."""
    name = role.spec.priority_class_name
    if not name:
        default = [each.value for each in (around.priority_classes or {}).values() if each.global_default]
        return role.spec.priority or next(iter(default), 0)
    known = (around.priority_classes or {}).get(name)
    return known.value if known else SYSTEM_PRIORITIES.get(name, 0)


def _gates(job: Job, say: Wording) -> Iterator[Obstacle]:
    for role in job.roles:
        names = ", ".join(gate.name for gate in role.spec.scheduling_gates or ())
        if names and role.replicas:
            step = f"{say.place(role)}: no pod is placed before its scheduling gates are lifted: {names}."
            words = "Scheduling is blocked due to non-empty scheduling gates"
            yield Obstacle(IMPOSSIBLE, words, f"{step} Lift them, or leave them out.")


def _priorities(job: Job, around: Surroundings, say: Wording) -> Iterator[Obstacle]:
    known = around.priority_classes
    for name in priority_classes_of(job) if known is not None else ():
        if name not in (known or {}):
            step = f"{_where(say, 'priorityClassName')}: there is no PriorityClass {name}. Create it, or name another."
            yield Obstacle(IMPOSSIBLE, f"no PriorityClass with name {name} was found", step)


def _missing(around: Surroundings, say: Wording) -> Iterator[Obstacle]:
    for kind, name in sorted(around.missing):
        step = f"{say.place(say.job.main)}: there is no {kind} {name}, without which its pods do not start. Create it."
        yield Obstacle(IMPOSSIBLE, f'{kind.lower()} "{name}" not found', step)


def _pod_security(job: Job, namespace: str, around: Surroundings, say: Wording) -> Iterator[Obstacle]:
    labels = (around.namespaces or {}).get(namespace) or {}
    for role in job.roles if labels.get(ENFORCED) == "restricted" else ():
        added = [each.name for each in role.spec.init_containers or () if _is_unrestricted(each)]
        if added and role.replicas:
            words = f'violates PodSecurity "restricted": container {added[0]}'
            step = f"{say.place(role)}: namespace {namespace} refuses container {added[0]}, which the operator adds."
            mend = "Take a namespace that enforces baseline, or another kind of job (job.kind, job.apiVersion)."
            yield Obstacle(IMPOSSIBLE, words, f"{step} {mend}")


def _is_unrestricted(container: kube.Container) -> bool:
    return container.name in UNRESTRICTED and not isinstance(container, kube.TemplateContainer)


def _where(say: Wording, key: str) -> str:
    return key if say.job.from_chart else say.place(say.job.main, key)
