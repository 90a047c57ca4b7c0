"""Test NodePorts: which pods can share a node."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.scheduler.messages import NO_FREE_PORTS
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object, batch_job, node, pod, with_images


def _port(number: int, address: str = "", protocol: str = "") -> Object:
    more = {key: value for key, value in (("hostIP", address), ("protocol", protocol)) if value}
    return {"containerPort": number, "hostPort": number, **more}


def _with(port: Object, **more: Any) -> Object:
    return with_images({"containers": [{"name": "main", "ports": [port]}], **more})


def _job(port: Object, pods: int = 1) -> Object:
    return batch_job("web", {"spec": _with(port)}, parallelism=pods)


def _running(port: Object) -> Object:
    running = pod("p", on="a")
    running["spec"]["containers"][0]["ports"] = [port]
    return running


@pytest.mark.parametrize(
    ("asked", "held", "verdict"),
    [
        pytest.param(_port(80), _port(80), "busy", id="same"),
        pytest.param(_port(1), _port(1), "busy", id="lowest-port"),
        pytest.param(_port(80), _port(81), "fits", id="other-port"),
        pytest.param(_port(80), _port(80, protocol="UDP"), "fits", id="other-protocol"),
        pytest.param(_port(80), _port(80, protocol="TCP"), "busy", id="tcp-is-the-default"),
        pytest.param(_port(80, "10.0.0.1"), _port(80, "10.0.0.2"), "fits", id="other-address"),
        pytest.param(_port(80, "10.0.0.1"), _port(80, "10.0.0.1"), "busy", id="same-address"),
        pytest.param(_port(80), _port(80, "10.0.0.1"), "busy", id="all-addresses-asked"),
        pytest.param(_port(80, "10.0.0.1"), _port(80, "0.0.0.0"), "busy", id="all-addresses-held"),
        pytest.param(_port(80, "::"), _port(80, "10.0.0.1"), "fits", id="the-scheduler-takes-v6-for-one-address"),
    ],
)
def test_port_that_a_pod_holds_keeps_another_off(asked: Object, held: Object, verdict: str) -> None:
    answer = judged(job_of(_job(asked)), [node("a")], [_running(held)])

    assert answer.verdict == verdict
    assert [reason.reason for reason in answer.reasons] == ([NO_FREE_PORTS] if verdict == "busy" else [])


@pytest.mark.parametrize(("pods", "verdict"), [(2, "fits"), (3, "impossible")])
def test_node_takes_one_pod_of_a_port(pods: int, verdict: str) -> None:
    assert judged(job_of(_job(_port(80), pods)), [node("a"), node("b")]).verdict == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        pytest.param(_port(80, "10.0.0.1"), _port(80, "10.0.0.2"), "fits", id="addresses-of-their-own"),
        pytest.param(_port(80, "10.0.0.1"), _port(80), "impossible", id="one-on-all-addresses"),
        pytest.param(_port(80), _port(80), "impossible", id="both-on-all-addresses"),
    ],
)
def test_roles_of_a_job_keep_each_other_off(first: Object, second: Object, verdict: str) -> None:
    both = [_job(first), batch_job("db", {"spec": _with(second)})]

    assert judged(job_of(*both), [node("a")]).verdict == verdict


def test_ports_of_pods_on_the_hosts_network_are_host_ports() -> None:
    ssh = {"containerPort": 2222}

    assert judged(job_of(batch_job("w", {"spec": _with(ssh)}, parallelism=2)), [node("a")]).verdict == "fits"
    on_host = batch_job("w", {"spec": _with(ssh, hostNetwork=True)}, parallelism=2)
    assert judged(job_of(on_host), [node("a")]).verdict == "impossible"


@pytest.mark.parametrize(("restart", "verdict"), [("Always", "busy"), ("", "fits")])
def test_of_init_containers_only_a_sidecar_holds_its_port(restart: str, verdict: str) -> None:
    sidecar = {"name": "side", "ports": [_port(80)], **({"restartPolicy": restart} if restart else {})}
    running = pod("p", on="a")
    running["spec"]["initContainers"] = [sidecar]

    assert judged(job_of(_job(_port(80))), [node("a")], [running]).verdict == verdict


def test_ports_are_no_resource_that_an_answer_shows() -> None:
    answer = judged(job_of(_job(_port(80))), [node("a")])

    assert answer.pods[0].requests == {}
