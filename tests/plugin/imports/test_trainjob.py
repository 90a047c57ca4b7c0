"""Test how a TrainJob and its runtime become the values of one job, and the messages if this is not possible."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from tests.plugin.imports.jobset_drafts import (
    Job,
    drafted,
    jobset,
    mpi_runtime,
    pod_of,
    replicated,
    runtime,
    trainjob,
)

GPUS = {"limits": {"nvidia.com/gpu": 2}}


def _noted(draft: Draft, *words: str) -> bool:
    return any(all(word in note for word in words) for note in draft.notes)


def _lost(draft: Draft) -> dict[str, str]:
    return dict(draft.lost)


def test_trainers_fields_override_those_of_the_runtime() -> None:
    node: Job = {"image": "a/b:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}
    node["resources"] = {"limits": {"cpu": 4, "memory": "8Gi"}}
    trainer: Job = {"image": "c/d:2", "env": [{"name": "B", "value": "2"}]}
    trainer["resourcesPerNode"] = {"limits": {"memory": "9Gi"}}

    values = drafted(
        runtime({"numNodes": 3, "torch": {}}, [replicated("node", node, "trainer")]), trainjob(trainer)
    ).values()

    assert values["image"] == {"repository": "c/d", "tag": "2"}
    assert values["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert values["workers"]["memory"] == "9Gi"
    assert values["workers"]["cpu"] == 4
    assert values["workers"]["replicas"] == 3


def test_number_of_nodes_is_the_trainjobs_before_the_runtimes() -> None:
    draft = drafted(runtime({"numNodes": 3, "torch": {}}), trainjob({"numNodes": 5}))

    assert draft.values()["workers"]["replicas"] == 5
    assert draft.settings["workers", "replicas"].origins == ("spec.trainer.numNodes",)


def test_launcher_that_was_a_node_becomes_a_worker() -> None:
    trainer = {"command": ["mpirun", "python", "a.py"], "numNodes": 4, "resourcesPerNode": GPUS}

    draft = drafted(mpi_runtime(runLauncherAsNode=True), trainjob(trainer))

    assert (draft.kind, draft.values()["command"]) == ("MPIJob", ["python", "a.py"])
    assert draft.values()["workers"] == {"gpus": 2, "replicas": 4}
    assert "resources" not in draft.values().get("launcher", {})
    assert _noted(draft, "the launcher was one of 4 nodes")


def test_one_node_with_a_launcher_is_two_as_for_the_trainer() -> None:
    draft = drafted(mpi_runtime(runLauncherAsNode=True), trainjob({"numNodes": 1}))

    assert draft.values()["workers"]["replicas"] == 2
    assert _noted(draft, "the Trainer runs 2 nodes for numNodes 1")


def test_nodes_beside_a_launcher_keep_their_number_and_resources() -> None:
    draft = drafted(mpi_runtime({"resources": GPUS}), trainjob({"numNodes": 3, "command": ["mpirun", "a"]}))

    assert draft.values()["workers"] == {"gpus": 2, "replicas": 3}


def test_program_and_resources_go_to_the_job_with_the_trainers_label() -> None:
    jobs = [replicated("node", step="trainer"), replicated("launcher", {"command": ["mpirun", "python", "a.py"]})]
    trainer = {"command": ["/usr/sbin/sshd", "-De"], "numNodes": 2, "resourcesPerNode": GPUS}

    draft = drafted(runtime({"mpi": {"numProcPerNode": 2}}, jobs), trainjob(trainer))

    assert draft.values()["command"] == ["python", "a.py"]
    assert draft.values()["workers"] == {"gpus": 2, "replicas": 2}
    assert draft.lost == []


def test_image_of_the_trainjob_is_for_all_pods_and_the_other_is_listed() -> None:
    draft = drafted(mpi_runtime(), trainjob({"image": "c/d:2", "command": ["mpirun", "a"]}))

    assert draft.values()["image"]["repository"] == "c/d"
    [place] = [place for place in _lost(draft) if place.endswith("containers[0].image")]
    assert place.startswith("runtime.spec.template.spec.replicatedJobs[0]")


@pytest.mark.parametrize(
    ("per_node", "runtime_per_node", "listed"),
    [
        pytest.param(None, 1, "", id="default-is-the-gpus"),
        pytest.param(2, 1, "", id="as-many-as-gpus"),
        pytest.param(4, 1, "spec.trainer.numProcPerNode", id="trainjob"),
        pytest.param(None, 4, "runtime.spec.mlPolicy.mpi.numProcPerNode", id="runtime"),
    ],
)
def test_ranks_per_node_that_are_not_the_gpus_are_listed(
    per_node: int | None, runtime_per_node: int, listed: str
) -> None:
    trainer = {"command": ["mpirun", "a"], "resourcesPerNode": GPUS, "numProcPerNode": per_node}

    draft = drafted(mpi_runtime(numProcPerNode=runtime_per_node, runLauncherAsNode=True), trainjob(trainer))

    assert [place for place in _lost(draft) if "numProc" in place] == [listed] * bool(listed)


def test_ranks_on_each_cpu_are_noted() -> None:
    trainer = {"resourcesPerNode": {"requests": {"cpu": "4"}}}

    assert _noted(drafted(runtime(), trainjob(trainer)), "a rank for each of 4 CPUs")
    assert not _noted(drafted(runtime(), trainjob({"resourcesPerNode": {"requests": {"cpu": "500m"}}})), "CPUs")


def test_command_without_torchrun_ran_once_in_a_pod() -> None:
    assert _noted(drafted(runtime(), trainjob({"command": ["python", "a.py"]})), "the pods ran their command once")
    assert not _noted(drafted(runtime(), trainjob()), "the pods ran their command once")


PATCH = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "a"}], "serviceAccountName": "sa"}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": PATCH}]}, id="v2.1"),
        pytest.param({"podSpecOverrides": [{"targetJobs": [{"name": "node"}], **PATCH}]}, id="v2.0"),
        pytest.param(
            {
                "runtimePatches": [
                    {
                        "manager": "me",
                        "trainingRuntimeSpec": {
                            "template": {
                                "spec": {
                                    "replicatedJobs": [
                                        {"name": "node", "template": {"spec": {"template": {"spec": PATCH}}}}
                                    ]
                                }
                            }
                        },
                    }
                ]
            },
            id="v2.3",
        ),
    ],
)
def test_patch_of_each_version_reaches_the_pods(spec: Job) -> None:
    job = replicated("node", step="trainer")
    pod_of(job).update(nodeSelector={"pool": "cpu", "zone": "a"}, tolerations=[{"key": "b"}])

    draft = drafted(runtime(jobs=[job]), trainjob(**spec))

    assert draft.values()["workers"]["nodeSelector"] == {"pool": "gpu", "zone": "a"}
    assert draft.values()["workers"]["tolerations"] == [{"key": "a"}]
    assert draft.values()["serviceAccountName"] == "sa"
    assert draft.lost == []


def test_patch_of_a_job_or_container_that_is_not_there_is_listed() -> None:
    patches = [
        {"targetJobs": [{"name": "absent"}], "spec": {"nodeSelector": {"pool": "gpu"}}},
        {"targetJobs": [{"name": "node"}], "spec": {"containers": [{"name": "absent", "env": []}]}},
    ]

    draft = drafted(runtime(), trainjob(podTemplateOverrides=patches))

    assert _lost(draft)["spec.podTemplateOverrides[0].spec"] == "the training has no pods of a job absent"
    assert _lost(draft)["spec.podTemplateOverrides[1].spec.containers[0]"] == "the runtime has no container absent"


def test_patch_of_several_jobs_reaches_the_one_that_trains() -> None:
    patch = {"targetJobs": [{"name": "absent"}, {"name": "node"}], "spec": {"nodeSelector": {"pool": "gpu"}}}

    draft = drafted(runtime(), trainjob(podTemplateOverrides=[patch]))

    assert draft.values()["workers"]["nodeSelector"] == {"pool": "gpu"}
    assert draft.lost == []


def test_patch_that_kueue_set_is_listed() -> None:
    pod = {"spec": {"nodeSelector": {"flavor": "spot"}}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}}
    patch = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": template}}

    draft = drafted(runtime(), trainjob(runtimePatches=[patch]))

    assert draft.lost == [("spec.runtimePatches[0]", "Kueue sets it when it admits the job")]
    assert "nodeSelector" not in draft.values()["workers"]


def test_labels_of_the_runtime_the_patch_and_the_job_become_common_labels() -> None:
    found = runtime()
    found["spec"]["template"]["metadata"] = {"labels": {"a": "runtime", "b": "runtime"}}
    job = trainjob(labels={"c": "spec"})
    job["metadata"]["labels"] = {"b": "job"}

    assert drafted(found, job).values()["commonLabels"] == {"b": "job", "a": "runtime", "c": "spec"}


@pytest.mark.parametrize(("policy", "scheduler"), [("volcano", "volcano"), ("coscheduling", "scheduler-plugins")])
def test_policy_for_pod_groups_becomes_a_gang(policy: str, scheduler: str) -> None:
    job = replicated("node", step="trainer")
    pod_of(job)["schedulerName"] = "volcano"
    found = runtime(jobs=[job])
    found["spec"]["podGroupPolicy"] = {policy: {}}
    found["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}

    values = drafted(found, trainjob()).values()

    assert values["gang"] == {"queue": "q", "scheduler": scheduler}
    assert ("schedulerName" in values["workers"]) == (policy == "coscheduling")


def test_job_as_a_whole_keeps_its_policy() -> None:
    draft = drafted(
        runtime(failurePolicy={"maxRestarts": 3}, startupPolicy={"startupPolicyOrder": "InOrder"}),
        trainjob(suspend=True, activeDeadlineSeconds=60, managedBy="kueue.x-k8s.io/multikueue"),
    )

    job = {"elastic": False, "maxRestarts": 3, "suspend": True, "activeDeadlineSeconds": 60}
    assert draft.values()["job"] == {**job, "managedBy": "kueue.x-k8s.io/multikueue"}
    [(place, why)] = draft.lost
    assert (place, why.endswith("the pods start in any order")) == ("runtime.spec.template.spec.startupPolicy", True)
    assert not _noted(draft, "cleanPodPolicy")


INITIALIZER = replicated("dataset-initializer", {"name": "dataset-initializer"}, "dataset-initializer")


def test_initializer_becomes_an_init_container_with_its_fields() -> None:
    initializer = {"storageUri": "s3://b/c", "env": [{"name": "A", "value": "1"}], "secretRef": {"name": "login"}}

    draft = drafted(
        runtime(jobs=[INITIALIZER, replicated("node", step="trainer")]), trainjob(initializer={"dataset": initializer})
    )

    [container] = draft.values()["workers"]["initContainers"]
    assert container["env"] == [{"name": "STORAGE_URI", "value": "s3://b/c"}, {"name": "A", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "login"}}]
    assert draft.lost == []


def test_initializer_that_the_runtime_does_not_have_is_listed() -> None:
    draft = drafted(runtime(), trainjob(initializer={"model": {"storageUri": "hf://a/b"}}))

    assert "no model-initializer" in _lost(draft)["spec.initializer.model"]


def test_initializer_with_another_service_account_is_listed() -> None:
    job = replicated("dataset-initializer", {"name": "dataset-initializer"}, "dataset-initializer")
    pod_of(job)["serviceAccountName"] = "cache"

    draft = drafted(runtime(jobs=[job, replicated("node", step="trainer")]), trainjob())

    assert "ServiceAccount cache" in _lost(draft)["runtime.spec.template.spec.replicatedJobs[0]"]
    assert "initContainers" not in draft.values()["workers"]


def test_claim_of_the_jobset_becomes_one_for_each_worker() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": name}, "spec": spec} for name in ("used", "unused")]
    node = replicated("node", {"volumeMounts": [{"name": "used", "mountPath": "/data"}]}, "trainer")

    draft = drafted(runtime(jobs=[node], volumeClaimPolicies=[{"templates": templates}]), trainjob())

    assert draft.values()["volumes"] == [{"name": "used", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    [place] = _lost(draft)
    assert place == "runtime.spec.template.spec.volumeClaimPolicies[0].templates[1]"


def test_variable_from_a_label_of_jobset_is_noted() -> None:
    field = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
    env = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": field}}}]

    assert _noted(drafted(runtime(), trainjob({"env": env})), "variable NAME reads", field)


@pytest.mark.parametrize(
    ("command", "kind"), [(["torchrun", "a.py"], "PyTorchJob"), (["bash", "-c", "mpirun python a.py"], "MPIJob")]
)
def test_trainjob_without_its_runtime_names_it_and_how_to_give_it(command: list[str], kind: str) -> None:
    draft = drafted(trainjob({"command": command, "numNodes": 4, "resourcesPerNode": GPUS}))

    assert draft.kind == kind
    assert draft.values()["workers"] == {"gpus": 2, "replicas": 4}
    assert draft.values()["image"]["repository"] == "registry.invalid/image-to-fill-in"
    assert draft.settings["image", "repository"].origins == ("spec.runtimeRef",)
    assert "`kubectl get clustertrainingruntimes.trainer.kubeflow.org torch -o yaml`" in draft.notes[0]
    assert draft.lost == []


def test_command_for_a_runtime_of_the_namespace_names_the_namespace() -> None:
    job = trainjob(runtimeRef={"kind": "TrainingRuntime", "name": "torch"})
    job["metadata"]["namespace"] = "team"

    assert "`kubectl get --namespace team trainingruntimes.trainer.kubeflow.org torch -o" in drafted(job).notes[0]


def _reference(**fields: Any) -> Job:
    return trainjob(runtimeRef={"name": "torch", **fields})


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        (
            [_reference(kind="Deployment")],
            "spec.runtimeRef: refers to a Deployment of trainer.kubeflow.org, but the import",
        ),
        ([_reference(apiGroup="example.com")], "spec.runtimeRef: refers to a ClusterTrainingRuntime of example.com"),
        ([_reference(name="")], "spec.runtimeRef.name: is missing"),
        ([runtime(), runtime(), trainjob()], "has 2 ClusterTrainingRuntimes of the name torch; keep only the one"),
        ([runtime(), trainjob(), trainjob()], "has 2 jobs, TrainJob job, TrainJob job; a run is one job"),
        ([runtime()], "kind: ClusterTrainingRuntime runs nothing by itself; add a TrainJob"),
        ([runtime(), trainjob({"numNodes": 0})], "spec.trainer.numNodes: is 0, but must be a whole number above 0"),
        ([runtime(), trainjob({"numNodes": "two"})], "spec.trainer.numNodes: is 'two', but must be a whole"),
        ([runtime({"numNodes": -1, "torch": {}}), trainjob()], "runtime.spec.mlPolicy.numNodes: is -1, but must"),
        ([runtime({"jax": {}}), trainjob()], "runtime.spec.mlPolicy: is jax, but distrain can start ranks only with"),
        ([runtime({"torch": {}, "mpi": {}}), trainjob()], "runtime.spec.mlPolicy: is torch, mpi, but distrain"),
        ([runtime({"numNodes": 1}), trainjob()], "runtime.spec.mlPolicy: has neither torch nor mpi, but distrain can"),
        ([runtime(jobs=[replicated("other")]), trainjob()], "has other, but none of these jobs is named node or"),
        ([{**runtime(), "spec": {"mlPolicy": {"torch": {}}}}, trainjob()], "replicatedJobs: is missing"),
        (
            [runtime(), {**trainjob(), "spec": {"runtimeRef": {"name": "torch"}, "trainer": [1]}}],
            "spec.trainer: must be a mapping of keys",
        ),
        (
            [runtime(), trainjob(runtimePatches={"a": 1})],
            "spec.runtimePatches: is a mapping of keys; write a list of mappings there",
        ),
        (
            [runtime(), trainjob({"resourcesPerNode": "8"})],
            "spec.trainer.resourcesPerNode: is text; write a mapping of keys",
        ),
        ([{**trainjob(), "apiVersion": "trainer.kubeflow.org/v2"}], "apiVersion: is trainer.kubeflow.org/v2, and the"),
        ([trainjob(), jobset(replicated("a"))], "has 2 jobs, TrainJob job, JobSet set"),
    ],
)
def test_trainjob_that_cannot_run_is_refused(documents: list[Job], words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        drafted(*documents)

    assert refusal.value.messages[0].startswith("job.yaml: ")
    assert words in refusal.value.messages[0]


def test_runtimes_that_the_trainjob_does_not_name_are_listed() -> None:
    other = runtime()
    other["metadata"] = {"name": "other"}

    draft = drafted(other, runtime(), trainjob())

    assert "ClusterTrainingRuntime other" in _lost(draft)


def test_gpus_of_several_vendors_are_one_kind_of_worker_and_a_note() -> None:
    limits = {"limits": {"nvidia.com/gpu": 2, "amd.com/gpu": 4}}

    draft = drafted(runtime(), trainjob({"resourcesPerNode": limits}))

    assert draft.values()["workers"]["gpus"] == 2
    assert draft.values()["workers"]["resources"]["limits"] == {"amd.com/gpu": 4}
    assert _noted(draft, "nvidia.com/gpu, amd.com/gpu: workers.gpus counts nvidia.com/gpu")


def test_field_that_no_trainjob_has_is_listed() -> None:
    job = {**trainjob(strange=1), "runtime": {"spec": {}}}

    assert {"spec.strange", "runtime"} <= {*_lost(drafted(runtime(), job))}
