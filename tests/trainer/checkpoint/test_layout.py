"""Test how the arrays of a state are divided among the ranks, and joined again."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from distrain_trainer.checkpoint import layout
from distrain_trainer.checkpoint.arrays import Arrays, Cut, Field, elements
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.layout import Part, cuts_of, fields_of, lay_out, plan


@pytest.fixture(autouse=True)
def small_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "SMALLEST_CUT", 128)
    monkeypatch.setattr(layout, "PART_BYTES", 512)


def random_state(seed: int) -> dict[str, np.ndarray]:
    chance = random.Random(seed)
    types = [np.float64, np.float32, np.float16, np.uint8, np.bool_]
    state = {}
    for number in range(chance.randrange(1, 12)):
        shape = [chance.randrange(1, 20) for _ in range(chance.randrange(4))]
        count = int(np.prod(shape)) if chance.random() < 0.9 else 0
        values = np.random.default_rng(seed + number).integers(0, 2, count).astype(chance.choice(types))
        state[f"model.{number}"] = values.reshape(shape if count else [0, *shape])
    return state


def written(state: Arrays, rank: int, ranks: int, unshared: set[str]) -> tuple[list[Part], dict[str, bytes]]:
    """Return the parts that a rank saves, and the contents of its files."""
    fields = {name: Field.of(name, array.dtype.name, array.shape) for name, array in state.items()}
    parts, buffer = plan(fields, unshared, rank=rank, ranks=ranks), Buffer()
    for name, place in buffer.place(parts).items():
        place[...] = elements(state[name], cuts_of(parts).get(name), place.size)
    return parts, {part.file: bytes(buffer.span(part.start, part.end)) for part in parts}


def loaded(files: dict[str, bytes]) -> Arrays:
    """Return all arrays that the files contain. Pieces of an array that is divided between files are joined."""
    found, buffer = [], Buffer()
    for file, content in files.items():
        found.append(layout.parse(file, content[: layout.header_size(content)], len(content)))
    parts = lay_out(found)
    buffer.reserve(max(part.end for part in parts))
    for part in parts:
        buffer.span(part.data, part.end)[:] = files[part.file][len(part.header) :]
    return {name: array.copy() for name, array in buffer.arrays(parts).items()}


@pytest.mark.parametrize("seed", range(60))
def test_shares_of_all_ranks_together_are_the_state(seed: int) -> None:
    state, ranks = random_state(seed), seed % 7 + 1
    unshared = {name for number, name in enumerate(state) if number % 3 == 0 and seed % 2}
    files: dict[str, bytes] = {}
    for rank in range(ranks):
        parts, own = written(state, rank, ranks, unshared)
        assert not own.keys() & files.keys()
        assert rank == 0 or not unshared & {name for part in parts for name in part.fields} or ranks == 1
        files |= own

    found = loaded(files)

    assert found.keys() == state.keys()
    for name, array in state.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_one_large_array_is_shared_out_evenly(ranks: int) -> None:
    fields = {"model.small": Field("F64", (3,)), "model.large": Field("F32", (100, 100))}

    shares = [
        sum(part.size - len(part.header) for part in plan(fields, rank=rank, ranks=ranks)) for rank in range(ranks)
    ]

    assert sum(shares) == 24 + 40_000
    assert max(shares) - min(shares) <= 2 * layout.ALIGNMENT


def test_what_rank_0_saves_alone_counts_for_its_share() -> None:
    fields = {"model.mean": Field("F32", (1000,)), "model.weight": Field("F32", (3000,))}

    shares = [plan(fields, {"model.mean"}, rank=rank, ranks=2) for rank in range(2)]

    assert [part.file for part in shares[0]] == ["state-0.safetensors", "state-2.safetensors"]
    assert [*shares[0][0].fields] == ["model.mean"]
    assert shares[0][1].fields["model.weight"].shape == (992,)
    assert shares[1][0].cuts == {"model.weight": Cut(992, (3000,))}
    assert fields_of([*shares[0], *shares[1]]) == fields


def test_small_array_is_not_cut() -> None:
    fields = {"model.a": Field("U8", (10,)), "model.b": Field("U8", (127,)), "model.c": Field("U8", (30,))}

    shares = [plan(fields, rank=rank, ranks=2) for rank in range(2)]

    assert [[name for part in share for name in part.fields] for share in shares] == [
        ["model.a"],
        ["model.b", "model.c"],
    ]
    assert not cuts_of([*shares[0], *shares[1]])


def test_rank_without_a_share_writes_an_empty_file() -> None:
    [part] = plan({"model.a": Field("U8", (4,))}, rank=1, ranks=3)

    assert (part.file, part.fields) == ("state-1.safetensors", {})


def cut_in_three() -> list[Part]:
    return [part for rank in range(3) for part in plan({"model.a": Field("U8", (600,))}, rank=rank, ranks=3)]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        pytest.param([0, 1], r"^no file has the end of model\.a$", id="end-missing"),
        pytest.param([1, 2], r"^state-1\.safetensors: elements 192 to \d+ of model\.a are out", id="no-start"),
        pytest.param([0, 2], r"^state-2\.safetensors: elements \d+ to 600 of model\.a are out of place$", id="gap"),
        pytest.param([0, 2, 1], r"of model\.a are out of place$", id="swapped"),
        pytest.param([0, 1, 1, 2], r"of model\.a are out of place$", id="twice"),
    ],
)
def test_pieces_must_follow_each_other(order: list[int], reason: str) -> None:
    parts = cut_in_three()

    with pytest.raises(ValueError, match=reason):
        lay_out([parts[number] for number in order])


def test_piece_beyond_its_array_is_refused() -> None:
    parts = cut_in_three()
    parts[2] = replace(parts[2], cuts={"model.a": Cut(parts[2].cuts["model.a"].start, (500,))})

    with pytest.raises(ValueError, match=r"elements \d+ to 600 of model\.a are out of place$"):
        lay_out(parts)
