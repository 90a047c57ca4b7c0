"""Test how the lines of a record are read, and that a million steps give less than 1 MB of lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from distrain_trainer.record import lines
from distrain_trainer.record.lines import KEPT, KEPT_OF_OTHERS, LIMIT, Line, UnreadableError

LONG = dict.fromkeys(("images_per_second", "images_per_second_mean", "step_seconds_total"), 123456789.123456)


def step(number: int, **figures: Any) -> Line:
    return lines.line_of("step", number, {"step": number, "samples": 1024 * number, "loss": 0.123456, **figures})


def numbers(found: list[Line], event: str = "step") -> list[int]:
    return [line["number"] for line in found if line["event"] == event]


@pytest.fixture(scope="module")
def of_a_million() -> list[Line]:
    """The lines that remain of a million steps. Whenever there are more than 10,000 lines, some of them are removed."""
    kept: list[Line] = []
    usual = step(1, **LONG)
    for number in range(1, 1_000_001):
        kept.append({**usual, "number": number, "step": number, "samples": 1024 * number})
        if len(kept) > 10_000:
            kept = lines.thin(kept)
    return kept


def test_million_steps_stay_below_one_megabyte(of_a_million: list[Line]) -> None:
    content, kept = lines.render(of_a_million, "me")

    assert len(content) <= LIMIT == 1_000_000
    assert numbers(kept) == [*range(1, 1_000_001, 512), 1_000_000]
    assert kept[-1]["step"] == 1_000_000


def test_thinning_at_any_time_keeps_the_same_lines() -> None:
    every = [step(number) for number in range(1, 20_001)]
    at_each: list[Line] = []
    for line in every:
        at_each = lines.thin([*at_each, line]) if line["number"] % 777 == 0 else [*at_each, line]

    assert lines.thin(at_each) == lines.thin(every)
    assert KEPT["step"] / 2 <= len(lines.thin(every)) <= KEPT["step"] + 1


def test_ten_thousand_restarts_with_checkpoints_stay_below_one_megabyte(of_a_million: list[Line]) -> None:
    config = {f"argument_{number}": "x" * 40 for number in range(30)}
    events = [
        line
        for number in range(1, 10_001)
        for line in (
            lines.line_of("kill", number, {"step": number, "samples": number}),
            lines.line_of("start", number, {"world_size": 64, "values": config}),
            lines.line_of("checkpoint", number, {"checkpoint": f"{number}-{number}", "stall_seconds": 0.123456}),
            lines.line_of("end", number, {"cause": "failed", "reason": "r" * 1000}),
        )
    ]

    content, kept = lines.render([*of_a_million, *events], "me")

    assert len(content) <= LIMIT
    for event in ("step", "kill", "start", "checkpoint", "end"):
        found = numbers(kept, event)
        assert found[0] == 1
        assert found[-1] == (1_000_000 if event == "step" else 10_000)
        assert len(found) > KEPT_OF_OTHERS / 8


def test_long_text_is_cut() -> None:
    assert len(lines.line_of("end", 1, {"reason": "r" * 10_000})["reason"]) == lines.LONGEST_TEXT


def test_content_is_read_as_it_was_written() -> None:
    content, kept = lines.render([step(1), step(2)], "me")

    assert lines.read(content) == (kept, "me")
    assert lines.render(kept, "me")[1] == kept


@pytest.mark.parametrize("rest", [b"", b"\n", b'{"event": "st', b"\xff\xfe", b"\n\n"])
def test_cut_last_line_is_dropped(rest: bytes) -> None:
    content, kept = lines.render([step(1), step(2)], "me")

    assert lines.read(content + rest)[0] == kept


@pytest.mark.parametrize("content", [b"", b"\n", b'{"event": "rec'])
def test_file_without_a_whole_line_is_an_empty_record(content: bytes) -> None:
    assert lines.read(content) == ([], "")


@pytest.mark.parametrize(
    "garbage",
    [b"hello", b"[1]", b'{"step": 1}', b'{"event": 1}', b"\xff", b"\x00" * 10, b"[" * 100_000, b"x" * 1_000_000],
    ids=["text", "list", "no event", "number", "not UTF-8", "zeros", "nested", "1 MB"],
)
def test_garbage_before_the_last_line_is_refused(garbage: bytes) -> None:
    content, _ = lines.render([step(1)], "me")

    with pytest.raises(UnreadableError, match=r"^line 3 is no JSON object with an event$"):
        lines.read(content + garbage + b"\n")


@pytest.mark.parametrize("version", [2, 1.5, "1", None, True])
def test_newer_version_is_refused(version: object) -> None:
    content = json.dumps({"event": "record", "version": version}).encode() + b"\n"

    with pytest.raises(UnreadableError, match=r"^its version is .*, and this trainer writes version 1$"):
        lines.read(content)


def test_lines_of_another_program_are_numbered() -> None:
    content = b"""{"event": "step", "loss": NaN}
{"event": "eval", "number": "x"}
{"event": "step", "number": 5}
{"event": "step", "number": 5}
{"event": "step"}
"""

    found, writer = lines.read(content)

    assert [(line["event"], line["number"]) for line in found] == [
        ("step", 1),
        ("eval", 1),
        ("step", 5),
        ("step", 6),
        ("step", 7),
    ]
    assert (found[0]["loss"], writer) == (None, "")


def test_lines_that_no_thinning_makes_small_enough_are_refused() -> None:
    events = [{"event": f"event-{number}", "number": 1, "text": "x" * 100} for number in range(10_000)]

    with pytest.raises(UnreadableError):
        lines.render(events, "me")
