"""Test which facts about a job are read from its object in the cluster."""

from __future__ import annotations

import pytest

from distrain import kube
from distrain.workload.live_job import gpus_of
from distrain.workload.manifest import PodRole


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        pytest.param({"cpu": 8, "memory": "8Gi", "nvidia.com/gpu": 4}, 4, id="gpus"),
        pytest.param({"nvidia.com/gpu": "8", "rdma/hca": "8"}, 8, id="gpus and network cards"),
        pytest.param({"nvidia.com/mig-1g.5gb": 2, "nvidia.com/hostdev": 1}, 2, id="parts of a GPU and a network card"),
        pytest.param({"habana.ai/gaudi": 8}, 8, id="another accelerator"),
        pytest.param({"cpu": 8, "hugepages-2Mi": "1Gi"}, 0, id="none"),
    ],
)
def test_network_cards_of_a_worker_are_not_counted_as_gpus(limits: dict[str, str | int | float], gpus: int) -> None:
    container = kube.TemplateContainer(name="trainer", resources=kube.Resources(limits=limits))

    assert gpus_of(PodRole("worker", 1, kube.TemplateSpec(containers=[container]), {}, "worker")) == gpus
