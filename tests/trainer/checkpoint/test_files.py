"""Test that checkpoints are written and read completely, and that incomplete ones are skipped."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.checkpoint import arrays, files
from distrain_trainer.checkpoint.head import Head
from distrain_trainer.errors import CheckpointError, UnavailableError
from distrain_trainer.storage import S3Store, open_store
from distrain_trainer.storage.body import Body
from tests.trainer.fixtures.counter_run import Counter, begin, save_step
from tests.trainer.fixtures.unsteady_s3 import Clock


def saved(folder: Path, steps: int, state: Counter | None = None, **values: Any) -> None:
    run = begin(folder, state, **values)
    for _ in range(steps):
        save_step(run)


def names(folder: Path) -> list[str]:
    return files.names(open_store(str(folder), value="checkpoint.uri"))


def test_run_goes_on_from_the_newest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, 3)

    run = begin(tmp_path, state := Counter())

    assert state.weight == [3]
    assert (run.position.step, run.position.samples) == (3, 30)
    assert capsys.readouterr().out == "resumed from 1-30: step 3, 30 samples, on 1 ranks (saved on 1)\n"


def test_restore_outlives_outages_that_are_together_longer_than_the_wait_for_one(
    s3_server: Any, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    s3_server.boto3_client().create_bucket(Bucket="restore")
    run = begin("s3://restore/run")
    save_step(run)
    monkeypatch.setattr("distrain_trainer.storage.retry.time", clock := Clock())
    found, away_until = S3Store._found, {"HEAD": 400.0, "1-10/manifest.json": 800.0, "1-10/state-0.safetensors": 1200.0}

    def find(store: S3Store, name: str, *where: Any) -> Body | None:
        if clock.now < away_until.get(name, 0.0):
            raise UnavailableError(f"no answer for {name}")
        return found(store, name, *where)

    monkeypatch.setattr(S3Store, "_found", find)

    assert begin("s3://restore/run").position.step == 1
    assert clock.now > 1200
    assert capsys.readouterr().err.count("the storage answers again") == 3


def test_last_ones_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, 5, checkpoint_keep=2)

    assert names(tmp_path) == ["1-50", "1-40"]


def test_unfinished_one_takes_no_whole_ones_place(tmp_path: Path) -> None:
    saved(tmp_path, 2, checkpoint_keep=3)
    torn = tmp_path / "1-25"
    torn.mkdir()
    (torn / "state-0.safetensors").write_bytes(b"half")

    saved(tmp_path, 1, checkpoint_keep=3)

    assert names(tmp_path) == ["2-30", "1-20", "1-10"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def flip_in_the_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"weight")] ^= 1
    path.write_bytes(content)


def foreign(path: Path) -> None:
    path.write_text("[]")


def of_another_format(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 4}))


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        pytest.param("state-0.safetensors", cut, r"state-0\.safetensors: \d+ bytes instead of \d+", id="truncated"),
        pytest.param("state-0.safetensors", flip, r"state-0\.safetensors: checksum differs", id="bit-flipped"),
        pytest.param(
            "state-0.safetensors",
            flip_in_the_header,
            r"state-0\.safetensors: checksum differs",
            id="bit-of-a-name-flipped",
        ),
        pytest.param("state-0.safetensors", Path.unlink, r"state-0\.safetensors: missing", id="torn"),
        pytest.param("manifest.json", Path.unlink, r"no manifest\.json", id="torn-before-its-manifest"),
        pytest.param("manifest.json", cut, r"manifest\.json is none of this trainer's", id="manifest-truncated"),
        pytest.param(
            "manifest.json",
            lambda path: path.write_text("[]"),
            r"manifest\.json is none of this trainer's",
            id="foreign",
        ),
        pytest.param(
            "manifest.json",
            lambda path: path.write_text("[" * 100_000),
            r"manifest\.json is none of this trainer's",
            id="manifest-nested",
        ),
        pytest.param(
            "manifest.json", of_another_format, r"its format is 4, and this trainer reads 1 to 3", id="another-format"
        ),
    ],
)
def test_damaged_one_is_told_and_the_one_before_is_taken(
    file: str, damage: Callable[[Path], object], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, 3)
    damage(tmp_path / "1-30" / file)

    begin(tmp_path, state := Counter())

    first, second = capsys.readouterr().out.splitlines()
    assert state.weight == [2]
    assert second.startswith("resumed from 1-20: step 2,")
    assert re.fullmatch(rf"checkpoint: 1-30 is damaged \({reason}\), skipped", first), first


def of_a_file(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda told: told["files"]["state-0.safetensors"].update({key: value})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(of_a_file("size", 10**15), id="size-of-no-file"),
        pytest.param(of_a_file("size", 10**30), id="size-of-no-disk"),
        pytest.param(of_a_file("size", "72"), id="size-text"),
        pytest.param(of_a_file("size", -1), id="size-negative"),
        pytest.param(of_a_file("sha256", None), id="no-sum"),
        pytest.param(lambda told: told.update(files={}), id="no-files"),
        pytest.param(lambda told: told["position"].update(step="x"), id="step-text"),
        pytest.param(lambda told: told.update(ranks=None), id="no-ranks"),
        pytest.param(lambda told: told["subject"].update(shapes={"weight": 5}), id="shape-number"),
        pytest.param(lambda told: told["subject"].update(shapes=[]), id="shapes-list"),
        pytest.param(lambda told: told.update(history=[{"step": "x", "images_per_sec": 1, "loss": 1}]), id="logged"),
    ],
)
def test_one_with_a_broken_manifest_is_skipped(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    saved(tmp_path, 2)
    path = tmp_path / "1-20/manifest.json"
    change(told := json.loads(path.read_text()))
    path.write_text(json.dumps(told))

    assert begin(tmp_path).position.step == 1


def test_run_without_a_good_one_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, 1)
    flip(tmp_path / "1-10" / "state-0.safetensors")

    run = begin(tmp_path)

    assert run.position.step == 0
    out = capsys.readouterr().out
    assert "resumed" not in out
    assert f"checkpoint: no checkpoint in {tmp_path} can be read; the training begins anew\n" in out


def test_run_with_none_but_those_of_a_newer_trainer_is_refused_and_they_stay(tmp_path: Path) -> None:
    saved(tmp_path, 3)
    for name in names(tmp_path):
        of_another_format(tmp_path / name / "manifest.json")

    with pytest.raises(CheckpointError, match=r"1-30 cannot be read: its format is 4, .*; continue with the trainer"):
        begin(tmp_path)

    assert names(tmp_path) == ["1-30", "1-20", "1-10"]
    assert begin(tmp_path, resume="never").position.step == 0


def test_one_that_head_does_not_name_yet_is_not_seen(tmp_path: Path) -> None:
    saved(tmp_path, 2)
    head = json.loads((tmp_path / "HEAD").read_text())
    (tmp_path / "HEAD").write_text(json.dumps({**head, "checkpoint": "1-10"}))

    assert begin(tmp_path).position.samples == 10


def test_one_that_head_names_is_never_deleted(tmp_path: Path) -> None:
    saved(tmp_path, 3)

    files.prune(open_store(str(tmp_path), value="checkpoint.uri"), keep=1, current="1-20", tell=print)

    assert names(tmp_path) == ["1-30", "1-20"]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copy_of_the_place(folder: Path, place: Path) -> None:
    shutil.copytree(place, folder)


def copy_of_a_checkpoint(folder: Path, place: Path) -> None:
    shutil.copytree(place / "1-20", folder)


def of_another_program(folder: Path, _: Path) -> None:
    (folder / "photos").mkdir(parents=True)
    (folder / "photos/a.jpg").write_text("photo")
    (folder / "manifest.json").write_text('{"name": "web app"}')


def without_a_manifest(folder: Path, _: Path) -> None:
    folder.mkdir()
    (folder / "report.txt").write_text("report")
    (folder / "state-0.safetensors").write_text("kept by hand")


@pytest.mark.parametrize("head", ["there", "deleted"])
@pytest.mark.parametrize("name", ["20261123-2205", "0-01"])
@pytest.mark.parametrize("make", [copy_of_the_place, copy_of_a_checkpoint, of_another_program, without_a_manifest])
def test_folder_that_is_named_like_a_checkpoint_is_left_alone(
    make: Callable[[Path, Path], None], name: str, head: str, tmp_path: Path
) -> None:
    saved(place := tmp_path / "run", 2)
    make(other := tmp_path / "other", place)
    other.rename(place / name)
    before = files_below(place / name)
    if head == "deleted":
        (place / "HEAD").unlink()

    save_step(run := begin(place, checkpoint_keep=1))
    files.delete_torn(open_store(str(place), value="checkpoint.uri"), before="20261124-31", tell=print)

    assert run.position.samples == 30
    assert files_below(place / name) == before
    assert [each for each in names(place) if each != name] == ["2-30"]


def test_folder_that_may_not_be_listed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost+found").mkdir()
    scan = os.scandir

    def refuse(folder: str) -> Any:
        # Fake the store's refusal, because tests run as root, which may list every folder.
        if folder.endswith("lost+found"):
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    saved(tmp_path, 3, checkpoint_keep=1)

    assert names(tmp_path) == ["1-30"]


def test_file_of_the_users_in_a_checkpoint_outlives_it(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    (tmp_path / "1-10/notes").mkdir()
    (tmp_path / "1-10/notes/best.txt").write_text("the best one")

    saved(tmp_path, 1, checkpoint_keep=1)

    assert files_below(tmp_path / "1-10") == {"notes/best.txt": b"the best one"}


@pytest.mark.parametrize(
    ("values", "size", "message"),
    [
        pytest.param({"model": "resnet50"}, 1, r"trainer\.model is mnist there and resnet50 here", id="model"),
        pytest.param({}, 4, r"weight is 1 there and 4 here", id="shape"),
        pytest.param({"optimizer": "adam"}, 1, r"trainer\.optimizer is sgd there and adam here", id="optimizer"),
        pytest.param({"framework": "mxnet"}, 1, r"framework is tensorflow there and mxnet here", id="framework"),
        pytest.param({"seed": 1}, 1, r"trainer\.seed is 0 there and 1 here", id="seed"),
    ],
)
def test_one_of_another_training_is_refused(values: dict[str, object], size: int, message: str, tmp_path: Path) -> None:
    saved(tmp_path, 1)

    with pytest.raises(CheckpointError, match=rf"^checkpoint\.uri: .*/1-10 does not fit this run: {message}; correct"):
        begin(tmp_path, Counter(size), **values)


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param("float16", "bfloat16", id="halves"),
        pytest.param("uint16", "bfloat16", id="held-alike"),
        pytest.param("float32", "int32", id="of-one-width"),
        pytest.param("float32", "float64", id="narrower"),
    ],
)
def test_one_of_another_type_is_refused_and_not_taken_for_this_one(there: str, here: str, tmp_path: Path) -> None:
    saved(tmp_path, 1, Counter(dtype=there))

    message = rf"1-10 does not fit this run: trainer\.model: model\.weight is {there} there and {here} here; correct"
    with pytest.raises(CheckpointError, match=message):
        begin(tmp_path, state := Counter(dtype=here))

    assert state.weight == [0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint16", "int64"])
def test_one_of_the_same_type_is_taken(dtype: str, tmp_path: Path) -> None:
    saved(tmp_path, 1, Counter(dtype=dtype))

    begin(tmp_path, state := Counter(dtype=dtype))

    assert state.weight.any()


class OfOneFile(Counter):
    """A state that cannot decode the file of a checkpoint in format 1, as if another framework had written the file."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded = 0

    def former(self, content: bytes) -> arrays.Arrays:
        self.decoded += 1
        raise RuntimeError(f"no file of this framework: {content!r}")


def test_one_of_the_first_format_and_another_training_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    path = tmp_path / "1-10/manifest.json"
    told = json.loads(path.read_text())
    told["subject"].update(framework="mxnet", shapes={"model-0": [1]})
    path.write_text(json.dumps({**told, "format": 1}))

    with pytest.raises(CheckpointError, match=r"1-10 does not fit this run: framework is mxnet there and tensorflow"):
        begin(tmp_path, state := OfOneFile())

    assert state.decoded == 0


def test_head_is_read_as_it_was_written(tmp_path: Path) -> None:
    saved(tmp_path, 1)

    content = (tmp_path / "HEAD").read_bytes()

    assert Head.from_json(content).to_json() == content
