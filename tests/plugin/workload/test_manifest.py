"""Test reading a job's pods from a rendered manifest, grouped by role."""

from __future__ import annotations

import pytest
import yaml

from distrain.errors import ValuesError
from distrain.kube.resource import Resource
from distrain.workload.manifest import Job, PodRole, from_manifest
from tests.plugin.objects import (
    JOB,
    Object,
    batch_job,
    mpi_job,
    mx_job,
    of_another_tool,
    plain,
    pod,
    pytorch_job,
    template,
    tf_job,
)

KUBECTL = {"cpu": 100, "memory": 512 * 2**20, "ephemeral-storage": 5 * 2**30, "pods": 1}


def _job(*documents: Object | None) -> Job:
    return from_manifest(yaml.safe_dump_all(documents), "--manifest")


def _sizes(job: Job) -> list[tuple[str, int]]:
    return [(role.name, role.replicas) for role in job.roles]


def _role(job: Job, name: str) -> PodRole:
    return next(role for role in job.roles if role.name == name)


def test_pods_are_found_by_role_among_other_resources() -> None:
    job = _job({"kind": "ConfigMap", "data": {"kind": "MPIJob"}}, mpi_job(workers=3, gpus=8), None)

    assert job.resources == (Resource("kubeflow.org/v2beta1", "MPIJob", JOB),)
    assert _sizes(job) == [("launcher", 1), ("worker", 3)]
    assert _role(job, "launcher").request == {"cpu": 100, "memory": 512 * 2**20, "pods": 1}
    assert _role(job, "worker").request == {"nvidia.com/gpu": 8, "pods": 1}


@pytest.mark.parametrize(
    ("documents", "sizes", "leading"),
    [
        pytest.param([pytorch_job(workers=3)], [("worker", 3)], "PyTorchJob", id="pytorch-elastic"),
        pytest.param(
            [pytorch_job(workers=3, master=True)], [("master", 1), ("worker", 2)], "PyTorchJob", id="pytorch-master"
        ),
        pytest.param(
            [mx_job(servers=2, workers=4)], [("scheduler", 1), ("server", 2), ("worker", 4)], "MXJob", id="mxnet"
        ),
        pytest.param(
            [mx_job(servers=2, workers=4, version="v1beta1")],
            [("scheduler", 1), ("server", 2), ("worker", 4)],
            "MXJob",
            id="mxnet-v1beta1",
        ),
        pytest.param(
            [tf_job(servers=2, workers=4)], [("chief", 1), ("ps", 2), ("worker", 4)], "TFJob", id="tensorflow"
        ),
        pytest.param(plain(workers=4), [("keygen", 1), ("launcher", 1), ("worker", 4)], "Job", id="plain"),
    ],
)
def test_every_kind_is_read_by_its_roles(documents: list[Object], sizes: list[tuple[str, int]], leading: str) -> None:
    job = _job(*documents)

    assert _sizes(job) == sizes
    assert job.resources[0].kind == leading
    assert job.main.name == "worker"
    assert job.from_chart


def test_plain_job_ends_with_its_launcher() -> None:
    assert _job(*plain(workers=2)).resources[0] == Resource("batch/v1", "Job", f"{JOB}-launcher")


def test_pods_of_parameter_servers_carry_the_charts_own_role() -> None:
    assert _role(_job(tf_job(servers=1, workers=1)), "ps").component == "server"


@pytest.mark.parametrize(
    ("version", "request_of_launcher"),
    [
        pytest.param("v1", KUBECTL, id="v1"),
        pytest.param("v1alpha2", KUBECTL, id="v1alpha2"),
        pytest.param("v2beta1", {"cpu": 50, "pods": 1}, id="v2beta1"),
    ],
)
def test_container_that_brings_kubectl_into_the_launcher_counts(
    version: str, request_of_launcher: dict[str, int]
) -> None:
    small = {"containers": [{"name": "launcher", "resources": {"requests": {"cpu": "50m"}}}]}

    job = _job(mpi_job(launcher=small, version=version))

    assert _role(job, "launcher").request == request_of_launcher
    assert _role(job, "worker").request == {"nvidia.com/gpu": 4, "pods": 1}


def test_container_that_waits_for_the_master_counts_in_workers_that_ask_for_less() -> None:
    job = _job(pytorch_job(workers=2, master=True))

    assert _role(job, "worker").request == {"nvidia.com/gpu": 4, "cpu": 50, "memory": 10 * 2**20, "pods": 1}
    assert _role(job, "master").request == {"nvidia.com/gpu": 4, "pods": 1}
    assert _role(_job(pytorch_job(workers=2)), "worker").request == {"nvidia.com/gpu": 4, "pods": 1}


def test_hooks_are_no_part_of_the_job() -> None:
    test = batch_job("run1-test", template("worker", {}))
    test["metadata"]["annotations"] = {"helm.sh/hook": "test"}

    assert _sizes(_job(mpi_job(workers=1), test)) == [("launcher", 1), ("worker", 1)]


def test_what_any_tool_rendered_is_read() -> None:
    web = template("web", {"requests": {"cpu": "1"}})
    plain_pod = {"apiVersion": "v1", "kind": "Pod", **pod("one", cpu="2")}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "ps"}}

    job = _job(
        {"apiVersion": "v1", "kind": "List", "items": [plain_pod, {"kind": "Deployment"}]},
        of_another_tool({**stateful, "spec": {"replicas": 3, "template": web}}),
        of_another_tool(batch_job("train", web, parallelism=8, completions=5)),
        of_another_tool(batch_job("once", web)),
    )

    assert sorted(_sizes(job)) == [("once", 1), ("one", 1), ("ps", 3), ("train", 5)]
    assert _role(job, "one").request["cpu"] == 2000
    assert not job.from_chart


def test_items_of_a_typed_list_are_read() -> None:
    bare = batch_job("bare", template("web", {}))
    del bare["apiVersion"], bare["kind"]
    typed = batch_job("typed", template("web", {}))

    job = _job({"apiVersion": "batch/v1", "kind": "JobList", "items": [bare, typed]})

    assert sorted(_sizes(job)) == [("bare/web", 1), ("typed/web", 1)]


def test_roles_of_several_jobs_are_told_apart() -> None:
    second = mpi_job(workers=7)
    second["metadata"]["name"] = "run2"

    assert _sizes(_job(mpi_job(workers=1), second)) == [
        (f"{JOB}/launcher", 1),
        (f"{JOB}/worker", 1),
        ("run2/launcher", 1),
        ("run2/worker", 7),
    ]


@pytest.mark.parametrize(("kind", "namespace"), [("StatefulSet", "team"), ("Job", "blue")])
def test_roles_of_equal_names_are_told_apart(kind: str, namespace: str) -> None:
    documents = [pod_maker("Job", "team", "9"), pod_maker(kind, namespace, "1")]

    found = {role.name: role.request["cpu"] for role in _job(*documents).roles}

    assert sorted(found.values()) == [1000, 9000]


def test_generated_names_are_told_apart() -> None:
    jobs = [{**pod_maker("Job", "team", cpu), "metadata": {"generateName": "run-"}} for cpu in ("9", "1")]

    job = _job(*jobs)

    assert [(role.name, role.request["cpu"]) for role in job.roles] == [("run-x0001", 9000), ("run-x0002", 1000)]
    assert job.generated == ("Job run-x0001", "Job run-x0002")


def test_generated_name_takes_what_a_label_can_hold_of_its_prefix() -> None:
    job = _job({**pod_maker("Job", "", "1"), "metadata": {"generateName": "a" * 70}})

    assert job.roles[0].labels["job-name"] == f"{'a' * 58}x0001"


def test_name_beside_a_generate_name_stays() -> None:
    job = _job({**pod_maker("Job", "", "1"), "metadata": {"name": "web", "generateName": "run-"}})

    assert (job.resources[0].name, job.generated) == ("web", ())


def test_number_of_pods_costs_no_memory() -> None:
    job = pod_maker("Job", "team", "1")
    job["spec"]["parallelism"] = 2**31 - 1

    assert _job(job).main.claims_of_set == {}


def pod_maker(kind: str, namespace: str, cpu: str) -> Object:
    """Return an object named web whose controller creates pods with this CPU limit."""
    spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}]}
    version = "apps/v1" if kind == "StatefulSet" else "batch/v1"
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"template": {"spec": spec}}}


def test_null_in_a_manifest_is_like_nothing() -> None:
    job = mpi_job(worker={"nodeSelector": None, "tolerations": None, "affinity": None, "initContainers": None})

    assert _role(_job(job), "worker").replicas == 2


def test_replicas_left_out_are_one() -> None:
    job = pytorch_job(workers=2)
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]

    assert _role(_job(job), "worker").replicas == 1


@pytest.mark.parametrize(
    ("kind", "own", "stray"),
    [
        ("StatefulSet", {"replicas": 20}, {"parallelism": 1, "completions": 1}),
        ("Job", {"parallelism": 20}, {"replicas": 50}),
        ("Job", {}, {"replicas": 50}),
        ("StatefulSet", {}, {"parallelism": 50}),
    ],
)
def test_field_of_another_kind_does_not_set_the_number_of_pods(kind: str, own: Object, stray: Object) -> None:
    job = _with(pod_maker(kind, "team", "1"), **own, **stray)

    assert [role.replicas for role in _job(job).roles] == [next(iter(own.values()), 1)]


def test_job_of_kubernetes_is_in_no_gang_of_kubeflow() -> None:
    job = _with(pod_maker("Job", "team", "1"), runPolicy={"schedulingPolicy": {"minAvailable": 1}})

    assert _job(job).roles[0].spec.scheduler_name is None


def _with(job: Object, **spec: object) -> Object:
    return {**job, "spec": {**job["spec"], **spec}}


HOSTFILE = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"hostfile": "a.b.svc slots=4\nc.b.svc slots=4\n"}}


@pytest.mark.parametrize(
    ("documents", "slots"),
    [
        pytest.param([_with(mpi_job(gpus=8), slotsPerWorker=4)], 4, id="mpi"),
        pytest.param([mpi_job(gpus=8)], 1, id="mpi-by-default"),
        pytest.param([_with(pytorch_job(workers=2), nprocPerNode="8")], 8, id="pytorch"),
        pytest.param([_with(pytorch_job(workers=2), nprocPerNode="gpu")], None, id="pytorch-by-what-is-there"),
        pytest.param([pytorch_job(workers=2)], None, id="pytorch-by-default"),
        pytest.param([tf_job(servers=1, workers=2, gpus=4)], 1, id="tensorflow"),
        pytest.param([mx_job(servers=1, workers=2, gpus=4)], None, id="mxnet"),
        pytest.param([HOSTFILE, *plain(workers=2, gpus=8)], 4, id="plain"),
        pytest.param(plain(workers=2), None, id="plain-without-hosts"),
    ],
)
def test_ranks_of_a_worker_are_those_that_its_programs_are_told(documents: list[Object], slots: int | None) -> None:
    assert _job(*documents).slots == slots


def test_namespace_is_the_manifests() -> None:
    job = mpi_job()
    job["metadata"]["namespace"] = "team"

    assert {role.namespace for role in _job(job).roles} == {"team"}
    assert {role.namespace for role in _job(mpi_job()).roles} == {""}


def test_mpijob_that_leaves_its_workers_out_is_refused() -> None:
    job = mpi_job()
    del job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

    with pytest.raises(
        ValuesError, match=rf"^--manifest: MPIJob {JOB}: spec\.mpiReplicaSpecs\.Worker\.replicas is miss"
    ):
        _job(job)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Launcher", None, "Launcher is missing; write the pod that starts mpirun there"),
        ("Launcher", "launcher", r"Launcher is missing; did you write launcher instead\?"),
        ("Worker", "worker", "worker: no operator creates pods for it; write its pods as Launcher or Worker"),
        ("Worker", "Foo", "Foo: no operator creates pods for it; write its pods as Launcher or Worker"),
    ],
)
@pytest.mark.parametrize("version", ["v2beta1", "v1", "v1alpha2"])
def test_mpijob_with_roles_that_its_operators_ignore_is_refused(
    old: str, new: str | None, words: str, version: str
) -> None:
    job = mpi_job(version=version)
    roles = job["spec"]["mpiReplicaSpecs"]
    role = roles.pop(old)
    roles |= {new: role} if new else {}

    with pytest.raises(ValuesError, match=rf"^--manifest: MPIJob {JOB}: spec\.mpiReplicaSpecs\.{words}$"):
        _job(job)


def test_pytorchjob_may_write_its_roles_in_any_case() -> None:
    text = yaml.safe_dump(pytorch_job(workers=2)).replace("Worker", "WORKER")

    assert _sizes(from_manifest(text, "--manifest")) == [("worker", 2)]


@pytest.mark.parametrize(
    "documents",
    [pytest.param([], id="nothing"), pytest.param([{"apiVersion": "v1", "kind": "ConfigMap"}], id="no-job")],
)
def test_manifest_without_a_job_is_refused(documents: list[Object]) -> None:
    with pytest.raises(ValuesError, match=r"^--manifest: contains no MPIJob, .* or Pod, so there is"):
        _job(*documents)


def test_text_that_is_no_manifest_is_one_line() -> None:
    with pytest.raises(ValuesError, match=r"^--manifest: line 2 is not valid YAML; check [^\n]*$"):
        from_manifest("a: [\nb", "--manifest")


def test_field_of_the_wrong_type_names_the_resource() -> None:
    job = mpi_job()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = "two"

    words = rf"MPIJob {JOB}: spec.mpiReplicaSpecs.Worker.replicas: found text; it needs a whole number$"
    with pytest.raises(ValuesError, match=rf"^--manifest: {words}"):
        _job(job)


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param({"containers": [{"name": "w", "resources": {"requests": {"memory": "4GB"}}}]}, id="container"),
        pytest.param({"resources": {"limits": {"memory": "4GB"}}}, id="pod"),
    ],
)
def test_amount_that_kubernetes_would_refuse_names_the_role(worker: Object) -> None:
    with pytest.raises(ValuesError, match=r"worker: resources: .*4GB?.*; write amounts such as 2, 500m or 4Gi"):
        _job(mpi_job(worker=worker))
