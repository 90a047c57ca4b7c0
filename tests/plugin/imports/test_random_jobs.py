"""Test random jobs: no value is lost silently, no credential is printed, and the chart renders the values."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from distrain.errors import ValuesError
from distrain.imports.accepted import Judge
from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.ledger import text
from distrain.imports.read import finished, read
from distrain.imports.values_file import written
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, judge_for, rendered
from tests.plugin.imports.drafts import FILE, Job, accepting, drafted
from tests.plugin.imports.random_jobs import Maker, mutated, texts
from tests.plugin.imports.told import is_told

SEEDS = st.integers(0, 2**32)


def _file(draft: Draft) -> str:
    return written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_each_text_of_the_source_is_in_the_values_or_listed(seed: int) -> None:
    job = Maker(seed).job()

    draft = drafted(job)

    file = _file(draft)
    assert [text(path) for path, found in texts(job) if not is_told(path, found, draft, file)] == []


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_credential_is_in_the_file_or_in_a_message(seed: int) -> None:
    maker = Maker(seed)
    job = maker.job()

    draft = drafted(job)

    told = [_file(draft), *draft.notes, *(f"{place}: {why}" for place, why in draft.lost)]
    assert [secret for secret in maker.secrets if any(secret in each for each in told)] == []


@settings(max_examples=100, deadline=None)
@example(seed=152196715, times=1)  # In this job, the name of a volume is a map.
@given(SEEDS, st.integers(1, 3))
def test_odd_job_is_read_or_refused_in_words_that_name_the_file(seed: int, times: int) -> None:
    job = Maker(seed).job()
    for number in range(times):
        job = mutated(job, seed + number)

    refusals = _refusals(job, accepting)

    assert all(message.startswith(FILE) and ": " in message for message in refusals)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.booleans())
def test_values_render_whatever_the_job_says(seed: int, is_odd: bool) -> None:
    job = Maker(seed).job()
    job = mutated(job, seed) if is_odd else job

    assert all(message.startswith(FILE) for message in _refusals(job))


def _refusals(job: Job, judge: Judge | None = None) -> Sequence[str]:
    """Import a job, and return why the import refuses it.

    If the import accepts the job, assert that the chart renders its values.
    """
    try:
        draft = read(find_job(yaml_writer.dump(job), FILE), FILE)
        finished(draft, judge or judge_for(draft.kind, draft.version), FILE)
    except ValuesError as refusal:
        return refusal.messages
    assert _file(draft).startswith("# Imported by")
    for version in () if judge else ("", draft.version):
        assert not rendered(draft.values(), draft.kind if version else "", version).get("error")
    return ()
