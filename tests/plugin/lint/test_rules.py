"""Test each warning, beside values of its kind that give none."""

from __future__ import annotations

import pytest

from tests.plugin.lint.warned import warned
from tests.plugin.objects import node

EFA = "vpc.amazonaws.com/efa"
P5 = node("a", {EFA: "32"}, gpu="8", cpu="192", memory="2048Gi")
ROOT = "podSecurity: privileged"
EFA_VARIABLE = "{name: FI_PROVIDER, value: efa}"


@pytest.mark.parametrize(
    ("values", "path"),
    [
        pytest.param("workers: {env: [{name: FI_PROVIDER, value: efa}]}", "workers.env FI_PROVIDER: is efa", id="role"),
        pytest.param("env: [{name: FI_EFA_FORK_SAFE, value: '1'}]", "env FI_EFA_FORK_SAFE: is 1", id="top"),
        pytest.param("mpi: {env: {FI_PROVIDER: efa}}", "mpi.env.FI_PROVIDER: is efa", id="mpi"),
    ],
)
def test_variable_for_efa_needs_an_interface(values: str, path: str) -> None:
    (warning,) = warned(values, P5)

    better = f"set workers.resources.limits to {{{EFA}: 32}}, or remove the variable"
    assert warning == f"{path}, but the workers ask for no EFA interface; {better}"


def test_variable_for_efa_is_removed_where_no_node_has_an_interface() -> None:
    (warning,) = warned("env: [{name: FI_PROVIDER, value: efa}]", node("a", gpu="8"))

    assert warning.endswith("; remove the variable: no node offers such an interface")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("{workers: {resources: {limits: {vpc.amazonaws.com/efa: 4}}}}", id="limit"),
        pytest.param("{podSecurity: privileged, network: {rdma: {resource: vpc.amazonaws.com/efa}}}", id="rdma"),
        pytest.param("{workers: {podSpec: {resourceClaims: [{name: efa}]}}}", id="claim"),
        pytest.param("{env: [{name: FI_PROVIDER, value: tcp}]}", id="other-provider"),
    ],
)
def test_variable_for_efa_with_an_interface_is_no_warning(values: str) -> None:
    variable = "env: [{name: FI_PROVIDER, value: efa}]"

    assert warned(values if "FI_PROVIDER" in values else f"{{{variable}, {values[1:]}", P5) == []


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("{mpi: {env: {FI_PROVIDER: null}}}", id="null"),
        pytest.param(f"{{env: [{EFA_VARIABLE}], workers: {{env: [{{name: FI_PROVIDER, value: tcp}}]}}}}", id="role"),
        pytest.param(f"{{launcher: {{env: [{EFA_VARIABLE}]}}}}", id="launcher"),
        pytest.param(
            f"{{env: [{EFA_VARIABLE}], workers: {{env: [{{name: FI_PROVIDER, valueFrom:"
            " {configMapKeyRef: {name: network, key: provider}}}]}}",
            id="from-elsewhere",
        ),
    ],
)
def test_variable_that_the_workers_do_not_get_is_no_warning(values: str) -> None:
    assert warned(values, P5) == []


def test_rdma_without_locked_memory_is_a_warning() -> None:
    (warning,) = warned("workers: {resources: {limits: {rdma/ib: 8}}}")

    assert warning.startswith(
        "workers.resources.limits.rdma/ib: is for RDMA, and the workers may lock no more memory than"
    )
    assert warning.endswith("set network.rdma to {resource: rdma/ib, count: 8}, and podSecurity to privileged")


def test_rdma_with_the_capability_but_without_root_is_a_warning() -> None:
    (warning,) = warned(f"{{{ROOT}, runAsUser: 1000, network: {{rdma: {{resource: nvidia.com/mlnxnics}}}}}}")

    assert warning.startswith("runAsUser: is 1000, and the capability IPC_LOCK")
    assert warning.endswith("; set it to 0")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(f"{{{ROOT}, network: {{rdma: {{resource: rdma/ib}}}}}}", id="network-rdma"),
        pytest.param(
            f"{{{ROOT}, workers: {{resources: {{limits: {{rdma/ib: 1}}}},"
            " containerSecurityContext: {capabilities: {add: [IPC_LOCK]}}}}",
            id="capability",
        ),
        pytest.param("workers: {gpuResource: nvidia.com/mig-1g.5gb}", id="no-rdma"),
    ],
)
def test_rdma_with_locked_memory_is_no_warning(values: str) -> None:
    assert warned(values) == []


@pytest.mark.parametrize("value", ["{gpus: 4, shm: 512Mi}", "{gpus: 4, memory: 512Mi}"])
def test_small_shared_memory_is_a_warning(value: str) -> None:
    (warning,) = warned(f"workers: {value}")

    path = "workers.shm" if "shm" in value else "workers.memory"
    found = "leaves 512Mi for /dev/shm, less than the 1Gi of NCCL's guide"
    assert warning == f"{path}: {found}; set it to 4Gi or more, 1Gi for each rank"


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ("{workers: {gpus: 4, resources: {limits: {memory: 512Mi}}}}", "workers.resources.limits.memory"),
        ("{workers: {gpus: 4}, resources: {limits: {memory: 512Mi}}}", "resources.limits.memory"),
        ("{workers: {gpus: 4, shm: 512Mi, resources: {limits: {memory: 8Gi}}}}", "workers.shm"),
    ],
)
def test_small_shared_memory_of_a_memory_limit_is_a_warning(values: str, path: str) -> None:
    (warning,) = warned(values)

    assert warning.startswith(f"{path}: leaves 512Mi for /dev/shm")


def test_memory_request_alone_makes_no_small_shared_memory() -> None:
    assert warned("workers: {gpus: 4, resources: {requests: {memory: 512Mi}}}") == []


@pytest.mark.parametrize("value", ["{gpus: 4, shm: 1Gi}", "{gpus: 0, shm: 512Mi}", "{gpus: 4, shm: 1Gi, memory: 4Gi}"])
def test_shared_memory_of_nccls_guide_is_no_warning(value: str) -> None:
    assert warned(f"workers: {value}") == []


@pytest.mark.parametrize(
    ("values", "path"),
    [
        pytest.param("network: {interface: ib0}", "network.interface: is ib0", id="value"),
        pytest.param("env: [{name: NCCL_SOCKET_IFNAME, value: en}]", "env NCCL_SOCKET_IFNAME: is en", id="variable"),
        pytest.param(
            "workers: {annotations: {k8s.v1.cni.cncf.io/networks: rdma},"
            " env: [{name: GLOO_SOCKET_IFNAME, value: net2}]}",
            "workers.env GLOO_SOCKET_IFNAME: is net2",
            id="annotation",
        ),
    ],
)
def test_interface_that_no_worker_has_is_a_warning(values: str, path: str) -> None:
    (warning,) = warned(values)

    assert warning.startswith(f"{path}, but the workers have eth0, lo")
    assert warning.endswith("; set it to eth0, the pods' own network, or leave it out")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("network: {interface: eth0}", id="own-network"),
        pytest.param("env: [{name: NCCL_SOCKET_IFNAME, value: eth}]", id="prefix"),
        pytest.param("env: [{name: NCCL_SOCKET_IFNAME, value: '^docker'}]", id="excluded"),
        pytest.param("{podAnnotations: {k8s.v1.cni.cncf.io/networks: 'a,b'}, network: {interface: net2}}", id="multus"),
        pytest.param(
            "{podAnnotations: {k8s.v1.cni.cncf.io/networks: 'a@rail0'}, network: {interface: rail0}}", id="multus-name"
        ),
        pytest.param(
            '{podAnnotations: {k8s.v1.cni.cncf.io/networks: \'[{"name": "a"}]\'}, network: {interface: net1}}',
            id="multus-json",
        ),
        pytest.param(
            '{podAnnotations: {networking.gke.io/interfaces: \'[{"interfaceName": "eth4"}]\'},'
            " network: {interface: eth4}}",
            id="gke",
        ),
        pytest.param(f"{{{ROOT}, podSpec: {{hostNetwork: true}}, network: {{interface: ib0}}}}", id="unknown-network"),
    ],
)
def test_interface_that_the_workers_may_have_is_no_warning(values: str) -> None:
    assert warned(values) == []


HOST = f"{ROOT}, podSpec: {{hostNetwork: true"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param("{podSpec: {dnsPolicy: Default}}", "podSpec.dnsPolicy: is Default, which", id="top"),
        pytest.param("{workers: {podSpec: {dnsPolicy: Default}}}", "workers.podSpec.dnsPolicy: is Default", id="role"),
        pytest.param("{launcher: {podSpec: {dnsPolicy: Default}}}", "launcher.podSpec.dnsPolicy", id="launcher"),
        pytest.param(f"{{{HOST}, dnsPolicy: ClusterFirst}}}}", "podSpec.dnsPolicy: is ClusterFirst, which", id="host"),
        pytest.param(
            "{podSpec: {dnsConfig: {options: [{name: ndots, value: '3'}]}}}",
            "podSpec.dnsConfig: sets ndots to 3, less than 4",
            id="dots",
        ),
    ],
)
def test_names_that_are_not_found_are_a_warning(values: str, words: str) -> None:
    (warning,) = warned(values)

    assert warning.startswith(words)
    assert "so that the names of the job's pods are not found; " in warning


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("{podSpec: {dnsPolicy: ClusterFirst}}", id="cluster"),
        pytest.param(f"{{{HOST}}}}}", id="host-network"),
        pytest.param("{podSpec: {dnsConfig: {options: [{name: ndots, value: '4'}, {name: edns0}]}}}", id="dots"),
    ],
)
def test_names_that_are_found_are_no_warning(values: str) -> None:
    assert warned(values) == []


def test_sshd_on_the_nodes_port_is_a_warning() -> None:
    (warning,) = warned(f"{{{ROOT}, podSpec: {{hostNetwork: true}}, ssh: {{port: 22}}}}")

    assert warning.startswith("ssh.port: is 22, on which the node's own sshd listens")
    assert warning.endswith("; set it to 2222")


@pytest.mark.parametrize("values", ["ssh: {port: 22}", "podSpec: {hostNetwork: true}"])
def test_sshd_on_another_port_is_no_warning(values: str) -> None:
    assert warned(f"{{{ROOT}, {values}}}") == []


@pytest.mark.parametrize(
    ("value", "path", "better"),
    [
        pytest.param("cpu: 64", "workers.cpu: is 64", "48", id="cpu"),
        pytest.param("memory: 1Ti", "workers.memory: is 1Ti", "512Gi", id="memory"),
        pytest.param("resources: {requests: {cpu: 50}}", "workers.resources.requests.cpu: is 50", "48", id="resources"),
    ],
)
def test_more_than_the_share_of_the_gpus_is_a_warning(value: str, path: str, better: str) -> None:
    (warning,) = warned(f"workers: {{gpus: 2, {value}}}", P5)

    assert warning.startswith(f"{path}, more than the share of 2 GPUs of a node, {better}, ")
    assert warning.endswith(f"; set it to {better} or less")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("{gpus: 2, cpu: 48, memory: 512Gi}", id="share"),
        pytest.param("{gpus: 8, cpu: 180}", id="whole-node"),
        pytest.param("{gpus: 5, cpu: 180}", id="too-few-gpus-left"),
        pytest.param("{gpus: 0, cpu: 180}", id="no-gpus"),
    ],
)
def test_share_of_the_gpus_is_no_warning(value: str) -> None:
    assert warned(f"workers: {value}", P5) == []


def test_node_where_nothing_is_left_over_takes_a_worker_without_a_warning() -> None:
    assert warned("workers: {gpus: 2, cpu: 64}", P5, node("b", gpu="2", cpu="96")) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            "gpus: 16",
            "workers.gpus: is 16, and no node has more than 8 nvidia.com/gpu; set it to 8 or less",
            id="gpus",
        ),
        pytest.param(
            "cpu: 500", "workers.cpu: is 500, and no node has more than 192 cpu; set it to 192 or less", id="cpu"
        ),
        pytest.param(
            "resources: {limits: {example.com/nic: 1}}",
            "workers.resources.limits.example.com/nic: is 1, and no node has more than 0 example.com/nic;"
            " remove it, or add nodes that offer it",
            id="device",
        ),
    ],
)
def test_worker_larger_than_any_node_is_a_warning_of_doctor(value: str, expected: str) -> None:
    assert warned(f"workers: {{{value}}}", P5, with_size=True)[-1:] == [expected]


def test_worker_of_the_size_of_a_node_is_no_warning() -> None:
    assert warned("workers: {gpus: 8, cpu: 192, memory: 2048Gi}", P5, with_size=True) == []


@pytest.mark.parametrize("value", ["gpus: 16", "gpus: 8, cpu: 500"])
def test_check_says_by_its_verdict_that_a_worker_is_too_large(value: str) -> None:
    assert warned(f"workers: {{{value}}}", P5) == []


@pytest.mark.parametrize(
    ("length", "found"),
    [
        pytest.param(131_071 - len("LONG="), [], id="at-the-limit"),
        pytest.param(
            131_072 - len("LONG="),
            [
                "env LONG: has 131,072 bytes with its name, and Linux starts no program with more than 131,071; "
                "put the text into a file of the image or of a volume"
            ],
            id="over-the-limit",
        ),
    ],
)
def test_variable_longer_than_linux_passes_to_a_program(length: int, found: list[str]) -> None:
    assert warned(f"env: [{{name: LONG, value: {'x' * length}}}]", P5) == found
