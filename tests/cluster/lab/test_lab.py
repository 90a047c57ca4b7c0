"""Test that the lab leaves nothing on the machine, even if its start was interrupted."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.builds import golang
from lab.cluster import faults, lifecycle, namespaces, teardown
from lab.cluster.namespaces import LINK
from lab.paths import REPOSITORY, STATE_DIR
from lab.waiting import wait_until
from tests.cluster.lab import machine


def _leftovers() -> list[str]:
    """List everything that the lab has left on this machine."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/mounts").read_text()
    found = [name for name, text in (("link", links), ("mount", mounts)) if LINK in text or str(STATE_DIR) in text]
    found += ["iptables rule"] if "KUBE-" in rules or "CNI-" in rules else []
    found += machine.cgroups()
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


@pytest.mark.parametrize("path", [pytest.param("distrain", id="v2"), pytest.param("memory/distrain", id="v1")])
def test_search_finds_the_labs_cgroup_in_both_versions(tmp_path: Path, path: str) -> None:
    (tmp_path / path).mkdir(parents=True)

    assert machine.cgroups(tmp_path) == [f"cgroup {tmp_path / path}"]


def test_a_clean_cluster_leaves_nothing(restored_lab: None) -> None:
    lifecycle.up()
    assert _leftovers() != []  # While the cluster runs, `_leftovers` must find something.

    # A user may call `make clean` in a shell without the Python environment that started the cluster.
    environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(["make", "clean"], cwd=REPOSITORY, env=environment, check=True)

    assert _leftovers() == []


@pytest.mark.full
def test_stopped_processes_keep_nothing_when_the_lab_has_been_killed(restored_lab: None) -> None:
    """A program that ends a user's session may stop all processes with SIGSTOP before it kills them one by one."""
    lifecycle.up()
    holder, nsenter = (namespaces.pid(name) for name in ("holder", "etcd"))
    assert holder
    assert nsenter
    os.kill(faults.started("etcd"), signal.SIGSTOP)
    wait_until("nsenter to stop as etcd has", lambda: _is_stopped(nsenter))
    os.kill(holder, signal.SIGKILL)

    teardown.down()

    assert _leftovers() == []


def test_holder_that_cannot_be_recorded_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    holders: list[int] = []

    def identity(pid: int) -> str:
        holders.append(pid)
        return "1 1"

    monkeypatch.setattr(namespaces, "_identity", identity)
    monkeypatch.setattr(namespaces, "_HOLDER", Path("/dev/full"))
    golang.build(["pause"])

    with pytest.raises(OSError, match="No space left"):
        namespaces._start_holder()

    wait_until("the end of the holder", lambda: not Path(f"/proc/{holders[0]}").exists())


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# `make bench-guest` interrupts `make demo` at 20 moments; this test interrupts only the lab's start.
@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_start_that_is_stopped_leaves_the_machine_as_it_was(restored_lab: None, number: signal.Signals) -> None:
    teardown.down()
    before = machine.state()
    start = subprocess.Popen(
        [sys.executable, "-m", "lab", "up"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # If a shell runs the tests in the background, child processes ignore SIGINT unless a test undoes this.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    # When this file exists, all components have been started, and kubelet has checked the kernel settings.
    wait_until("kubelet's first files", lambda: (STATE_DIR / "outside/var/lib/kubelet/cpu_manager_state").exists())
    assert machine.state() != before
    os.killpg(start.pid, number)

    output, _ = start.communicate(timeout=300)

    assert start.returncode == 130, output
    assert _leftovers() == []
    assert machine.state() == before
