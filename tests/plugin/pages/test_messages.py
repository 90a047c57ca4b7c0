"""Test that docs/messages.md has every message, and that docs/troubleshooting.md links to every group of messages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs import messages
from docs.message_texts import UNKNOWN, Modules, Scope, all_texts
from lab.paths import REPOSITORY
from tests.plugin.pages.anchors import anchor

TROUBLESHOOTING = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
CAUSES = (REPOSITORY / "docs" / "causes.md").read_text(encoding="utf-8")
# The messages of the errors that these functions raise come entirely from a library, Helm, the API server or another
# error.
PASSED_ON = {
    "distrain.changes.owned:_own_values",
    "distrain.changes.plan_offline:_before",
    "distrain.commands.derive:_derived",
    "distrain.commands.derive:run",
    "distrain.commands.import_:_imported",
    "distrain.commands.init:first_served",
    "distrain.commands.logs:_tell_unread",
    "distrain.errors:unwritten",
    "distrain.helm.inputs:source",
    "distrain.helm.program:failure",
    "distrain.helm.releases:_unless_missing",
    "distrain.helm.render:_unreadable",
    "distrain.imports.accepted:_remove",
    "distrain.imports.accepted:drop_refused",
    "distrain.imports.draft:refuse",
    "distrain.imports.horovod_chart:read_horovod_chart",
    "distrain.imports.identify:find_job",
    "distrain.imports.ksonnet:_of_block",
    "distrain.imports.read:_read_job",
    "distrain.imports.translation:refuse",
    "distrain.logs.pods:look",
    "distrain.progress.wait:until_started",
    "distrain.release.ending:_delete",
    "distrain.request.request:ask",
    "distrain.request.run_record:named",
    "distrain.status.read:read_runs",
    "distrain.workload.documents:each_of",
    "distrain.workload.documents:objects",
    "distrain_trainer.allreduce.__main__:error",
    "distrain_trainer.checkpoint.lease:_read_head",
    "distrain_trainer.errors:end_rank",
    "distrain_trainer.storage.retry:_call",
    "distrain_trainer.storage.s3_errors:failed",
}


@pytest.fixture(scope="module")
def page() -> str:
    return messages.document()


@pytest.fixture(scope="module")
def lines() -> str:
    """Return the texts of all messages, one per line."""
    return "\n".join(text for *_, told in messages.groups() for text in told)


def test_page_is_what_the_code_says(page: str) -> None:
    assert messages.TARGET.read_text(encoding="utf-8") == page, "write it with `make docs`"


def test_every_error_has_words_on_the_page_or_passes_others_on() -> None:
    silent = set()
    for part in messages.PARTS:
        found = [site for site in messages.sites_of(part) if site.called.endswith("Error")]
        silent |= {site.place for site in found if not any(map(messages.has_words, site.texts))}

    assert silent == PASSED_ON


def test_every_refusal_of_an_imported_source_has_a_next_step() -> None:
    sites = [site for site in messages.sites_of(messages.PARTS[0]) if re.match(r"distrain\.imports\.", site.place)]
    errors = [text for site in sites if not site.called.startswith("console.") for text in site.texts]

    assert len(errors) > 50
    assert [text for text in errors if messages.has_words(text) and "; " not in text] == []


def test_every_sort_of_message_has_a_link_from_the_symptoms(page: str) -> None:
    titles = re.findall(r"^### (.*)$", page, flags=re.MULTILINE)
    links = re.findall(r"\(messages\.md#([\w-]+)\)", TROUBLESHOOTING)

    assert {anchor(title) for title in titles} - {*links} == set()
    assert {*links} - {anchor(title) for title in re.findall(r"^##+ (.*)$", page, flags=re.MULTILINE)} == set()


def quoted() -> list[str]:
    """Return the words of distrain's messages that are quoted in the tables of symptoms in docs/troubleshooting.md."""
    tables = re.findall(r"^\| the line says \|.*\n\|[-|]+\n((?:\|.*\n)+)", TROUBLESHOOTING, flags=re.MULTILINE)
    cells = [re.split(r"(?<!\\) \| ", row.strip("| "))[0] for table in tables for row in table.splitlines()]
    return [words for cell in cells for words in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("words", quoted())
def test_quoted_words_are_those_of_a_line(words: str, lines: str) -> None:
    pattern = ".*".join(re.escape(part) for part in words.split(UNKNOWN))

    assert re.search(pattern, lines) or re.search(pattern, CAUSES)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('"a: is b"', ["a: is b"]),
        ('f"{name}: is b"', [f"{UNKNOWN}: is b"]),
        ('f"{words}; mend it"', ["is a; mend it", "is b; mend it"]),
        ("told(3)", ["one", "two"]),
        ("[f'{x}: {NEXT}' for x in y]", [f"{UNKNOWN}: mend it"]),
        ("str(error)", [UNKNOWN]),
        ("f'a: {reason(error)}; mend it'", [f"a: {UNKNOWN}; mend it"]),
    ],
)
def test_texts_of_an_expression_are_found(tmp_path: Path, expression: str, expected: list[str]) -> None:
    (tmp_path / "m.py").write_text(
        "NEXT = 'mend it'\n"
        "def reason(error):\n    return 'a cause'\n"
        "def told(n):\n    if n:\n        return 'one'\n    yield 'two'\n"
        f"def work(x):\n    words = 'is a' if x else 'is b'\n    raise Error({expression})\n"
    )
    modules = Modules(tmp_path, [tmp_path / "m.py"])
    [work] = modules["m"].functions["work"]
    [call] = [node for node in ast.walk(work) if isinstance(node, ast.Raise)]
    assert isinstance(call.exc, ast.Call)

    assert all_texts(call.exc.args[0], Scope(modules, "m", work)) == expected


def test_chart_messages_are_those_of_its_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rule.tpl").write_text(r'{{- printf "distrain: a.b: %d is \"%s\"; mend it\n" 1 2 -}}')
    monkeypatch.setattr(messages, "TEMPLATES", tmp_path)

    assert messages.chart_messages() == [f'a.b: {UNKNOWN} is "{UNKNOWN}"; mend it']
