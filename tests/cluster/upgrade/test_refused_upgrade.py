"""Test that a refused upgrade leaves the running job and its release unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster import client
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import VALUES, Namespace, settings, without_run1
from tests.cluster.upgrade.syncing import sync
from tests.matrix import one_of

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"
KINDS = "mpijobs,pytorchjobs,jobs,pods,services,secrets,configmaps,serviceaccounts,roles,rolebindings"
RUN = ["run1", str(CHART), "-f", str(VALUES / "vgg16.yaml")]
SLEEPS = {"command": ["sleep", "600"], "workers.gpus": 3, "workers.replicas": 2, "preflight.enabled": True}
# TOO_LARGE is a job that does not fit on the lab's 8 GPUs. ANOTHER is a job that fits.
TOO_LARGE = {**SLEEPS, "workers.gpus": 4, "workers.replicas": 3}
ANOTHER = {**SLEEPS, "workers.gpus": 4}
PYTORCH = {"framework": "pytorch", "image.repository": "distrain/pytorch", "job.elastic": False}
FORMS = [
    pytest.param({}, "mpijobs", id="mpijob"),
    pytest.param({"job.kind": "Plain"}, "jobs", id="plain", marks=pytest.mark.full),
    pytest.param(PYTORCH, "pytorchjobs", id="pytorchjob", marks=pytest.mark.full),
]


@pytest.fixture
def images_of(form: dict[str, str], request: pytest.FixtureRequest) -> None:
    """Load the images that the job needs. The lab does not load PyTorch's image when it starts."""
    if "framework" in form:
        request.getfixturevalue("all_images")


def _objects(namespace: Namespace) -> set[str]:
    """Return the namespace's objects without the Pod of the refused preflight check."""
    found = client.kubectl("-n", namespace.name, "get", KINDS, "-o", "name").split()
    return {name for name in found if "preflight" not in name}


def _uids(namespace: Namespace, kind: str) -> set[str]:
    """Return the UIDs of the run's job and pods, without pods that are being deleted."""
    return {
        item["metadata"]["uid"]
        for item in namespace.get(f"{kind},pods -l app.kubernetes.io/instance=run1")
        if item["metadata"]["labels"].get("app.kubernetes.io/component") != "preflight"
        and "deletionTimestamp" not in item["metadata"]
    }


def _helm(namespace: Namespace, helm: Path, *arguments: str, works: bool = True) -> None:
    done = namespace.helm(helm, *arguments)
    assert (done.returncode == 0) == works, f"{arguments}: {done.stdout}{done.stderr}"


def _wait_for_workers(namespace: Namespace) -> None:
    """Wait until both pods run. A PyTorchJob has a Master instead of the first worker."""

    def have_both() -> bool:
        return sum("-worker-" in name or "-master-" in name for name in namespace.running_pods()) == 2

    wait_until("two workers", have_both, seconds=120)


@pytest.mark.parametrize("helm", one_of(["helm3", "helm4"]), indirect=True)
@pytest.mark.parametrize(("form", "kind"), FORMS)
def test_running_job_stays_whatever_follows_and_goes_with_its_release(
    namespace: Namespace, helm: Path, form: dict[str, str], kind: str, images_of: None
) -> None:
    before = without_run1(_objects(namespace))
    _helm(namespace, helm, "install", *RUN, *settings({**SLEEPS, **form}))
    _wait_for_workers(namespace)
    running = _uids(namespace, kind)

    _helm(namespace, helm, "upgrade", *RUN, *settings({**TOO_LARGE, **form}), works=False)
    assert _uids(namespace, kind) == running
    _helm(namespace, helm, "rollback", "run1", "1")
    assert _uids(namespace, kind) == running

    _helm(namespace, helm, "upgrade", *RUN, *settings({**TOO_LARGE, **form}), works=False)
    _helm(namespace, helm, "upgrade", *RUN, *settings({**ANOTHER, **form}))
    _wait_for_workers(namespace)
    assert not _uids(namespace, kind) & running

    _helm(namespace, helm, "upgrade", *RUN, *settings({**TOO_LARGE, **form}), works=False)
    _helm(namespace, helm, "uninstall", "run1")
    wait_until("the end of all of it", lambda: _objects(namespace) == before, pause=0.5)


@pytest.mark.full
@pytest.mark.parametrize(("form", "kind"), FORMS)
def test_running_job_stays_after_a_sync_that_was_refused_and_is_replaced_by_one_that_was_not(
    namespace: Namespace, helm4: Path, form: dict[str, str], kind: str, images_of: None
) -> None:
    assert sync(namespace, helm4, *RUN, *settings({**SLEEPS, **form}))
    _wait_for_workers(namespace)
    running = _uids(namespace, kind)

    assert not sync(namespace, helm4, *RUN, *settings({**TOO_LARGE, **form}))
    assert _uids(namespace, kind) == running
    assert sync(namespace, helm4, *RUN, *settings({**SLEEPS, **form}))
    assert _uids(namespace, kind) == running

    assert sync(namespace, helm4, *RUN, *settings({**ANOTHER, **form}))
    _wait_for_workers(namespace)
    assert not _uids(namespace, kind) & running
    client.kubectl("-n", namespace.name, "delete", kind, "--all")
