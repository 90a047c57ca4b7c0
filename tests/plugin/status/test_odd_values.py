"""Put odd values into each field of a step line and of a record.

Test that `status` does not fail and does not show them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.answers.formats import dumped
from distrain.kube.resource import Resource
from distrain.progress.steps import Progress
from distrain.record.read import Line, parse
from distrain.status.causes.reasons import Place
from distrain.status.figures import timed
from distrain.status.run import Observed, run_of
from distrain.status.text import line, screen, table
from tests.plugin.objects import Object
from tests.plugin.status.runs import MPI, live, pod, step

UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
SECRET = "planted-secret"
# Texts in JSON for values that a program may write by mistake.
ODD = {
    "nan": "NaN",
    "infinity": "Infinity",
    "nan-in-quotes": '"nan"',
    "infinity-in-quotes": '"-inf"',
    "1e308": "1e308",
    "1e-320": "1e-320",
    "5e400": "5e400",
    "-5.5E+400": "-5.5E+400",
    "10^20": "1" + "0" * 20,
    "10^400": "1" + "0" * 400,
    "-10^400": "-1" + "0" * 400,
    "10^5000": "1" + "0" * 5000,
    "negative": "-7",
    "word": '"many"',
    "number-in-quotes": '"7"',
    "login": f'"https://me:{SECRET}@host/x?token={SECRET}"',
}
# Fields that contain text. Here "nan" is a valid text and not a number that is missing.
WORDS = ("framework", "model", "job", "checkpoint", "cause", "reason")
EVENTS = ("start", "step", "checkpoint", "rescale", "end")
NOW = 1767225600.0


def _run(job: Object, pods: list[Object], log: str = "", record: str = "") -> dict[str, Any]:
    """Check that `status` prints no secrets and no odd numbers. Return its answer with -o json."""
    objects = [(Resource(job["apiVersion"], job["kind"], job["metadata"]["name"]), msgspec.convert(job, kube.Workload))]
    typed = msgspec.convert(pods, list[kube.Pod])
    seen = Observed("run1", "team", objects, typed, speakers=typed[:1], logs=[timed(log)] if pods else [])
    found = run_of(seen, Place("run1", "", ""), NOW, parse(record.encode(), "record.jsonl") if record else None)
    text = [*screen(found), line(found), *table([found], namespaces=False)]
    return _checked("\n".join(text), dumped(found.as_dict(), "json"))


def _checked(text: str, answer: str) -> dict[str, Any]:
    for out in (text, answer):
        assert SECRET not in out
        assert not re.search(r"\b(nan|inf)\b|\d{17}", out, re.IGNORECASE), out
    found: dict[str, Any] = json.loads(answer, parse_constant=pytest.fail)
    return found


def _names(form: type[msgspec.Struct], odd: str) -> list[str]:
    is_word = odd.startswith('"') and SECRET not in odd
    return [name for name in form.__struct_fields__ if name != "event" and not (is_word and name in WORDS)]


@pytest.mark.parametrize("odd", ["5e400", "-5.5E+400", "1e308", "1" + "0" * 400, "1" + "0" * 5000 + ".5", "NaN"])
def test_number_that_is_too_large_is_unknown_and_the_others_of_its_line_are_known(odd: str) -> None:
    log = step(7, at=NOW, loss=0.5).rstrip("\n}") + f', "images_per_second": {odd}}}\n'
    record = f'{{"event": "start"}}\n{{"event": "step", "step": 7, "loss": 0.5, "images_per_second": {odd}}}\n'

    for answer in (_run(MPI, UP, log), _run(live({**MPI, "status": {}}, "Succeeded"), [], record=record)):
        assert (answer["step"], answer["loss"], answer["images_per_second"]) == (7, 0.5, None)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_no_field_of_a_step_line_makes_a_senseless_answer(odd: str) -> None:
    for name in _names(Progress, odd):
        last = step(7, at=NOW, images_per_second=5.0).rstrip("\n}")
        log = step(6, at=NOW - 1) + f'{last}, "{name}": {odd}}}\n'

        assert _run(MPI, UP, log)["step"] in (6, 7, -7), name


def _record(name: str, odd: str) -> Iterator[str]:
    """Yield the lines of a run's record. For each kind of event, one line has the odd value in the field `name`."""
    plain: dict[str, Object] = {
        "start": {"world_size": 2, "steps": 1000},
        "step": {"step": 7, "images_per_second": 5.0, "images_per_second_mean": 5.0},
        "checkpoint": {"step": 7, "checkpoint": "/c/7"},
        "rescale": {"world_size": 2},
        "end": {"cause": "failed", "reason": "full"},
    }
    yield json.dumps({"event": "start", "world_size": 1})
    yield json.dumps({"event": "step", "step": 3, "images_per_second_mean": 1e-320})
    for event in EVENTS:
        yield f'{json.dumps({"event": event, **plain[event]})[:-1]}, "{name}": {odd}}}'


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_no_field_of_a_record_makes_a_senseless_answer(odd: str) -> None:
    for name in _names(Line, odd):
        _run(live({**MPI, "status": {}}, "Failed"), [], record="\n".join(_record(name, odd)))


LOGIN = f"https://me:{SECRET}@host/x?token={SECRET}"


def _ended(message: str) -> Object:
    state = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    return pod("launcher", phase="Failed", containerStatuses=[{"name": "launcher", "state": state}])


@pytest.mark.parametrize("message", [f"data.uri: {LOGIN} is gone; mend it", f"data.uri: is gone; see {LOGIN}"])
def test_message_of_a_container_is_shown_without_logins(message: str) -> None:
    answer = _run(live({**MPI, "status": {}}, "Failed"), [_ended(message)], step(7, checkpoint=LOGIN))

    assert "[hidden]@host" in f"{answer['why']} {answer['next']}"
    assert answer["checkpoint"] == "https://[hidden]@host/x?[hidden]"


def test_words_of_the_scheduler_are_shown_without_logins() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": f"webhook {LOGIN} refuses"}

    answer = _run(MPI, [pod("launcher", phase="Pending", conditions=[condition]), *UP[1:]])

    assert "[hidden]@host" in answer["why"]
