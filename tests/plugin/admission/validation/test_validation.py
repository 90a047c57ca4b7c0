"""Test objects that the API server refuses, each with one mistake. test_random_validation.py tests combinations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.admission.refusing import (
    CLAIM,
    MAIN,
    POD,
    ROOM,
    Path,
    assert_refused,
    changed,
    mounted,
    valid_job,
    valid_set,
)
from tests.plugin.check.judging import chart_job, job_of, judged
from tests.plugin.objects import Object, definition, mpi_job, node, pytorch_job, tf_job


def _ports(*ports: Object) -> list[Object]:
    return [{"containerPort": 80, **port} for port in ports]


CONTAINERS = [
    pytest.param((*POD, "containers"), [], "containers: Required value", id="no-containers"),
    pytest.param((*MAIN, "image"), None, "containers[0].image: Required value", id="no-image"),
    pytest.param((*MAIN, "image"), " a", 'containers[0].image: Invalid value: " a": must not have', id="blank-image"),
    pytest.param((*MAIN, "name"), None, "containers[0].name: Required value", id="no-name"),
    pytest.param((*MAIN, "name"), "A", 'containers[0].name: Invalid value: "A": a lowercase RFC 1123 label', id="name"),
    pytest.param((*MAIN, "name"), "a.b", '"a.b": must not contain dots', id="name-with-dots"),
    pytest.param((*MAIN, "name"), "x" * 64, "must be no more than 63 characters", id="long-name"),
    pytest.param(
        (*POD, "initContainers"),
        [{"name": "web", "image": "a"}],
        'initContainers[0].name: Duplicate value: "web"',
        id="name-twice",
    ),
]
FIELDS = [
    pytest.param((*MAIN, "env"), [{"name": "a b="}], 'env[0].name: Invalid value: "a b=": a valid', id="variable"),
    pytest.param(
        (*MAIN, "livenessProbe"), {}, "livenessProbe: Required value: must specify a handler type", id="probe"
    ),
    pytest.param(
        (*POD, "initContainers"),
        [{"name": "a", "image": "a", "startupProbe": {"exec": {}}}],
        "initContainers[0].startupProbe: Forbidden: may not be set for init containers",
        id="probe-of-an-init-container",
    ),
    pytest.param((*POD, "hostname"), "Bad_Name", 'spec.hostname: Invalid value: "Bad_Name"', id="hostname"),
    pytest.param(
        (*POD, "activeDeadlineSeconds"),
        0,
        "spec.template.spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        id="deadline",
    ),
    pytest.param(
        ("spec", "backoffLimitPerIndex"),
        1,
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        id="backoff-per-index",
    ),
]
PORTS = [
    pytest.param(
        _ports({"hostPort": 1, "hostIP": "1.1.1.1"}, {"hostPort": 1, "hostIP": "1.1.1.1"}),
        'ports[1].hostPort: Duplicate value: "TCP/1.1.1.1/1"',
        id="host-port-twice",
    ),
    pytest.param([{}], "ports[0].containerPort: Required value", id="no-container-port"),
    pytest.param(
        [{"containerPort": 65536}],
        "ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        id="container-port",
    ),
    pytest.param(
        _ports({"protocol": "HTTP"}),
        'ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
        id="protocol",
    ),
    pytest.param(_ports({"name": "80"}), "must contain at least one letter (a-z)", id="name"),
    pytest.param(_ports({"name": "a"}, {"name": "a"}), 'ports[1].name: Duplicate value: "a"', id="name-twice"),
]
JOBS = [
    pytest.param((*POD, "restartPolicy"), None, f"{'.'.join(map(str, POD))}.restartPolicy: Required value", id="none"),
    pytest.param((*POD, "restartPolicy"), "Always", 'valid values: "OnFailure", "Never"', id="always"),
    pytest.param((*POD, "restartPolicy"), "No", 'restartPolicy: Unsupported value: "No"', id="unknown"),
    pytest.param(("spec", "backoffLimit"), -1, "spec.backoffLimit: Invalid value: -1: must be greater", id="backoff"),
    pytest.param(("spec", "completions"), -1, "spec.completions: Invalid value: -1", id="completions"),
    pytest.param(("spec", "completionMode"), "Some", 'spec.completionMode: Unsupported value: "Some"', id="mode"),
    pytest.param(
        ("spec",),
        {**valid_job()["spec"], "parallelism": 2, "completionMode": "Indexed"},
        "spec.completions: Required value: when completion mode is Indexed",
        id="indexed-without-completions",
    ),
    pytest.param(
        ("spec",),
        {**valid_job()["spec"], "manualSelector": True, "selector": {"matchLabels": {"app": "x"}}},
        "`selector` does not match template `labels`",
        id="selector",
    ),
    pytest.param(
        ("spec", "selector"), {"matchLabels": {"app": "x"}}, "spec.selector: Invalid value", id="selector-of-a-job"
    ),
    pytest.param(("metadata", "name"), None, "metadata.name: Required value: name or generateName", id="no-name"),
    pytest.param(
        ("metadata",), {"generateName": "a."}, 'metadata.generateName: Invalid value: "a.": a', id="generated-name"
    ),
    pytest.param(("metadata", "name"), "A", 'metadata.name: Invalid value: "A": a lowercase RFC 1123', id="name"),
    pytest.param(("metadata", "name"), "x" * 64, f'template.labels: Invalid value: "{"x" * 64}"', id="name-as-label"),
    pytest.param(("metadata", "labels"), {"a b": "c"}, 'metadata.labels: Invalid value: "a b"', id="label-key"),
    pytest.param(("metadata", "labels"), {"a": "-"}, 'metadata.labels: Invalid value: "-"', id="label-value"),
    pytest.param(("metadata", "annotations"), {"a b": "c"}, 'metadata.annotations: Invalid value: "a b"', id="notes"),
    pytest.param((*POD, "nodeSelector"), {"a": "b c"}, 'spec.nodeSelector: Invalid value: "b c"', id="node-selector"),
]
SETS = [
    pytest.param(
        (*POD, "restartPolicy"), "Never", 'Unsupported value: "Never": supported values: "Always"', id="never"
    ),
    pytest.param(("spec", "selector"), None, "spec.selector: Required value", id="no-selector"),
    pytest.param(("spec", "selector"), {}, "empty selector is invalid for statefulset", id="empty-selector"),
    pytest.param(
        ("spec", "selector"),
        {"matchLabels": {"app": "y"}},
        "`selector` does not match template `labels`",
        id="selector",
    ),
    pytest.param(
        ("spec", "podManagementPolicy"), "Foo", "\"Foo\": must be 'OrderedReady' or 'Parallel'", id="management"
    ),
    pytest.param(("spec", "replicas"), -1, "spec.replicas: Invalid value: -1", id="replicas"),
    pytest.param(("metadata", "name"), "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots', id="name"),
    pytest.param((*POD, "activeDeadlineSeconds"), 5, "activeDeadlineSeconds in StatefulSet is not", id="deadline"),
]


@pytest.mark.parametrize(("path", "value", "words"), [*CONTAINERS, *FIELDS, *JOBS])
def test_job_that_the_api_server_refuses_is_impossible(path: Path, value: Any, words: str) -> None:
    assert_refused(changed(valid_job(), path, value), words)


@pytest.mark.parametrize(("path", "value", "words"), SETS)
def test_stateful_set_that_the_api_server_refuses_is_impossible(path: Path, value: Any, words: str) -> None:
    assert_refused(changed(valid_set(), path, value), words)


@pytest.mark.parametrize(("ports", "words"), PORTS)
def test_ports_that_the_api_server_refuses_are_impossible(ports: list[Object], words: str) -> None:
    assert_refused(changed(valid_job(), (*MAIN, "ports"), ports), words)


def test_port_of_the_host_network_is_taken_once() -> None:
    containers = [{"name": name, "image": "a", "ports": [{"containerPort": 80}]} for name in ("a", "b")]
    spec = {"restartPolicy": "Never", "hostNetwork": True, "containers": containers}

    assert_refused(changed(valid_job(), POD, spec), 'containers[1].ports[0].hostPort: Duplicate value: "TCP//80"')


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_object_of_the_manifest_with_an_invalid_name_is_impossible(kind: str) -> None:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "Bad_Name"}}
    answer = judged(job_of(valid_job(), item), ROOM)

    assert answer.verdict == "impossible"
    assert answer.next == f"{kind} Bad_Name: the API server does not accept this {kind}. Correct metadata.name."


@pytest.mark.parametrize("kind", ["Secret", "PersistentVolumeClaim"])
def test_object_of_the_manifest_may_have_a_generated_name(kind: str) -> None:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"generateName": "a-"}, "spec": CLAIM}

    assert not [each for each in judged(job_of(valid_job(), item), ROOM).reasons if "is invalid" in each.reason]


def test_pod_of_an_operator_is_refused_by_its_own_path() -> None:
    answer = judged(chart_job(workers=1, worker={"containers": [{"name": "A"}]}), [node("a", gpu="8")])

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith('Pod is invalid: spec.containers[0].name: Invalid value: "A": ')
    assert answer.next == "workers: the API server does not accept this Pod. Correct spec.containers[0].name."


def test_operators_resource_without_a_valid_name_is_refused() -> None:
    answer = judged(job_of({**mpi_job(gpus=0), "metadata": {"name": "A"}}), ROOM)

    assert [each.reason.partition(": a ")[0] for each in answer.reasons] == [
        'MPIJob is invalid: metadata.name: Invalid value: "A"'
    ]


REPLICAS: Path = ("spec", "mpiReplicaSpecs")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            (*REPLICAS, "Launcher", "replicas"),
            2,
            "spec.mpiReplicaSpecs[Launcher].replicas: Invalid value: 2: must be 1",
        ),
        (
            (*REPLICAS, "Worker", "replicas"),
            0,
            "spec.mpiReplicaSpecs[Worker].replicas: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            ("metadata", "name"),
            "1abc",
            'metadata.name: Invalid value: "1abc": will not able to create pod and service with invalid DNS label '
            '"1abc-worker-1": a DNS-1035 label must consist of',
        ),
    ],
)
def test_job_that_mpi_operator_does_not_run_is_impossible(path: Path, value: Any, words: str) -> None:
    answer = judged(job_of(changed(mpi_job(gpus=0), path, value)), ROOM)

    assert answer.verdict == "impossible"
    assert answer.reasons[0].reason.startswith(f"MPIJob is invalid: {words}")
    step = f"the operator does not accept this MPIJob. Correct {words.partition(': ')[0]}."
    assert answer.next == f"launcher: {step}"


@pytest.mark.parametrize(
    ("item", "path", "value", "words"),
    [
        pytest.param(
            pytorch_job(workers=1, gpus=0),
            ("metadata", "name"),
            "a.b",
            'metadata.name: Invalid value: "a.b": should match: a DNS-1035 label must',
            id="name",
        ),
        pytest.param(
            pytorch_job(workers=2, gpus=0, master=True),
            ("spec", "pytorchReplicaSpecs", "Master", "replicas"),
            2,
            "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1",
            id="two-masters",
        ),
        pytest.param(
            pytorch_job(workers=1, gpus=0),
            ("spec", "pytorchReplicaSpecs"),
            {"worker": pytorch_job(workers=1, gpus=0)["spec"]["pytorchReplicaSpecs"]["Worker"]},
            'spec.pytorchReplicaSpecs[worker]: Unsupported value: "worker": supported values: "Master", "Worker"',
            id="lower-case",
        ),
        pytest.param(
            tf_job(servers=1, workers=1, gpus=0),
            ("spec", "tfReplicaSpecs"),
            dict.fromkeys(("Chief", "Master"), tf_job(servers=1, workers=1, gpus=0)["spec"]["tfReplicaSpecs"]["PS"]),
            "spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role",
            id="chief-and-master",
        ),
        pytest.param(
            tf_job(servers=1, workers=1, gpus=0),
            ("spec", "tfReplicaSpecs", "PS", "template", "spec", "containers", 0, "name"),
            "main",
            "spec.tfReplicaSpecs[PS].template.spec.containers: Required value: must have at least one container with "
            "name tensorflow",
            id="container",
        ),
    ],
)
def test_job_that_the_training_operator_does_not_run_is_impossible(
    item: Object, path: Path, value: Any, words: str
) -> None:
    right, wrong = (judged(job_of(each), ROOM) for each in (item, changed(item, path, value)))

    assert (right.verdict, wrong.verdict) == ("fits", "impossible")
    assert wrong.reasons[0].reason.startswith(f"{item['kind']} is invalid: {words}")


def test_job_that_only_newer_operators_refuse_fits() -> None:
    job = changed(mpi_job(gpus=0, version="v1"), (*REPLICAS, "Worker", "replicas"), 0)
    room = node("a", {"ephemeral-storage": "10Gi"})

    assert judged(job_of(job), [room], others=[definition("MPIJob", "v1")]).verdict == "fits"


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(valid_job(), id="job"),
        pytest.param(valid_set(), id="stateful-set"),
        pytest.param({**valid_job(), "metadata": {"generateName": "a-"}}, id="generated-name"),
        pytest.param({**mpi_job(gpus=0), "metadata": {"generateName": "a-"}}, id="generated-name-of-an-mpijob"),
        pytest.param(changed(valid_job(), POD, mounted({"name": "data", "mountPath": "/x"})), id="mounted"),
        pytest.param(
            changed(valid_job(), (*MAIN, "ports"), _ports({"hostPort": 1}, {"hostPort": 1, "protocol": "UDP"})),
            id="protocols",
        ),
        pytest.param(
            changed(valid_job(), ("spec",), {**valid_job()["spec"], "completionMode": "Indexed"}),
            id="default-completions",
        ),
        pytest.param(
            changed(
                changed(valid_set(), POD, {**mounted({"name": "disk", "mountPath": "/x"}), "restartPolicy": "Always"}),
                ("spec", "volumeClaimTemplates"),
                [{"metadata": {"name": "disk"}, "spec": CLAIM}],
            ),
            id="claim-template",
        ),
        pytest.param(
            mpi_job(gpus=0, worker=mounted({"name": "ssh-auth", "mountPath": "/x"})), id="volume-of-the-operator"
        ),
    ],
)
def test_what_the_api_server_defaults_or_adds_is_no_mistake(item: Object) -> None:
    assert not [each for each in judged(job_of(item), ROOM).reasons if "is invalid" in each.reason]
