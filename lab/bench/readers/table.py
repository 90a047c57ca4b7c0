"""Write the table of readers in docs/data.md, and judge the figures."""

from __future__ import annotations

import datetime
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lab.paths import REPOSITORY
from lab.written_part import with_part

PAGE = REPOSITORY / "docs" / "data.md"
BEGIN = "<!-- made by python -m lab.bench.readers -->\n"
DISTRAIN = "distrain"
# The trainer on local shards, and the bare loop of its decoding library.
LOCAL, BARE = "distrain, local files", "bare loop of Pillow"
SHARE = 0.9

# The images per second of each round, by the reader's name and whether it decodes.
Figures = dict[tuple[str, bool], list[float]]
Medians = Mapping[tuple[str, bool], float]


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
    """Replace the table of the page, and print it. Return 1 if a line of `failures` says so, otherwise 0."""
    medians = {key: statistics.median(each) for key, each in figures.items()}
    rounds = len(next(iter(figures.values())))
    text = f"{_machine(size, rounds)}\n{''.join(_rows(medians))}\n{_shares(medians)}\n"
    PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, text), encoding="utf-8")
    print(text)
    found = failures(medians)
    for line in found:
        print(line)
    return int(bool(found))


def failures(medians: Medians) -> list[str]:
    """Return a line for each reader that is faster than the trainer, and for each share below SHARE."""
    found = [
        f"{name} is faster{' with decoding' * decodes}: {rate:.0f} images/s, the trainer {own:.0f}"
        for (name, decodes), rate in medians.items()
        if name not in (LOCAL, BARE) and rate > (own := medians[DISTRAIN, decodes])
    ]
    shares = {name: medians[name, True] / medians[BARE, True] for name in (LOCAL, DISTRAIN)}
    return found + [f"{name}: {share:.2f} of a bare loop" for name, share in shares.items() if share < SHARE]


def _machine(size: Size, rounds: int) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"Medians of {rounds} rounds on {datetime.date.today()}, on {os.cpu_count()} cores and {memory:.0f} GiB, which "
        f"the S3 server shares;\nload average {os.getloadavg()[1]:.1f} in the last five minutes. {size.images:,} images "
        f"of {size.bytes / size.images / 1000:.0f} KB in {size.shards} shards:\n"
    )


def _rows(medians: Medians) -> Iterator[str]:
    yield "| reader | files, images/s | decoded to 224x224, images/s |\n|---|---|---|\n"
    for name in dict.fromkeys(name for name, _ in medians):
        files, decoded = (f"{medians[name, each]:.0f}" if (name, each) in medians else "" for each in (False, True))
        yield f"| {name} | {files} | {decoded} |\n"


def _shares(medians: Medians) -> str:
    local, remote = (medians[name, True] / medians[BARE, True] for name in (LOCAL, DISTRAIN))
    return f"distrain decodes at {local:.2f} of the bare loop's speed from local files, and at {remote:.2f} from S3."
