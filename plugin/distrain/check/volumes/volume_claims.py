"""Judge the persistent volume claims of a job's pods: whether the pods can start, and on which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from distrain.admission.new_claims import ClaimChanges
from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies
from distrain.check.volumes import one_claim
from distrain.check.volumes.one_claim import Elsewhere, Judged, refused
from distrain.check.volumes.own_claims import OwnClaim, changes, manifest_claims, own_claims
from distrain.kube.storage import PersistentVolumeClaim
from distrain.scheduler.messages import IN_USE
from distrain.scheduler.storage_room import StorageRoom
from distrain.scheduler.volume_binding import AnyVolume, BoundVolume, UnboundVolume, VolumeRule
from distrain.scheduler.volume_restrictions import ClaimName, claims_of, is_exclusive
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording


class Claims(Struct):
    """The volumes of each role's pods, the ReadWriteOncePod claims, and refusals.

    `changes` are the claims that are created or deleted together with the pods. `open` are claims for which the
    location of the volume is unknown, or differs between the pods of a role.
    """

    rules: dict[str, tuple[VolumeRule, ...]] = field(default_factory=dict)
    exclusive: frozenset[ClaimName] = frozenset()
    open: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    changes: ClaimChanges = ClaimChanges()

    def add(self, judged: Judged, rules: list[VolumeRule]) -> None:
        """Store the judgement of a claim.

        Only a rule goes into the list `rules`; a refusal, or a text about what is not judged, goes into this object.
        """
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
    found, new = Claims(changes=changes(job, objects)), manifest_claims(job, objects)
    users: Counter[str] = Counter()
    for role in job.roles:
        names = claims_of(role.spec.volumes) if role.replicas else []
        users.update(dict.fromkeys(names, role.replicas))
        rules: list[VolumeRule] = []
        for name in names:
            found.add(_of_claim(name, say.place(role), role, new, objects), rules)
        for claim in own_claims(role, objects) if role.replicas else ():
            for judged in _of_own(claim, say.place(role), role, objects):
                found.add(judged, rules)
            users.update(dict.fromkeys(claim.existing, 1))
        found.rules[role.name] = tuple(rules)
    known = {**new, **(objects.claims or {})}
    exclusive = sorted(name for name in users if is_exclusive(known.get(name)))
    found.exclusive = frozenset((job.main.namespace, name) for name in exclusive)
    found.refusals += [_shared(name, say) for name in exclusive if users[name] > 1]
    found.rules = {
        role: tuple(_for_all(rule, users, found.open) for rule in of_role) for role, of_role in found.rules.items()
    }
    found.unseen += _where_first_pod_goes(found.rules, users)
    found.unseen, found.refusals = list(dict.fromkeys(found.unseen)), list(dict.fromkeys(found.refusals))
    return found


def _of_claim(
    name: str, place: str, role: PodRole, new: Mapping[str, PersistentVolumeClaim], objects: Dependencies
) -> Judged:
    """Judge a claim that several pods share; `new` are the claims that the manifest creates."""
    if name in new:
        return one_claim.of_manifest(new[name], place, objects)
    if objects.claims is None:
        return f"persistent volume claim {name} of the {role.name}"
    claim = objects.claims.get(name)
    if claim is None:
        step = f"{place}: there is no persistent volume claim {name}. Create it, or correct its name."
        return refused(f'persistentvolumeclaim "{name}" not found', step)
    return one_claim.existing(claim, place, objects)


def _of_own(claim: OwnClaim, place: str, role: PodRole, objects: Dependencies) -> Iterator[Judged]:
    """Judge the claims for one volume in the role's pod template, if each pod gets its own claim for this volume."""
    found = [one_claim.existing((objects.claims or {})[name], place, objects) for name in claim.existing]
    reserved = [] if role.replicas == 1 else list(one_claim.reserved(claim, role.namespace, objects))
    if claim.missing > len(reserved):
        found.append(one_claim.of_each_pod(claim, place, objects, role.namespace))
    rules: list[BoundVolume | UnboundVolume] = [*reserved]
    for judged in found:
        if isinstance(judged, BoundVolume | UnboundVolume):
            rules.append(_of_one_pod(judged, claim, role))
        else:
            yield judged
    yield from _together(claim, rules, role.replicas)


def _of_one_pod(rule: BoundVolume | UnboundVolume, claim: OwnClaim, role: PodRole) -> BoundVolume | UnboundVolume:
    """Return a copy of one pod's rule that applies to all pods of the role.

    In the copy, the claim has the name of its template, which is the same for all pods. If the pod's volume exists
    already, or is reserved for this pod, the rule is returned unchanged.
    """
    if isinstance(rule, BoundVolume) or (rule.is_reserved and role.replicas > 1):
        return rule
    return replace(rule, claim=claim.name, is_per_pod=True)


def _together(claim: OwnClaim, rules: Sequence[BoundVolume | UnboundVolume], pods: int) -> Iterator[Judged]:
    """Yield one rule that applies to all pods. If the volumes of the pods differ, the pods may need different nodes."""
    different = [rule for number, rule in enumerate(rules) if rule not in rules[:number]]
    if pods == 1 or (len(different) == 1 and isinstance(different[0], UnboundVolume)):
        yield from different
    elif located := [rule for rule in different if rule.is_somewhere]:
        yield AnyVolume(tuple(different))
        yield from (Elsewhere(rule.claim) for rule in located)
    else:
        yield from (rule for rule in different if isinstance(rule, UnboundVolume))


def _for_all(rule: VolumeRule, users: Counter[str], undecided: list[str]) -> VolumeRule:
    """Return the rule that applies to all pods that share the claim.

    Some rules apply only to the first pod, whose node is not known yet.
    """
    if not isinstance(rule, UnboundVolume) or rule.is_per_pod or users[rule.claim] < 2:
        return rule
    if rule.node or rule.room.is_told:
        undecided.append(rule.claim)
    return replace(rule, node="", room=StorageRoom())


def _where_first_pod_goes(rules: Mapping[str, tuple[VolumeRule, ...]], users: Counter[str]) -> Iterator[str]:
    """Name claims that several pods share, and whose volume may be out of reach for some nodes.

    Only the volume's driver knows which nodes can reach the volume.
    """
    for each in (rule for of_role in rules.values() for rule in of_role):
        if not isinstance(each, UnboundVolume) or each.is_per_pod:
            continue
        if users[each.claim] > 1 and not each.storage_class.allowed_topologies:
            pods = f"{users[each.claim]} pods"
            yield f"that persistent volume claim {each.claim} of {pods} gets its volume where the first of them goes"


def _shared(name: str, say: Wording) -> Refusal:
    step = f"{say.place(say.job.main)}: only one pod may use persistent volume claim {name} (ReadWriteOncePod)."
    return refused(IN_USE, f"{step} Use a claim that more pods can share.")
