"""Test that rank 0 lists the names of a large data set once per run, and stores them next to the checkpoints."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distrain_trainer.config import Config
from distrain_trainer.data import evaluation_batches, listing, load, train_batches
from distrain_trainer.errors import MissingError, StoppedError, Termination
from distrain_trainer.storage import FolderStore, S3Store, open_store
from lab.datasets.pictures import numbered, write_image_folder, write_shards
from tests.trainer.fixtures.datasets import go_through

NAMES = {f"class-{number % 3}/{number:05}.png" for number in range(25)}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FEW", 10)
    monkeypatch.setattr(listing, "SECONDS_BETWEEN", 0.01)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URI of each store whose file names were all listed."""
    places: list[str] = []
    for store in (FolderStore, S3Store):
        original: Any = store.all_names

        def watched(self: Any, original: Any = original) -> list[str]:
            places.append(self.uri)
            return list(original(self))

        monkeypatch.setattr(store, "all_names", watched)
    return places


@pytest.fixture
def images(tmp_path: Path) -> Path:
    write_image_folder(tmp_path / "images", numbered(25))
    return tmp_path / "images"


def names_of(rank: int, config: Config, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setenv("RANK", str(rank))
    return {*listing.list_names(config, open_store(config.data, value="data.uri"))}


def config_of(images: Path, checkpoint: str, **values: Any) -> Config:
    return Config(data=str(images), checkpoint=checkpoint, epochs=1, **values)


@pytest.fixture(params=["folder", "s3"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A checkpoint URI that all ranks can read: a folder in one case, and a bucket in S3 in the other."""
    if request.param == "folder":
        yield str(tmp_path / "checkpoints")
        return
    server, environment = (request.getfixturevalue(name) for name in ("s3_server", "s3_env"))
    patch = request.getfixturevalue("monkeypatch")
    for name, value in environment.items():
        patch.setenv(name, value)
    bucket = f"lists-{tmp_path.name.lower().replace('_', '-')}"[-60:].strip("-")
    server.boto3_client().create_bucket(Bucket=bucket)
    yield f"s3://{bucket}/team/run"


def test_rank_0_lists_once_and_all_others_and_restarts_read_its_list(
    images: Path, checkpoint: str, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(images, checkpoint)

    for rank in (0, 1, 2, 0, 1):
        assert names_of(rank, config, monkeypatch) == NAMES

    assert listed == [str(images)]


def test_other_ranks_wait_for_the_list_in_s3(
    images: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch, s3_server: Any, s3_env: dict[str, str]
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    s3_server.boto3_client().create_bucket(Bucket="waited-for")
    config = config_of(images, "s3://waited-for/run")
    store, found = open_store(config.data, value="data.uri"), list[set[str]]()
    monkeypatch.setattr(listing, "rank_from_environment", lambda: int(threading.current_thread().name))

    def list_names() -> None:
        found.append({*listing.list_names(config, store)})

    others = [threading.Thread(target=list_names, name=str(rank)) for rank in (1, 2)]
    for thread in others:
        thread.start()
    others[0].join(0.2)
    assert not found
    first = threading.Thread(target=list_names, name="0")
    first.start()
    for thread in (first, *others):
        thread.join(30)

    assert found == [NAMES] * 3
    assert listed == [str(images)]


def test_rank_that_waits_in_vain_lists_the_names_itself(
    images: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch, s3_server: Any, s3_env: dict[str, str]
) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    s3_server.boto3_client().create_bucket(Bucket="in-vain")
    config = config_of(images, "s3://in-vain/run")
    monkeypatch.setattr(listing, "LONGEST_WAIT", 0.1)

    assert names_of(1, config, monkeypatch) == NAMES
    assert listed == [str(images)]
    assert not s3_server.boto3_client().list_objects_v2(Bucket="in-vain").get("Contents")

    monkeypatch.setattr(Termination, "requested", True)
    monkeypatch.setattr(listing, "LONGEST_WAIT", 60)
    with pytest.raises(StoppedError):
        names_of(1, config, monkeypatch)


@pytest.mark.parametrize("rank", [0, 1])
def test_folder_of_checkpoints_is_not_waited_for(
    rank: int, images: Path, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folder may exist only in this pod. Then the list that rank 0 writes in another pod never appears in it.
    names = names_of(rank, config_of(images, str(tmp_path / "own")), monkeypatch)

    assert names == NAMES
    assert (tmp_path / "own" / "data-names").exists() == (rank == 0)


def test_list_of_other_data_is_made_anew(
    images: Path, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    write_image_folder(other, numbered(12))
    checkpoint = str(tmp_path / "checkpoints")

    assert len(names_of(0, config_of(images, checkpoint), monkeypatch)) == 25
    assert len(names_of(0, config_of(other, checkpoint), monkeypatch)) == 12
    assert listed == [str(images), str(other)]


def test_run_that_begins_anew_lists_anew_and_its_restarts_do_not(
    images: Path, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(images, str(tmp_path / "checkpoints"), resume="never")
    for job in ("run-1", "run-1", "run-2", "run-2"):
        monkeypatch.setenv("DISTRAIN_JOB", job)
        names_of(0, config, monkeypatch)

    assert len(listed) == 2


@pytest.mark.parametrize("content", [b"", b"no list", b"x\x9c\x03\x00\x00\x00\x00\x01"], ids=["empty", "other", "cut"])
def test_damaged_list_is_made_anew(
    content: bytes, images: Path, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(images, str(tmp_path / "checkpoints"))
    names_of(0, config, monkeypatch)
    (tmp_path / "checkpoints" / "data-names").write_bytes(content)

    assert names_of(0, config, monkeypatch) == NAMES
    assert len(listed) == 2
    assert names_of(1, config, monkeypatch) == NAMES
    assert len(listed) == 2


def test_small_data_set_is_listed_by_each_rank_and_no_list_is_kept(
    images: Path, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FEW", 26)

    assert names_of(0, config_of(images, str(tmp_path / "checkpoints")), monkeypatch) == NAMES
    assert not listed
    assert not (tmp_path / "checkpoints").exists()


def go_through_all(config: Config) -> None:
    go_through(config)
    list(evaluation_batches(config, load(config), rank=0, ranks=1))


@pytest.mark.parametrize("number", [0, 9, -1], ids=["read-first", "training-data", "test-data"])
@pytest.mark.parametrize("kind", ["images", "shards"])
def test_message_about_a_missing_file_names_the_list_that_has_it(kind: str, number: int, tmp_path: Path) -> None:
    for part in ("train", "val"):
        if kind == "images":
            write_image_folder(tmp_path / "data" / part, numbered(12))
        else:
            sizes = write_shards(tmp_path / "data" / part, numbered(12), [1] * 12)
            (tmp_path / "data" / part / "sizes.json").write_text(json.dumps(sizes))
    config = config_of(tmp_path / "data", str(tmp_path / "checkpoints"), batch_size=1)
    go_through_all(config)
    suffix = ".png" if kind == "images" else ".tar"
    missing = sorted(path for path in (tmp_path / "data").rglob(f"*{suffix}"))[number]
    missing.unlink()
    name = missing.relative_to(tmp_path / "data")

    with pytest.raises(MissingError) as raised:
        go_through_all(config)

    assert f"has no {name} " in str(raised.value)
    listed = tmp_path / "checkpoints/data-names"
    assert str(raised.value).endswith(
        f"correct data.uri; if it was deleted on purpose, also delete {listed}, the run's list of files"
    )


def test_message_about_a_missing_file_names_no_list_if_there_is_none(images: Path, tmp_path: Path) -> None:
    config = config_of(images, str(tmp_path / "checkpoints"))
    dataset = load(config)
    for path in images.rglob("*.png"):
        path.unlink()
    (tmp_path / "checkpoints" / "data-names").unlink()

    with pytest.raises(MissingError, match=r"or correct data\.uri$"):
        next(train_batches(config, dataset, rank=0, ranks=1))


def test_data_is_the_same_from_the_list(images: Path, tmp_path: Path) -> None:
    config = config_of(images, str(tmp_path / "checkpoints"))

    fresh, kept = load(config).train, load(config).train

    assert fresh.names == kept.names  # type: ignore[attr-defined]
