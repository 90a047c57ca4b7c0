"""Judge the persistent volume claims of a job's pods: whether the pods can start, and on which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.check.dependencies import Dependencies
from distrain.kube.storage import PersistentVolumeClaim
from distrain.scheduler.messages import IN_USE, NO_PV, NOT_BOUND
from distrain.scheduler.volume_binding import BoundVolume, UnboundVolume, VolumeRule
from distrain.scheduler.volume_restrictions import claims_of, is_exclusive
from distrain.scheduler.wait_for_first_consumer import SharedVolumes, shared_volumes
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

BOUND = "pv.kubernetes.io/bind-completed"
CLASS = "volume.beta.kubernetes.io/storage-class"
DELAYED = "WaitForFirstConsumer"


class Claims(Struct):
    """The volumes of each role's pods, the ReadWriteOncePod claims, the claims that pods share, and refusals."""

    rules: dict[str, tuple[VolumeRule, ...]] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    shared: SharedVolumes = field(default_factory=SharedVolumes)
    refusals: list[Refusal] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def judge_claims(job: Job, objects: Dependencies, say: Wording) -> Claims:
    """Judge each claim that the job's pods use."""
    found = Claims()
    users: Counter[str] = Counter()
    for role in job.roles:
        names = claims_of(role.spec.volumes) if role.replicas else []
        users.update(dict.fromkeys(names, role.replicas))
        rules: list[VolumeRule] = []
        for name in names:
            match _of_claim(name, say.place(role), role, job, objects):
                case Refusal() as refusal:
                    found.refusals.append(refusal)
                case str(words):
                    found.unseen.append(words)
                case rule:
                    rules.append(rule)
        found.rules[role.name] = (*rules, *_ephemeral(role.spec, objects))
    found.exclusive = frozenset(name for name in users if is_exclusive((objects.claims or {}).get(name)))
    found.refusals += [_shared(name, say) for name in sorted(found.exclusive) if users[name] > 1]
    found.shared = shared_volumes(job, found.rules)
    found.unseen += _where_first_pod_goes(found.rules, users)
    found.unseen, found.refusals = list(dict.fromkeys(found.unseen)), list(dict.fromkeys(found.refusals))
    return found


def _of_claim(name: str, place: str, role: PodRole, job: Job, objects: Dependencies) -> VolumeRule | Refusal | str:
    """Return the possible places of the volume, a refusal of all pods, or a text about what cannot be judged."""
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


def _bound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> VolumeRule | Refusal | str:
    name, volume_name = claim.metadata.name, claim.spec.volume_name or ""
    if objects.volumes is None:
        return f"where the volume of persistent volume claim {name} can be"
    volume = objects.volumes.get(volume_name)
    if volume is None:
        lost = f"persistent volume claim {name} is bound to volume {volume_name}, which is gone"
        return _refused(NO_PV, f"{place}: {lost}. Create another.")
    return BoundVolume(name, volume)


def _unbound(claim: PersistentVolumeClaim, place: str, objects: Dependencies) -> VolumeRule | Refusal | str:
    name, storage_class = claim.metadata.name, _class_of(claim)
    if storage_class and objects.storage_classes is None:
        return f"where the volume of persistent volume claim {name} can be"
    known = (objects.storage_classes or {}).get(storage_class)
    if storage_class and known is None:
        step = f"{place}: persistent volume claim {name} asks for storage class {storage_class}, which is not there."
        words = f'storageclass.storage.k8s.io "{storage_class}" not found'
        return _refused(words, f"{step} Create the class, or a claim of another one.")
    if known is None or known.volume_binding_mode != DELAYED or claim.spec.volume_name:
        step = f"{place}: persistent volume claim {name} is not bound to a volume yet."
        return _refused(NOT_BOUND, f"{step} See `kubectl describe pvc {name}`, and wait until it is.")
    return _to_be_bound(name, claim.spec, known, objects)


def _to_be_bound(
    name: str, claim: kube.ClaimSpec, storage_class: kube.StorageClass, objects: Dependencies
) -> UnboundVolume:
    return UnboundVolume(name, claim, tuple((objects.volumes or {}).values()), storage_class)


def _ephemeral(spec: kube.TemplateSpec, objects: Dependencies) -> Iterator[VolumeRule]:
    """Yield a pod's generic ephemeral volumes whose storage class is known and uses WaitForFirstConsumer."""
    for volume in spec.volumes or ():
        template = (
            isinstance(volume, kube.TemplateVolume) and volume.ephemeral and volume.ephemeral.volume_claim_template
        )
        if template:
            known = (objects.storage_classes or {}).get(template.spec.storage_class_name or "")
            if known and known.volume_binding_mode == DELAYED:
                yield _to_be_bound(volume.name, template.spec, known, objects)


def _where_first_pod_goes(rules: Mapping[str, tuple[VolumeRule, ...]], users: Counter[str]) -> Iterator[str]:
    """Name shared claims with a volume that some nodes may not reach; only the volume's driver knows these nodes."""
    for each in (rule for of_role in rules.values() for rule in of_role):
        if isinstance(each, UnboundVolume) and users[each.claim] > 1 and not each.storage_class.allowed_topologies:
            pods = f"{users[each.claim]} pods"
            yield f"that persistent volume claim {each.claim} of {pods} gets its volume where the first of them goes"


def _shared(name: str, say: Wording) -> Refusal:
    step = f"{say.place(say.job.main)}: only one pod may use persistent volume claim {name} (ReadWriteOncePod)."
    return _refused(IN_USE, f"{step} Use a claim that more pods can share.")


def _refused(reason: str, step: str) -> Refusal:
    return Refusal(Verdict.IMPOSSIBLE, reason, step, everywhere=True)


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BOUND in (claim.metadata.annotations or {})


def _class_of(claim: PersistentVolumeClaim) -> str:
    return (claim.metadata.annotations or {}).get(CLASS) or claim.spec.storage_class_name or ""
