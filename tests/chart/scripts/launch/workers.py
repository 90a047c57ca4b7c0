"""Run fake workers at loopback addresses.

A test can list a fake worker in the hostfile, make it answer like sshd, or both.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
from collections import Counter
from dataclasses import dataclass, field

from tests.chart.scripts.launching import TRAINING, Bench, follow, greeting_server
from tests.chart.scripts.pods import wait_for

LIVE = "--rescale=live"
ASKED = "asking the ranks to stop at a step boundary: "
BOUNDARY = "after the ranks stopped at a step boundary"

# The fake mpirun prints a line every 20 ms.
TICKING = TRAINING.replace("    sleep", "    echo tick\n    sleep")
# The fake mpirun fails when a worker is lost.
LOSING = TRAINING.replace("    sleep", "    test -e lost && rm lost && exit 1\n    sleep")


@dataclass
class Workers:
    """Fake workers, and the launcher that a test starts for them in the folder of `bench`.

    Each fake worker has an address of its own.
    """

    bench: Bench
    answering: dict[int, contextlib.ExitStack] = field(default_factory=dict)
    greetings: Counter[int] = field(default_factory=Counter)

    def answer(self, *numbers: int) -> None:
        for number in numbers:
            self.answering[number] = contextlib.ExitStack()
            count = functools.partial(self.greetings.update, [number])
            greeting = greeting_server(b"SSH-2.0-test\r\n", address(number), self.bench.port, count)
            self.answering[number].enter_context(greeting)

    def fall_silent(self, *numbers: int) -> None:
        for number in numbers:
            self.answering.pop(number).close()

    def wait_until_list_is_read(self) -> None:
        """Wait until the launcher has read the new hostfile.

        It reads the file before each check of the workers, so wait for two more checks of worker 0.
        """
        before = self.greetings[0]
        wait_for(lambda: self.greetings[0] >= before + 2, seconds=60)

    def list(self, *numbers: int) -> str:
        text = "".join(f"{address(number)} slots=2\n" for number in numbers)
        self.bench.write_hostfile(text)
        return text

    def start(
        self, *numbers: int, options: tuple[str, ...] = (LIVE,), program: str = TRAINING
    ) -> subprocess.Popen[str]:
        """Start a run on these workers and wait until it trains."""
        self.answer(*[number for number in numbers if number not in self.answering])
        launcher = self.bench.start(program, *options, hostfile=self.list(*numbers))
        follow(launcher, f"training on {2 * len(numbers)}")
        return launcher

    def finish(self, launcher: subprocess.Popen[str]) -> str:
        """Let the training finish. Return the launcher's output up to its end."""
        (self.bench.folder / "finish").touch()
        output, _ = launcher.communicate(timeout=300)
        assert launcher.returncode == 0, output
        return output


def address(number: int) -> str:
    return f"127.0.1.{number + 1}"
