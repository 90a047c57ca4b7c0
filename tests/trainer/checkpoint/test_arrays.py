"""Test how the arrays of a state are laid out in the buffer and in files of the safetensors format."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distrain_trainer.checkpoint import arrays, layout
from distrain_trainer.checkpoint.arrays import BFLOAT16, Field, require_same_model
from distrain_trainer.checkpoint.buffer import Buffer, write_file
from distrain_trainer.checkpoint.layout import Part, header_size, parse, plan
from distrain_trainer.errors import ArgumentError

STATE = {
    "model.flag": np.array([True, False, True]),
    "model.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "model.half": np.array([1, 2, 3], dtype=np.uint16).view(BFLOAT16),
    "step": np.array(7, dtype=np.int64),
}


def content_of(buffer: Buffer, part: Part) -> bytes:
    return bytes(buffer.span(part.start, part.end))


def parsed(file: str, content: bytes) -> Part:
    return parse(file, content[: header_size(content)], len(content))


def test_file_holds_its_arrays_at_the_offsets_in_its_header() -> None:
    buffer = Buffer()
    [part] = buffer.fill(STATE)
    content = content_of(buffer, part)

    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = {name: content[8 + length :][slice(*each["data_offsets"])] for name, each in header.items()}

    assert found == {name: array.tobytes() for name, array in STATE.items()}
    # The arrays with the widest elements come first, so that each array begins at a multiple of its element's size.
    assert [(each["dtype"], each["shape"]) for each in header.values()] == [
        ("I64", []), ("F32", [2, 3]), ("BF16", [3]), ("BOOL", [3]),
    ]  # fmt: skip
    assert (8 + length) % 8 == 0
    assert len(content) == part.size == 8 + length + sum(array.nbytes for array in STATE.values())


def test_header_is_padded_with_less_than_eight_spaces() -> None:
    for length in range(1, 9):
        [part] = plan({"w" * length: Field("U8", (1,))})
        header = part.header[8:]
        assert len(header) - len(header.rstrip(b" ")) < 8
        assert len(header) % 8 == 0
        assert int.from_bytes(part.header[:8], "little") == len(header)


def test_file_is_parsed_as_it_was_laid_out() -> None:
    buffer = Buffer()
    [part] = buffer.fill(STATE)

    assert parsed(part.file, content_of(buffer, part)) == part


def test_single_file_is_one_of_the_format(tmp_path: Path) -> None:
    weights = {**STATE, "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T}

    write_file(tmp_path / "model.safetensors", weights)

    content = (tmp_path / "model.safetensors").read_bytes()
    part, buffer = parsed("model.safetensors", content), Buffer()
    buffer.reserve(len(content))
    buffer.span(0, len(content))[:] = content
    found = buffer.arrays([part])
    assert {name: each.tobytes() for name, each in found.items()} == {
        name: each.tobytes() for name, each in weights.items()
    }
    assert part.fields["turned"].shape == (3, 2)


def test_files_are_as_large_as_a_part_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PART_BYTES", 8)
    sizes = {"a": 4, "b": 4, "c": 1, "d": 20, "e": 7, "f": 1, "g": 1}

    parts = plan({name: Field("U8", (size,)) for name, size in sizes.items()})

    assert [[*part.fields] for part in parts] == [["a", "b"], ["c"], ["d"], ["e", "f"], ["g"]]
    assert [part.file for part in parts] == [f"state-{number}.safetensors" for number in range(5)]
    assert parts[0].start == 0
    for before, after in itertools.pairwise(parts):
        assert after.start % 64 == 0
        assert 0 <= after.start - before.end < 64


@pytest.mark.parametrize(("place", "aligned"), [(0, 0), (1, 64), (63, 64), (64, 64), (65, 128)])
def test_place_is_rounded_up(place: int, aligned: int) -> None:
    assert layout.aligned(place) == aligned


def test_arrays_of_several_files_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "PART_BYTES", 8)
    buffer = Buffer()
    given = {name: np.full(6, number, np.uint8) for number, name in enumerate("abc")}

    parts = buffer.fill(given)

    assert len(parts) == 3
    assert {name: array.tolist() for name, array in buffer.arrays(parts).items()} == {
        name: array.tolist() for name, array in given.items()
    }
    found = [parsed(part.file, content_of(buffer, part)) for part in parts]
    assert [(part.header, part.fields, part.size) for part in found] == [
        (part.header, part.fields, part.size) for part in parts
    ]


def file_of(header: object, data: bytes = b"\0" * 4) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


def test_header_may_hold_metadata_and_the_arrays_in_any_order() -> None:
    second = {**ENTRY, "data_offsets": [4, 8]}
    content = file_of({"b": second, "__metadata__": {"format": "pt"}, "a": ENTRY}, b"\0" * 8)

    part = parsed("state-0.safetensors", content)

    assert [*part.fields] == ["a", "b"]
    assert (part.start, part.end) == (0, len(content))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(file_of({"a": ENTRY}, b"\0" * 3), id="cut"),
        pytest.param(file_of({"a": ENTRY}, b"\0" * 5), id="longer"),
        pytest.param(file_of(b"{"), id="no-json"),
        pytest.param(file_of(b"\xff\xfe{}"), id="no-text"),
        pytest.param(file_of([]), id="list"),
        pytest.param(file_of({"a": {}}), id="no-offsets"),
        pytest.param(file_of({"a": 4}), id="number"),
        pytest.param(file_of({"a": {**ENTRY, "dtype": "F4"}}), id="unknown-type"),
        pytest.param(file_of({"a": {**ENTRY, "shape": None}}), id="no-shape"),
        pytest.param(file_of({"a": {**ENTRY, "data_offsets": [float("inf"), 4]}}), id="infinite"),
    ],
)
def test_other_content_is_no_file_of_arrays(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^state-3\.safetensors is no file of arrays$"):
        parsed("state-3.safetensors", content)


@pytest.mark.parametrize("name", arrays.TYPES)
def test_type_has_the_size_that_holds_it(name: str) -> None:
    field = Field.of("model.w", name, (2, 3))

    assert field.type_name == name
    assert field.shape == (2, 3)
    width = 2 if name == "bfloat16" else np.dtype(name).itemsize
    assert field.size == 6 * width


def test_type_that_no_checkpoint_holds_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"trainer\.model: model\.w is of type float8, but checkpoints hold only"):
        Field.of("model.w", "float8", ())


def test_buffer_is_kept_and_grows() -> None:
    buffer = Buffer()
    buffer.reserve(8)
    buffer.span(0, 8)[:] = b"12345678"

    buffer.reserve(8)
    assert bytes(buffer.span(0, 8)) == b"12345678"
    buffer.reserve(4)
    assert bytes(buffer.span(0, 8)) == b"12345678"
    buffer.reserve(9)
    assert bytes(buffer.span(0, 9)) == bytes(9)
    buffer.release()
    assert len(buffer.span(0, 9)) == 0


WEIGHT = Field("F32", (2,))


def test_model_that_keeps_its_arrays_is_accepted() -> None:
    require_same_model({"model.a": WEIGHT, "optimizer.a.m": WEIGHT}, {"model.a": WEIGHT})


@pytest.mark.parametrize(
    ("now", "change"),
    [
        pytest.param({}, r"a is float32\[2\] before and absent after a training step", id="gone"),
        pytest.param(
            {"a": WEIGHT, "b": WEIGHT}, r"b is absent before and float32\[2\] after a training step", id="new"
        ),
        pytest.param(
            {"a": Field("F64", (2,))}, r"a is float32\[2\] before and float64\[2\] after a training step", id="type"
        ),
        pytest.param(
            {"a": Field("F32", (3,))}, r"a is float32\[2\] before and float32\[3\] after a training step", id="shape"
        ),
    ],
)
def test_model_that_changes_its_arrays_is_refused(now: dict[str, Any], change: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^trainer\.model: {change}, but a step must not"):
        require_same_model({f"model.{name}": field for name, field in now.items()}, {"model.a": WEIGHT})


def test_shapes_are_those_of_the_model() -> None:
    fields = {"model.a": Field("F32", (2, 3)), "model.b": Field("F32", ()), "optimizer.a.m": WEIGHT}

    assert arrays.shapes(fields) == {"a": [2, 3], "b": []}
    assert math.prod(arrays.shapes(fields)["a"]) == 6


@pytest.mark.parametrize(("mebibytes", "count"), [(28, 1), (29, 2)])
def test_file_has_up_to_128_mebibytes(mebibytes: int, count: int) -> None:
    sizes = {"a": 100, "b": mebibytes}

    assert len(plan({name: Field("U8", (size * 1024**2,)) for name, size in sizes.items()})) == count
