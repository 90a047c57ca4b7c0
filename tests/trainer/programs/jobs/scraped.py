"""Runs inside the image: train like `python3 -m distrain_trainer`, and print the metrics after the last step.

Before the metrics are printed, the ranks wait for each other. So every rank has recorded its last step.
"""

from __future__ import annotations

import sys
import urllib.request
from typing import Any

from distrain_trainer.__main__ import main
from distrain_trainer.loop.progress import Progress

finish = Progress.finish


def scraped_finish(progress: Progress, *arguments: Any, **more: Any) -> None:
    run = progress.run
    if run.group.rank == 0:
        address = f"http://127.0.0.1:{run.config.metrics_port}/metrics"
        request = urllib.request.Request(address, headers={"Accept": "application/openmetrics-text"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            print(answer.read().decode(), end="", flush=True)
    finish(progress, *arguments, **more)


Progress.finish = scraped_finish  # type: ignore[assignment, method-assign]
main(sys.argv[1:])
