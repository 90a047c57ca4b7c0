"""Put the parts of all roles' pods into the values: shared parts at the top level, others in each role's section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from distrain.imports.draft import Draft, Part
from distrain.imports.jobs.pod import Parts
from distrain.imports.ledger import Path

# Parts of a pod that have a key at the top level of the values, where they apply to every pod.
TOP = {
    **{key: key for key in ("nodeSelector", "tolerations", "affinity", "env", "envFrom", "initContainers", "podSpec")},
    **{key: key for key in ("securityContext", "containerSecurityContext", "priorityClassName", "runtimeClassName")},
    "schedulerName": "schedulerName",
    "labels": "podLabels",
    "annotations": "podAnnotations",
}
# Keys at the top level of the values that apply to all pods except the MPI launcher.
TOP_OF_PROGRAMS = ("volumes", "volumeMounts")
# Keys that users expect at the top level if the job has only one section.
ALONE_AT_TOP = ("env", "volumes", "volumeMounts")


class Role(Struct, frozen=True):
    """A role of the source: its name in the source, the section of the values, and the path of its pod template.

    `container` is the index of the container that runs the program. `runs_mpi` is true if the pods run mpirun instead
    of the program.
    """

    name: str
    section: str
    template: Path
    container: int
    replicas: int
    runs_mpi: bool = False

    @property
    def place(self) -> Path:
        return (*self.template, "spec", "containers", self.container)


def spread(draft: Draft, roles: Sequence[Role], parts: Mapping[str, Parts]) -> None:
    """Set the fields of all roles' pods, such as env and volumes, in the values.

    `parts` maps each section of the values, such as workers, to the fields of the role's pods.
    """
    sections = [role.section for role in roles]
    programs = [role.section for role in roles if not role.runs_mpi]
    # A volume mount at the top level can use only a volume at the top level.
    are_volumes_shared = all(_is_shared_or_absent(parts, key, programs) for key in TOP_OF_PROGRAMS)
    for key in dict.fromkeys(key for section in sections for key in parts[section]):
        over = programs if key in TOP_OF_PROGRAMS else sections
        found = {section: parts[section][key] for section in sections if key in parts[section]}
        is_shared = are_volumes_shared if key in TOP_OF_PROGRAMS else _is_shared(found, over)
        is_shared = is_shared and any(section in found for section in over)
        if is_shared and (len(over) > 1 or len(sections) > 1 or key in ALONE_AT_TOP):
            draft.carry_shared((TOP.get(key, key),), [found[section] for section in over])
            found = {section: part for section, part in found.items() if section not in over}
        for section, part in found.items():
            draft.carry_part((section, key), part)


def _is_shared_or_absent(parts: Mapping[str, Parts], key: str, sections: Sequence[str]) -> bool:
    found = {section: parts[section][key] for section in sections if key in parts[section]}
    return not found or _is_shared(found, sections)


def _is_shared(found: Mapping[str, Part], over: Sequence[str]) -> bool:
    """Tell whether all of these sections have this part with the same value."""
    parts = [found.get(section) for section in over]
    return all(part is not None and parts[0] is not None and part.value == parts[0].value for part in parts)


def merge_twin(draft: Draft, one: Path, other: Path) -> None:
    """Compare the second pod template, `other`, with the first, `one`.

    If both templates have the same value at a path, mark the second template's value as handled. Report the second
    template's other values as not imported.
    """
    draft.twins.append((one, other))
    why = f"the pods here are those of {draft.place((*one, 'spec', 'containers', 0))}"
    _merge_variables(draft, one, other, why)
    for path in [*draft.ledger.unsettled(other)]:
        value = draft.ledger.get(path)
        if draft.ledger.get((*one, *path[len(other) :])) == value:
            draft.ledger.settle(path)
        else:
            draft.lose(path, why)


def _merge_variables(draft: Draft, one: Path, other: Path, why: str) -> None:
    """Compare the variables of two pod templates by their names, because their order may differ."""
    for index, _ in enumerate(draft.ledger.get((*other, "spec", "containers"), [])):
        place = ("spec", "containers", index, "env")
        kept = draft.ledger.get((*one, *place), [])
        for number, variable in enumerate(draft.ledger.get((*other, *place), [])):
            path = (*other, *place, number)
            if variable in kept:
                draft.know(path)
            else:
                draft.lose(path, f"variable {draft.ledger.get((*path, 'name'))} is set so only here; {why}")
