"""Handle claims with WaitForFirstConsumer: the node of the first pod decides where the volume is created.

A class may allow several topology domains. A new volume is created in one of them, and may be reachable only from
there. In this case the other pods with the claim must run in the domain of the first pod, as if they had an affinity to
it. If each pod has its own claim, the pods need not share a domain, but they compete for existing volumes. In every
other case this module does not decide where the volume is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct, field

from distrain.scheduler.volume_binding import UnboundVolume, VolumeRule
from distrain.solver.problem import Affinity
from distrain.workload.manifest import Job, PodRole

# For each unbound claim, by namespace, role and name: the roles that use it. The role's name is empty for a claim that
# several pods share.
Claims = Mapping[tuple[str, str, str], Sequence[tuple[PodRole, UnboundVolume]]]


class SharedVolumes(Struct):
    """The consequences of claims that several pods share. `affinity` has the affinity that each role gets.

    `undecided` are the claims whose volume may be in different places.
    """

    affinity: dict[str, Affinity] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)


def shared_volumes(job: Job, rules: Mapping[str, Sequence[VolumeRule]]) -> SharedVolumes:
    """Decide which pods must run in the same domain as the first pod that uses their claim."""
    found, claims = SharedVolumes(), _by_claim(job, rules)
    for key, users in claims.items():
        rule, pods = users[0][1], sum(role.replicas for role, _ in users)
        is_open = _is_scarce(rule) if rule.is_per_pod else _is_open(rule)
        if _is_contested(key, rule, claims) or (pods > 1 and is_open):
            found.undecided.append(rule.claim)
        elif (
            pods > 1
            and not rule.is_per_pod
            and rule.storage_class.allowed_topologies
            and rule.storage_class.provisioner
        ):
            _tie(found, rule.claim, rule, [role for role, _ in users])
    return found


def _tie(found: SharedVolumes, name: str, rule: UnboundVolume, roles: Sequence[PodRole]) -> None:
    keys = tuple(sorted(_keys(rule)[0]))
    affinity = Affinity(keys, frozenset(role.name for role in roles), {key: frozenset() for key in keys})
    stated = [role.spec.affinity and role.spec.affinity.pod_affinity for role in roles]
    if any(each and each.required for each in stated) or any(role.name in found.affinity for role in roles):
        # The solver supports one affinity per role.
        found.undecided.append(name)
    else:
        found.affinity.update({role.name: affinity for role in roles})


def _by_claim(job: Job, rules: Mapping[str, Sequence[VolumeRule]]) -> Claims:
    """For each claim, return the roles that use it."""
    claims: dict[tuple[str, str, str], list[tuple[PodRole, UnboundVolume]]] = {}
    for role in job.roles:
        for rule in rules[role.name]:
            if isinstance(rule, UnboundVolume) and role.replicas:
                key = (role.namespace, role.name if rule.is_per_pod else "", rule.claim)
                claims.setdefault(key, []).append((role, rule))
    return claims


def _is_open(rule: UnboundVolume) -> bool:
    """Tell whether the location of the volume is unknown even if the domain of the first pod is known."""
    places = {msgspec.json.encode(volume.spec.node_affinity) for volume in rule.candidates}
    if not rule.is_made:
        return len(places) > 1
    return bool(places) or len(_keys(rule)) > 1


def _is_scarce(rule: UnboundVolume) -> bool:
    """Tell whether a pod may need an existing volume: there are some, and not every node can get a new one."""
    return not rule.is_made_anywhere and bool(rule.candidates)


def _is_contested(key: tuple[str, str, str], rule: UnboundVolume, claims: Claims) -> bool:
    """Tell whether another claim of the job may take the same volume first."""
    ours = {volume.metadata.name for volume in rule.candidates}
    others = [users[0][1] for other, users in claims.items() if other != key]
    return any(volume.metadata.name in ours for other in others for volume in other.candidates)


def _keys(rule: UnboundVolume) -> list[frozenset[str]]:
    topologies = rule.storage_class.allowed_topologies or ()
    return list({frozenset(each.key for each in topology.match_label_expressions or ()) for topology in topologies})
