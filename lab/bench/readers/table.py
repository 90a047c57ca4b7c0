"""Write the table of readers in docs/data.md, and judge the figures."""

from __future__ import annotations

import datetime
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from lab.paths import REPOSITORY
from lab.written_part import with_part

PAGE = REPOSITORY / "docs" / "data.md"
BEGIN = "<!-- made by make bench-readers -->\n"
DISTRAIN = "distrain"
# Names of two rows: the trainer on local shards, and a bare loop over the trainer's decoding library.
LOCAL, BARE = "distrain, local files", "bare loop of Pillow"
# Names of two rows: tf.data with antialiasing, which the other readers use too, and tf.data without it, as in
# TensorFlow's own examples.
TF_DATA = "tf.data"
OTHER_PIXELS = "tf.data, not antialiased"
SHARE = 0.9


@dataclass(frozen=True)
class Figure:
    """The images per second of one run, and the processor time for an image in milliseconds."""

    per_second: float
    processor: float


# The measured figures, one list item per round of the bench. A key is the reader's name, and whether the reader decodes
# the images.
Figures = dict[tuple[str, bool], list[Figure]]
Medians = Mapping[tuple[str, bool], Figure]


@dataclass(frozen=True)
class Size:
    """The number of shards, the number of samples in each, and the bytes of all images."""

    shards: int
    samples: int
    bytes: int = 0

    @property
    def images(self) -> int:
        return self.shards * self.samples

    def with_bytes(self, count: int) -> Size:
        return replace(self, bytes=count)


def write(figures: Figures, size: Size) -> int:
    """Replace the table of the page, and print it.

    Return 1 as the exit status if `failures` returns a message, otherwise 0.
    """
    found = {key: median(each) for key, each in figures.items()}
    rounds = len(next(iter(figures.values())))
    text = f"{_machine(size, rounds)}\n{''.join(_rows(found))}\n{_shares(found)}\n"
    PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, text), encoding="utf-8")
    print(text)
    for line in failures(found):
        print(line)
    return int(bool(failures(found)))


def median(runs: Sequence[Figure]) -> Figure:
    return Figure(*(statistics.median(each) for each in zip(*map(astuple, runs), strict=True)))


def failures(medians: Medians) -> list[str]:
    """Return a message for each reader that is faster than the trainer, and for each share that is below SHARE."""
    found = [
        f"{name} is faster{' with decoding' * decodes}: {figure.per_second:.0f} images/s, the trainer {own:.0f}"
        for (name, decodes), figure in medians.items()
        if name not in (LOCAL, BARE, OTHER_PIXELS)
        and figure.per_second > (own := medians[DISTRAIN, decodes].per_second)
    ]
    return found + [f"{name}: {share:.2f} of a bare loop" for name, share in shares(medians).items() if share < SHARE]


def shares(medians: Medians) -> dict[str, float]:
    """Return the trainer's speed on local files and from S3, divided by the speed of the bare loop."""
    return {name: medians[name, True].per_second / medians[BARE, True].per_second for name in (LOCAL, DISTRAIN)}


def _machine(size: Size, rounds: int) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"Medians of {rounds} runs on {datetime.date.today()}, on {os.cpu_count()} cores and {memory:.0f} GiB, which "
        f"the S3 server shares.\nThe load average of five minutes was {os.getloadavg()[1]:.1f}. {size.images:,} images "
        f"of {size.bytes / size.images / 1000:.0f} KB in {size.shards} shards. CPU: processor time for an image.\n"
    )


def _rows(medians: Medians) -> Iterator[str]:
    yield "| reader | files | CPU | decoded to 224x224 | CPU |\n|---|---|---|---|---|\n"
    for name in dict.fromkeys(name for name, _ in medians):
        yield f"| {name} | {' | '.join(_cells(medians.get((name, each))) for each in (False, True))} |\n"


def _cells(figure: Figure | None) -> str:
    return f"{figure.per_second:.0f} images/s | {figure.processor:.2f} ms" if figure else " | "


def _shares(medians: Medians) -> str:
    local, remote = shares(medians).values()
    return f"distrain decodes at {local:.2f} of the bare loop's speed from local files, and at {remote:.2f} from S3."
