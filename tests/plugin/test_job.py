"""From a rendered manifest to pods by role."""

from __future__ import annotations

import pytest
import yaml

from distrain.errors import HelmError, ValuesError
from distrain.job import from_manifest
from tests.plugin.objects import mpi_job


def test_pods_are_found_by_role_among_other_resources() -> None:
    manifest = yaml.safe_dump_all([{"kind": "ConfigMap", "data": {"kind": "MPIJob"}}, mpi_job(workers=3, gpus=8), None])

    job = from_manifest(manifest)

    assert (job.name, job.api_version) == ("run1-1234abcd", "kubeflow.org/v2beta1")
    assert (job.launcher.name, job.launcher.replicas) == ("launcher", 1)
    assert job.launcher.request == {"cpu": 100, "memory": 512 * 2**20, "pods": 1}
    assert (job.workers.name, job.workers.replicas) == ("worker", 3)
    assert job.workers.request == {"nvidia.com/gpu": 8, "pods": 1}


def test_null_in_a_manifest_is_like_nothing() -> None:
    job = mpi_job(worker={"nodeSelector": None, "tolerations": None, "affinity": None})

    assert from_manifest(yaml.safe_dump(job)).workers.replicas == 2


@pytest.mark.parametrize("count", [0, 2])
def test_chart_must_render_one_job(count: int) -> None:
    with pytest.raises(HelmError, match=rf"--chart: the chart renders {count} MPIJobs; distrain needs exactly one"):
        from_manifest(yaml.safe_dump_all([mpi_job()] * count))


def test_job_without_workers_is_refused() -> None:
    job = mpi_job()
    del job["spec"]["mpiReplicaSpecs"]["Worker"]

    with pytest.raises(HelmError, match=r"the MPIJob has roles \['launcher'\]"):
        from_manifest(yaml.safe_dump(job))


def test_amount_that_kubernetes_would_refuse_names_the_role() -> None:
    job = mpi_job(worker={"containers": [{"name": "worker", "resources": {"requests": {"memory": "4GB"}}}]})

    with pytest.raises(ValuesError, match=r"worker: resources: .*4GB?.*; write amounts such as 2, 500m or 4Gi"):
        from_manifest(yaml.safe_dump(job))
