"""Test the defaults that the API server sets in a pod."""

from __future__ import annotations

import msgspec
import pytest

from distrain import kube
from distrain.workload.defaulting import LOST, stored
from tests.plugin.objects import Object


def _stored(spec: Object) -> kube.PodSpec:
    return stored(msgspec.convert(spec, kube.PodSpec))


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param([], LOST, id="none"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], LOST, id="another-taint"),
        pytest.param([{"key": LOST[0], "operator": "Exists", "effect": "NoExecute"}], LOST[1:], id="one-of-both"),
        pytest.param([{"key": LOST[1], "effect": "NoSchedule"}], LOST, id="another-effect"),
        pytest.param([{"key": LOST[1], "value": "x"}], LOST[:1], id="any-effect"),
        pytest.param([{"operator": "Exists"}], (), id="every-taint"),
    ],
)
def test_lost_node_is_tolerated_for_a_while(given: list[Object], added: tuple[str, ...]) -> None:
    tolerations = _stored({"tolerations": given}).tolerations or []

    assert tolerations[: len(given)] == msgspec.convert(given, list[kube.Toleration])
    assert [one.key for one in tolerations[len(given) :]] == list(added)
    assert {(one.operator, one.effect) for one in tolerations[len(given) :]} <= {("Exists", "NoExecute")}


def test_ports_on_the_nodes_network_are_the_nodes() -> None:
    containers = [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}, {"name": "none"}]

    spec = _stored({"hostNetwork": True, "containers": containers, "initContainers": containers[:1]})

    for container in ((spec.containers or [])[0], (spec.init_containers or [])[0]):
        assert [port.host_port for port in container.ports or ()] == [80, 8081]


def test_ports_on_the_pods_own_network_are_not_the_nodes() -> None:
    containers = [{"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}]

    (container,) = _stored({"containers": containers}).containers or ()

    assert [port.host_port for port in container.ports or ()] == [None, 8081]


def test_volume_without_a_source_is_an_empty_directory() -> None:
    volumes = [{"name": "work"}, {"name": "host", "hostPath": {"path": "/"}}]

    spec = stored(msgspec.convert({"volumes": volumes}, kube.TemplateSpec))

    assert [volume.sources for volume in spec.volumes or ()] == [["emptyDir"], ["hostPath"]]
