"""Replace each text of a source by a text with line breaks, quotes and semicolons.

Test that no part of this text becomes a value or command of its own.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.imports.identify import find_job
from distrain.imports.ledger import Ledger, leaves, text
from distrain.imports.read import finished, read
from distrain.imports.values_file import secret_command, written
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA
from tests.plugin.imports.drafts import FILE, accepting

FOLDER = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("examples", "jobset_examples", "other_formats/files")
    for path in (FOLDER / folder).iterdir()
    if path.suffix in (".yaml", ".yml", ".json")
)
HOSTILE = "x'\"; touch pwned\ninjected: true\u2028injected: true\x85injected: true"
# Matches a word of a command without characters that are special to a shell.
HARMLESS = re.compile(r"[\w./=:-]+|\\")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_text_of_a_source_is_quoted_or_refused(path: Path) -> None:
    documents = [*yaml.load_all(path.read_text(), yaml.CSafeLoader)]

    taken = [each for each in _planted(documents) if _is_refused_or_quoted(*each)]

    assert taken


def _planted(documents: list[Any]) -> Iterator[tuple[str, str]]:
    """For each text of the source, yield its path and a copy of the source.

    In the copy, the hostile text is at this path.
    """
    for path in leaves(documents):
        if isinstance(Ledger(documents).get(path), str):
            changed = copy.deepcopy(documents)
            Ledger(changed).get(path[:-1])[path[-1]] = HOSTILE
            yield text(path), yaml_writer.dump(*changed)


def _is_refused_or_quoted(place: str, source: str) -> bool:
    try:
        draft = read(find_job(source, FILE), FILE)
    except ValuesError:
        return False
    finished(draft, accepting, FILE)
    file = written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA)
    assert "injected" not in yaml.load(file, yaml.CSafeLoader), place
    commands = [*secret_command(draft), *re.findall(r"^#   (.*)$", file.partition("# Beside")[0], re.MULTILINE)]
    assert [word for line in commands for word in line.split() if not HARMLESS.fullmatch(word)] == [], place
    return True


@pytest.mark.parametrize(
    "source",
    [
        "kind: PyTorchJob\napiVersion: kubeflow.org/v1\nmetadata: {namespace: '%s'}\n"
        "spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{image: a/b:1, command: [a]}]}}}}}",
        "arena submit mpijob --image=a/b:1 --namespace '%s' 'python a.py'",
    ],
)
@pytest.mark.parametrize("name", ["x; touch pwned", "x\\ninjected", "Team", "a.b", "-a", "x" * 64])
def test_namespace_that_no_cluster_has_is_refused(source: str, name: str) -> None:
    with pytest.raises(ValuesError, match=r"namespace: is .*, which is not a valid name; use at most 63"):
        read(find_job(source % name, FILE), FILE)
