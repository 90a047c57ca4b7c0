"""Collect the values of an import, each with its place in the source, and a list of what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from distrain.errors import ValuesError
from distrain.imports.credentials import Credentials, hidden
from distrain.imports.ledger import Ledger, Path, text, together

Target = tuple[str, ...]


class Setting(Struct):
    """A value of the chart, and text for its comment: where in the source the value comes from.

    `origins` has one text for the whole value, or one text for each item of a list or each key of a map.
    """

    value: Any
    origins: tuple[str, ...]

    @property
    def is_split(self) -> bool:
        """Tell whether `origins` has a text of its own for each item or key of the value."""
        return isinstance(self.value, list | dict) and len(self.origins) == len(self.value) > 0


class Part(Struct):
    """A value of the source, converted for the chart, and the paths in the source that the value comes from.

    For a list or a map, `paths` has the path of each item or key.
    """

    value: Any
    paths: tuple[Path, ...]


class Draft(Struct):
    """The values that an import has found so far, and what it has to tell the user about the source.

    `name` is the release's name. `kind` and `version` name the job that the chart must render from the values. `lost`
    lists the values of the source that are left out: the place of each, and the reason. `notes` are messages that the
    user should read. If two pod templates of the source become the same pods, `twins` has the paths of both. `origin`
    is the source's name in messages.
    """

    ledger: Ledger
    name: str
    settings: dict[Target, Setting] = field(default_factory=dict)
    lost: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    credentials: Credentials = field(default_factory=Credentials)
    kind: str = ""
    version: str = ""
    namespace: str = ""
    twins: list[tuple[Path, Path]] = field(default_factory=list)
    origin: str = ""

    def refuse(self, path: Path, words: str) -> ValuesError:
        """Return the error for a value at this path of the source."""
        return ValuesError(f"{self.origin}: {self.place(path)}: {hidden(words)}")

    def place(self, path: Path) -> str:
        """Return the place of a value in the source as text for the user, such as spec.containers[0].image."""
        return text(self.ledger.place(path))

    def _together(self, paths: Iterable[Path]) -> str:
        return together(map(self.ledger.place, paths))

    def carry(self, target: Target, value: Any, *paths: Path, why: str = "") -> None:
        """Set a value of the chart that comes from these paths of the source, and mark the paths as handled.

        `why` is added to the value's comment.
        """
        more = f": {why}" if why else ""
        is_split = isinstance(value, list | dict) and len(paths) == len(value)
        origins = tuple(map(self.place, paths)) if is_split else (self._together(paths),) if paths else ("",)
        self.settings[target] = Setting(value, tuple(origin + more for origin in origins))
        self.ledger.settle(*paths)

    def carry_part(self, target: Target, part: Part) -> None:
        self.carry(target, part.value, *part.paths)

    def carry_shared(self, target: Target, parts: Sequence[Part]) -> None:
        """Set a value that several parts of the source have in common."""
        self.carry_part(target, parts[0])
        setting = self.settings[target]
        if setting.is_split:
            setting.origins = tuple(
                self._together(paths) for paths in zip(*(part.paths for part in parts), strict=True)
            )
        else:
            setting.origins = (self._together(path for part in parts for path in part.paths),)
        for part in parts:
            self.know(*part.paths)

    def also(self, target: Target, path: Path) -> None:
        """Add a second place in the source to the comment of a value that is already set."""
        setting = self.settings[target]
        setting.origins = (f"{setting.origins[0]}, {self.place(path)}",)
        self.know(path)

    def choose(self, target: Target, value: Any, why: str) -> None:
        """Set a value that the source does not state but implies."""
        self.settings[target] = Setting(value, (why,))

    def has(self, target: Target) -> bool:
        return target in self.settings

    def value(self, target: Target, default: Any = None) -> Any:
        return self.settings[target].value if target in self.settings else default

    def append(self, target: Target, items: Sequence[Any], origin: str) -> None:
        """Add items to a list in the values. All items have the same place in the source."""
        before = self.settings.get(target) or Setting([], ())
        origins = before.origins if before.is_split or not before.value else before.origins * len(before.value)
        self.settings[target] = Setting([*before.value, *items], (*origins, *[origin] * len(items)))

    def know(self, *paths: Path) -> None:
        """Mark these paths of the source as handled, because they need no value of the chart.

        The paths hold defaults, state, or settings of something that distrain does by itself.
        """
        self.ledger.settle(*paths)

    def lose(self, path: Path, why: str) -> None:
        """Report the source's value at this path as not imported, unless there is no value or it is already handled."""
        if self.ledger.get(path) is not None and not self.ledger.is_settled(path):
            # If the job was converted from another format, two of its parts may come from the same place in the source.
            if (self.place(path), hidden(why)) not in self.lost:
                self.lost.append((self.place(path), hidden(why)))
            self.ledger.settle(path)

    def drop(self, place: str, why: str) -> None:
        """Report one part of a value as not imported, for example one option of mpirun; the import uses the rest."""
        if (hidden(place), hidden(why)) not in self.lost:
            self.lost.append((hidden(place), hidden(why)))

    def lose_all(self, paths: Iterable[Path], why: str) -> None:
        for path in paths:
            self.lose(path, why)

    def note(self, words: str) -> None:
        if hidden(words) not in self.notes:
            self.notes.append(hidden(words))

    @property
    def namespace_flag(self) -> str:
        """The --namespace flag for kubectl and Helm, with a space before it; empty if the source has no namespace."""
        return f" --namespace {self.namespace}" if self.namespace else ""

    def name_twins(self) -> None:
        """If two pod templates became the same pods, name both of their paths in the list of left-out values."""
        for one, other in self.twins:
            both, alone = self._together((one, other)), self.place(one)
            self.lost = [
                (f"{both}{place.removeprefix(alone)}" if place.startswith(alone) else place, why)
                for place, why in self.lost
            ]

    def values(self) -> dict[str, Any]:
        """Return the values in the nested form of a values file."""
        found: dict[str, Any] = {}
        for target, setting in self.settings.items():
            place = found
            for part in target[:-1]:
                place = place.setdefault(part, {})
            place[target[-1]] = setting.value
        return found
