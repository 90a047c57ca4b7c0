"""Judge the persistent volume claims of a job's pods: whether the pods can start, and on which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies
from distrain.check.own_claims import OwnClaim, has_volume, is_made, own_claims
from distrain.kube.storage import PersistentVolumeClaim
from distrain.scheduler.messages import IN_USE, NO_PV, NOT_BOUND
from distrain.scheduler.volume_binding import BoundVolume, UnboundVolume, VolumeRule, class_of
from distrain.scheduler.volume_restrictions import claims_of, is_exclusive
from distrain.scheduler.wait_for_first_consumer import SharedVolumes, shared_volumes
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

BOUND = "pv.kubernetes.io/bind-completed"
DELAYED = "WaitForFirstConsumer"


class Elsewhere(Struct, frozen=True):
    """A claim of one pod whose volume some nodes may not reach; the volumes of other pods may be elsewhere."""

    claim: str


# The possible places of a volume, a refusal of all pods, or words about what is not judged.
Judged = VolumeRule | Elsewhere | Refusal | str


class Claims(Struct):
    """The volumes of each role's pods, the ReadWriteOncePod claims, the claims that pods share, and refusals.

    `open` are claims with a volume whose location is unknown, or differs between the pods of a role.
    """

    rules: dict[str, tuple[VolumeRule, ...]] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    shared: SharedVolumes = field(default_factory=SharedVolumes)
    open: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def add(self, judged: Judged, rules: list[VolumeRule]) -> None:
        """Add the rule to `rules`, or the refusal or the words about what is not judged to this object."""
        match judged:
            case Refusal():
                self.refusals.append(judged)
            case str():
                self.unseen.append(judged)
            case Elsewhere():
                self.open.append(judged.claim)
            case _:
                rules.append(judged)


def judge_claims(job: Job, objects: Dependencies, say: Wording) -> Claims:
    """Judge each claim that the job's pods use."""
    found = Claims()
    users: Counter[str] = Counter()
    for role in job.roles:
        names = claims_of(role.spec.volumes) if role.replicas else []
        users.update(dict.fromkeys(names, role.replicas))
        rules: list[VolumeRule] = []
        for name in names:
            found.add(_of_claim(name, say.place(role), role, job, objects), rules)
        for claim in own_claims(role, objects) if role.replicas else ():
            for judged in _of_own(claim, say.place(role), role, job, objects):
                found.add(judged, rules)
            users.update(dict.fromkeys(claim.existing, 1))
        found.rules[role.name] = tuple(rules)
    found.exclusive = frozenset(name for name in users if is_exclusive((objects.claims or {}).get(name)))
    found.refusals += [_shared(name, say) for name in sorted(found.exclusive) if users[name] > 1]
    found.shared = shared_volumes(job, found.rules)
    found.open += found.shared.undecided
    found.unseen += _where_first_pod_goes(found.rules, users)
    found.unseen, found.refusals = list(dict.fromkeys(found.unseen)), list(dict.fromkeys(found.refusals))
    return found


def _of_own(claim: OwnClaim, place: str, role: PodRole, job: Job, objects: Dependencies) -> Iterator[Judged]:
    """Judge the claims of this name that each pod of the role has for itself."""
    if claim.is_missing:
        yield _new(claim, place, objects)
    for name in claim.existing:
        match _of_claim(name, place, role, job, objects):
            case BoundVolume() as bound if role.replicas > 1:
                if bound.is_somewhere:
                    yield Elsewhere(name)
            case UnboundVolume() as unbound:
                yield replace(unbound, claim=claim.name, is_per_pod=True)
            case judged:
                yield judged


def _new(claim: OwnClaim, place: str, objects: Dependencies) -> Judged:
    """Judge the pods' claims that do not exist yet."""
    where = f"where the volume of persistent volume claim {claim.name}, yet to be created, can be"
    if objects.storage_classes is None:
        return where
    name = claim.spec.storage_class_name
    known = objects.storage_classes.get(name or "")
    if name and known is None:
        return _without_class(f"{place}: volume {claim.name}", name)
    volumes = tuple((objects.volumes or {}).values())
    if known and known.volume_binding_mode == DELAYED:
        return UnboundVolume(claim.name, claim.spec, volumes, known, is_per_pod=True)
    if is_made(known) or has_volume(claim.spec, objects.volumes or {}):
        return where
    step = f"{place}: volume {claim.name} asks for no storage class that makes volumes, and there is none to bind."
    return _refused(NOT_BOUND, f"{step} Name a storage class that makes volumes.")


def _of_claim(name: str, place: str, role: PodRole, job: Job, objects: Dependencies) -> Judged:
    """Judge a claim that the pods share, or that exists for one of the pods."""
    if ("PersistentVolumeClaim", name) in job.creates:
        return f"where the volume of persistent volume claim {name}, yet to be created, can be"
    if objects.claims is None:
        return f"persistent volume claim {name} of the {role.name}"
    claim = objects.claims.get(name)
    if claim is None:
        step = f"{place}: there is no persistent volume claim {name}. Create it, or correct its name."
        return _refused(f'persistentvolumeclaim "{name}" not found', step)
    if claim.metadata.deletion_timestamp:
        step = f"{place}: persistent volume claim {name} is being deleted. Create another one."
        return _refused(f'persistentvolumeclaim "{name}" is being deleted', step)
    return _bound(claim, place, objects) if _is_bound(claim) else _unbound(claim, place, objects)


def _bound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    name, volume_name = claim.metadata.name, claim.spec.volume_name or ""
    if objects.volumes is None:
        return f"where the volume of persistent volume claim {name} can be"
    volume = objects.volumes.get(volume_name)
    if volume is None:
        lost = f"persistent volume claim {name} is bound to volume {volume_name}, which is gone"
        return _refused(NO_PV, f"{place}: {lost}. Create another.")
    return BoundVolume(name, volume)


def _unbound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> Judged:
    name, storage_class = claim.metadata.name, class_of(claim)
    if storage_class and objects.storage_classes is None:
        return f"where the volume of persistent volume claim {name} can be"
    known = (objects.storage_classes or {}).get(storage_class)
    if storage_class and known is None:
        return _without_class(f"{place}: persistent volume claim {name}", storage_class)
    if known is None or known.volume_binding_mode != DELAYED or claim.spec.volume_name:
        step = f"{place}: persistent volume claim {name} is not bound to a volume yet."
        see = f"See `kubectl {objects.kubectl_flags} describe pvc {name}`"
        return _refused(NOT_BOUND, f"{step} {see}, and wait until it is.")
    return UnboundVolume(name, claim.spec, tuple((objects.volumes or {}).values()), known)


def _without_class(what: str, storage_class: str) -> Refusal:
    step = f"{what} asks for storage class {storage_class}, which is not there. Create the class, or name another."
    return _refused(f'storageclass.storage.k8s.io "{storage_class}" not found', step)


def _where_first_pod_goes(rules: Mapping[str, tuple[VolumeRule, ...]], users: Counter[str]) -> Iterator[str]:
    """Name shared claims with a volume that some nodes may not reach; only the volume's driver knows these nodes."""
    for each in (rule for of_role in rules.values() for rule in of_role):
        if not isinstance(each, UnboundVolume) or each.is_per_pod:
            continue
        if users[each.claim] > 1 and not each.storage_class.allowed_topologies:
            pods = f"{users[each.claim]} pods"
            yield f"that persistent volume claim {each.claim} of {pods} gets its volume where the first of them goes"


def _shared(name: str, say: Wording) -> Refusal:
    step = f"{say.place(say.job.main)}: only one pod may use persistent volume claim {name} (ReadWriteOncePod)."
    return _refused(IN_USE, f"{step} Use a claim that more pods can share.")


def _refused(reason: str, step: str) -> Refusal:
    return Refusal(Verdict.IMPOSSIBLE, reason, step, everywhere=True)


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})
