"""Print a run's log lines on one rank, and keep them for log.txt."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Log:
    """Print the run's lines if `speaks` is set, which it is on one rank. Keep them for log.txt."""

    speaks: bool
    lines: list[str] = field(default_factory=list)

    def print(self, line: str) -> None:
        if self.speaks:
            # In one write, as other threads and processes print too, and Python may run without buffers.
            print(f"{line}\n", end="", flush=True)
            self.lines.append(line)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
