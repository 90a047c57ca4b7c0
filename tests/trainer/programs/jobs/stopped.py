"""Runs inside the image: run a user's script.

Rank 1 receives SIGTERM as soon as the script has installed a handler for it.

    python3 stopped.py SCRIPT                    as one rank, under mpirun or torchrun
    python3 stopped.py --forked SCRIPT           two ranks of PyTorch that stop, then one that goes on to the end

The exit code is that of the script. With `--forked`, it is the exit code of the single rank that continues. If there is
only one rank, it receives no signal.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import threading
import time

sys.path.insert(0, "/")


def main() -> None:
    if sys.argv[1] == "--forked":
        sys.exit(forked(sys.argv[2]))
    if "1" in (os.environ.get("OMPI_COMM_WORLD_RANK"), os.environ.get("RANK")):
        threading.Thread(target=ask_this_process, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


def ask_this_process() -> None:
    """Send SIGTERM to this process as soon as it has a handler for SIGTERM, which is before the first step."""
    while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


def forked(script: str) -> int:
    started = importlib.import_module("forked")
    started.prepare("torch")
    for size in (2, 1):
        of_all = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": started.free_port()}
        command = ["python3", __file__, script]
        ranks = [
            started.Forked(command, env={**of_all, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)
        ]
        codes = [rank.wait() for rank in ranks]
        print("exit codes:", *codes, flush=True)
    return codes[0]


main()
