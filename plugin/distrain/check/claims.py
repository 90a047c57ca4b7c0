"""What a job's persistent volume claims mean for its pods: whether they start at all, and on which nodes.

The words are those of kube-scheduler's filters VolumeBinding, VolumeZone and VolumeRestrictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from distrain import kube
from distrain.check.late import together
from distrain.check.obstacle import IMPOSSIBLE, Obstacle
from distrain.check.surroundings import Surroundings
from distrain.check.volumes import IN_USE, BoundVolume, UnboundVolume, VolumeRule, claims_of
from distrain.job import Job, PodRole
from distrain.kube.policy import PersistentVolumeClaim
from distrain.solver.problem import Near
from distrain.wording import Wording

BOUND = "pv.kubernetes.io/bind-completed"
CLASS = "volume.beta.kubernetes.io/storage-class"
DELAYED = "WaitForFirstConsumer"
NOT_BOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_PV = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class Claims(Struct):
    """The rules about volumes of each role's pods, the claims that one pod has for itself, and what is in the way.

    `near` and `open` are those of `late`.
    """

    rules: dict[str, tuple[VolumeRule, ...]] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    near: dict[str, Near] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def judged(job: Job, around: Surroundings, say: Wording) -> Claims:
    """Judge the claims that the job's pods use, once each."""
    found = Claims()
    users: Counter[str] = Counter()
    for role in job.roles:
        names = claims_of(role.spec.volumes) if role.replicas else []
        users.update(dict.fromkeys(names, role.replicas))
        rules = [rule for name in names if (rule := _rule(name, role, job, around, say, found))]
        found.rules[role.name] = (*rules, *_ephemeral(role.spec, around))
    found.exclusive = frozenset(name for name in users if _is_exclusive((around.claims or {}).get(name)))
    found.obstacles += [_shared(name, say) for name in sorted(found.exclusive) if users[name] > 1]
    late = together(job, found.rules)
    found.near, found.open = late.near, late.open
    found.unseen += _first_come(found.rules, users)
    found.unseen, found.obstacles = list(dict.fromkeys(found.unseen)), list(dict.fromkeys(found.obstacles))
    return found


def _rule(name: str, role: PodRole, job: Job, around: Surroundings, say: Wording, found: Claims) -> VolumeRule | None:
    place = say.place(role)
    if ("PersistentVolumeClaim", name) in job.creates:
        found.unseen.append(f"where the volume of persistent volume claim {name}, yet to be created, can be")
        return None
    if around.claims is None:
        found.unseen.append(f"persistent volume claim {name} of the {role.name}")
        return None
    claim = around.claims.get(name)
    if claim is None:
        step = f"{place}: there is no persistent volume claim {name}. Create it, or correct its name."
        found.obstacles.append(_refused(f'persistentvolumeclaim "{name}" not found', step))
        return None
    if claim.metadata.deletion_timestamp:
        step = f"{place}: persistent volume claim {name} is being deleted. Create another one."
        found.obstacles.append(_refused(f'persistentvolumeclaim "{name}" is being deleted', step))
        return None
    return _bound(claim, place, around, found) if _is_bound(claim) else _unbound(claim, place, around, found)


def _bound(claim: PersistentVolumeClaim, place: str, around: Surroundings, found: Claims) -> VolumeRule | None:
    name, volume_name = claim.metadata.name, claim.spec.volume_name or ""
    if around.volumes is None:
        found.unseen.append(f"where the volume of persistent volume claim {name} can be")
        return None
    volume = around.volumes.get(volume_name)
    if volume is None:
        step = (
            f"{place}: persistent volume claim {name} is bound to volume {volume_name}, which is gone. Create another."
        )
        found.obstacles.append(_refused(NO_PV, step))
        return None
    return BoundVolume(name, volume)


def _unbound(claim: PersistentVolumeClaim, place: str, around: Surroundings, found: Claims) -> VolumeRule | None:
    name, storage_class = claim.metadata.name, _class_of(claim)
    if storage_class and around.storage_classes is None:
        found.unseen.append(f"where the volume of persistent volume claim {name} can be")
        return None
    known = (around.storage_classes or {}).get(storage_class)
    if storage_class and known is None:
        step = f"{place}: persistent volume claim {name} asks for storage class {storage_class}, which is not there."
        words = f'storageclass.storage.k8s.io "{storage_class}" not found'
        found.obstacles.append(_refused(words, f"{step} Create the class, or a claim of another one."))
        return None
    if known is None or known.volume_binding_mode != DELAYED or claim.spec.volume_name:
        step = f"{place}: persistent volume claim {name} is not bound to a volume yet."
        found.obstacles.append(_refused(NOT_BOUND, f"{step} See `kubectl describe pvc {name}`, and wait until it is."))
        return None
    return _to_be_bound(name, claim.spec, known, around)


def _to_be_bound(
    name: str, claim: kube.ClaimSpec, storage_class: kube.StorageClass, around: Surroundings
) -> UnboundVolume:
    return UnboundVolume(name, claim, tuple((around.volumes or {}).values()), storage_class)


def _ephemeral(spec: kube.TemplateSpec, around: Surroundings) -> Iterator[VolumeRule]:
    """Yield the rules about volumes that each pod gets for itself, where their storage class is known."""
    for volume in spec.volumes or ():
        template = (
            isinstance(volume, kube.TemplateVolume) and volume.ephemeral and volume.ephemeral.volume_claim_template
        )
        if template:
            known = (around.storage_classes or {}).get(template.spec.storage_class_name or "")
            if known and known.volume_binding_mode == DELAYED:
                yield _to_be_bound(volume.name, template.spec, known, around)


def _first_come(rules: Mapping[str, tuple[VolumeRule, ...]], users: Counter[str]) -> Iterator[str]:
    """Name the claims whose volume may not be reached from everywhere, which only its driver knows."""
    for each in (rule for of_role in rules.values() for rule in of_role):
        if isinstance(each, UnboundVolume) and users[each.claim] > 1 and not each.storage_class.allowed_topologies:
            pods = f"{users[each.claim]} pods"
            yield f"that persistent volume claim {each.claim} of {pods} gets its volume where the first of them goes"


def _shared(name: str, say: Wording) -> Obstacle:
    step = f"{say.place(say.job.main)}: only one pod may use persistent volume claim {name} (ReadWriteOncePod)."
    return _refused(IN_USE, f"{step} Use a claim that more pods can share.")


def _refused(reason: str, step: str) -> Obstacle:
    return Obstacle(IMPOSSIBLE, reason, step, everywhere=True)


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})


def _is_exclusive(claim: PersistentVolumeClaim | None) -> bool:
    return claim is not None and "ReadWriteOncePod" in (claim.spec.access_modes or ())


def _class_of(claim: PersistentVolumeClaim) -> str:
    return (claim.metadata.annotations or {}).get(CLASS) or claim.spec.storage_class_name or ""
