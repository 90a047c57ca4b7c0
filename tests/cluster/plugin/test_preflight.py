"""Test the preflight check: a hook that runs in the cluster before Helm creates or changes the job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.cluster import client
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import VALUES, Namespace, settings
from tests.matrix import one_of

SYNTHETIC = ["-f", str(VALUES / "vgg16.yaml")]
# The command sleeps long enough for the tests to upgrade the run while it runs.
BUSY = {"command": ["sleep", "300"], "workers.gpus": 3, "preflight.enabled": True}
REFUSAL = re.compile(r"(busy|impossible): .* workers .*nvidia\.com/gpu.*")


def _hooks_left(namespace: Namespace) -> list[str]:
    kinds = "configmaps,serviceaccounts,pods,roles,rolebindings,clusterroles,clusterrolebindings"
    names = client.kubectl("-n", namespace.name, "get", kinds, "-o", "name").split()
    return [name for name in names if "preflight" in name]


@pytest.mark.parametrize("helm", one_of(["helm3", "helm4"]), indirect=True)
def test_job_that_does_not_fit_is_refused_before_it_is_created(namespace: Namespace, helm: Path) -> None:
    too_large = settings({**BUSY, "workers.replicas": 3})

    refused = namespace.helm(helm, "install", "run1", str(CHART), *SYNTHETIC, *too_large)

    assert refused.returncode != 0
    assert namespace.get("mpijobs") == []
    (pod,) = _hooks_left(namespace)
    assert pod.startswith("pod/")
    message = namespace.get("pods")[0]["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert REFUSAL.fullmatch(message)
    told = client.kubectl("-n", namespace.name, "logs", pod)
    assert told.rstrip().endswith(message)
    # The hook may leave out only pods that wait for a node, such as the previous test's pods. It must be able to read
    # everything else.
    left_out = re.findall("not judged: (.*)", told)
    assert all(re.fullmatch(r"pods that wait for a node and may take room first: [\d,]+", each) for each in left_out)
    client.kubectl("-n", namespace.name, "delete", pod)


@pytest.mark.parametrize("helm", one_of(["helm4", "helm3"]), indirect=True)
def test_run_of_its_own_counts_as_free_for_its_upgrade(namespace: Namespace, helm: Path) -> None:
    run = ["run1", str(CHART), *SYNTHETIC]
    installed = namespace.helm(helm, "install", *run, *settings({**BUSY, "workers.replicas": 2}))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert _hooks_left(namespace) == []
    wait_until("the workers", lambda: sum("-worker-" in name for name in namespace.running_pods()) == 2, pause=0.5)

    # The run occupies 6 of the lab's 8 GPUs. An upgrade replaces the job and so frees these GPUs.
    again = namespace.helm(helm, "upgrade", *run, *settings({**BUSY, "workers.replicas": 2, "workers.gpus": 4}))
    too_large = namespace.helm(helm, "upgrade", *run, *settings({**BUSY, "workers.replicas": 3, "workers.gpus": 4}))

    assert again.returncode == 0, again.stdout + again.stderr
    assert too_large.returncode != 0
    (pod,) = _hooks_left(namespace)
    assert REFUSAL.fullmatch(client.kubectl("-n", namespace.name, "logs", pod).splitlines()[-1])
    client.kubectl("-n", namespace.name, "delete", pod)
