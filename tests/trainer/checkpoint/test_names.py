"""Test which folders count as checkpoints, judged by their names and by the positions in their manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain_trainer.checkpoint import files
from distrain_trainer.storage import Store, open_store
from tests.trainer.fixtures.counter_run import begin, save_step


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that contains one checkpoint, 1-10."""
    save_step(begin(tmp_path))
    return open_store(str(tmp_path), value="checkpoint.uri")


def edit(manifest: Path, **values: object) -> None:
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **values}))


def copied(store: Store, name: str, **values: object) -> None:
    """Write a copy of the manifest of 1-10 as the checkpoint `name`. Its number of samples is taken from `name`."""
    told = json.loads((Path(store.uri) / "1-10/manifest.json").read_text())
    told["position"]["samples"] = int(name.partition("-")[2])
    store.write(f"{name}/manifest.json", json.dumps({**told, **values}).encode())


def test_newest_is_the_one_of_the_highest_generation(store: Store) -> None:
    copied(store, "12-5")

    assert files.last_there(store) == (12, "12-5")


def test_newest_counts_though_only_a_later_trainer_can_read_it(store: Store) -> None:
    copied(store, "3-20", format=99)

    assert files.last_there(store) == (3, "3-20")
    assert files.subject_of(store, "3-20") is None


def test_newest_that_is_torn_or_a_copy_is_passed_over(store: Store) -> None:
    store.write("3-20/state-0.safetensors", b"torn")
    store.write("2-20/manifest.json", store.read_tagged("1-10/manifest.json")[0])  # type: ignore[index]

    assert files.last_there(store) == (1, "1-10")
    assert files.subject_of(store, "2-20") is None
    assert files.subject_of(store, "1-10")


def test_without_checkpoints_there_is_no_generation(tmp_path: Path) -> None:
    assert files.last_there(open_store(str(tmp_path), value="checkpoint.uri")) == (0, None)


def test_names_are_sorted_by_number(store: Store) -> None:
    for name in ("2-9", "10-1", "2-100", "2-x", "photos"):
        store.write(f"{name}/a", b"")

    assert files.names(store) == ["10-1", "2-100", "2-9", "1-10"]


def test_torn_one_is_deleted_up_to_the_given_one(store: Store) -> None:
    for name in ("1-9", "1-20", "1-21"):
        store.write(f"{name}/state-0.safetensors", b"torn")

    files.delete_torn(store, before="1-21", tell=print)

    assert files.names(store) == ["1-21", "1-10"]


@pytest.mark.parametrize(("keep", "left"), [(1, []), (2, ["1-30"]), (3, ["1-30", "1-20"])])
def test_current_one_counts_as_kept(keep: int, left: list[str], store: Store) -> None:
    for name in ("1-20", "1-30", "1-40", "1-50"):
        copied(store, name)

    files.prune(store, keep=keep, current="1-40", tell=print)

    assert files.names(store) == ["1-50", "1-40", *left]


def test_manifest_is_deleted_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    copied(store, "1-20")
    told: list[str] = []

    files.prune(store, keep=1, current="1-20", tell=told.append)

    deleted = [line.rpartition("/")[2] for line in told if line.startswith("deleting ")]
    assert deleted == ["manifest.json", "state-0.safetensors"]
