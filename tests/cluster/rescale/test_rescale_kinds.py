"""Test rescaling jobs that mpi-operator does not manage: the job continues, or a new job resumes the run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.runs_of_kinds import KINDS, assert_live, install, log, uids, wait_for_ranks
from tests.cluster.testbed import Namespace
from tests.cluster.training import RESUMED, wait_for_checkpoint

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
# In a Plain job's pods, a kubelet with default settings updates the hostfile within 90 s.
SECONDS = 300
FULL = pytest.mark.full
# The number of samples in a progress line.
SAMPLES = re.compile(r'^(?:.*: ?)?distrain-progress: .*"samples": (\d+)', re.M)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        pytest.param("elastic", (3,), id="elastic"),
        pytest.param("elastic", (3, 1), id="elastic, and back", marks=FULL),
        pytest.param("plain", (3, 1), id="plain", marks=FULL),
    ],
)
def test_live_job_goes_on_at_each_new_size_and_loses_no_step(
    namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None, name: str, sizes: tuple[int, ...]
) -> None:
    install(namespace, helm4, KINDS[name], on_s3)
    wait_for_checkpoint(namespace, seconds=SECONDS)

    assert_live(namespace, helm4, KINDS[name], on_s3, sizes, seconds=SECONDS)


# These kinds run only in the full matrix, because upgrade/test_replaced.py tests the same with an MPIJob.
@FULL
@pytest.mark.parametrize("name", ["mxjob", "tfjob", "master"])
def test_job_of_fixed_size_saves_and_is_replaced_by_one_that_loses_no_step(
    namespace: Namespace, helm4: Path, on_s3: list[str], all_images: None, name: str
) -> None:
    kind = KINDS[name]
    # Within this time the run saves no checkpoint, except when it is stopped.
    rare = {"checkpoint.every": 3600}
    install(namespace, helm4, kind, on_s3, **rare)
    namespace.wait_until("steps", lambda: len(SAMPLES.findall(log(namespace, kind))) > 5, seconds=SECONDS, pause=1)
    made, jobs = int(SAMPLES.findall(log(namespace, kind))[-1]), uids(namespace, kind)

    install(namespace, helm4, kind, on_s3, **rare, **{"workers.replicas": 3})

    wait_for_ranks(namespace, kind, 3, seconds=SECONDS)
    (resumed,) = RESUMED.findall(log(namespace, kind))
    assert int(resumed[1]) >= made
    assert len(uids(namespace, kind)) == 1
    assert uids(namespace, kind) != jobs
