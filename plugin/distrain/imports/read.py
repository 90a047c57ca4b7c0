"""Convert a source in any format to values, remove credentials and refused values, and list what is left out."""

from __future__ import annotations

import re

from distrain.errors import ValuesError
from distrain.imports.accepted import Judge, drop_credentials, drop_doubled, drop_refused
from distrain.imports.arena import read_arena
from distrain.imports.draft import Draft
from distrain.imports.elsewhere import why_left_out
from distrain.imports.ffdl import read_ffdl
from distrain.imports.horovod_chart import read_horovod_chart
from distrain.imports.identify import (
    ARENA,
    FFDL,
    HOROVOD,
    JOB,
    JOBSET,
    KSONNET,
    MPIJOB,
    SLURM,
    TRAINJOB,
    Found,
    type_of,
)
from distrain.imports.jobs import forms
from distrain.imports.jobs.job_resource import read_job
from distrain.imports.jobsets.jobset import read_jobset
from distrain.imports.jobsets.trainjob import read_trainjob
from distrain.imports.ksonnet import read_ksonnet
from distrain.imports.launch.variables import note_starters, note_unset
from distrain.imports.mpijob_v1alpha1 import read_mpijob_v1alpha1
from distrain.imports.secrets import quoting
from distrain.imports.slurm.batch_script import read_slurm

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
READERS = {FFDL: read_ffdl, HOROVOD: read_horovod_chart, KSONNET: read_ksonnet, SLURM: read_slurm, ARENA: read_arena}
# The chart cannot create these kinds of jobs. For each kind, a function that reads such a job and translates it.
TRANSLATED = {TRAINJOB: read_trainjob, JOBSET: read_jobset, MPIJOB: read_mpijob_v1alpha1}


def read(found: Found, origin: str) -> Draft:
    """Convert a source to values of the chart; raise ValuesError if its fields have a wrong form."""
    draft = _read_job(found, origin) if found.format == JOB else READERS[found.format](found.job, origin)
    if draft.namespace and not NAMESPACE.fullmatch(draft.namespace):
        words = "use at most 63 lower case letters, digits and -"
        name = quoting.literal(draft.namespace)
        raise ValuesError(f"{origin}: namespace: is {name}, which is not a valid name; {words}")
    for name, becomes in found.others:
        draft.drop(name, becomes)
    return draft


def _read_job(found: Found, origin: str) -> Draft:
    if wrong := [*forms.mistakes(found.job)]:
        raise ValuesError(*(f"{origin}: {mistake}" for mistake in wrong))
    return TRANSLATED.get(type_of(found.job), read_job)(found.job, origin)


def finished(draft: Draft, judge: Judge, origin: str) -> None:
    """List each value of the source that no step has handled as left out, and remove values that the chart refuses."""
    for path in [*draft.ledger.unsettled()]:
        draft.lose(path, why_left_out(draft.ledger.place(path)))
    drop_doubled(draft)
    drop_credentials(draft)
    drop_refused(draft, judge, origin)
    note_unset(draft)
    note_starters(draft)
    draft.name_twins()
