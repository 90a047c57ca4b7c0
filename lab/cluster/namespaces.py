"""Create the namespaces in which the whole cluster runs, and run processes in them.

One `pause` process holds a network, a mount and a PID namespace. All other processes of the cluster run inside. When
`pause` ends, the kernel ends all of them, and removes the mounts, links and iptables rules with their namespaces.
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
    """Create the namespaces, the network link between them and the host, and the pods' cgroup."""
    LOG_DIR.mkdir(parents=True)
    KUBELET_DIR.mkdir(exist_ok=True)
    _start_holder()
    _make_cgroup()
    # kubelet always keeps its device plugins' socket in KUBELET_DIR, and the host may run a kubelet too. So mount a
    # separate folder there.
    kubelet_dir = STATE_DIR / "kubelet"
    kubelet_dir.mkdir()
    run("mount", "--bind", str(kubelet_dir), str(KUBELET_DIR))
    _connect_to_host()


def exists() -> bool:
    """Return whether the process that holds the namespaces is alive."""
    return _holder_pid() is not None


def destroy() -> None:
    """End every process of the cluster, and with them the mounts, links and iptables rules. Then remove its folder."""
    pid = _holder_pid()
    if pid:
        os.kill(pid, signal.SIGKILL)
        _wait_until_gone(Path(f"/proc/{pid}"))
        # The kernel removes a namespace's links some time after its last process has ended.
        _wait_until_gone(Path(f"/sys/class/net/{LINK}"))
    _remove_cgroup()
    with contextlib.suppress(OSError):  # A folder that is not empty belongs to the host.
        KUBELET_DIR.rmdir()
    shutil.rmtree(STATE_DIR, ignore_errors=True)


def start(
    name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a long-running process inside the namespaces. Its output goes to <LOG_DIR>/<name>.log."""
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
    """Return whether the process that `start` has started under this name is alive."""
    return pid(name) is not None


def pid(name: str) -> int | None:
    """Return the pid of the process that `start` has started under this name, or None if it has ended."""
    return _alive(STATE_DIR / f"{name}.pid")


def last_words(name: str) -> str:
    return ((LOG_DIR / f"{name}.log").read_text(errors="replace").splitlines() or ["it said nothing"])[-1]


def run(*command: str) -> str:
    """Run a command inside the namespaces, and return its output. Raises LabError with its message if it fails."""
    return run_on_host(*_enter(), *command)


def run_on_host(*command: str) -> str:
    """Run a command outside the namespaces, as `run` does."""
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
    """Delay Ctrl-C: a holder process without a recorded pid could never be stopped."""
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
        run_on_host(*command)
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{NODE_ADDRESS}/30", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    # kubelet and kube-proxy find the node's address by the default route. The gateway forwards nothing.
    run("ip", "route", "add", "default", "via", HOST_ADDRESS)
    run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")


def _make_cgroup() -> None:
    for controller in _cgroup_roots():
        if controller.name != "unified":  # cgroup v2 mounted beside v1 has no controllers
            (controller / CGROUP).mkdir(exist_ok=True)


def _remove_cgroup() -> None:
    for controller in _cgroup_roots():
        for folder, _, _ in os.walk(controller / CGROUP, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(folder)


def _cgroup_roots() -> list[Path]:
    """Return the mounted cgroup hierarchies: one per controller in cgroup v1, a single one in v2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _identity(pid: int) -> str:
    """Return a process's pid and start time, which together are unique. Raises ProcessLookupError if it has ended."""
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
