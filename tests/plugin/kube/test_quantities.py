"""Test parsing quantities, and summing up the requests of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.kube.quantities import Units, allocatable, rounded_down, text, units
from distrain.pods import pods_protobuf
from distrain.pods.pod_requests import held, pod_limits
from distrain.pods.pods_json import JsonPod
from lab.static_api import protobuf


@pytest.mark.parametrize(
    ("resource", "quantity", "amount"),
    [
        pytest.param("cpu", "500m", 500, id="millis"),
        pytest.param("cpu", "2", 2000, id="whole-cpus"),
        pytest.param("cpu", 0.5, 500, id="yaml-number"),
        pytest.param("cpu", "100u", 1, id="less-than-a-milli-is-rounded-up"),
        pytest.param("memory", "1Gi", 2**30, id="binary"),
        pytest.param("memory", "1.5G", 1_500_000_000, id="decimal"),
        pytest.param("memory", "128974848000m", 128974848, id="milli-bytes"),
        pytest.param("memory", "1e3", 1000, id="exponent"),
        pytest.param("memory", "1E3", 1000, id="exponent-in-upper-case"),
        pytest.param("memory", "25e-1", 3, id="negative-exponent"),
        pytest.param("memory", "2E", 2 * 10**18, id="exa"),
        pytest.param("memory", "1Ei", 2**60, id="exbi"),
        pytest.param("memory", "1Pi", 2**50, id="pebi"),
        pytest.param("memory", "3k", 3000, id="kilo"),
        pytest.param("memory", "1500000000n", 2, id="nano"),
        pytest.param("memory", "+.5Ki", 512, id="sign-and-no-leading-digit"),
        pytest.param("memory", "1.", 1, id="point-at-the-end"),
        pytest.param("memory", "10E", 2**63 - 1, id="largest"),
        pytest.param("nvidia.com/gpu", 8, 8, id="count"),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(resource: str, quantity: kube.Quantity, amount: int) -> None:
    assert units(resource, quantity) == amount


@pytest.mark.parametrize("quantity", ["two", "4GB", "NaN", "", "1K", "1 Gi", "1e", "1_000", "m"])
def test_invalid_quantity_is_refused(quantity: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        units("memory", quantity)


@pytest.mark.parametrize(
    ("resource", "amount", "written"),
    [
        pytest.param("cpu", 1500, "1500m", id="millis"),
        pytest.param("cpu", 2000, "2", id="whole-cpus"),
        pytest.param("memory", 512 * 2**20, "512Mi", id="mebibytes"),
        pytest.param("memory", 1_000_000_001, "1000000001", id="odd-bytes-stay-exact"),
        pytest.param("nvidia.com/gpu", 1024, "1024", id="counts-have-no-suffix"),
    ],
)
def test_amounts_are_written_without_loss(resource: str, amount: int, written: str) -> None:
    assert text(resource, amount) == written


def test_suggested_amount_never_exceeds_the_capacity() -> None:
    assert rounded_down("memory", 16_393_244 * 1024) == "15.6Gi"
    assert rounded_down("memory", 2**30) == "1Gi"


def _request(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Mapping[str, int]:
    """Return a pod's requests. Assert that the pod has the same requests in JSON and in protobuf."""
    pod = {"spec": spec, "status": status or {}}
    [found] = pods_protobuf.pods(memoryview(protobuf.page(protobuf.pods([pod]))))
    request = held(msgspec.json.decode(msgspec.json.encode(pod), type=JsonPod).kind)
    assert held(found.kind) == request
    return request


def _container(name: str = "main", restart: str | None = None, **resources: Any) -> dict[str, Any]:
    return {"name": name, "restartPolicy": restart, "resources": resources}


def test_containers_add_up() -> None:
    spec = {"containers": [_container(requests={"cpu": "1"}), _container("side", requests={"cpu": "250m"})]}

    assert _request(spec) == {"cpu": 1250, "pods": 1}


def test_limit_stands_for_a_missing_request() -> None:
    spec = {"containers": [_container(limits={"nvidia.com/gpu": 4, "memory": "2Gi"}, requests={"memory": "1Gi"})]}

    assert _request(spec) == {"nvidia.com/gpu": 4, "memory": 2**30, "pods": 1}


def test_init_container_counts_where_it_needs_more_than_the_rest() -> None:
    spec = {
        "initContainers": [_container("init", requests={"cpu": "4", "memory": "1Gi"})],
        "containers": [_container(requests={"cpu": "1", "memory": "2Gi"})],
    }

    assert _request(spec) == {"cpu": 4000, "memory": 2 * 2**30, "pods": 1}


def test_sidecar_stays_beside_the_containers_and_the_later_init_containers() -> None:
    sidecar = _container("side", "Always", requests={"cpu": "1"})
    after = _container("init", requests={"cpu": "3"})
    main = _container(requests={"cpu": "2"})

    assert _request({"initContainers": [sidecar, after], "containers": [main]})["cpu"] == 4000
    assert _request({"initContainers": [after, sidecar], "containers": [main]})["cpu"] == 3000


def test_resources_of_the_pod_replace_the_sum_and_overhead_is_added() -> None:
    spec = {
        "containers": [_container(requests={"cpu": "1", "nvidia.com/gpu": "1"})],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "250m"},
    }

    assert _request(spec) == {"cpu": 3250, "nvidia.com/gpu": 1, "pods": 1}


def test_pod_with_limits_of_its_own_asks_for_what_its_containers_do() -> None:
    limits = {"limits": {"cpu": "8", "memory": "4Gi", "hugepages-2Mi": "4Mi"}}

    asked = _request({"containers": [_container(requests={"cpu": "3"})], "resources": limits})

    assert asked == {"cpu": 3000, "memory": 4 * 2**30, "hugepages-2Mi": 4 * 2**20, "pods": 1}


def test_pod_with_huge_pages_keeps_the_request_that_it_was_created_with() -> None:
    main = _container("main", requests={"memory": "1Gi"}, limits={"hugepages-2Mi": "4Mi"})
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"memory": "2Gi"}}}]}

    assert _request({"containers": [main], "resources": {"requests": {"cpu": "1"}}}, status)["memory"] == 2**30


def test_sum_is_rounded_up_and_not_its_parts() -> None:
    halves = [_container(requests={"memory": "500m"}), _container(requests={"memory": "500m"})]

    assert _request({"containers": halves})["memory"] == 1


def _resized(requests: str | None, allocated: str | None, **more: Any) -> dict[str, Any]:
    resources = {"resources": {"requests": {"cpu": requests}}} if requests else {}
    held = {"allocatedResources": {"cpu": allocated}} if allocated else {}
    return {"containerStatuses": [{"name": "main", **resources, **held}], **more}


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param(_resized("2", "4"), 4000, id="allocated"),
        pytest.param(_resized("4", "2"), 4000, id="actual"),
        pytest.param(_resized("1", "1"), 3000, id="asked"),
        pytest.param(_resized(None, "4"), 3000, id="kubelet-has-not-reported-yet"),
        pytest.param(_resized("1", "2", conditions=INFEASIBLE), 2000, id="infeasible"),
        pytest.param(_resized("1", "2", conditions=DEFERRED), 3000, id="deferred"),
    ],
)
def test_pod_resized_in_place_holds_the_larger_figure(status: dict[str, Any], cpu: int) -> None:
    assert _request({"containers": [_container(requests={"cpu": "3"})]}, status)["cpu"] == cpu


@pytest.mark.parametrize(("restart", "cpu"), [("Always", 4000), ("", 1000)])
def test_of_init_containers_only_a_sidecar_is_resized(restart: str, cpu: int) -> None:
    status = {
        "initContainerStatuses": [
            {"name": "init", "resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "4"}}
        ]
    }

    assert _request({"initContainers": [_container("init", restart, requests={"cpu": "1"})]}, status)["cpu"] == cpu


def test_limits_are_summed_like_requests_and_overhead_raises_those_that_are_set() -> None:
    spec = {
        "containers": [_container(limits={"cpu": "1"}), _container(requests={"cpu": "1", "memory": "1Gi"})],
        "initContainers": [_container("init", limits={"memory": "2Gi"})],
        "overhead": {"cpu": "250m", "ephemeral-storage": "1Gi"},
    }

    assert pod_limits(msgspec.convert(spec, kube.PodSpec)) == {"cpu": 1250, "memory": 2 * 2**30}


@pytest.mark.parametrize(
    ("status", "amounts"),
    [
        pytest.param({"allocatable": {"cpu": "3"}, "capacity": {"cpu": "4", "pods": "9"}}, {"cpu": 3000}, id="said"),
        pytest.param({"capacity": {"cpu": "4"}}, {"cpu": 4000}, id="missing-altogether"),
        pytest.param({"allocatable": {}, "capacity": {"cpu": "4"}}, {}, id="empty-is-said"),
    ],
)
def test_node_gives_its_capacity_only_where_it_says_nothing(status: dict[str, Any], amounts: Units) -> None:
    assert allocatable(msgspec.convert({"status": status}, kube.Node)) == amounts


def test_pod_that_asks_for_nothing_still_takes_a_slot() -> None:
    assert _request({"containers": [_container()]}) == {"pods": 1}
