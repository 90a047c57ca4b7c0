"""Draw a run from the results.json that it left in its output folder.

python docs/plot_run.py results.json docs/run.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed
from matplotlib import pyplot


def main(source: str, target: str) -> None:
    """Draw loss and speed over the steps, and write a PNG."""
    results = json.loads(Path(source).read_text())
    history = results["history"]
    steps = [point["step"] for point in history]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    figure.suptitle(
        f"{results['model']}, {results['framework']}: {results['world_size']} ranks, "
        f"{results['images_per_sec']:.0f} images/sec in all, test accuracy {results['accuracy']:.3f}"
    )
    left.plot(steps, [point["loss"] for point in history])
    left.set(xlabel="step", ylabel="loss", ylim=(0, None))
    right.plot(steps, [point["images_per_sec"] for point in history], color="tab:green")
    right.set(xlabel="step", ylabel="images/sec of rank 0", ylim=(0, None))
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
