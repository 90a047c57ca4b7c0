"""Measure `status` of a run of 1,000 workers against an API server on loopback: its time and its memory.

The packaged plugin is installed as Helm installs it. Half of the workers are running, and half are waiting for their
containers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.builds.installed import installed
from lab.errors import LabError
from tests.plugin.fake_api import running
from tests.plugin.objects import pytorch_job
from tests.plugin.status.runs import live, pod, serve, step, stuck

RUNS = 5
WORKERS = 1000
# The bench fails above these limits, which hold for two idle cores. The program and the fake server share these two
# cores.
SECONDS, MEGABYTES = 2.0, 100


def main() -> int:
    """Measure, print the figures, and return 1 if a figure exceeds its limit."""
    with TemporaryDirectory(prefix="bench-") as folder, running() as api:
        up = [pod("worker", number) for number in range(WORKERS // 2)]
        waiting = [stuck("worker", number, reason="ContainerCreating") for number in range(len(up), WORKERS)]
        log = step(100, at=time.time()) * 500
        serve(api, live(pytorch_job(workers=WORKERS, gpus=1)), pods=[*up, *waiting], run1_worker_0=log)
        program, kubeconfig = str(installed(Path(folder)) / "bin" / "distrain"), api.kubeconfig(Path(folder))
        looks = [look(program, kubeconfig) for _ in range(RUNS)]
    seconds, megabytes = statistics.median(each for each, _ in looks), max(each for _, each in looks)
    slowest = max(each for each, _ in looks)
    print(
        f"status of {WORKERS:,} workers: {seconds:.2f} s (of {RUNS}: at most {slowest:.2f}), {megabytes:.0f} MB; "
        f"at most {SECONDS:g} s, {MEGABYTES} MB"
    )
    return int(seconds > SECONDS or megabytes > MEGABYTES)


def look(program: str, kubeconfig: Path) -> tuple[float, float]:
    """Run `status` once. Return the seconds that `status` took, and its peak memory in megabytes."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    started = time.monotonic()
    with subprocess.Popen([program, "status", "run1"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode != 0 or f"{WORKERS // 2} of {WORKERS} workers ready" not in answer:
        raise LabError(f"{program} status ended with {process.returncode}: {answer}")
    return seconds, usage.ru_maxrss / 1000


if __name__ == "__main__":
    sys.exit(main())
