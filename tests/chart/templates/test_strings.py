"""Test that strings in values stay strings in the rendered objects, even if they look like numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.documents import SERVED
from tests.chart.kinds import KINDS, MPI, every_kind
from tests.chart.many import Rendering, Request, render_many
from tests.chart.mutations import resolved
from tests.chart.rendering import Yaml
from tests.chart.values.schema_entries import LEAVES

ORDINARY = "ordinary"
WORDS = ("on", "123", "1e3", "null", "y", "true", "0x1f", "~")
NAME = "[a-z0-9]+"
RELEASE = "[a-z][a-z0-9]*"


class Loader(yaml.CSafeLoader):
    """Reads an unquoted YAML value as a boolean or number if Go's YAML reader or PyYAML does.

    Go's YAML reader converts y and n to booleans and 1e3 to a number. PyYAML does not.
    """

    bool_values = {**yaml.CSafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012 - as in PyYAML


Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)

# The maps and lists in these values contain WORD, both as a key and as a value. A test replaces WORD by the word that
# it tries. WITH_NAMES is for all kinds, WITH_MPI for kinds with MPI, and WITH_TEXT for words that are not valid names.
WITH_NAMES = """
workers:
  nodeSelector: {WORD: WORD}
  tolerations: [{key: WORD, operator: Equal, value: WORD}]
  sidecars: [{name: WORD, image: WORD, env: [{name: A, value: WORD}]}]
  podSpec: {runtimeClassName: WORD, initContainers: [{name: init, image: WORD, command: [WORD]}]}
image: {pullSecrets: [WORD]}
env: [{name: A, value: WORD}, {name: B, valueFrom: {secretKeyRef: {name: WORD, key: WORD}}}]
volumes: [{name: WORD, persistentVolumeClaim: {claimName: WORD}}]
volumeMounts: [{name: WORD, mountPath: /data}]
podLabels: {WORD: WORD}
podAnnotations: {WORD: WORD}
trainer: {extraArgs: [WORD]}
monitoring: {labels: {WORD: WORD}}
global: {imageRegistry: WORD, imagePullSecrets: [WORD, {name: other-WORD}]}
"""
WITH_MPI = "mpi: {mca: {WORD: WORD}, flags: [WORD]}"
WITH_TEXT = "{env: [{name: A, value: WORD}], podAnnotations: {a: WORD}, command: [WORD], trainer: {extraArgs: [WORD]}}"
FEATURES = """
preflight: {enabled: true}
monitoring: {podMonitor: true}
workers: {topology: {policy: spread}}
"""


def takes(path: str, word: str) -> bool:
    """Tell whether the value at this path may be any text, in particular this word."""
    entry = resolved(LEAVES[path])
    if "string" not in entry["type"] or "enum" in entry:
        return False
    return all(re.search(entry.get("pattern", ""), text) for text in (ORDINARY, word))


def schedulers(kind: str) -> list[str]:
    """Return the gang schedulers to test with this kind of job.

    The gang scheduler scheduler-plugins is left out, because it has no queues.
    """
    if kind in ("mpijob-v1alpha2", "mxjob-v1beta1"):
        return ["none"]
    return ["volcano"] if kind in ("plain", "mpijob-v1") else ["volcano", "kueue"]


def paths(kind: str, scheduler: str, word: str) -> list[str]:
    """Return the paths of the values of this kind of job that accept any text."""
    refused = {"none": ["gang."], "volcano": [], "kueue": ["gang.schedulerName"]}[scheduler]
    without = (*refused, *([] if kind == "plain" else ["ssh."]))
    return [path for path in LEAVES if takes(path, word) and not path.startswith(without)]


def merged(*parts: Yaml) -> Yaml:
    result: dict[str, Any] = {}
    for key, value in itertools.chain.from_iterable(part.items() for part in parts):
        result[key] = merged(result[key], value) if isinstance(value, dict) and key in result else value
    return result


def nested(path: str, value: Any) -> Yaml:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def with_word(text: str, word: str) -> Yaml:
    return yaml.safe_load(text.replace("WORD", f'"{word}"').replace('other-"', '"other-'))


def form(kind: str, scheduler: str) -> Yaml:
    """Return the values that select this form of a job and all optional parts."""
    chosen = (*KINDS[kind], f"gang.scheduler={scheduler}", *(("gang.queue=team",) if scheduler == "kueue" else ()))
    pairs = (assignment.split("=") for assignment in chosen)
    return merged(yaml.safe_load(FEATURES), *(nested(path, False if text == "false" else text) for path, text in pairs))


def everywhere(kind: str, scheduler: str, odd: str, word: str) -> Yaml:
    """Return values that contain `word` at every place that accepts the word `odd`."""
    maps = WITH_TEXT if odd == "~" else WITH_NAMES
    more = with_word(WITH_MPI, word) if kind in MPI and odd != "~" else {}
    leaves = (nested(path, word) for path in paths(kind, scheduler, odd))
    return merged(form(kind, scheduler), with_word(maps, word), more, *leaves)


def request(values: Yaml, odd: str, word: str) -> Request:
    release = word if re.fullmatch(RELEASE, odd) else "run1"
    return Request(word, values, release, word if re.fullmatch(NAME, odd) else "team", tuple(SERVED))


def types(item: Yaml, word: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and type of each scalar in a document."""
    if isinstance(item, dict):
        for key, value in item.items():
            yield from types(value, word, f"{path}/{'WORD' if key == word else repr(key)}")
    elif isinstance(item, list):
        for index, value in enumerate(item):
            yield from types(value, word, f"{path}[{index}]")
    else:
        yield path, type(item).__name__


def found(rendering: Rendering, word: str) -> set[tuple[str, str]]:
    if rendering.error:
        return {("", rendering.error)}
    parts = (part for part in re.split(r"(?m)^---\n", rendering.manifest) if "#!/usr/bin/env python3" not in part)
    objects = [one for one in yaml.load_all("---\n".join(parts), Loader) if one]
    return set(types({f"{one['kind']} {at}": one for at, one in enumerate(objects)}, word))


def differences(asked: list[tuple[Request, Request]]) -> list[str]:
    """Return the paths of scalars whose rendered type changes when an odd word replaces the ordinary word."""
    answers = list(render_many(itertools.chain.from_iterable(asked)))
    lines = []
    for (ordinary, odd), usual, answer in zip(asked, answers[::2], answers[1::2], strict=True):
        for helm in usual:
            other = found(usual[helm], ordinary.name) ^ found(answer[helm], odd.name)
            lines += [f"{helm}: {odd.name}: {path}: {kind}" for path, kind in sorted(other)]
    return lines


def pair(kind: str, scheduler: str, odd: str) -> tuple[Request, Request]:
    ordinary, other = (request(everywhere(kind, scheduler, odd, word), odd, word) for word in (ORDINARY, odd))
    return ordinary, other


@every_kind
def test_strings_stay_strings(kind: str) -> None:
    # With FULL=1, the test tries all words with every kind.
    words = WORDS if kind == "plain" else ("1e3",)

    assert differences([pair(kind, scheduler, odd) for scheduler in schedulers(kind) for odd in words]) == []


def test_names_made_of_the_release_and_its_namespace_stay_strings() -> None:
    values = form("plain", "volcano")

    asked = [(request(values, odd, ORDINARY), request(values, odd, odd)) for odd in WORDS if odd != "~"]

    assert differences(asked) == []


def test_free_text_of_every_kind_is_met() -> None:
    met = {path for odd in WORDS for kind in KINDS for one in schedulers(kind) for path in paths(kind, one, odd)}

    assert met == {path for path in LEAVES if takes(path, "on")}
    assert {"gang.queue", "ssh.secretName", "fullnameOverride", "workers.topology.key"} <= met


def test_path_that_looks_like_a_map_stays_a_path() -> None:
    values = merged(form("mpijob-v2beta1", "none"), {"monitoring": {"path": "/a: b # c"}})

    for rendering in next(render_many([request(values, "-", "-")])).values():
        assert rendering.error == ""
        monitors = [one for one in yaml.load_all(rendering.manifest, Loader) if one and one["kind"] == "PodMonitor"]
        assert [one["spec"]["podMetricsEndpoints"][0]["path"] for one in monitors] == ["/a: b # c"]


@pytest.mark.full
@every_kind
def test_each_string_alone_stays_a_string(kind: str) -> None:
    asked = []
    for scheduler, odd in itertools.product(schedulers(kind), WORDS):
        asked.append(pair(kind, scheduler, odd))
        base = form(kind, scheduler)
        for path in paths(kind, scheduler, odd):
            one, other = (request(merged(base, nested(path, word)), odd, word) for word in (ORDINARY, odd))
            asked.append((one, other))

    assert differences(asked) == []
