"""Put the parts of all roles' pods into the values: shared parts at the top level, others in each role's section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from distrain.imports.draft import Draft, Part
from distrain.imports.jobs.pod import Parts
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting

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
    base = draft.place((*one, "spec", "containers", 0))
    own = {name: value for name, _, value in _parts(draft.ledger.get(one))}
    for name, path, value in _parts(draft.ledger.get(other)):
        twin = own.get(name)
        if twin == value:
            draft.ledger.settle((*other, *path))
        has = "no" if twin is None else "another"
        which = f"for the variable {quoting.key(name[-1])}" if name != path else "there"
        draft.lose((*other, *path), f"all pods here are made from {base}, which has {has} value {which}")


def _parts(found: Any, path: Path = (), name: Path = ()) -> Iterator[tuple[Path, Path, Any]]:
    """Yield the name, the path and the content of each variable, and of each other number and text.

    The name is a path, too, but a variable has its own name there instead of its index in the list.
    """
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, each in items:
        if path[-1:] == ("env",) and isinstance(each, dict) and each.get("name"):
            yield (*name, str(each["name"])), (*path, key), each
        else:
            yield from _parts(each, (*path, key), (*name, key))
    if found is not None and not isinstance(found, dict | list):
        yield name, path, found
