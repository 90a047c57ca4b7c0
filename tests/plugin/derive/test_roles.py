"""Test what `derive` says about the workers' QoS class, and how `derive` counts GPUs from resource claims."""

from __future__ import annotations

import pytest

from tests.plugin.derive.deriving import Derive
from tests.plugin.program import Outcome

LIMITED = "workers: {gpus: 0, cpu: 8, memory: 16Gi, resources: {limits: {cpu: 8}}"


def qos_of(outcome: Outcome) -> str:
    """Return the text about the QoS class that `derive` has written into the file, or "" if there is none."""
    lines = [line for line in outcome.out.splitlines() if line.startswith("#   QoS class ")]
    return lines[0].removeprefix("#   QoS class ").strip() if lines else ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(
            f"{LIMITED}}}\n",
            "Guaranteed: the cpu and memory limits of every container of a worker are its requests",
            id="guaranteed",
        ),
        pytest.param("workers: {gpus: 0, cpu: 8, memory: 16Gi}\n", "", id="no-limit-is-asked-for"),
        pytest.param(
            f"{LIMITED}, sidecars: [{{name: exporter, image: e}}]}}\n",
            "Burstable, not Guaranteed: container exporter has no cpu limit",
            id="sidecar-without-limits",
        ),
        pytest.param(
            "workers: {gpus: 0, cpu: 4, memory: 16Gi, resources: {limits: {cpu: 8}}}\n",
            "Burstable, not Guaranteed: the cpu limit of container worker is not its request",
            id="request-below-the-limit",
        ),
        pytest.param(
            "workers: {gpus: 0, resources: {limits: {cpu: 8}}}\n",
            "Burstable, not Guaranteed: container worker has no memory limit",
            id="no-memory-limit",
        ),
        pytest.param(
            f"framework: pytorch\njob: {{elastic: false}}\n{LIMITED}}}\n",
            "Burstable, not Guaranteed: the cpu limit of container init-pytorch is not its request",
            id="container-of-the-operator",
        ),
    ],
)
def test_file_tells_the_qos_class_of_workers_with_a_cpu_limit(derive: Derive, values: str, words: str) -> None:
    outcome = derive(values)

    assert (outcome.code, outcome.err) == (0, "")
    assert qos_of(outcome) == words
    assert derive(outcome.out, "--check").code == 0


CLAIMED = 'workers: {gpuResource: "", podSpec: {resourceClaims: [{name: a, resourceClaimTemplateName: b}]}'


def test_gpus_of_claims_are_ranks(derive: Derive) -> None:
    outcome = derive(f"{CLAIMED}, replicas: 2, gpus: 8}}\n")

    assert (outcome.code, outcome.err) == (0, "")
    assert "#   world size        16 = 2 workers x 8 ranks\n" in outcome.out


def test_gpus_of_claims_are_not_looked_for_on_the_nodes(derive: Derive) -> None:
    asked = derive(f"gpus: 16\n{CLAIMED}}}\n")
    stated = derive(f"gpus: 16\n{CLAIMED}}}\n", "--node-gpus", "8")

    assert asked.code == 2
    assert "workers.gpuResource: is empty, so the GPUs per node are unknown; set workers.replicas" in asked.err
    assert (stated.workers["replicas"], stated.workers["gpus"]) == (2, 8)
