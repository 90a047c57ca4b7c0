"""The lab itself: it leaves nothing behind, and a start that is broken off does not trip the next."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_helm_charts.clusters import Cluster

from lab import cluster, golang
from lab.namespaces import LINK
from lab.operators import Operators
from lab.paths import REPOSITORY, STATE_DIR


def _leftovers() -> list[str]:
    """Name everything of the lab that this machine still has, however it came there."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/mounts").read_text()
    found = [name for name, text in (("link", links), ("mount", mounts)) if LINK in text or str(STATE_DIR) in text]
    found += ["iptables rule"] if "KUBE-" in rules or "CNI-" in rules else []
    found += [str(path) for path in Path("/sys/fs/cgroup").glob("*/distrain")]
    found += [str(path) for path in (STATE_DIR, Path("/var/lib/kubelet")) if path.exists()]
    ours = (str(STATE_DIR), str(golang.binary("pause")))
    return found + [f"process {words}" for words in _processes() if any(name in words for name in ours)]


def _processes() -> list[str]:
    words = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return words


@pytest.fixture(scope="module")
def restored_lab(lab_operators: Operators) -> Iterator[None]:
    """A lab that the module's last tests may take down."""
    yield
    cluster.up()


def test_operator_is_no_administrator(lab: None) -> None:
    assert _operator_may("create", "jobs") == "yes"
    assert _operator_may("create", "deployments") == "no"


def _operator_may(verb: str, kind: str) -> str:
    operator = "--as=system:serviceaccount:mpi-operator:mpi-operator"
    question = [cluster.BIN_DIR / "kubectl", "auth", "can-i", verb, kind, operator]
    return subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()


def test_kubeflow_edit_knows_no_kubeflow_jobs_yet(kube_cluster: Cluster) -> None:
    role = kube_cluster.kubectl("get clusterrole kubeflow-edit")

    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert "pods" in granted
    assert not granted & {"mpijobs", "*"}


def test_a_clean_cluster_leaves_nothing(restored_lab: None) -> None:
    cluster.up()
    assert _leftovers() != []  # the search sees a cluster that runs

    cluster.down()

    assert _leftovers() == []


def test_ctrl_c_during_the_start_leaves_nothing(restored_lab: None) -> None:
    cluster.down()
    start = subprocess.Popen(
        [sys.executable, "-m", "lab", "up"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background may have them ignore Ctrl-C.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(3)
    os.killpg(start.pid, signal.SIGINT)

    output, _ = start.communicate(timeout=30)

    assert start.returncode == 130, output
    assert _leftovers() == []
