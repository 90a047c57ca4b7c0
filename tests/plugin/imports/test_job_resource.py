"""Test how the fields of job resources become values, and which messages unusual fields cause."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.imports.draft import Draft
from distrain.imports.jobs.image import NO_IMAGE
from distrain.values.placeholder import IMAGE
from tests.plugin.imports.drafts import Job, drafted, mpi_job, pods, pytorch_job


def _lost(draft: Draft) -> dict[str, str]:
    return dict(draft.lost)


def _noted(draft: Draft, *words: str) -> bool:
    return any(all(word in note for word in words) for note in draft.notes)


def test_np_that_is_not_the_number_of_ranks_is_noted() -> None:
    draft = drafted(mpi_job({"command": ["mpirun", "-np", "16", "python", "a.py"]}))

    assert draft.values()["command"] == ["python", "a.py"]
    assert _noted(draft, "-np 16", "2 workers x 1 = 2 ranks")


@pytest.mark.parametrize("np", ["2", "$NP"])
def test_np_that_fits_or_is_a_variable_is_not_noted(np: str) -> None:
    assert not _noted(drafted(mpi_job({"command": ["mpirun", "-np", np, "python", "a.py"]})), "ranks")


def test_options_of_mpirun_become_values() -> None:
    words = (
        "mpirun -x NCCL_DEBUG=INFO -x NCCL_ALGO=Ring -x PATH -mca pml ucx -mca coll_hcoll_enable 0 --tag-output "
        "-mca btl_tcp_if_exclude lo,docker0 -mca oob_tcp_if_exclude lo,docker0 --report-bindings python a.py"
    )

    values = drafted(mpi_job({"command": words.split()})).values()

    assert values["network"] == {"ncclDebug": "INFO", "excludeInterfaces": ["lo", "docker0"]}
    assert values["mpi"]["env"] == {"NCCL_ALGO": "Ring"}
    assert values["mpi"]["mca"] == {"pml": "ucx", "coll_hcoll_enable": 0}
    assert values["mpi"]["flags"] == ["--bind-to", "none", "--map-by", "slot", "--tag-output", "--report-bindings"]


def test_remote_shell_of_the_source_is_listed() -> None:
    words = [
        "mpirun",
        "-mca",
        "plm_rsh_agent",
        "/etc/mpi/kubexec.sh",
        "-mca",
        "orte_default_hostfile",
        "/h",
        "python",
        "a.py",
    ]

    draft = drafted(mpi_job({"command": words}, version="v2beta1"))

    assert "mpi" not in draft.values()
    assert [place.rpartition(": ")[2] for place in _lost(draft)] == [
        "--mca plm_rsh_agent /etc/mpi/kubexec.sh",
        "--mca orte_default_hostfile /h",
    ]


def test_launchers_variable_reaches_the_ranks_if_mpirun_exports_it() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]

    values = drafted(mpi_job({"command": ["mpirun", "-x", "A", "python", "a.py"], "env": env})).values()

    assert values["env"] == [{"name": "A", "value": "1"}]
    assert values["launcher"]["env"] == [{"name": "B", "value": "2"}]


@pytest.mark.parametrize(
    ("resource", "values"),
    [
        ("nvidia.com/gpu", {"gpus": 4}),
        ("amd.com/gpu", {"gpus": 4, "gpuResource": "amd.com/gpu"}),
        ("gpu.intel.com/i915", {"gpus": 4, "gpuResource": "gpu.intel.com/i915"}),
        ("habana.ai/gaudi", {"gpus": 4, "gpuResource": "habana.ai/gaudi"}),
        ("nvidia.com/mig-1g.5gb", {"gpus": 4, "gpuResource": "nvidia.com/mig-1g.5gb"}),
    ],
)
def test_gpus_of_each_vendor_are_counted(resource: str, values: Job) -> None:
    found = drafted(mpi_job(worker={"resources": {"limits": {resource: 4}}})).values()["workers"]

    assert {key: found[key] for key in values} == values


def test_share_of_a_gpu_is_a_resource_and_no_gpu() -> None:
    workers = drafted(mpi_job(worker={"resources": {"limits": {"aliyun.com/gpu-mem": 8}}})).values()["workers"]

    assert workers["gpus"] == 0
    assert workers["resources"]["limits"] == {"aliyun.com/gpu-mem": 8}


@pytest.mark.parametrize(
    ("resources", "values"),
    [
        pytest.param(
            {"limits": {"cpu": 2, "memory": "4Gi"}},
            {"cpu": 2, "memory": "4Gi", "resources": {"limits": {"cpu": 2}}},
            id="limits",
        ),
        pytest.param({"requests": {"cpu": "500m"}}, {"cpu": "500m"}, id="cpu-request"),
        pytest.param(
            {"requests": {"memory": "1Gi"}}, {"resources": {"requests": {"memory": "1Gi"}}}, id="memory-request"
        ),
        pytest.param(
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            id="burstable",
        ),
        pytest.param({"requests": {"memory": "1024Mi"}, "limits": {"memory": "1Gi"}}, {"memory": "1024Mi"}, id="equal"),
        pytest.param({"limits": {"memory": "1e9"}}, {"resources": {"limits": {"memory": 1000000000}}}, id="exponent"),
        pytest.param(
            {"requests": {"example.com/nic": 1}}, {"resources": {"limits": {"example.com/nic": 1}}}, id="device"
        ),
    ],
)
def test_requests_and_limits_keep_their_meaning(resources: Job, values: Job) -> None:
    found = drafted(mpi_job(worker={"resources": resources})).values()["workers"]

    assert found == {"gpus": 0, "replicas": 2, **values}


def _with_shm(volume: Job) -> Draft:
    job = mpi_job(
        worker={"volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}], "resources": {"limits": {"memory": "8Gi"}}}
    )
    pods(job, "Worker")["volumes"] = [{"name": "v", **volume}]
    return drafted(job)


@pytest.mark.parametrize(
    ("volume", "size"),
    [({"medium": "Memory", "sizeLimit": "64Mi"}, "64Mi"), ({"medium": "Memory"}, "8Gi")],
    ids=["limit", "all-memory"],
)
def test_memory_at_dev_shm_becomes_its_size(volume: Job, size: str) -> None:
    draft = _with_shm({"emptyDir": volume})

    assert not _noted(draft, "workers.shm")
    assert draft.values()["workers"]["shm"] == size
    assert "volumes" not in draft.values()


def test_small_dev_shm_of_gpu_workers_is_noted() -> None:
    mounts = [{"name": "v", "mountPath": "/dev/shm"}]
    job = mpi_job(worker={"volumeMounts": mounts, "resources": {"limits": {"nvidia.com/gpu": 4}}})
    pods(job, "Worker")["volumes"] = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]

    draft = drafted(job)

    assert draft.values()["workers"]["shm"] == "64Mi"
    assert _noted(draft, "workers.shm: 64Mi is small for 4 ranks")


def test_folder_of_the_node_at_dev_shm_is_left_out_and_noted() -> None:
    draft = _with_shm({"hostPath": {"path": "/dev/shm"}})

    assert "shm" not in draft.values()["workers"]
    assert _noted(draft, "/dev/shm is no memory of the pod's own")


@pytest.mark.parametrize(
    ("image", "values"),
    [
        ("a/b:1", {"repository": "a/b", "tag": "1"}),
        ("host:5000/b", {"repository": "host:5000/b", "tag": "latest", "pullPolicy": "Always"}),
        (f"a/b:1@sha256:{'0' * 64}", {"repository": "a/b", "tag": "1", "digest": f"sha256:{'0' * 64}"}),
    ],
)
def test_image_is_taken_apart(image: str, values: Job) -> None:
    draft = drafted(mpi_job({"image": image}, {"image": image}))

    assert draft.values()["image"] == values
    assert _noted(draft, "may be another image") == (values.get("tag") == "latest")


def test_login_in_an_images_name_is_neither_tag_nor_shown() -> None:
    draft = drafted(pytorch_job({"image": "me:hunter2@reg.example.com/a/b:1"}))

    assert draft.values()["image"]["repository"] == IMAGE
    assert "hunter2" not in str(draft.values())
    assert draft.lost[0] == ("spec.pytorchReplicaSpecs.{Worker,Master}.template.spec.containers[0].image", NO_IMAGE)


def test_launcher_of_pytorch_under_mpi_is_noted_as_mpirun_sets_no_rank() -> None:
    draft = drafted(mpi_job({"command": ["deepspeed", "--num_gpus", "1", "a.py"], "image": "a/deepspeed:1"}))

    assert draft.value(("framework",)) == "pytorch"
    words = "deepspeed gave the ranks RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR; mpirun gives none: set job.kind"
    assert [note for note in draft.notes if words in note]


def test_source_without_an_image_gets_the_placeholder() -> None:
    assert drafted(pytorch_job({"image": None})).values()["image"] == {"repository": IMAGE}


def test_master_and_workers_are_counted_together_and_their_differences_listed() -> None:
    job = pytorch_job()
    pods(job, "Master")["nodeSelector"] = {"pool": "a"}

    draft = drafted(job)

    assert draft.values()["job"] == {"elastic": False}
    assert draft.values()["workers"]["replicas"] == 3
    assert _lost(draft) == {
        "spec.pytorchReplicaSpecs.Master.template.spec.nodeSelector.pool": (
            "all pods here are made from spec.pytorchReplicaSpecs.Worker.template.spec.containers[0], "
            "which has no value there"
        )
    }


def test_variables_of_the_master_are_compared_by_name_and_listed_by_name() -> None:
    job = pytorch_job({"env": [{"name": "SAME", "value": "1"}, {"name": "LEVEL", "value": "1"}]})
    own = {"name": "API_TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}
    pods(job, "Master")["containers"] = [dict(pods(job, "Master")["containers"][0])]
    pods(job, "Master")["containers"][0]["env"] = [
        {"name": "LOG", "value": "debug"}, own, {"name": "LEVEL", "value": "2"}, {"name": "SAME", "value": "1"},
    ]  # fmt: skip

    place = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env"
    why = "all pods here are made from spec.pytorchReplicaSpecs.Worker.template.spec.containers[0], which has"
    assert _lost(drafted(job)) == {
        f"{place}[0]": f"{why} no value for the variable LOG",
        f"{place}[1]": f"{why} no value for the variable API_TOKEN",
        f"{place}[2]": f"{why} another value for the variable LEVEL",
    }


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        ({"minReplicas": 1, "maxReplicas": 4}, {"minReplicas": 1, "maxReplicas": 4}),
        ({}, {"minReplicas": 3, "maxReplicas": 3}),
        ({"maxReplicas": 2}, {"minReplicas": 2, "maxReplicas": 3}),
    ],
)
def test_elastic_policy_has_the_operators_defaults(policy: Job, values: Job) -> None:
    workers = drafted(pytorch_job(spec={"elasticPolicy": policy}, Worker=3)).values()["workers"]

    assert {key: workers[key] for key in values} == values


@pytest.mark.parametrize(
    ("security", "level"),
    [
        pytest.param({}, "baseline", id="nothing"),
        pytest.param({"hostNetwork": True}, "privileged", id="host-network"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}, "privileged", id="host-path"),
    ],
)
def test_pod_security_allows_what_the_source_does(security: Job, level: str) -> None:
    job = pytorch_job()
    for role in ("Master", "Worker"):
        pods(job, role).update(security)

    assert drafted(job).values()["podSecurity"] == level


@pytest.mark.parametrize("field", ["hostPID", "shareProcessNamespace"])
def test_processes_of_other_containers_are_left_out(field: str) -> None:
    shared, alone = pytorch_job(), pytorch_job()
    for role in ("Master", "Worker"):
        pods(shared, role)[field] = True
        pods(alone, role)[field] = False

    draft, other = drafted(shared), drafted(alone)

    assert draft.values() == other.values() == drafted(pytorch_job()).values()
    [(place, why)] = [each for each in draft.lost if field in each[0]]
    assert place == f"spec.pytorchReplicaSpecs.{{Worker,Master}}.template.spec.{field}"
    assert "signal process 1" in why
    assert not [each for each in other.lost if field in each[0]]


def test_pods_that_meet_restricted_stay_restricted_and_may_write_to_their_image() -> None:
    context = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 1234,
    }

    values = drafted(pytorch_job({"securityContext": context})).values()

    assert "podSecurity" not in values
    assert values["runAsUser"] == 1234
    assert values["workers"]["containerSecurityContext"]["readOnlyRootFilesystem"] is False


def test_queue_of_kueue_and_of_volcano_become_a_gang() -> None:
    kueue = pytorch_job()
    kueue["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q", "team": "a"}
    volcano = pytorch_job(spec={"runPolicy": {"schedulingPolicy": {"queue": "q", "minAvailable": 3}}})

    found = [drafted(kueue).values(), drafted(volcano).values()]

    assert [each["gang"] for each in found] == [
        {"scheduler": "kueue", "queue": "q"},
        {"scheduler": "volcano", "queue": "q"},
    ]
    assert found[0]["commonLabels"] == {"team": "a"}


def test_never_restarted_workers_end_the_run_at_the_first_failure() -> None:
    job = pytorch_job()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Never"

    assert drafted(job).values()["job"]["maxRestarts"] == 0


def test_folder_of_the_program_is_kept() -> None:
    folder = {"workingDir": "/work"}

    values = [drafted(job).values() for job in (mpi_job(folder), pytorch_job(folder))]

    assert values[0]["mpi"]["flags"][-2:] == ["--wdir", "/work"]
    assert values[1]["command"] == ["sh", "-c", 'cd "$0" && exec "$@"', "/work", "python", "train.py"]


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        pytest.param({"command": None, "args": ["--lr", "1"]}, ["PROGRAM-TO-FILL-IN", "--lr", "1"], id="args-alone"),
        pytest.param({"command": None}, ["PROGRAM-TO-FILL-IN"], id="nothing"),
        pytest.param(
            {"command": None, "args": ["bash", "-c", "torchrun a.py"]}, ["python3", "a.py"], id="args-with-a-program"
        ),
    ],
)
def test_program_of_the_image_is_asked_for(fields: Job, command: list[str]) -> None:
    draft = drafted(pytorch_job(fields))

    assert draft.values()["command"] == command
    assert _noted(draft, "docker image inspect") == (command[0] == "PROGRAM-TO-FILL-IN")


def test_command_of_one_word_with_spaces_is_a_line() -> None:
    draft = drafted(mpi_job({"command": ["mpirun -np 2 python a.py"]}))

    assert draft.values()["command"] == ["python", "a.py"]


@pytest.mark.parametrize(
    ("command", "is_listed"),
    [
        (["/usr/sbin/sshd", "-De"], False),
        (["sleep", "infinity"], False),
        (["sh", "-c", "mkdir -p /run/sshd; /usr/sbin/sshd -De"], False),
        (["sh", "-c", "pip install einops && sleep infinity"], True),
        (["python", "serve.py"], True),
    ],
)
def test_command_of_workers_that_do_more_than_wait_is_listed(command: list[str], is_listed: bool) -> None:
    draft = drafted(mpi_job(worker={"command": command}))

    assert any(".Worker." in place for place in _lost(draft)) == is_listed


def test_volume_named_as_one_of_the_chart_gets_another_name() -> None:
    job = mpi_job(worker={"volumeMounts": [{"name": "tmp", "mountPath": "/scratch"}]})
    pods(job, "Worker")["volumes"] = [{"name": "tmp", "emptyDir": {}}]

    values = drafted(job).values()

    assert values["volumes"] == [{"name": "own-tmp", "emptyDir": {}}]
    assert values["volumeMounts"] == [{"name": "own-tmp", "mountPath": "/scratch"}]


def test_ranks_of_another_number_per_worker_are_listed() -> None:
    draft = drafted(mpi_job(spec={"slotsPerWorker": 4}))

    assert _lost(draft)["spec.slotsPerWorker"].endswith("workers.replicas 8 gives as many ranks")


def test_transport_is_left_to_open_mpi_where_the_workers_have_rdma() -> None:
    limits: dict[str, Any] = {"nvidia.com/gpu": 8, "rdma/hca": 1}

    values = drafted(mpi_job(worker={"resources": {"limits": limits}})).values()

    assert values["mpi"]["mca"] == {"pml": None, "btl": None}
