"""Test which jobs of a JobSet become the workers, the launcher or initContainers.

Also test which jobs the import lists as left out, and which it refuses.
"""

from __future__ import annotations

import pytest

from distrain.errors import ValuesError
from tests.plugin.imports.jobset_drafts import Job, drafted, jobset, pod_of, replicated

TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
TORCHRUN = {"command": ["torchrun", "train.py"]}
SSHD, MPIRUN = {"command": ["/usr/sbin/sshd", "-De"]}, {"command": ["mpirun", "python", "a.py"]}


def _after(found: Job, name: str, status: str = "Complete") -> Job:
    return {**found, "dependsOn": [{"name": name, "status": status}]}


def test_pods_are_counted_over_replicas_and_parallelism() -> None:
    draft = drafted(jobset({**replicated("a", TORCHRUN, parallelism=3, completions=3), "replicas": 2}))

    assert draft.kind == "PyTorchJob"
    assert draft.values()["workers"]["replicas"] == 6
    assert draft.lost == []


def test_topology_of_the_jobset_itself_is_listed() -> None:
    job = jobset(replicated("a", TORCHRUN))
    job["metadata"]["annotations"] = {TOPOLOGY: "pool", "note": "x"}

    draft = drafted(job)

    assert draft.lost == [
        (
            f"metadata.annotations[{TOPOLOGY}]",
            "JobSet kept other Jobs off these nodes; set workers.topology or affinity",
        )
    ]
    assert draft.values()["commonAnnotations"] == {"note": "x"}


def test_leader_and_workers_are_counted_together_and_their_differences_listed() -> None:
    leader = replicated("leader", TORCHRUN)
    pod_of(leader)["nodeSelector"] = {"pool": "a"}

    draft = drafted(jobset(leader, replicated("workers", TORCHRUN, parallelism=3)))

    assert draft.values()["workers"]["replicas"] == 4
    [(place, why)] = draft.lost
    assert place == "spec.replicatedJobs[0].template.spec.template.spec.nodeSelector.pool"
    assert why == (
        "all pods here are made from spec.replicatedJobs[1].template.spec.template.spec.containers[0], "
        "which has no value there"
    )


def test_leader_with_fewer_gpus_than_the_workers_is_noted_with_the_ranks() -> None:
    leader, workers = (_with_gpus(name, gpus, pods) for name, gpus, pods in (("leader", 8, 2), ("workers", 4, 4)))

    draft = drafted(jobset(leader, workers))

    [note] = [note for note in draft.notes if "ranks" in note]
    assert note.startswith("32 ranks become 24: the source has 2 x 8 at spec.replicatedJobs[0]")
    assert "and 4 x 4 at spec.replicatedJobs[1]" in note


def _with_gpus(name: str, gpus: int, pods: int) -> Job:
    return replicated(name, {**TORCHRUN, "resources": {"limits": {"nvidia.com/gpu": gpus}}}, parallelism=pods)


def test_label_of_a_variable_that_the_operator_sets_is_not_noted() -> None:
    field = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    env = [{"name": name, "valueFrom": field} for name in ("RANK", "INDEX")]

    notes = drafted(jobset(replicated("train", {**TORCHRUN, "env": env}))).notes

    assert [note for note in notes if "job-completion-index" in note] == [
        "node: variable INDEX reads metadata.annotations['batch.kubernetes.io/job-completion-index'], which no pod has "
        "here; write its value in env"
    ]


def test_annotation_that_jobset_alone_reads_is_listed_and_no_annotation_of_the_job() -> None:
    job = jobset(replicated("train", TORCHRUN))
    topology = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    job["metadata"]["annotations"] = {topology: "rack", "alpha.jobset.sigs.k8s.io/other": "x", "team": "a"}

    draft = drafted(job)

    assert draft.values()["commonAnnotations"] == {"team": "a"}
    assert [place for place, _ in draft.lost] == [
        f"metadata.annotations[{topology}]",
        "metadata.annotations[alpha.jobset.sigs.k8s.io/other]",
    ]
    assert "set workers.topology" in draft.lost[0][1]


def test_sshd_makes_the_workers_and_mpirun_the_launcher() -> None:
    jobs = [
        replicated("start", MPIRUN, backoffLimit=2),
        _after(replicated("hosts", SSHD, parallelism=4), "start", "Ready"),
    ]

    draft = drafted(jobset(*jobs, successPolicy={"operator": "All", "targetReplicatedJobs": ["start"]}))

    assert (draft.kind, draft.values()["command"]) == ("MPIJob", ["python", "a.py"])
    assert draft.values()["workers"]["replicas"] == 4
    assert draft.values()["job"] == {"maxRestarts": 2}
    assert draft.lost == []


def test_job_beside_sshd_and_mpirun_is_listed() -> None:
    jobs = [replicated("metrics"), replicated("hosts", SSHD, parallelism=2), replicated("start", MPIRUN)]

    draft = drafted(jobset(*jobs))

    assert draft.values()["workers"]["replicas"] == 2
    assert dict(draft.lost)["spec.replicatedJobs[0]"].startswith("it runs beside the training")


def test_mpirun_in_the_only_job_starts_the_ranks_of_its_own_pod() -> None:
    draft = drafted(jobset(replicated("all", {**MPIRUN, "env": [{"name": "A", "value": "1"}]})))

    assert (draft.kind, draft.values()["workers"]["replicas"]) == ("MPIJob", 1)
    assert draft.values()["env"] == [{"name": "A", "value": "1"}]
    assert draft.lost == []


def test_job_before_the_training_becomes_an_init_container_with_its_volumes() -> None:
    before = replicated("fetch", {"name": "fetch", "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
    pod_of(before).update(volumes=[{"name": "data", "emptyDir": {}}], restartPolicy="Never", nodeSelector={"a": "b"})
    pod_of(before)["containers"][0]["livenessProbe"] = {"exec": {"command": ["true"]}}

    draft = drafted(jobset(before, _after(replicated("train", TORCHRUN), "fetch")))

    assert [each["name"] for each in draft.values()["workers"]["initContainers"]] == ["fetch"]
    assert "livenessProbe" not in draft.values()["workers"]["initContainers"][0]
    assert draft.values()["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert {place.rpartition(".")[2] for place, _ in draft.lost} == {"livenessProbe", "a"}
    assert "fetch ran once, before the ranks" in draft.notes[0]


def test_jobs_that_wait_for_each_other_become_init_containers_in_their_order() -> None:
    jobs = [replicated("fetch", {"name": "fetch"}), _after(replicated("unpack", {"name": "unpack"}), "fetch")]
    hosts, start = _after(replicated("hosts", SSHD), "unpack"), _after(replicated("start", MPIRUN), "hosts", "Ready")

    draft = drafted(jobset(*jobs, hosts, start))

    assert [each["name"] for each in draft.values()["workers"]["initContainers"]] == ["fetch", "unpack"]
    assert draft.lost == []


@pytest.mark.parametrize(
    ("before", "words"),
    [
        pytest.param(_after(replicated("other", parallelism=2), "x"), "it runs beside the training", id="beside"),
        pytest.param({**replicated("fetch"), "replicas": 2}, "it has several pods", id="several-pods"),
    ],
)
def test_job_that_cannot_be_an_init_container_is_listed(before: Job, words: str) -> None:
    draft = drafted(jobset(before, _after(replicated("train", TORCHRUN), "fetch")))

    assert words in dict(draft.lost)["spec.replicatedJobs[0]"]
    assert "initContainers" not in draft.values()["workers"]


def test_job_with_a_volume_of_another_kind_is_listed() -> None:
    before, train = replicated("fetch"), _after(replicated("train", TORCHRUN), "fetch")
    pod_of(before)["volumes"] = [{"name": "data", "emptyDir": {}}]
    pod_of(train)["volumes"] = [{"name": "data", "hostPath": {"path": "/data"}}]

    draft = drafted(jobset(before, train))

    assert "its volume data is another one" in dict(draft.lost)["spec.replicatedJobs[0]"]


def test_fields_of_the_set_and_its_jobs_are_carried_or_listed() -> None:
    job = replicated("a", TORCHRUN, completions=4, podFailurePolicy={"rules": [1]}, activeDeadlineSeconds=9)
    job["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {TOPOLOGY: "rack"}}

    spec = {"coordinator": {"replicatedJob": "a"}, "network": {"subdomain": "s"}}
    draft = drafted(jobset(job, ttlSecondsAfterFinished=5, **spec))

    assert draft.values()["job"] == {"elastic": False, "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 9}
    lost = {place.removeprefix("spec.replicatedJobs[0].template.") for place, _ in draft.lost}
    assert lost == {
        "spec.completions",
        "spec.podFailurePolicy.rules[0]",
        "metadata.labels.a",
        f"metadata.annotations[{TOPOLOGY}]",
        "spec.coordinator",
        "spec.network",
    }


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        pytest.param([], "spec.replicatedJobs: is missing, so the job has no pods", id="none"),
        pytest.param([replicated("a"), replicated("b")], "has a, b, and it is unclear from their", id="not-told"),
        pytest.param([replicated(each, MPIRUN) for each in "ab"], "has a, b, and it is unclear", id="two-mpiruns"),
        pytest.param([replicated(each, TORCHRUN) for each in "abc"], "has a, b, c, and it is unclear", id="three"),
        pytest.param([replicated("a"), replicated("a")], "replicatedJobs[0].name: is a, the name of", id="name"),
        pytest.param([{"name": "a"}], "containers: has no container; write one there", id="no-container"),
        pytest.param([{**replicated("a"), "replicas": 0}], "replicas: is 0, but must be a whole", id="no-pods"),
        pytest.param([replicated("a", parallelism="x")], "parallelism: is 'x', but must be a whole", id="text"),
    ],
)
def test_jobset_that_is_no_run_is_refused(jobs: list[Job], words: str) -> None:
    with pytest.raises(ValuesError) as refusal:
        drafted(jobset(*jobs))

    assert refusal.value.messages[0].startswith("job.yaml: spec.replicatedJobs")
    assert words in refusal.value.messages[0]
