"""`make bench`: measure how much longer a step takes with the trainer than in a plain training loop of the framework.

The model is so small that the added time is clearly visible. With one rank, the trainer may add at most
MOST_MICROSECONDS[1] microseconds to a step. With two ranks, the trainer may add at most 2 % to a step of 50 ms. The
trainer and a plain loop, which averages gradients in the same way, run alternately for ROUNDS rounds. The bench
compares their medians.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.trainer.conftest import PROGRAMS, SCRIPTS, USER_MODELS, Run, run_in_image

ROUNDS, STEPS, LINES = 3, 5000, 5
MOST_MICROSECONDS = {1: 150.0, 2: 0.02 * 50_000}
NAMES = ("pytorch-ddp", "pytorch-horovod", "tensorflow-horovod", "mxnet-horovod")
PROGRESS = "distrain-progress: "


def main(names: list[str]) -> int:
    """Print one line for each program and number of ranks.

    Return 1 if the trainer adds more than the limit in any of these cases.
    """
    is_over = False
    for ranks, most in MOST_MICROSECONDS.items():
        shares = [own_share(name, ranks) for name in names or NAMES]
        print(f"limit: {most:.0f} us", flush=True)
        is_over |= max(shares) > most
    return int(is_over)


def own_share(name: str, ranks: int) -> float:
    """Return by how many microseconds a step is longer than in the plain loop, for a program with `ranks` ranks."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "small.py").write_text(USER_MODELS[PROGRAMS[name].framework])
        pairs = [(bare(name, ranks, Path(folder)), trained(name, ranks, Path(folder))) for _ in range(ROUNDS)]
    plain, whole = (median(each) for each in zip(*pairs, strict=True))
    share = median(whole - plain for plain, whole in pairs)
    print(
        f"{name}, ranks {ranks}: {whole:.0f} us per step, the plain loop {plain:.0f} us, "
        f"the trainer's share {share:.0f} us",
        flush=True,
    )
    return share


def bare(name: str, ranks: int, models: Path) -> float:
    program = PROGRAMS[name]
    ended = run(program.framework, [*program.starter(ranks), "/bare_loop.py", name, str(STEPS)], models)
    return float(re.findall(r"^microseconds per step: ([\d.]+)$", ended.stdout, re.M)[0])


def trained(name: str, ranks: int, models: Path) -> float:
    """Return the microseconds per step with the trainer, including the work between steps.

    This is the median of the logged values.
    """
    program = PROGRAMS[name]
    what = ["--model=small:net", "--image-size=4", "--classes=10", "--batch-size=1", "--learning-rate=1e-4"]
    steps = [f"--steps={STEPS}", f"--log-every={STEPS // LINES}"]
    command = [*program.starter(ranks), "-m", "distrain_trainer", *program.arguments, *what, *steps]
    ended = run(program.framework, command, models)
    lines = [line.removeprefix(PROGRESS) for line in ended.stdout.splitlines() if line.startswith(PROGRESS)]
    # Skip the first line: it is logged after the first step, which also compiles.
    return 1e6 * ranks / median(float(json.loads(line)["images_per_second"]) for line in lines[1:])


def run(framework: str, command: list[str], models: Path) -> Run:
    mounts = {SCRIPTS / "speed/bare_loop.py": "/bare_loop.py", models / "small.py": "/models/small.py"}
    ended = run_in_image(framework, command, models, env={"PYTHONPATH": "/models"}, mounts=mounts, timeout=300)
    if ended.returncode:
        sys.exit(ended.stderr)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
