"""Test how an MPIJob v1alpha1 with its processing units becomes workers and a launcher."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.errors import ValuesError
from tests.plugin.imports.drafts import MPIRUN, Job, drafted

GPU = "nvidia.com/gpu"


def _job(container: Job | None = None, **spec: Any) -> Job:
    fields = {"name": "mpi", "image": "a/b:1", "command": MPIRUN, **(container or {})}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "MPIJob",
        "metadata": {"name": "job"},
        "spec": {**spec, "template": {"spec": {"containers": [fields]}}},
    }


@pytest.mark.parametrize(
    ("spec", "workers"),
    [
        pytest.param({"gpus": 16, "gpusPerNode": 8}, {"replicas": 2, "gpus": 8}, id="gpus"),
        pytest.param({"gpus": 3, "gpusPerNode": 8}, {"replicas": 1, "gpus": 3}, id="part-of-a-node"),
        pytest.param({"processingUnits": 8, "processingUnitsPerNode": 4}, {"replicas": 2, "gpus": 4}, id="units"),
        pytest.param({"gpus": 4}, {"replicas": 4, "gpus": 1}, id="the-operators-flag"),
        pytest.param({"replicas": 3}, {"replicas": 3, "gpus": 0}, id="replicas"),
    ],
)
def test_units_become_workers_and_their_gpus(spec: Job, workers: Job) -> None:
    draft = drafted(_job(**spec))

    assert draft.values()["workers"] == workers
    assert draft.values()["command"] == ["python", "train.py"]
    assert draft.lost == []
    assert any("--gpus-per-node" in note for note in draft.notes) == (spec == {"gpus": 4})


def test_replicas_have_the_gpus_of_the_template_and_the_launcher_none() -> None:
    draft = drafted(_job({"resources": {"limits": {GPU: 4, "memory": "8Gi"}}}, replicas=2))

    assert draft.values()["workers"] == {"replicas": 2, "gpus": 4, "memory": "8Gi"}
    assert "launcher" not in draft.values()
    assert draft.lost == []


def test_cpus_as_units_are_a_limit_and_the_ranks_are_listed() -> None:
    draft = drafted(_job(processingUnits=8, processingUnitsPerNode=4, processingResourceType="cpu"))

    assert draft.values()["workers"]["cpu"] == 4
    [(place, why)] = draft.lost
    assert place == "spec.processingUnitsPerNode"
    assert why.startswith("4 ranks per worker; distrain starts 1")


def test_unknown_resource_type_is_a_gpu_as_for_the_operator() -> None:
    draft = drafted(_job(processingUnits=2, processingUnitsPerNode=2, processingResourceType="amd.com/gpu"))

    assert draft.values()["workers"] == {"replicas": 1, "gpus": 2}
    assert any("the operator does not know amd.com/gpu" in note for note in draft.notes)


def test_slots_that_are_not_the_gpus_are_listed() -> None:
    draft = drafted(_job(gpus=4, gpusPerNode=4, slotsPerWorker=2))

    assert dict(draft.lost)["spec.slotsPerWorker"].startswith("2 ranks per worker; distrain starts 4")


def test_launcher_on_the_master_keeps_its_place() -> None:
    launcher = drafted(_job(gpus=1, launcherOnMaster=True)).values()["launcher"]

    assert launcher["tolerations"] == [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]
    assert "nodeAffinity" in launcher["affinity"]
    assert "launcher" not in drafted(_job(gpus=1, launcherOnMaster=False)).values()


def test_run_policy_in_the_spec_is_carried() -> None:
    draft = drafted(_job(gpus=1, backoffLimit=2, activeDeadlineSeconds=60, cleanPodPolicy="None"))

    assert draft.values()["job"] == {"maxRestarts": 2, "activeDeadlineSeconds": 60, "cleanPodPolicy": "None"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"gpus": 12, "gpusPerNode": 8}, "spec.gpus: is 12, but must be a multiple of spec.gpusPerNode, which is 8"),
        ({"processingUnits": 3, "processingUnitsPerNode": 2}, "spec.processingUnits: is 3, but must be a multiple of"),
        ({"gpus": 1, "replicas": 1}, "spec: has gpus, replicas, but may have only one"),
        ({}, "spec: has no gpus and no replicas; set exactly one of the fields gpus, processingUnits and replicas"),
        ({"gpus": 0}, "spec.gpus: is 0, but must be a whole number above 0"),
        ({"gpus": 4, "gpusPerNode": 0}, "spec.gpusPerNode: is 0, but must be a whole"),
        ({"replicas": True}, "spec.replicas: is True, but must be a whole"),
    ],
)
def test_units_that_make_no_workers_are_refused(spec: Job, words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        drafted(_job(**spec))

    assert refusal.value.messages[0].startswith(f"job.yaml: {words}")


def test_template_without_a_container_is_refused() -> None:
    job = _job(gpus=1)
    job["spec"]["template"]["spec"]["containers"] = []

    with pytest.raises(ValuesError, match=r"job\.yaml: spec\.template\.spec\.containers: has no container"):
        drafted(job)
