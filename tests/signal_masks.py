"""Read from /proc which signals a process catches, ignores or has not received yet."""

from __future__ import annotations

import re
import signal
from pathlib import Path


def contains(mask: str, number: signal.Signals, pid: int) -> bool:
    """Return whether a signal is in a mask of a process.

    `mask` is a name from proc(5): SigCgt (caught signals), SigIgn (ignored), ShdPnd (sent to the process and still
    pending).

    Raises OSError if there is no such process.
    """
    [bits] = re.findall(rf"^{mask}:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return bool(int(bits, 16) >> (number - 1) & 1)
