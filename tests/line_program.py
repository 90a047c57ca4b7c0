"""Talk to a program that reads lines from stdin and answers each with one line on stdout."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Iterator
from typing import Any


def answers(process: subprocess.Popen[str], lines: Iterable[str]) -> Iterator[Any]:
    """Yield the program's answers, decoded from JSON. Write the input lines in a second thread."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def write() -> None:
        with stdin:
            for line in lines:
                stdin.write(line + "\n")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with process, stdout:
        for answer in stdout:
            yield json.loads(answer)
    assert process.returncode == 0
