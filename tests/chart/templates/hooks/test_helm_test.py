"""Test `helm test`. A second job with the same pods as the run makes an all-reduce, and a Pod checks its result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import DELETE, HOOK, RUN1, WEIGHT, annotation, documents, hooks, of_kind, only
from tests.chart.rendering import CHART, Yaml, refusal

KINDS = {
    "MPIJob": ("framework=tensorflow",),
    "PyTorchJob": ("framework=pytorch",),
    "Plain": ("framework=tensorflow", "job.kind=Plain"),
}
ALLREDUCE = ["python3", "-m", "distrain_trainer.allreduce"]


def made(helm: Path, *assignments: str, release: str = "run1") -> list[Yaml]:
    """Return the objects that `helm test` creates."""
    return hooks(documents(helm, *assignments, release=release), "test")


def options(pod: Yaml) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    return dict(argument.split("=", 1) for argument in container["args"])


def job_and_own(helm: Path, *assignments: str) -> tuple[Yaml, Yaml]:
    """Return the job that `helm test` creates, and the job of the release."""
    found = documents(helm, *assignments)
    kind = options(only(hooks(found, "test"), "Pod"))["--kind"]
    own = only([one for one in found if not annotation(one, HOOK)], kind)
    return only(hooks(found, "test"), kind), own


@pytest.mark.parametrize("kind", ["MPIJob", "PyTorchJob"])
def test_job_has_the_runs_shape_and_a_name_of_its_own(helm: Path, kind: str) -> None:
    job, own = job_and_own(helm, *KINDS[kind], "workers.replicas=3", "workers.gpus=2", "workers.memory=8Gi")
    (replicas,) = [value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")]
    (own_replicas,) = [value for key, value in own["spec"].items() if key.endswith("ReplicaSpecs")]

    resources = replicas["Worker"]["template"]["spec"]["containers"][0]["resources"]

    assert replicas["Worker"]["replicas"] == 3
    assert resources == own_replicas["Worker"]["template"]["spec"]["containers"][0]["resources"]
    assert job["metadata"]["name"].startswith("run1-test-")
    assert job["metadata"]["name"] != own["metadata"]["name"]


def test_mpirun_starts_horovods_all_reduce(helm: Path) -> None:
    job, _ = job_and_own(helm, *KINDS["MPIJob"])

    arguments = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]

    assert arguments[arguments.index("--") + 1 :] == [*ALLREDUCE, "--backend=horovod"]


def test_torchrun_starts_torchs_all_reduce_on_all_workers_at_once(helm: Path) -> None:
    job, _ = job_and_own(helm, *KINDS["PyTorchJob"], "workers.minReplicas=1", "workers.maxReplicas=9")

    arguments = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"]

    assert arguments[arguments.index("--") + 1 :] == ["torchrun", "--no-python", *ALLREDUCE, "--backend=torch"]
    assert job["spec"]["elasticPolicy"]["minReplicas"] == job["spec"]["elasticPolicy"]["maxReplicas"] == 2


def test_older_pytorchjob_is_tested_in_its_form(helm: Path) -> None:
    job, _ = job_and_own(helm, *KINDS["PyTorchJob"], "job.elastic=false", "test.workers=4")

    replicas = {role: spec["replicas"] for role, spec in job["spec"]["pytorchReplicaSpecs"].items()}

    assert replicas == {"Master": 1, "Worker": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_size_of_the_test_can_be_another(helm: Path, kind: str) -> None:
    found = made(helm, *KINDS[kind], "workers.replicas=8", "test.workers=2", "workers.gpus=4", "gpus=32")

    told = options(only(found, "Pod"))

    assert told["--workers"] == "2"


def test_job_needs_no_data_and_keeps_nothing(helm: Path) -> None:
    values = ["data.source=s3", "data.uri=s3://digits", "output.uri=s3://results", "s3.secretName=keys"]

    job, _ = job_and_own(helm, *values)

    assert "s3://" not in str(job)
    assert "keys" not in str(job)


@pytest.mark.parametrize("kind", ["MPIJob", "PyTorchJob"])
def test_job_is_tried_once_and_ends_even_without_helm(helm: Path, kind: str) -> None:
    values = [
        "job.maxRestarts=3",
        "test.timeoutSeconds=60",
        "workers.sidecars[0].name=s",
        "workers.sidecars[0].image=s",
    ]

    job, _ = job_and_own(helm, *KINDS[kind], *values)

    policy = job["spec"]["runPolicy"]
    assert policy.get("backoffLimit") == {"MPIJob": 0, "PyTorchJob": None}[kind]
    assert policy["activeDeadlineSeconds"] == 360
    # An elastic PyTorchJob counts as succeeded when its first worker has succeeded. But only the pod of rank 0 has the
    # result.
    assert policy["cleanPodPolicy"] == {"MPIJob": "Running", "PyTorchJob": "None"}[kind]
    assert "'image': 's'" not in str(job)


def test_native_sidecars_of_the_workers_stay_as_a_network_may_need_them(helm: Path) -> None:
    daemon = [f"workers.sidecars[0].{field}" for field in ("name=daemon", "image=d", "restartPolicy=Always")]

    job, _ = job_and_own(
        helm, *KINDS["MPIJob"], *daemon, "workers.sidecars[1].name=copy", "workers.sidecars[1].image=c"
    )

    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert [one["name"] for one in worker["initContainers"]] == ["daemon"]
    assert [one["name"] for one in worker["containers"]] == ["worker"]


@pytest.mark.parametrize("kind", KINDS)
def test_pod_comes_after_the_job_and_that_after_what_it_needs(helm: Path, kind: str) -> None:
    found = made(helm, *KINDS[kind])

    weights = {one["kind"]: annotation(one, WEIGHT) for one in found}

    assert weights.pop("Pod") == "0"
    assert weights.pop("List" if kind == "Plain" else kind) == "-1"
    assert set(weights.values()) == {"-2"}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_but_the_pod_with_the_result(helm: Path, kind: str) -> None:
    # Helm deletes all earlier hooks with the policy hook-succeeded, whether the test's Pod fails or not.
    *others, pod = made(helm, *KINDS[kind])

    assert {annotation(one, DELETE) for one in others} == {"before-hook-creation,hook-succeeded"}
    assert (pod["kind"], annotation(pod, DELETE)) == ("Pod", "before-hook-creation")


def test_nothing_is_left_of_a_test_whose_result_helm_prints(helm: Path) -> None:
    found = made(helm, "hooks.printLog=true")

    assert {annotation(one, DELETE) for one in found} == {"before-hook-creation,hook-succeeded"}


def test_plain_jobs_are_one_hook(helm: Path) -> None:
    # If each Job were a separate hook, Helm would wait until the first Job has ended before it creates the second. But
    # the launcher's Job and the workers' Job must run at the same time.
    found = made(helm, *KINDS["Plain"])
    name = options(only(found, "Pod"))["--job"]

    items = only(found, "List")["items"]

    assert of_kind(found, "Job") == []
    assert {item["metadata"]["name"] for item in items} == {f"{name}-worker", f"{name}-launcher"}
    assert {item["spec"]["activeDeadlineSeconds"] for item in items} == {300}
    # Argo CD splits a List into its items. Each item needs the hook annotation, because Argo CD would otherwise create
    # the Jobs at every sync.
    assert {annotation(item, HOOK) for item in items} == {"test"}


@pytest.mark.parametrize("kind", KINDS)
def test_pod_is_told_what_to_look_for(helm: Path, kind: str) -> None:
    found = made(helm, *KINDS[kind])
    pod = only(found, "Pod")
    jobs = only(found, "List")["items"] if kind == "Plain" else of_kind(found, kind)

    told = options(pod)

    assert pod["spec"]["containers"][0]["command"] == ["/opt/distrain/bin/distrain-test"]
    assert told.pop("--job") in {job["metadata"]["name"].removesuffix("-worker") for job in jobs}
    assert told.pop("--instance") == jobs[0]["metadata"]["labels"]["app.kubernetes.io/instance"] == f"run1-test-{RUN1}"
    assert told == {"--kind": jobs[0]["kind"], "--workers": "2", "--timeout": "300"}


def test_pod_has_the_script_and_what_it_imports(helm: Path) -> None:
    found = made(helm)
    (volume,) = [one for one in only(found, "Pod")["spec"]["volumes"] if "configMap" in one]

    data = only(found, "ConfigMap", volume["configMap"]["name"])["data"]

    assert set(data) == {"distrain-test", "distrain_kube.py", "distrain_message.py", "distrain_sigterm.py"}
    for name, script in data.items():
        assert script == (CHART / "files" / name).read_text(encoding="utf-8")


def test_account_may_read_pods_and_their_logs_alone(helm: Path) -> None:
    found = made(helm)

    assert only(found, "Role")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    assert only(found, "RoleBinding")["subjects"] == [
        {"kind": "ServiceAccount", "name": f"run1-test-{RUN1}", "namespace": "team"}
    ]
    assert only(found, "Pod")["spec"]["serviceAccountName"] == only(found, "ServiceAccount")["metadata"]["name"]


def test_account_is_the_admins_where_the_chart_makes_none(helm: Path) -> None:
    found = made(helm, "rbac.create=false")

    assert not {"ServiceAccount", "Role", "RoleBinding"} & {one["kind"] for one in found}
    assert only(found, "Pod")["spec"]["serviceAccountName"] == f"run1-test-{RUN1}"


@pytest.mark.parametrize("security", ["restricted", "baseline"])
def test_pod_is_restricted_whatever_the_job_is(helm: Path, security: str) -> None:
    pod = only(made(helm, f"podSecurity={security}"), "Pod")["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    "assignments",
    [
        pytest.param(["test.enabled=false"], id="left-out"),
        pytest.param(["strategy=parameter-server"], id="tensorflow"),
        pytest.param(["strategy=parameter-server", "framework=mxnet"], id="mxnet"),
        pytest.param(["job.enabled=false", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}"], id="no-job"),
    ],
)
def test_some_releases_have_no_test(helm: Path, assignments: list[str]) -> None:
    assert made(helm, *assignments) == []
    assert made(helm) != []


def test_broken_rule_is_reported_before_the_test_is_rendered(helm: Path) -> None:
    words = refusal(helm, "--set", "job.apiVersion=v1beta1")

    assert "distrain: job.apiVersion: v1beta1 is not a version of MPIJob" in words


def test_longest_release_name_fits(helm: Path) -> None:
    found = made(helm, release="r" * 53)

    names = [one["metadata"]["name"] for one in found]

    assert max(map(len, names)) <= 63
    assert len(only(found, "MPIJob")["metadata"]["name"]) + len("-worker-999") <= 63
