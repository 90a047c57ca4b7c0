"""The namespaces that the whole cluster lives in, and the processes inside them.

One `pause` process holds a network, mount and process namespace. All else of the cluster runs inside, so ending that
process ends every other one, and every mount, link and iptables rule goes with its namespace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.builds import golang
from lab.errors import LabError
from lab.paths import LOG_DIR, STATE_DIR

HOST_ADDRESS = "10.213.0.1"
NODE_ADDRESS = "10.213.0.2"
LINK = "distrain0"
CGROUP = "distrain"
KUBELET_DIR = Path("/var/lib/kubelet")

_HOLDER = STATE_DIR / "holder.pid"
_CGROUPS = Path("/sys/fs/cgroup")


def create() -> None:
    """Make the namespaces, the link between them and the host, and the cgroup that the pods run under."""
    LOG_DIR.mkdir(parents=True)
    KUBELET_DIR.mkdir(exist_ok=True)
    _start_holder()
    _make_cgroup()
    # kubelet keeps its device plugins' socket there whatever its root folder is, and the host may run a kubelet too.
    kubelet_dir = STATE_DIR / "kubelet"
    kubelet_dir.mkdir()
    run("mount", "--bind", str(kubelet_dir), str(KUBELET_DIR))
    _connect_to_host()


def exists() -> bool:
    """Whether the process that holds the namespaces is alive."""
    return _holder_pid() is not None


def destroy() -> None:
    """End every process of the cluster, and with them their mounts, links and rules; then remove its folder."""
    pid = _holder_pid()
    if pid:
        os.kill(pid, signal.SIGKILL)
        _wait_until_gone(Path(f"/proc/{pid}"))
        # The kernel takes a namespace's links down after the last process, in its own time.
        _wait_until_gone(Path(f"/sys/class/net/{LINK}"))
    _remove_cgroup()
    with contextlib.suppress(OSError):  # not ours when it holds something
        KUBELET_DIR.rmdir()
    shutil.rmtree(STATE_DIR, ignore_errors=True)


def start(
    name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a long-running process inside; its output goes to <LOG_DIR>/<name>.log."""
    with (LOG_DIR / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [*_enter(), *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    (STATE_DIR / f"{name}.pid").write_text(_identity(process.pid))
    return process


def is_running(name: str) -> bool:
    """Whether the process that `start` made under this name is alive."""
    return pid(name) is not None


def pid(name: str) -> int | None:
    """Return the id of the process that `start` made under this name, None when it has ended."""
    return _alive(STATE_DIR / f"{name}.pid")


def last_words(name: str) -> str:
    """Return the last line of a process's log."""
    return ((LOG_DIR / f"{name}.log").read_text(errors="replace").splitlines() or ["it said nothing"])[-1]


def run(*command: str) -> str:
    """Run a command inside to its end and return its output. Raises LabError with its words."""
    return _finish([*_enter(), *command])


def _finish(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _start_holder() -> None:
    unshare = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"]
    with _uninterrupted():
        parent = subprocess.Popen(
            [*unshare, str(golang.binary("pause"))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _HOLDER.write_text(_identity(_only_child(parent)))


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back: a holder whose pid is not written down could never be ended."""
    held: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if held:
            raise KeyboardInterrupt


def _only_child(parent: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while parent.poll() is None:
        if pids := children.read_text().split():
            return int(pids[0])
        time.sleep(0.01)
    raise ChildProcessError("unshare ended at once")


def _holder_pid() -> int | None:
    return _alive(_HOLDER)


def _enter() -> list[str]:
    return ["nsenter", "--target", str(_holder_pid()), "--net", "--mount", "--pid", "--"]


def _connect_to_host() -> None:
    link = ["ip", "link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", str(_holder_pid())]
    for command in (
        link,
        ["ip", "address", "add", f"{HOST_ADDRESS}/30", "dev", LINK],
        ["ip", "link", "set", LINK, "up"],
    ):
        _finish(command)
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{NODE_ADDRESS}/30", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    # kubelet and kube-proxy want a default route to tell the node's address by; nothing answers behind it.
    run("ip", "route", "add", "default", "via", HOST_ADDRESS)
    run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")


def _make_cgroup() -> None:
    for controller in _cgroup_roots():
        if controller.name != "unified":  # version 2 beside version 1 has no controllers
            (controller / CGROUP).mkdir(exist_ok=True)


def _remove_cgroup() -> None:
    for controller in _cgroup_roots():
        for folder, _, _ in os.walk(controller / CGROUP, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(folder)


def _cgroup_roots() -> list[Path]:
    """The mounted hierarchies: one per controller in version 1, one in all in version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _identity(pid: int) -> str:
    """A process's pid and start time, which together never come again. Raises ProcessLookupError when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    if fields[0] == "Z":
        raise ProcessLookupError(pid)
    return f"{pid} {fields[19]}"


def _alive(pid_file: Path) -> int | None:
    try:
        recorded = pid_file.read_text()
        pid = int(recorded.split()[0])
        return pid if _identity(pid) == recorded else None
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return None


def _wait_until_gone(path: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
