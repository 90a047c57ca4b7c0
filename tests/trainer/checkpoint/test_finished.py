"""Test that a finished run stays finished with the same values, and continues if the values now require more steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.errors import CheckpointError, FinishedError, StoppedError, Termination, UnavailableError
from distrain_trainer.loop.progress import Progress
from distrain_trainer.storage import S3Store
from distrain_trainer.storage.body import Body
from tests.trainer.fixtures.counter_run import begin, make_step, save_step
from tests.trainer.fixtures.unsteady_s3 import Clock


def finish(folder: Path | str, *, steps: int = 3, **values: Any) -> None:
    """Train until `steps` steps are made, and write the results, in the same way as the programs do."""
    run = begin(folder, epochs=None, steps=steps, **values)
    progress = Progress.start(run)
    run.watchdog.stop()
    while run.position.step < steps:
        save_step(run)
    progress.finish(None, model="model", save=save)


def save(path: Path) -> None:
    path.write_bytes(b"weights")


def test_same_values_find_the_run_finished_and_touch_nothing(tmp_path: Path) -> None:
    finish(tmp_path / "checkpoints", output=str(tmp_path / "out"))
    before = (tmp_path / "checkpoints/HEAD").read_bytes()

    with pytest.raises(FinishedError):
        begin(tmp_path / "checkpoints", epochs=None, steps=3, output=str(tmp_path / "out"))

    assert (tmp_path / "checkpoints/HEAD").read_bytes() == before


@pytest.mark.parametrize(
    ("length", "asked"),
    [
        pytest.param({"epochs": None, "steps": 5}, "trainer.steps is 5", id="steps"),
        pytest.param({"epochs": 1}, "trainer.epochs is 1", id="epochs"),
    ],
)
def test_longer_training_goes_on_from_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: dict[str, Any], asked: str
) -> None:
    finish(tmp_path)

    run = begin(tmp_path, **length)

    assert (run.position.step, run.position.samples) == (3, 30)
    assert f"goes on with a run that had finished: it ended at step 3, and {asked}\n" in (capsys.readouterr().out)


def test_another_output_gets_the_model_without_another_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints, first, second = (tmp_path / name for name in ("checkpoints", "first", "second"))
    finish(checkpoints, output=str(first))

    finish(checkpoints, output=str(second))

    results = json.loads((second / "results.json").read_text())
    assert (second / "model").read_bytes() == b"weights"
    assert (results["steps"], results["images_per_sec"]) == (3, None)
    out = capsys.readouterr().out
    assert f"goes on with a run that had finished: output.uri: {second} does not hold its model\n" in out
    assert "total images/sec: 0" not in out
    with pytest.raises(FinishedError):
        finish(checkpoints, output=str(second))


@pytest.mark.parametrize("lost", ["model", "results.json"])
def test_outcome_that_is_gone_is_written_again(tmp_path: Path, lost: str) -> None:
    checkpoints, out = tmp_path / "checkpoints", tmp_path / "out"
    finish(checkpoints, output=str(out))
    (out / lost).unlink()

    finish(checkpoints, output=str(out))

    names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert names == {"model", "results.json", "log.txt", "record.jsonl"}


def test_outcome_of_another_run_is_written_over(tmp_path: Path) -> None:
    one, other, out = tmp_path / "one", tmp_path / "other", tmp_path / "out"
    finish(one, output=str(out))
    finish(other, output=str(out))

    finish(one, output=str(out))

    assert json.loads((out / "results.json").read_text())["run"].startswith(f"{one}#")


def test_shorter_training_than_was_made_is_said_and_its_model_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints, out = tmp_path / "checkpoints", tmp_path / "out"
    finish(checkpoints)

    finish(checkpoints, steps=2, output=str(out))

    assert (
        "trains no further: trainer.steps is 2, but step 3 (30 samples) is already done; the model stays "
        "as it was after step 3\n"
    ) in capsys.readouterr().out
    assert json.loads((out / "results.json").read_text())["steps"] == 3


def test_shorter_training_whose_outcome_is_there_is_said_to_train_no_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(tmp_path)

    with pytest.raises(FinishedError):
        begin(tmp_path, epochs=None, steps=2)

    assert "trains no further: trainer.steps is 2, but step 3 (30 samples) is already done" in capsys.readouterr().out


def test_finished_run_is_not_said_to_have_trained_on_other_data(tmp_path: Path) -> None:
    finish(tmp_path, data="/photos")
    before = (tmp_path / "HEAD").read_bytes()

    with pytest.raises(CheckpointError, match=r"^data\.uri: .* was trained on /photos, .* is now /drawings"):
        begin(tmp_path, epochs=None, steps=3, data="/drawings")

    assert (tmp_path / "HEAD").read_bytes() == before
    assert begin(tmp_path, epochs=None, steps=4, data="/drawings").position.step == 3


@pytest.mark.parametrize("lost", ["output.uri is another", "the output is gone"])
def test_finished_run_writes_no_model_for_other_data(tmp_path: Path, lost: str) -> None:
    checkpoints, out = tmp_path / "checkpoints", tmp_path / "out"
    finish(checkpoints, data="/photos", output=str(out))
    if lost == "the output is gone":
        shutil.rmtree(out)
    else:
        out = tmp_path / "another"

    with pytest.raises(CheckpointError, match=r"^data\.uri: .* was trained on /photos, .* is now /drawings"):
        begin(checkpoints, epochs=None, steps=3, data="/drawings", output=str(out))

    finish(checkpoints, data="/photos", output=str(out))
    assert (out / "model").read_bytes() == b"weights"


@pytest.mark.parametrize("looked_up", ["output", "subject"])
def test_finished_run_that_is_told_to_end_while_it_asks_a_store_ends(
    looked_up: str, s3_server: Any, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    s3_server.boto3_client().create_bucket(Bucket=f"ends-{looked_up}")
    finish(checkpoints := f"s3://ends-{looked_up}/run")
    monkeypatch.setattr("distrain_trainer.storage.retry.time", Clock())
    found = S3Store._found

    def find(store: S3Store, name: str, *place: Any) -> Body | None:
        if not name.endswith(".json"):
            return found(store, name, *place)
        Termination.requested = True
        raise UnavailableError(f"no answer for {name}")

    monkeypatch.setattr(S3Store, "_found", find)
    monkeypatch.setattr(Termination, "requested", False)
    values: dict[str, Any] = {"output": "s3://ends-output/out"} if looked_up == "output" else {"optimizer": "adam"}

    with pytest.raises(StoppedError):
        begin(checkpoints, epochs=None, steps=3, **values)


def test_data_with_a_slash_at_its_end_is_the_same(tmp_path: Path) -> None:
    finish(tmp_path, data="/photos")

    with pytest.raises(FinishedError):
        begin(tmp_path, epochs=None, steps=3, data="/photos/")


def test_another_training_at_the_place_of_a_finished_one_is_refused(tmp_path: Path) -> None:
    finish(tmp_path)

    with pytest.raises(CheckpointError, match=r"does not fit this run: trainer\.optimizer is sgd there and adam here"):
        begin(tmp_path, epochs=None, steps=3, optimizer="adam")


@pytest.mark.parametrize("saves", [True, False])
def test_wrong_values_leave_a_finished_run_finished(tmp_path: Path, saves: bool) -> None:
    run = begin(tmp_path, epochs=None, steps=1)
    save_step(run) if saves else make_step(run)
    run.finish()

    with pytest.raises(CheckpointError, match="does not fit this run: "):
        begin(tmp_path, epochs=None, steps=1, optimizer="adam")

    with pytest.raises(FinishedError):
        begin(tmp_path, epochs=None, steps=1)


def test_end_without_a_checkpoint_of_it_is_trained_again_when_more_is_asked_for(tmp_path: Path) -> None:
    run = begin(tmp_path, epochs=None, steps=3)
    save_step(run)
    run.position = run.position.after_step(20, ranks=1, batch_size=10, epoch_samples=100)
    run.finish()

    assert begin(tmp_path, epochs=None, steps=5).position.step <= 2


def test_head_of_a_trainer_that_wrote_no_end_is_taken_as_unfinished(tmp_path: Path) -> None:
    finish(tmp_path)
    head = json.loads((tmp_path / "HEAD").read_text())
    del head["end"]
    (tmp_path / "HEAD").write_text(json.dumps(head))

    assert begin(tmp_path, epochs=None, steps=3).position.step == 3
