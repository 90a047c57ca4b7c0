"""Read and write a checkpoint's manifest: the files' checksums, the position in the data, and what the run trains."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from distrain_trainer.checkpoint.arrays import Field, Fields
from distrain_trainer.data.position import Position
from distrain_trainer.data.sampler import Segment
from distrain_trainer.results import Evaluation, LoggedStep

FORMAT = 3
# In format 1 a checkpoint was one file in the framework's own format. In format 2 every file contained whole arrays.
READ_FORMATS = (1, 2, FORMAT)


class NewerError(ValueError):
    """The format of the manifest is newer than this trainer."""


# Upper limit of every number in a manifest. No file is larger than LARGEST bytes, and some file systems refuse an
# offset above it.
LARGEST = 2**43
Shapes = Mapping[str, list[int]]
# Arrays whose names begin with one of these prefixes may differ between a checkpoint and the run that loads it.
NOT_COMPARED = ("scaler.", "group.", "ema.")


@dataclass(frozen=True)
class FileSum:
    size: int
    sha256: str

    @classmethod
    def of(cls, content: memoryview | bytes | bytearray) -> FileSum:
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Subject:
    """What a run trains, and on which data.

    A run can resume from a checkpoint only if all these values are the same in both.

    `epoch_samples` is None for synthetic data. `shapes` maps the name of each array of the model to its shape.
    """

    framework: str
    model: str
    optimizer: str
    seed: int
    epoch_samples: int | None
    shapes: Shapes

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's manifest.json.

    `ranks` is the number of ranks. `time` is in Unix seconds. `history` contains the steps logged so far, and
    `evaluations` the results of the tests that --evaluate-every asks for. `files` is ordered: if an array is divided
    between files, these files are consecutive.
    """

    subject: Subject
    position: Position
    ranks: int
    time: float
    files: Mapping[str, FileSum]
    history: list[LoggedStep] = field(default_factory=list)
    format: int = FORMAT
    evaluations: list[Evaluation] = field(default_factory=list)

    def to_json(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Parse a manifest.

        Raises NewerError if the manifest's format is unknown, and ValueError if the manifest is damaged.
        """
        try:
            told = json.loads(content)
            if told["format"] not in READ_FORMATS:
                raise NewerError(f"its format is {told['format']}, and this trainer reads 1 to {FORMAT}")
            manifest = cls(
                subject=Subject(**told["subject"]),
                position=position_of(told["position"]),
                ranks=told["ranks"],
                time=told["time"],
                files={name: FileSum(**told["files"][name]) for name in told["files"]},
                history=[LoggedStep(**step) for step in told["history"]],
                format=told["format"],
                # Earlier versions of the trainer wrote no `evaluations`.
                evaluations=[Evaluation(**each) for each in told.get("evaluations", [])],
            )
            _require_types(manifest)
            return manifest
        except (KeyError, TypeError, AttributeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError):
            raise ValueError("manifest.json is none of this trainer's") from None


def _require_types(manifest: Manifest) -> None:
    """Raise TypeError if a field has another type than its annotation says, because JSON may contain any value."""
    place, files = manifest.position, manifest.files.values()
    steps = (number for each in place.segments for number in (each.ranks, each.batch_size, each.steps))
    logged = (each.step for each in manifest.history)
    tested = (number for each in manifest.evaluations for number in (each.epoch, each.step, each.samples))
    numbers = (place.step, place.samples, manifest.ranks, *steps, *logged, *tested, *(file.size for file in files))
    if not files or not all(type(number) is int and 0 <= number < LARGEST for number in numbers):
        raise TypeError
    shapes = manifest.subject.shapes.values()
    if not all(isinstance(file.sha256, str) for file in files) or not all(isinstance(shape, list) for shape in shapes):
        raise TypeError


def position_of(told: dict[str, Any]) -> Position:
    """Convert a dictionary back to the Position from which `asdict` made it."""
    return Position(told["step"], told["samples"], tuple(Segment(**segment) for segment in told["segments"]))


def difference(there: Subject, here: Subject) -> str | None:
    """Describe the first difference between what a checkpoint's run and this run train, or return None."""
    for what, value in (("framework", "framework"), ("model", "trainer.model"), ("optimizer", "trainer.optimizer")):
        theirs, ours = getattr(there, what), getattr(here, what)
        if theirs != ours:
            return f"{value} is {theirs} there and {ours} here"
    for name in sorted({*there.shapes, *here.shapes}):
        theirs, ours = (_text(of.shapes.get(name)) for of in (there, here))
        if theirs != ours:
            return f"{name} is {theirs} there and {ours} here"
    if there.epoch_samples != here.epoch_samples:
        return f"data.uri has {there.epoch_samples} training samples there and {here.epoch_samples} here"
    if there.seed != here.seed:
        return f"trainer.seed is {there.seed} there and {here.seed} here"
    return None


def state_difference(there: Fields, here: Fields, later: Fields) -> str | None:
    """Describe the first difference between a checkpoint's arrays and this run's arrays, or return None.

    `here` are the arrays at the start of the run. `later` are the arrays that the optimizer adds for each weight at its
    first step. A checkpoint must contain either all arrays that the optimizer adds for a weight, or none of them. Three
    groups of arrays are not compared, because they may differ although the model is the same. A run has a loss scaler
    only with some values of trainer.precision. A run has a moving average of the weights only with trainer.ema. A newer
    version of the framework may have more constants for the optimizer.
    """
    stepped = {_weight_of(name) for name in there if name in later}
    expected = {**here, **{name: field for name, field in later.items() if _weight_of(name) in stepped}}
    for name in sorted({*there, *expected}):
        theirs, ours = there.get(name), expected.get(name)
        if theirs != ours and not name.startswith(NOT_COMPARED):
            value = "trainer.model" if theirs and ours else "strategy or trainer.model"
            return f"{value}: {name} is {_described(theirs, ours)} there and {_described(ours, theirs)} here"
    return None


def _weight_of(name: str) -> str:
    """Return an array's name without its last part, for example `optimizer.bias` for `optimizer.bias.step`."""
    return name.rpartition(".")[0]


def _described(field: Field | None, other: Field | None) -> str:
    """Return the type of an array as text.

    If `other` has the same type, also return the shape, because only the shapes differ.
    """
    if field is None:
        return "missing"
    has_same_type = other is not None and other.dtype == field.dtype
    return f"{field.type_name}{list(field.shape)}" if has_same_type else field.type_name


def _text(shape: list[int] | None) -> str:
    return "missing" if shape is None else "x".join(map(str, shape)) or "one number"
