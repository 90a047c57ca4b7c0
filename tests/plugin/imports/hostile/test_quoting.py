"""Replace each text of a source by a random text, and test that no message or comment quotes the random text."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.imports.credentials import hidden
from distrain.imports.identify import find_job
from distrain.imports.jobs.run_policy import MPI_FIELDS
from distrain.imports.ledger import Ledger, leaves
from distrain.imports.read import finished, read
from distrain.imports.secrets import quoting
from distrain.imports.values_file import written
from distrain.redact import HIDDEN
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA
from tests.plugin.imports.drafts import FILE, accepting

FOLDER = Path(__file__).parents[1]
FILES = sorted(
    path for folder in ("examples", "jobset_examples", "other_formats/files") for path in (FOLDER / folder).iterdir()
)
MARK = "Zq7h9unterZq7hunter2"
# Matches a comment in the values file.
COMMENT = re.compile(r"(?:^| )# .*", re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_text_of_a_source_is_quoted_that_may_be_a_credential(path: Path) -> None:
    planted = [*(_planted_documents if path.suffix in (".yaml", ".yml", ".json") else _planted_words)(path.read_text())]

    told = [_told(source) for source in planted]

    assert len(told) > 10
    assert [words for words in told if re.search(MARK, words, re.IGNORECASE)] == []


def _planted_documents(text: str) -> Iterator[str]:
    """Yield copies of the source. In each copy, the random text replaces one value or is appended to it."""
    documents = [*yaml.load_all(text, yaml.CSafeLoader)]
    for path in leaves(documents):
        for before in ("", f"{Ledger(documents).get(path)} "):
            changed: Any = copy.deepcopy(documents)
            Ledger(changed).get(path[:-1])[path[-1]] = f"{before}{MARK}"
            yield yaml_writer.dump(*changed)


def _planted_words(text: str) -> Iterator[str]:
    """Yield copies of the source. In each copy, the random text replaces one word or follows it."""
    for word in re.finditer(r"[^\s=,:'\"]+", text):
        yield f"{text[: word.start()]}{MARK}{text[word.end() :]}"
        yield f"{text[: word.end()]} {MARK}{text[word.end() :]}"


def _told(source: str) -> str:
    """Return all messages about a source, and the comments of its values file."""
    try:
        draft = read(find_job(source, FILE), FILE)
        finished(draft, accepting, FILE)
    except ValuesError as refusal:
        return "\n".join(refusal.messages)
    comments = COMMENT.findall(written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA))
    return "\n".join([*comments, *(f"{place}: {why}" for place, why in draft.lost), *draft.notes])


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("mc alias set s3 https://a.b KEY SECRET", "mc alias …"),
        ("/opt/bin/wandb login KEY", "wandb login …"),
        ("sshpass -p SECRET ssh a", "sshpass …"),
        ("kinit hunter", "kinit …"),
        ("date", "date"),
        ("module load", "module load"),
        ("TOKEN=SECRET tool --x", "tool …"),
        ("TOKEN=SECRET A+=b", "TOKEN=… A=…"),
        ("export TOKEN=SECRET", "export TOKEN=…"),
        ("export TOKEN SECRET", "export …"),
        ("aZq7h9unter2Zq7 x", "… …"),
        ("", "…"),
    ],
)
def test_command_is_quoted_by_its_program(words: str, shown: str) -> None:
    assert quoting.line(words) == shown


@pytest.mark.parametrize("found", ["2-4", 8, 1.5, "16Gi", "1-12:00:00", "2h22m", "gpu:a100:8", "a/b:24.01-py3", None])
def test_plain_value_is_quoted(found: Any) -> None:
    assert quoting.value(found) == str(found)


@pytest.mark.parametrize("found", ["Zq7h9unter2", "me:pw@host", "hf_abcdefghijk", "x" * 101, 'a"b', "correct;horse"])
def test_other_value_is_hidden(found: str) -> None:
    assert quoting.value(found) == quoting.literal(found) == HIDDEN


def test_options_are_quoted_by_their_names() -> None:
    assert quoting.options("--comment='x y -pSECRET -N2 z --mem=4G") == "--comment -p -N --mem …"


def test_reason_of_a_left_out_field_of_mpi_is_shown_as_a_whole() -> None:
    assert [*map(hidden, MPI_FIELDS.values())] == [*MPI_FIELDS.values()]
