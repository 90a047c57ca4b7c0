"""Test that if values cannot express a number or a policy of a job, the import refuses it, notes it or lists it."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from tests.plugin.imports.drafts import drafted, mpi_job, pods, pytorch_job


def _lost(draft: Draft) -> dict[str, str]:
    return dict(draft.lost)


def _noted(draft: Draft, *words: str) -> bool:
    return any(all(word in note for word in words) for note in draft.notes)


def test_master_of_another_size_or_program_is_noted() -> None:
    job = pytorch_job()
    for role, gpus in (("Master", 4), ("Worker", 8)):
        pods(job, role)["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    pods(job, "Master")["containers"][0]["args"] = ["--master"]

    draft = drafted(job)

    assert _noted(draft, "20 ranks become 24", "1 x 4 at spec.pytorchReplicaSpecs.Master", "2 x 8 at")
    assert _noted(draft, "args: spec.pytorchReplicaSpecs.Master", "differ; here all workers have that of")


@pytest.mark.parametrize("amount", ["2x", 0.5, "1500m"])
def test_number_of_gpus_that_is_not_whole_is_refused(amount: Any) -> None:
    with pytest.raises(ValuesError) as refusal:
        drafted(mpi_job(worker={"resources": {"limits": {"nvidia.com/gpu": amount}}}))

    place = "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits[nvidia.com/gpu]"
    words = f"job.yaml: {place}: is {amount}, but the GPUs of a worker must be a whole number; correct it"
    assert refusal.value.messages == (words,)


def test_request_of_gpus_other_than_the_limit_is_listed() -> None:
    draft = drafted(mpi_job(worker={"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 4}}}))

    assert draft.values()["workers"]["gpus"] == 2
    [(place, why)] = draft.lost
    assert place.endswith("resources.requests[nvidia.com/gpu]")
    assert "is not the limit, 2" in why


def test_last_of_two_variables_of_one_name_counts() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "b"}, {"name": "A", "value": "2"}]

    draft = drafted(mpi_job(worker={"env": env}))

    assert draft.values()["workers"]["env"] == env[1:]
    [(place, why)] = draft.lost
    assert place.endswith("containers[0].env[0]")
    assert why == "A is set again later, and the last counts"


def test_success_policy_of_a_tfjob_is_text_and_listed() -> None:
    specs = {"Worker": pytorch_job({"name": "tensorflow"})["spec"]["pytorchReplicaSpecs"]["Worker"]}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "job"}}

    draft = drafted({**job, "spec": {"successPolicy": "AllWorkers", "tfReplicaSpecs": specs}})

    assert "succeeds when its Chief has" in _lost(draft)["spec.successPolicy"]


def test_program_for_torchrun_under_mpirun_is_noted_for_its_variables() -> None:
    words = ["deepspeed", "--num_gpus", "1", "train.py"]

    draft = drafted(mpi_job({"command": words, "image": "deepspeed/deepspeed:v0.14.0"}))

    assert draft.values()["framework"] == "pytorch"
    assert _noted(draft, "deepspeed set RANK, WORLD_SIZE and MASTER_ADDR; mpirun starts the ranks here")


def test_folder_of_mpirun_stands_once_and_counts_before_that_of_the_container() -> None:
    words = ["mpirun", "--wdir", "/a", "python", "a.py"]

    same, other = (drafted(mpi_job({"command": words, "workingDir": folder})) for folder in ("/a", "/b"))

    assert [each.values()["mpi"]["flags"].count("--wdir") for each in (same, other)] == [1, 1]
    assert same.lost == []
    assert [place.rpartition(".")[2] for place, _ in other.lost] == ["workingDir"]


def test_option_is_listed_as_the_source_writes_it() -> None:
    draft = drafted(pytorch_job({"command": ["torchrun", "--local_ranks_filter=0", "a.py"]}))

    assert [place.rpartition(": ")[2] for place in _lost(draft)] == ["--local_ranks_filter 0"]


def test_restarts_of_torchrun_become_those_of_the_job_unless_it_has_some() -> None:
    command = {"command": ["torchrun", "--max-restarts", "7", "a.py"]}

    alone, both = drafted(pytorch_job(command)), drafted(pytorch_job(command, {"runPolicy": {"backoffLimit": 2}}))

    assert [each.values()["job"]["maxRestarts"] for each in (alone, both)] == [7, 2]
    assert any(place.endswith("--max-restarts 7") for place in _lost(both))
