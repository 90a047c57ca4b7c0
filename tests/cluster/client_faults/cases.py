"""Define the cases of `make bench-client`: each command of the plugin that changes a release, with each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lab.paths import CHART
from tests.cluster.client_faults.faults import AWAY, FULL, SIGNALS, STREAMS
from tests.cluster.client_faults.release_state import NAME

# No scheduler has the name `nobody`, so the pods are never placed. So a case takes only seconds, and its pods use no
# memory.
JOB = "framework=pytorch,workers.replicas=1,workers.gpus=0,workers.cpu=10m,workers.memory=16Mi"
NOBODY = "workers.podSpec.schedulerName=nobody"
INSTALL = ["install", NAME, "--create-namespace", "--chart", str(CHART), "--set", f"{JOB},{NOBODY}"]
COMMANDS = {
    "install": INSTALL,
    "install --wait": [*INSTALL, "--wait"],
    "upgrade": ["upgrade", NAME, "--chart", str(CHART), "--reuse-values", "--set", "trainer.steps=900", "--yes"],
    "rescale": ["rescale", NAME, "--chart", str(CHART), "--workers", "2", "--yes"],
}
SIGNAL_MOMENTS, AWAY_MOMENTS = 5, 20


class Case(NamedTuple):
    """A command of the plugin and a fault.

    Each case of this fault hits at another of `moments` moments; `moment` is the number of this case's moment, from 1.

    The moments are spread evenly over the pieces of data that the command sends to the API server.
    """

    command: str
    fault: str
    moment: int = 0
    moments: int = 0

    def at(self, pieces: int) -> tuple[int, bool]:
        """Return the number of the piece of data at which the fault hits.

        Also return whether the API server answers this piece before the fault hits.
        """
        if self.fault != AWAY:
            return (1 + pieces * (2 * self.moment - 1) // (2 * self.moments) if self.moments else 0), False
        place, answered = divmod(self.moment - 1, 2)
        return 1 + pieces * (2 * place + 1) // self.moments, bool(answered)


def cases() -> Iterator[Case]:
    for command in COMMANDS:
        yield Case(command, "")
        yield from (Case(command, fault) for fault in (*STREAMS, FULL))
        for fault in SIGNALS:
            yield from (Case(command, fault, moment + 1, SIGNAL_MOMENTS) for moment in range(SIGNAL_MOMENTS))
        yield from (Case(command, AWAY, moment + 1, AWAY_MOMENTS) for moment in range(AWAY_MOMENTS))
