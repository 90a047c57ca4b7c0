"""Compare the roles whose pods train, such as Master and Worker. In the chart, all of these pods are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from distrain.imports.draft import Draft
from distrain.imports.jobs.resources import gpus_of
from distrain.imports.ledger import Ledger, Path


class Group(Struct, frozen=True):
    """A role whose pods train: its number of pods, their main container, and the container's place in the source."""

    pods: int
    place: str
    container: Ledger

    @property
    def ranks(self) -> int:
        """The number of ranks in a pod: one for each of its GPUs, or one on CPUs."""
        amounts: dict[str, Any] = {}
        for kind in ("requests", "limits"):
            amounts |= self.container.get(("resources", kind), {})
        found = [str(amounts[name]) for name in gpus_of(amounts)]
        return max(1, int(found[0])) if found and found[0].isdecimal() else 1


def main_container(draft: Draft, containers: list[dict[str, Any]]) -> int:
    """Return the index of the container in which the operator expects the program, such as the one named pytorch."""
    wanted = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "MXJob": "mxnet"}.get(draft.kind)
    wanted = wanted or draft.ledger.get(("spec", "mainContainer"))
    names = [each.get("name") for each in containers]
    return names.index(wanted) if wanted in names else 0


def note_differences(draft: Draft, taken: Path, roles: Sequence[Path]) -> None:
    """Add a note if the roles differ in size or program, because all workers get the same pod template.

    `taken` is the path of this template; it belongs to one of the roles.
    """
    groups = {path: _group(draft, path) for path in roles}
    main = groups[taken[:-1]]
    before, here = sum(each.pods * each.ranks for each in groups.values()), sum(each.pods for each in groups.values())
    if before != here * main.ranks:
        sizes = " and ".join(f"{each.pods} x {each.ranks} at {each.place}" for each in groups.values())
        draft.note(f"{before} ranks become {here * main.ranks}: the source has {sizes}; here all are as {main.place}")
    for key in ("image", "command", "args"):
        if len({str(each.container.get((key,))) for each in groups.values()}) > 1:
            places = " and ".join(each.place for each in groups.values())
            draft.note(f"{key}: {places} differ; here all workers have that of {main.place}")


def _group(draft: Draft, role: Path) -> Group:
    path = (*role, "template", "spec", "containers")
    place = (*path, main_container(draft, draft.ledger.get(path, [{}])))
    return Group(draft.ledger.get((*role, "replicas"), 1), draft.place(place), Ledger(draft.ledger.get(place, {})))
