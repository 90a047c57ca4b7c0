"""Test whole runs that are stopped and resumed.

All processes of a run are in one container, and connect over loopback.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.trainer.conftest import DIGITS_IN_IMAGE, SCRIPTS, USER_MODELS_FOLDER, ProgramInImage, Run, tried_by

SAMPLES = 1437
EPOCHS = 3
ARGUMENTS = (*("--data", DIGITS_IN_IMAGE, "--batch-size", "32", "--epochs", str(EPOCHS)), "--log-every", "1")
STOPPED = r"^stopped at step (\d+) \((\d+) samples\) after (SIG\w+); resumes there$"


def interrupted(program: ProgramInImage, folder: Path, plan: str, *arguments: str, ranks: int = 2) -> Run:
    """Run a program under interrupted.py, which sends the signals in `plan`.

    The checkpoints and the results are written to `folder`.
    """
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    options = ["--checkpoint", "/out/checkpoints", "--checkpoint-every", "0.1", "--output", "/out", *arguments]
    mounts = {SCRIPTS / "jobs/interrupted.py": "/interrupted.py", folder: "/out"}

    def starter(ranks: int) -> list[str]:
        return ["python3", "/interrupted.py", plan, *program.program.starter(ranks)]

    return program(*ARGUMENTS, *options, ranks=ranks, mounts=mounts, starter=starter)


# All programs stop, resume and finish with the same code, so one program is enough.
@tried_by("mxnet-horovod")
def test_stopped_run_goes_on_where_it_stood_at_another_size_until_it_is_finished(
    program: ProgramInImage, tmp_path: Path
) -> None:
    stopped = interrupted(program, tmp_path, "SIGTERM@9", ranks=2)
    finished = interrupted(program, tmp_path, "SIGUSR1@20,end", ranks=1)
    again = interrupted(program, tmp_path, "end", ranks=1)

    code = 1 if program.name == "pytorch-ddp" else 143  # torchrun exits with 1, whatever the exit code of the rank is.
    assert stopped.returncode == code, stopped.stderr
    [(step, samples, reason)] = re.findall(STOPPED, stopped.stdout, re.M)
    epochs, steps = divmod(int(step), -(-SAMPLES // 64))  # The last step of an epoch has fewer than 64 samples.
    assert (reason, int(samples)) == ("SIGTERM", SAMPLES * epochs + 64 * steps)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"resumed from 1-{samples}: step {step}, {samples} samples, on 1 ranks (saved on 2)\n" in finished.stdout
    [(step, samples, reason)] = re.findall(STOPPED, finished.stdout, re.M)
    assert reason == "SIGUSR1"
    assert f"resumed from 2-{samples}: step {step}, {samples} samples, on 1 ranks (saved on 1)\n" in finished.stdout
    assert re.search(rf"^went on with step {int(step) + 1}, [\d.]+ s after this process", finished.stdout, re.M)
    assert re.search(rf"^finished: \d+ steps, {EPOCHS * SAMPLES} samples$", finished.stdout, re.M)
    assert again.returncode == 0, again.stderr
    assert again.stdout == "finished: /out/checkpoints shows that this run has finished; nothing is left to do\n"


@pytest.mark.parametrize(
    ("program", "target"),
    [
        ("mxnet-kvstore", "all"),
        ("mxnet-kvstore", "server 0"),
        pytest.param("mxnet-kvstore", "scheduler 0", marks=pytest.mark.full),
        pytest.param("tensorflow-ps", "all", marks=pytest.mark.full),
        pytest.param("tensorflow-ps", "ps 0", marks=pytest.mark.full),
    ],
    indirect=["program"],
)
def test_run_saves_when_its_job_is_deleted_or_the_pod_of_a_server_ends(
    program: ProgramInImage, target: str, tmp_path: Path
) -> None:
    stopped = interrupted(program, tmp_path, f"SIGTERM@9:{target}")
    resumed = interrupted(program, tmp_path, "end")

    assert stopped.returncode == 143, stopped.stdout + stopped.stderr
    [(step, samples, reason)] = re.findall(STOPPED, stopped.stdout, re.M)
    assert reason == "SIGTERM"
    assert f"resumed from 1-{samples}: step {step}, {samples} samples, " in resumed.stdout, resumed.stderr


@tried_by("mxnet-horovod")
def test_finished_run_trains_on_when_more_is_asked_for_and_writes_to_another_output(
    program: ProgramInImage, tmp_path: Path
) -> None:
    interrupted(program, tmp_path, "end", "--epochs=1", ranks=1)

    more = interrupted(program, tmp_path, "end", "--epochs=2", ranks=1)
    elsewhere = interrupted(program, tmp_path, "end", "--epochs=2", "--output=/out/elsewhere", ranks=1)

    assert "goes on with a run that had finished: it ended at step " in more.stdout, more.stdout + more.stderr
    assert re.search(rf"^finished: \d+ steps, {2 * SAMPLES} samples$", more.stdout, re.M)
    assert "output.uri: /out/elsewhere does not hold its model" in elsewhere.stdout, elsewhere.stderr
    assert (elsewhere.returncode, (tmp_path / "elsewhere" / program.program.model).exists()) == (0, True)


# The programs differ in their code before and after the evaluation. The chief of a TFJob differs most. It is tested in
# the full matrix.
@tried_by("mxnet-horovod")
def test_run_stopped_in_its_test_resumes_after_the_last_step_to_test_and_write(
    program: ProgramInImage, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end", "--output=/out/outcome")
    train = functools.partial(program, f"--data={DIGITS_IN_IMAGE}", "--steps=3", *places)
    mounts = {SCRIPTS / "faults/stopped_while_testing.py": "/stopped_while_testing.py", tmp_path: "/out"}

    stopped = train(script="/stopped_while_testing.py", mounts=mounts)
    written = [*(tmp_path / "outcome").glob("model.*")]
    resumed = train(mounts=mounts)

    code = 1 if program.name == "pytorch-ddp" else 143  # torchrun exits with 1, whatever the exit code of the rank is.
    assert (stopped.returncode, written) == (code, []), stopped.stdout + stopped.stderr
    [(step, samples, reason)] = re.findall(STOPPED, stopped.stdout, re.M)
    assert (step, samples, reason) == ("3", "384", "SIGTERM")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "resumed from 1-384: step 3, " in resumed.stdout
    assert "test accuracy: " in resumed.stdout
    assert (tmp_path / "outcome" / program.program.model).exists()


# MXNet is not tested: it compiles the whole model before the first step, so a step cannot add state.
@pytest.mark.parametrize(
    "program",
    [
        "pytorch-horovod",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("tensorflow-horovod", "tensorflow-ps", "pytorch-ddp")
        ),
    ],
    indirect=True,
)
def test_state_that_the_first_step_adds_is_refused_before_anything_is_saved(
    program: ProgramInImage, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    options = ("--steps=3", "--model=late:net", "--checkpoint=/out/checkpoints", "--checkpoint-every=0.001")
    mounts = {USER_MODELS_FOLDER / "late.py": "/models/late.py", tmp_path: "/out"}

    run = program(f"--data={DIGITS_IN_IMAGE}", *options, ranks=1, env={"PYTHONPATH": "/models"}, mounts=mounts)

    assert run.returncode != 0, run.stdout
    refusal = r"trainer\.model: \S*late is absent before and float32\[\] after a training step"
    if program.name == "tensorflow-ps":  # This is the output of the chief. Only the worker's own log names the cause.
        refusal = "worker 0 has ended"
    assert re.search(f"distrain: {refusal}", run.stderr), run.stdout + run.stderr
    assert not [*tmp_path.glob("checkpoints/*/manifest.json")]
