"""Inject faults that occur in real clusters.

The faults come from outside the pods: processes are killed or halted, and networks are cut.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.cluster import lifecycle, namespaces
from lab.cluster.namespaces import NODE_ADDRESS
from lab.errors import LabError
from lab.paths import LOG_DIR
from lab.s3.server import Server
from lab.waiting import wait_for_port, wait_until


def processes(pod_uid: str, *words: str) -> list[int]:
    """Find a pod's processes whose command line contains all these words.

    Return their process ids on the host, the oldest process first.
    """
    found = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return sorted((pid for pid in found if pod_uid in _text(pid, "cgroup") and _has(pid, words)), key=_age)


def send(number: signal.Signals, pod_uid: str, *words: str) -> int:
    """Send a signal to the youngest of a pod's processes whose command line contains all these words. Return its pid.

    Raises LabError if no process matches.
    """
    pids = processes(pod_uid, *words)
    if not pids:
        raise LabError(f"pod {pod_uid} runs nothing with {' '.join(words)}")
    os.kill(pids[-1], number)
    return pids[-1]


@contextmanager
def halted(pod_uid: str, *words: str) -> Iterator[int]:
    """Halt a process of a pod with SIGSTOP while the block runs.

    After the block, send SIGCONT if the process still exists.
    """
    pid = send(signal.SIGSTOP, pod_uid, *words)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def cut(pod_uid: str, address: str, port: int | None = None) -> Iterator[None]:
    """Drop all packets between a pod and an address. Its connections then hang, and no side closes them.

    With `port`, drop only packets to and from this TCP port.
    """
    sides = [("OUTPUT", "--destination", "--dport"), ("INPUT", "--source", "--sport")]
    rules = [[chain, side, address, *_tcp(flag, port)] for chain, side, flag in sides]
    with _ruled(pod_uid, [[*rule, "--jump", "DROP"] for rule in rules]):
        yield


@contextmanager
def redirected(pod_uid: str, address: str, port: int, to: int) -> Iterator[None]:
    """Redirect a pod's TCP connections: those to `port` of this address go to the port `to` instead."""
    chain = ["OUTPUT", "--table", "nat", "--destination", address, *_tcp("--dport", port)]
    with _ruled(pod_uid, [[*chain, "--jump", "DNAT", "--to-destination", f"{address}:{to}"]]):
        yield


def slow_down(pod_uid: str, bits_per_second: float) -> None:
    """Limit the bits per second that a pod can send, until the pod ends.

    The headers of the network frames count, too.
    """
    pid = processes(pod_uid)[0]
    # The bucket lets a burst of 43 frames pass at once. The queue holds everything that TCP sends before it waits for
    # an acknowledgement.
    shape = ["tbf", "rate", f"{bits_per_second:.0f}bit", "burst", "64kb", "limit", "20mb"]
    run = ["nsenter", "--target", str(pid), "--net", "tc", "qdisc", "replace", "dev", "eth0", "root", *shape]
    namespaces.run_on_host(*run)


def restart(component: str, *flags: str) -> None:
    """Kill a component of the cluster, for example kubelet, and start it with the same command and additional flags."""
    pid, registered = started(component), _registered()
    command = _text(pid, "cmdline").rstrip("\0").split("\0")
    os.kill(pid, signal.SIGKILL)
    wait_until(f"{component}'s end", lambda: not namespaces.is_running(component), pause=0.1)
    namespaces.start(component, [*command, *flags])
    if component == "kubelet":
        # Until the device plugin has registered again, kubelet rejects pods that request GPUs.
        wait_until("the device plugin", lambda: _registered() > registered, pause=0.1)
        wait_until("the node's GPUs", lifecycle.has_gpus, pause=0.2)


def started(name: str) -> int:
    """Return the process id of the component that the lab has started under this name.

    The component is the child of an nsenter process.
    """
    entering = namespaces.pid(name)
    children = _text(entering, f"task/{entering}/children").split() if entering else []
    if not children:
        raise LabError(f"{name} does not run")
    return int(children[0])


def _registered() -> int:
    """Return how often the device plugin has registered with kubelet."""
    return (LOG_DIR / "gpus.log").read_text().count(" registered ")


@contextmanager
def refusing_s3(port: int) -> Iterator[None]:
    """Run a second S3 server on the node. Its keys differ from the lab's keys, so it refuses the lab's requests."""
    name, server = "refusing-s3", Server.new(f"{NODE_ADDRESS}:{port}")
    with tempfile.TemporaryDirectory() as folder:
        namespaces.start(name, server.command(Path(folder) / "s3"), server.environment())
        try:
            wait_for_port(NODE_ADDRESS, port)
            yield
        finally:
            os.kill(started(name), signal.SIGKILL)


def _tcp(flag: str, port: int | None) -> list[str]:
    return [] if port is None else ["--protocol", "tcp", flag, str(port)]


@contextmanager
def _ruled(pod_uid: str, rules: list[list[str]]) -> Iterator[None]:
    """Insert iptables rules in a pod's network namespace, and delete them after the block."""
    pid = processes(pod_uid)[0]
    for rule in rules:
        _iptables(pid, "--insert", *rule)
    try:
        yield
    finally:
        with suppress(LabError):  # the rules have disappeared with the pod
            for rule in rules:
                _iptables(pid, "--delete", *rule)


def _iptables(pid: int, *rule: str) -> None:
    namespaces.run_on_host("nsenter", "--target", str(pid), "--net", "iptables", "--wait", *rule)


def _age(pid: int) -> tuple[int, int]:
    """Return a sort key that orders processes by their start time.

    The kernel reuses process ids, so they do not show which process is older.
    """
    fields = _text(pid, "stat").rpartition(")")[2].split()
    return (int(fields[19]) if fields else 0, pid)


def _has(pid: int, words: tuple[str, ...]) -> bool:
    line = _text(pid, "cmdline").replace("\0", " ")
    return all(word in line for word in words)


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # the process has ended
        return ""
