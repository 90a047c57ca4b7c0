"""Test that the lab leaves nothing on the machine, and that an interrupted start does not affect the next start."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

from lab.builds import golang
from lab.cluster import lifecycle
from lab.cluster.namespaces import LINK
from lab.paths import REPOSITORY, STATE_DIR
from lab.waiting import wait_until


def _leftovers() -> list[str]:
    """List everything that the lab has left on this machine."""
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


def test_a_clean_cluster_leaves_nothing(restored_lab: None) -> None:
    lifecycle.up()
    assert _leftovers() != []  # The search must find a running cluster.

    lifecycle.down()

    assert _leftovers() == []


def test_ctrl_c_during_the_start_leaves_nothing(restored_lab: None) -> None:
    lifecycle.down()
    start = subprocess.Popen(
        [sys.executable, "-m", "lab", "up"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where tests run in the background, their processes may ignore SIGINT.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    wait_until("the middle of the start", lambda: (STATE_DIR / "containerd.pid").exists())
    os.killpg(start.pid, signal.SIGINT)

    output, _ = start.communicate(timeout=120)

    assert start.returncode == 130, output
    assert _leftovers() == []
