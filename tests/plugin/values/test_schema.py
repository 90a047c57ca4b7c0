"""Test the message for each kind of mistake in values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.values.schema import check
from schemas import build

SOURCE = build.read()
CHART = build.TARGET.parent

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {"^x-": True},
    "required": ["workers"],
    "properties": {
        "framework": {"type": "string", "enum": ["tensorflow", "pytorch", "mxnet"]},
        "source": {"type": ["string", "null"], "enum": ["s3", None]},
        "workers": {
            "type": "object",
            "additionalProperties": False,
            "required": ["replicas"],
            "properties": {
                "replicas": {"type": "integer", "minimum": 1, "maximum": 1000, "examples": [2, 16]},
                "gpus": {"type": ["integer", "null"], "minimum": 0},
                "tolerations": {"type": "array", "items": {"type": "object"}},
            },
        },
        "trainer": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "rate": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "shuffle": {"type": "boolean"},
            },
        },
        "s3": {
            "type": "object",
            "properties": {
                "endpoint": {
                    "description": "URL of the S3 server.",
                    "type": "string",
                    "pattern": "^https?://",
                    "examples": ["http://minio:9000"],
                }
            },
        },
        "podLabels": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
    },
}


def _defaults() -> dict[str, Any]:
    """Read values.yaml of the chart."""
    found: dict[str, Any] = yaml.load((CHART / "values.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return found


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "values.schema.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def _values(**more: Any) -> dict[str, Any]:
    return {"workers": {"replicas": 2}, **more}


def _workers(**more: Any) -> dict[str, Any]:
    return {"workers": {"replicas": 2, **more}}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(_values(), id="plain"),
        pytest.param(_workers(gpus=None), id="null-where-it-may-be"),
        pytest.param(_values(**{"x-note": {"any": "thing"}}), id="own-notes"),
        pytest.param(_values(podLabels={"team": "vision"}), id="own-label"),
        pytest.param(_values(trainer={"rate": 0.1, "shuffle": False}), id="numbers-and-switches"),
    ],
)
def test_right_values_are_accepted(chart: Path, values: dict[str, Any]) -> None:
    check(values, chart)  # This must not raise.


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            _workers(replica=3),
            "workers.replica: there is no such value; did you mean workers.replicas?",
            id="misspelt-key",
        ),
        pytest.param(
            _values(worker={"replicas": 3}),
            "worker: there is no such value; did you mean workers?",
            id="misspelt-section",
        ),
        pytest.param(
            _values(replicas=3),
            "replicas: there is no such value; did you mean workers.replicas?",
            id="key-in-the-wrong-place",
        ),
        pytest.param(
            _values(trainer={"zzz": 1}),
            "trainer.zzz: there is no such value; allowed here: rate, shuffle",
            id="key-like-no-other",
        ),
        pytest.param(
            {"workers": {}},
            "workers.replicas: is missing, or null removed its default; give it a value",
            id="missing",
        ),
        pytest.param(
            {"workers": {"replicas": "two"}},
            'workers.replicas: found the text "two"; it needs a whole number, such as 16',
            id="text-for-a-number",
        ),
        pytest.param(
            {"workers": {"replicas": "2"}},
            'workers.replicas: found the text "2"; it needs a whole number. '
            "Write 2 without quotes, and with --set in place of --set-string",
            id="number-in-quotes",
        ),
        pytest.param(
            {"workers": {"replicas": "9" * 20}},
            f'workers.replicas: found the text "{"9" * 20}"; it needs a whole number. '
            "The number is too large; write a smaller number",
            id="number-that-no-integer-holds",
        ),
        pytest.param(
            _values(trainer={"rate": "0.1"}),
            'trainer.rate: found the text "0.1"; it needs a number. '
            "Write 0.1 without quotes, or as --set-json trainer.rate=0.1, because --set turns it into text",
            id="number-that-set-made-text-of",
        ),
        pytest.param(
            _values(trainer={"rate": "fast"}), 'trainer.rate: found the text "fast"; it needs a number', id="word"
        ),
        pytest.param(
            _values(trainer={"rate": "ü" * 90}),
            f'trainer.rate: found the text "{"ü" * 76}...; it needs a number',
            id="long-text-is-cut",
        ),
        pytest.param(
            {"workers": {"replicas": 1.5}},
            "workers.replicas: found 1.5; it needs a whole number, such as 16",
            id="fraction",
        ),
        pytest.param(
            _values(trainer={"shuffle": "maybe"}),
            'trainer.shuffle: found the text "maybe"; it needs true or false',
            id="text-for-a-switch",
        ),
        pytest.param({"workers": 3}, "workers: found 3; it needs a mapping of keys", id="number-for-a-section"),
        pytest.param(_workers(gpus=True), "workers.gpus: found true; it needs a whole number or null", id="switch"),
        pytest.param(
            _workers(tolerations=["x"]),
            'workers.tolerations[0]: found the text "x"; it needs a mapping of keys',
            id="list-entry",
        ),
        pytest.param({"workers": {"replicas": 0}}, "workers.replicas: 0 is too small; use 1 or more", id="too-small"),
        pytest.param(
            {"workers": {"replicas": 1001}}, "workers.replicas: 1001 is too large; use 1000 or less", id="too-large"
        ),
        pytest.param(_values(trainer={"rate": 0}), "trainer.rate: 0 is too small; use more than 0", id="not-above"),
        pytest.param(_values(trainer={"rate": 1}), "trainer.rate: 1 is too large; use less than 1", id="not-below"),
        pytest.param(
            _values(framework="tensorflo"),
            'framework: "tensorflo" is not known; did you mean tensorflow?',
            id="misspelt-word",
        ),
        pytest.param(
            _values(framework="TENSORFLOW"),
            'framework: "TENSORFLOW" is not known; did you mean tensorflow?',
            id="word-in-capitals",
        ),
        pytest.param(
            _values(framework="x"), 'framework: "x" is not known; use tensorflow, pytorch or mxnet', id="unknown-word"
        ),
        pytest.param(_values(source="x"), 'source: "x" is not known; use s3 or null', id="unknown-word-or-null"),
        pytest.param(
            _values(s3={"endpoint": "minio"}),
            's3.endpoint: "minio" does not have the right form. URL of the S3 server. Write it as "http://minio:9000".',
            id="form",
        ),
        pytest.param(
            _values(podLabels={"a b": "c"}), 'podLabels: "a b" is not an allowed name here; correct it', id="name"
        ),
    ],
)
def test_each_mistake_names_path_finding_and_next_step(chart: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValuesError) as refused:
        check(values, chart)

    assert list(refused.value.messages) == [message]


def test_all_mistakes_are_named_at_once(chart: Path) -> None:
    with pytest.raises(ValuesError) as refused:
        check({"workers": {"replicas": 0, "gpu": 1}, "framework": "x"}, chart)

    assert [message.partition(":")[0] for message in refused.value.messages] == [
        "framework",
        "workers.gpu",
        "workers.replicas",
    ]


def test_chart_without_a_schema_checks_nothing(tmp_path: Path) -> None:
    check({"any": "thing"}, tmp_path)  # This must not raise.


def _patterns(entry: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path of each of distrain's own values that has a pattern.

    Also yield its schema entry, merged with its $ref.
    """
    known = build.resolved(entry, SOURCE["definitions"])
    if "pattern" in known:
        yield path, known
    for name, inner in known.get("properties", {}).items():
        if not entry.get("$ref", "").rpartition("/")[2][:1].isupper() or "examples" in inner:
            yield from _patterns(inner, f"{path}.{name}".removeprefix("."))


@pytest.mark.parametrize(("path", "entry"), [pytest.param(*one, id=one[0]) for one in _patterns(SOURCE, "")])
def test_refusal_of_a_form_says_how_to_write_it(path: str, entry: dict[str, Any]) -> None:
    values = _defaults()
    *parents, last = path.split(".")
    inner = values
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = "! @:\n"

    with pytest.raises(ValuesError) as refused:
        check(values, CHART)

    assert re.search(rf"^{path}: .*Write it as .+", str(refused.value), re.MULTILINE)
    assert "examples" in entry


@pytest.mark.parametrize(
    ("value", "found", "words"),
    [
        ("workers.shm", "4GB", 'Size of /dev/shm in each worker; null is 1Gi, or the worker\'s memory limit if the '
         'limit is less. Write it as "8Gi".'),
        ("workers.memory", 16.5, 'it needs text or a whole number or null, such as "16Gi"'),
        ("launcher.memory", "1gi", 'Write it as "1Gi".'),
        ("workers.cpu", "2.5x", 'Write it as "500m".'),
        ("checkpoint.uri", "gs://b", "Write it as "),
        ("data.uri", "s3:/digits", 'Write it as "s3://digits/idx", or leave it empty.'),
        ("data.uri", "s4://digits", 'Write it as "s3://digits/idx", or leave it empty.'),
        ("data.uri", "data/digits", 'Write it as "/data/digits", or leave it empty.'),
        ("data.uri", "synthetic", 'empty is synthetic (random) data. '
         'Write it as "/data/digits", or leave it empty.'),
        ("workers.nodeSelector", {"a b": "c"}, 'is not an allowed name here; use one such as "team"'),
        ("workers.nodeSelector", {"a": "b c"}, 'workers.nodeSelector.a: "b c" does not have the right form. '
         'Write it as "vision".'),
        ("image.repository", "Team/App", 'Write it as "registry.example.com:5000/team/tensorflow", or leave it empty.'),
        ("image.repository", "team/app/", 'Write it as "registry'),
        ("image.repository", "team/app:1.0", "a tag; --set image.repository=team/app,image.tag=1.0"),
        (
            "image.repository",
            "host:5000/app:1.0@sha256:0a",
            "a tag and a digest; --set image.repository=host:5000/app,image.tag=1.0,image.digest=sha256:0a",
        ),
        ("image.repository", "Team/App:1.0", 'Write it as "registry'),
        ("image.repository", "a//b", 'Write it as "registry'),
        ("launcher.env", "a", 'it needs a list or null, such as [{"name": "NCCL_DEBUG", "value": "INFO"}]'),
        ("launcher.runtimeClassName", "A_b", 'does not have the right form. RuntimeClass of these pods. Write it as '
         '"nvidia".'),
        ("network.subnets", 7, 'found 7; it needs a list or null, such as ["10.0.0.0/16"]'),
        ("network.subnets", ["fd00::/8"], 'network.subnets[0]: "fd00::/8" does not have the right form. Write it as'),
        ("s3.addressingStyle", "host", '"host" is not known; use path, virtual or null'),
        ("s3.secretName", "Bad_Name", 's3.secretName: "Bad_Name" does not have the right form'),
        ("trainer.install", [""], 'trainer.install[0]: "" does not have the right form. A package name, with or '
         'without a version; flags of pip are refused. Write it as "boto3==1.42.0".'),
        ("trainer.install", ["--pre"], 'flags of pip are refused. Write it as "boto3'),
    ],
)  # fmt: skip
def test_common_slip_is_answered_with_the_next_step(value: str, found: object, words: str) -> None:
    group, key = value.split(".")
    values = _defaults()
    values[group][key] = found

    with pytest.raises(ValuesError, match=re.escape(words)):
        check(values, CHART)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"env": [{"name": ""}]}, 'env[0].name: "" is too short; it needs 1 or more characters'),
        ({"nameOverride": "x" * 60}, "is too long; it may have at most 53 characters"),
        ({"workers": {"tolerations": [{}]}}, "workers.tolerations[0]: {} has too few keys; give it 1 or more"),
        ({"env": [{"name": "A", "value": "a", "valueFrom": {}}]}, "has too many keys; keep at most 2 of them"),
        (
            {"rbac": {"kinds": ["MPIJob", "MPIJob"]}},
            'rbac.kinds: ["MPIJob", "MPIJob"] contains the same entry twice; remove one',
        ),
    ],
    ids=["short", "long", "few-keys", "many-keys", "twice"],
)
def test_value_of_a_wrong_size_is_answered_with_the_next_step(values: dict[str, Any], words: str) -> None:
    defaults = _defaults()
    for group, value in values.items():
        defaults[group] = {**defaults[group], **value} if isinstance(value, dict) else value

    with pytest.raises(ValuesError, match=re.escape(words)):
        check(defaults, CHART)


def test_every_form_of_a_value_of_several_types_is_named() -> None:
    values = _defaults()

    with pytest.raises(ValuesError, match=re.escape('Write it as 1001 or "cluster".')):
        check({**values, "runAsUser": "abc"}, CHART)


def test_unknown_key_is_one_mistake_also_where_it_is_one_key_too_many() -> None:
    defaults = _defaults()

    with pytest.raises(ValuesError) as refused:
        check({**defaults, "env": [{"name": "HF_TOKEN", "value": "x", "foo": 1}]}, CHART)

    assert refused.value.messages == ("env[0].foo: there is no such value; allowed here: name, value, valueFrom",)


def test_unknown_section_does_not_list_all_sections_of_the_chart() -> None:
    with pytest.raises(ValuesError) as refused:
        check({**_defaults(), "zzz": 1}, CHART)

    assert refused.value.messages == ("zzz: there is no such value; values.yaml of the chart lists all values",)
