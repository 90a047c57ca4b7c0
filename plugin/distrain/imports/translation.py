"""Build a job resource of the Kubeflow operators from another form of a job, and record each part's origin."""

from __future__ import annotations

import copy
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft, Target
from distrain.imports.elsewhere import why_left_out
from distrain.imports.jobs.job_resource import read_job
from distrain.imports.ledger import Ledger, Path, leaves, text
from distrain.imports.secrets import quoting

# Lists in a pod spec, with the key by which a strategic merge patch identifies their items.
MERGED = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
}
# In these lists, a patch changes single fields of an item. In all other lists, a patch replaces whole items.
DEEP = {"containers", "initContainers"}


class Translation:
    """A job resource that is built from a source in another format.

    `origins` maps each path in `job` to its path in the source. `settings` has the values of the chart that no field of
    the job resource can express. `origin` is the source's name in messages.
    """

    def __init__(self, source: dict[str, Any], origin: str) -> None:
        self.source = Ledger(source)
        self.origin = origin
        self.job: dict[str, Any] = {}
        self.origins: dict[Path, Path] = {}
        self.lost: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.settings: list[tuple[Target, Any, str]] = []

    def refuse(self, path: Path, words: str) -> ValuesError:
        return ValuesError(f"{self.origin}: {text(path)}: {words}")

    def get(self, path: Path) -> Any:
        return Ledger(self.job).get(path)

    def block(self, path: Path) -> dict[str, Any]:
        """Return a mapping of the source, empty if there is none; raise ValuesError for anything else."""
        found = self.source.get(path, {})
        if not isinstance(found, dict):
            raise self.refuse(path, "must be a mapping of keys; correct it there")
        return found

    def blocks(self, path: Path) -> list[dict[str, Any]]:
        found = self.source.get(path, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.refuse(path, "must be a list of mappings; correct it there")
        return found

    def number(self, path: Path, default: int) -> int:
        """Return the number at this path of the source; raise ValuesError if it is not a whole number above 0."""
        found = self.source.get(path, default)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise self.refuse(path, f"is {quoting.literal(found)}, but must be a whole number above 0; correct it")
        return found

    def set(self, target: Path, value: Any, *sources: Path) -> None:
        """Set a value of the job that comes from these paths of the source. Messages name only the first path."""
        place: Any = self.job
        for part in target[:-1]:
            if isinstance(part, str) and not isinstance(place.get(part), dict | list):
                place[part] = {}
            place = place[part]
        if isinstance(place, list) and target[-1] == len(place):
            place.append(value)
        else:
            place[target[-1]] = value
        self.origins = {path: source for path, source in self.origins.items() if path[: len(target)] != target}
        if sources:
            self.origins[target] = sources[0]
        self.source.settle(*sources)

    def append(self, target: Path, value: Any, *sources: Path) -> Path:
        """Add an item to a list of the job, and create a missing list; return the item's path."""
        if self.get(target) is None:
            self.set(target, [])
        place = (*target, len(self.get(target)))
        self.set(place, value, *sources)
        return place

    def copy(self, target: Path, source: Path) -> None:
        """Copy a value of the source, if the source has it, to a path of the job."""
        found = self.source.get(source)
        if found is not None:
            self.set(target, copy.deepcopy(found), source)

    def drop(self, target: Path) -> None:
        """Remove a value from the job."""
        parent = self.get(target[:-1])
        if isinstance(parent, dict):
            parent.pop(target[-1], None)

    def patch(self, target: Path, source: Path) -> None:
        """Merge a value of the source into a value of the job, as a strategic merge patch of Kubernetes does."""
        here, there = self.get(target), self.source.get(source)
        key = MERGED.get(str(target[-1]))
        if isinstance(here, dict) and isinstance(there, dict):
            for name in there:
                self.patch((*target, name), (*source, name))
        elif key and isinstance(there, list):
            self._patch_items(target, source, key)
        elif there is not None:
            self.copy(target, source)

    def _patch_items(self, target: Path, source: Path, key: str) -> None:
        if self.get(target) is None:
            self.set(target, [])
        for index, item in enumerate(self.blocks(source)):
            names = [each.get(key) for each in self.get(target)]
            is_new = item.get(key) not in names
            place = (*target, len(names) if is_new else names.index(item.get(key)))
            if is_new and target[-1] in DEEP:
                self.lose((*source, index), f"the runtime has no container {quoting.key(item.get(key))}")
            elif not is_new and target[-1] in DEEP:
                self.patch(place, (*source, index))
            else:
                self.copy(place, (*source, index))

    def know(self, *paths: Path) -> None:
        self.source.settle(*paths)

    def lose(self, path: Path, why: str) -> None:
        """Report a value of the source as not imported; if a part of it was used, report only the other parts."""
        if self.source.get(path) is None or self.source.is_settled(path):
            return
        left = [*self.source.unsettled(path)]
        is_whole = path and left == [*leaves(self.source.get(path), path)]
        self.lost += [(text(each), why) for each in ((path,) if left and is_whole else left)]
        self.source.settle(path)

    def choose(self, target: Target, value: Any, path: Path) -> None:
        """Set a value of the chart from a path of the source."""
        self.settings.append((target, value, text(path)))
        self.source.settle(path)

    def draft(self) -> Draft:
        """Convert the job to values of the chart, and report as not imported what the translation did not use."""
        for path in [*self.source.unsettled()]:
            self.lose(path, why_left_out(path))
        draft = read_job(self.job, self.origin, self.origins)
        for target, value, place in self.settings:
            draft.choose(target, value, place)
        draft.lost[:0] = self.lost
        others, draft.notes = draft.notes, []
        for note in (*self.notes, *others):
            draft.note(note)
        return draft
