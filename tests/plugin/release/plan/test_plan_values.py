"""Test how the plan of an upgrade shows changed values, and that it shows no secret."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.release import changes


@pytest.mark.parametrize(
    ("value", "before", "after", "found"),
    [
        pytest.param(("trainer", "learningRate"), 5e-05, "0.00005", {}, id="file-and-set"),
        pytest.param(("data", "maxBadShare"), "0.10", "0.1", {}, id="two-spellings"),
        pytest.param(("workers", "cpu"), 2.5, "2.50", {}, id="cpu"),
        pytest.param(("workers", "cpu"), 2, "2m", {"workers.cpu": "2 -> 2m"}, id="unit"),
        pytest.param(("trainer", "learningRate"), 0.1, None, {"trainer.learningRate": "0.1 -> unset"}, id="unset"),
        pytest.param(("mpi", "mca"), {"a": 1.1}, {"a": "1.10"}, {"mpi.mca.a": "1.1 -> 1.10"}, id="word"),
    ],
)
def test_same_number_spelt_otherwise_is_no_change(
    value: tuple[str, str], before: object, after: object, found: dict[str, str]
) -> None:
    group, key = value

    assert changes.of_values({group: {key: before}}, {group: {key: after}}) == found


def test_section_that_becomes_a_text_or_was_one_is_one_change() -> None:
    section, text = {"global": {"a": {"b": 1}}}, {"global": {"a": "c"}}

    assert changes.of_values(section, text) == changes.of_values(text, section) == {"global.a": "changed"}


def test_values_keep_their_letters_in_a_plan() -> None:
    found = changes.of_values({"podLabels": {"team": "A"}, "x": True}, {"podLabels": {"team": "B"}, "x": None})

    assert found == {"podLabels.team": "A -> B", "x": "true -> unset"}


def test_server_of_s3_is_shown_without_a_login() -> None:
    old = {"s3": {"endpoint": "http://minio:9000", "region": "eu-central-1"}}
    new = {"s3": {"endpoint": "https://s3.example.com", "region": "us-east-1"}}
    with_login = {"s3": {"endpoint": "https://me:password@s3.example.com", "region": "us-east-1"}}

    region = {"s3.region": "eu-central-1 -> us-east-1"}
    assert changes.of_values(old, new) == {"s3.endpoint": "http://minio:9000 -> https://s3.example.com", **region}
    assert changes.of_values(old, with_login) == {"s3.endpoint": "changed", **region}
    assert changes.of_values(with_login, old)["s3.endpoint"] == "changed"
    assert changes.settings(old, with_login)["s3.endpoint"] == "s3.endpoint: ..."
    assert changes.settings(old, new)["s3.endpoint"] == 's3.endpoint: "https://s3.example.com"'


def test_values_that_may_be_secret_or_long_are_not_shown() -> None:
    old = {"env": [], "s3": {"secretName": "a"}, "trainer": {"steps": 10}, "image": {"tag": "x" * 99}}
    new = {
        "env": [{"name": "KEY", "value": "s3cret"}],
        "s3": {"secretName": "b"},
        "trainer": {"steps": 20},
        "image": {},
    }

    assert changes.of_values(old, new) == {
        "env": "changed",
        "s3.secretName": "a -> b",
        "trainer.steps": "10 -> 20",
        "image.tag": "changed",
    }


@pytest.mark.parametrize(
    "path", ["global.apiToken", "global.db.PASSWORD", "x-clientSecret", "podAnnotations.example.com/key"]
)
def test_value_under_a_telling_name_is_not_shown(path: str) -> None:
    assert changes.of_values(_at(path, "old"), _at(path, "new")) == {path: "changed"}


def test_login_in_a_url_is_not_shown() -> None:
    uri = "https://me:pass@host/x"

    assert changes.of_values({"global": {"uri": uri}}, {"global": {"uri": "x"}}) == {"global.uri": "changed"}


@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param({"a": "main"}, "a: main", id="plain"),
        pytest.param({"a": "yes"}, 'a: "yes"', id="would-be-a-boolean"),
        pytest.param({"a": "1.0"}, 'a: "1.0"', id="would-be-a-number"),
        pytest.param({"a": True}, "a: true", id="boolean"),
        pytest.param({"a": ["b", 1]}, 'a: ["b", 1]', id="list"),
        pytest.param({"a": "x" * 99}, "a: ...", id="long"),
        pytest.param({"apiToken": "abc"}, "apiToken: ...", id="secret-by-its-name"),
        pytest.param({"env": [{"name": "A", "value": "b"}]}, "env: ...", id="environment"),
        pytest.param({"s3": {"secretName": "abc"}}, "s3.secretName: abc", id="name-of-a-secret"),
        pytest.param({"a": "https://me:pw@host/"}, "a: ...", id="login-in-a-url"),
    ],
)
def test_line_is_as_in_a_values_file_and_shows_no_secret(value: dict[str, Any], line: str) -> None:
    assert [*changes.settings({}, value).values()] == [line]


def _at(path: str, value: str) -> dict[str, Any]:
    """Return values in which only the value at this path is set."""
    first, _, rest = path.partition(".")
    if first != "global":
        return {first: {rest: value} if rest else value}
    for name in reversed(path.split(".")[1:]):
        value = {name: value}  # type: ignore[assignment]
    return {first: value}
