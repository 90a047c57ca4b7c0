"""Test random TrainJobs, JobSets and MPIJobs v1alpha1: no value is lost silently, no credential is printed."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.identify import Found, find_job
from distrain.imports.ledger import text
from distrain.imports.read import finished, read
from distrain.imports.values_file import written
from distrain.yaml import yaml_writer
from tests.plugin.imports.chart import DEFAULTS, SCHEMA, judge_for, rendered
from tests.plugin.imports.drafts import FILE, accepting
from tests.plugin.imports.random_jobs import Job, mutated, texts
from tests.plugin.imports.random_jobsets import SetMaker
from tests.plugin.imports.told import is_told

SEEDS = st.integers(0, 2**32)
FORMS = st.sampled_from(["trainjob", "jobset", "units"])


def _draft(job: Job) -> Draft:
    draft = read(Found(job), FILE)
    finished(draft, accepting, FILE)
    return draft


def _file(draft: Draft) -> str:
    return written(draft, FILE, "run.yaml", DEFAULTS, SCHEMA)


@settings(max_examples=60, deadline=None)
@given(SEEDS, FORMS)
def test_each_text_of_the_source_is_in_the_values_or_listed(seed: int, form: str) -> None:
    job = getattr(SetMaker(seed), form)()

    draft = _draft(copy.deepcopy(job))

    file = _file(draft)
    assert [text(path) for path, found in texts(job) if not is_told(path, found, draft, file)] == []


@settings(max_examples=60, deadline=None)
@given(SEEDS, FORMS)
def test_no_credential_is_in_the_file_or_in_a_message(seed: int, form: str) -> None:
    maker = SetMaker(seed)
    job = getattr(maker, form)()

    draft = _draft(job)

    told = [_file(draft), *draft.notes, *(f"{place}: {why}" for place, why in draft.lost)]
    assert [secret for secret in maker.secrets if any(secret in each for each in told)] == []


@settings(max_examples=100, deadline=None)
@given(SEEDS, FORMS, st.integers(1, 3))
def test_odd_job_is_read_or_refused_in_words_that_name_the_file(seed: int, form: str, times: int) -> None:
    job = getattr(SetMaker(seed), form)()
    for number in range(times):
        job = mutated(job, seed + number)
    runtime = job.pop("runtime", None)

    refusals = _refusals(yaml_writer.dump(job, *[runtime] * (runtime is not None)))

    assert all(message.startswith(FILE) and ": " in message for message in refusals)


def _refusals(source: str) -> Sequence[str]:
    """Import a file, and return why the import refuses it."""
    try:
        draft = read(find_job(source, FILE), FILE)
        finished(draft, accepting, FILE)
    except ValuesError as refusal:
        return refusal.messages
    assert _file(draft).startswith("# Imported by")
    return ()


@settings(max_examples=15, deadline=None)
@given(SEEDS, FORMS)
def test_values_render_whatever_the_job_says(seed: int, form: str) -> None:
    draft = read(Found(getattr(SetMaker(seed), form)()), FILE)

    finished(draft, judge_for(draft.kind, draft.version), FILE)

    assert not rendered(draft.values(), draft.kind, draft.version).get("error")
