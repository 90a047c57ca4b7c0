"""Read a source that is not a Kubernetes job, as the `import` command does."""

from __future__ import annotations

from pathlib import Path

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.read import finished, read
from distrain.imports.values_file import written
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, judge_for
from tests.plugin.imports.drafts import FILE, accepting

FOLDER = Path(__file__).with_name("files")


def draft_of(text: str, *, is_judged: bool = True) -> Draft:
    draft = read(find_job(text, FILE), FILE)
    finished(draft, judge_for("", "") if is_judged else accepting, FILE)
    return draft


def refusal_of(text: str) -> str:
    """Return why the import refuses a source.

    Return an empty text if the import accepts the source. In this case, assert that it can write the values file.
    """
    try:
        draft = draft_of(text, is_judged=False)
    except ValuesError as refusal:
        return refusal.messages[0]
    assert written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA).startswith("# Imported")
    return ""
