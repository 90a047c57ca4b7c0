"""Run the scripts of docs/own-script.md in the images. Several ranks run each script, are stopped and resume."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.builds import images
from lab.builds.containers import run_in_image
from lab.paths import REPOSITORY
from tests.trainer.conftest import OF_THIS_MACHINE, SCRIPTS, Run, mpirun_of, torchrun_of

PAGE = (REPOSITORY / "docs" / "own-script.md").read_text(encoding="utf-8")
TITLES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "MXNet"}
STARTERS = {"pytorch": torchrun_of, "tensorflow": mpirun_of, "mxnet": mpirun_of}
# Two ranks see all samples of the run in 200 steps. If one rank continues alone after the first step, it makes 398 more
# steps.
SAMPLES = 2 * 32 * 200


def script_of(framework: str) -> str:
    """Return the script for this framework from the page."""
    section = PAGE.partition(f"\n## {TITLES[framework]}\n")[2].partition("\n## ")[0]
    (script,) = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    return str(script)


def run_script(framework: str, folder: Path, command: list[str]) -> Run:
    folder.chmod(0o777)  # The user of the image must be able to write here.
    script = folder / "train.py"
    script.write_text(script_of(framework), encoding="utf-8")
    jobs = {SCRIPTS / "jobs" / name: f"/{name}" for name in ("forked.py", "stopped.py")}
    return run_in_image(
        images.trainer_environment(framework),
        command,
        env={**OF_THIS_MACHINE, "STATE": "/out/state", "SAMPLES": str(SAMPLES)},
        mounts={script: "/train.py", folder: "/out", **jobs},
        timeout=600,
    )


def told(run: Run) -> list[dict[str, float]]:
    """Return the figures of the progress lines that are written for other programs."""
    return [json.loads(line) for line in re.findall(r"^distrain-progress: (.*)$", run.stdout, flags=re.MULTILINE)]


def test_pytorch_script_stops_on_all_ranks_and_goes_on_at_another_size(tmp_path: Path) -> None:
    run = run_script("pytorch", tmp_path, ["python3", "/stopped.py", "--forked", "/train.py"])

    assert re.findall("^exit codes: (.*)$", run.stdout, flags=re.MULTILINE) == ["143 143", "0"], run.stderr
    # Two ranks made the first step, and one rank continues alone.
    figures = [(line["step"], line["samples"], line["world_size"]) for line in told(run)]
    assert figures == [(100, 3232, 1), (200, 6432, 1), (300, 9632, 1)]


@pytest.mark.full
@pytest.mark.parametrize("framework", TITLES)
def test_script_trains_on_two_ranks(tmp_path: Path, framework: str) -> None:
    run = run_script(framework, tmp_path, [*STARTERS[framework](2), "/train.py"])

    assert run.returncode == 0, run.stderr
    figures = [(line["step"], line["samples"], line["world_size"]) for line in told(run)]
    assert figures == [(100, 6400, 2), (200, SAMPLES, 2)]
    assert told(run)[1]["loss"] < told(run)[0]["loss"]


@pytest.mark.full
@pytest.mark.parametrize("framework", TITLES)
def test_script_stops_on_all_ranks_and_goes_on_under_its_starter(tmp_path: Path, framework: str) -> None:
    stopped, went_on = (
        run_script(framework, tmp_path, [*STARTERS[framework](ranks), *more, "/train.py"])
        for ranks, more in ((2, ["/stopped.py"]), (1, []))
    )

    # torchrun itself exits with 1 whenever a rank fails, and reports the exit codes of the ranks.
    assert stopped.returncode == 143 or "exitcode  : 143" in stopped.stderr, stopped.stderr
    assert told(stopped) == []
    assert went_on.returncode == 0, went_on.stderr
    assert told(went_on)[-1]["samples"] == 32 + told(went_on)[-1]["step"] * 32
