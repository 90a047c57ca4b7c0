"""Print the log lines of a run on one rank, and keep them for log.txt."""

from __future__ import annotations

from dataclasses import dataclass, field

from distrain_trainer.errors import printable


@dataclass
class Log:
    """If `speaks` is set, print the lines of the run and keep them for log.txt. `speaks` is set on only one rank."""

    speaks: bool
    lines: list[str] = field(default_factory=list)

    def print(self, line: str) -> None:
        if self.speaks:
            # Print each line in a single write: other threads and processes print too, and Python's output may be
            # unbuffered.
            line = printable(line)
            print(f"{line}\n", end="", flush=True)
            self.lines.append(line)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
