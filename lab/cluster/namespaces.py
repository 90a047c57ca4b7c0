"""Create the Linux namespaces in which the whole cluster runs, and run processes in them.

One process, `pause`, holds a network, a mount and a PID namespace. All other processes of the cluster run in these
namespaces. When `pause` ends, the kernel kills all other processes and removes the namespaces, with their mounts, links
and iptables rules.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.builds import golang
from lab.errors import LabError
from lab.paths import LOG_DIR, STATE_DIR
from lab.waiting import wait_until

# These signals stop a command of the lab. They come from Ctrl-C, `kill`, and a terminal that is closed.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HOST_ADDRESS = "10.213.0.1"
NODE_ADDRESS = "10.213.0.2"
LINK = "distrain0"
CGROUP = "distrain"
# The cluster's programs write to these folders, whatever their settings are. The host's own kubelet or containerd may
# use these folders, so the lab mounts its own folders over them.
OUTSIDE = tuple(map(Path, ("/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd")))
# These settings belong to the kernel of the whole machine. kubelet sets them to these values (function
# `setupKernelTunables`), but does not write a setting that already has its value. So the lab shows kubelet these values
# in files of its mount namespace, and the machine's settings stay as they are.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}

_HOLDER = STATE_DIR / "holder.pid"
# The lab creates the folders of OUTSIDE, and their parents, if the host lacks them. This file lists the folders that
# the lab has created.
_MADE = STATE_DIR / "made.txt"
_CGROUPS = Path("/sys/fs/cgroup")
_SYSCTLS = Path("/proc/sys")


def create() -> None:
    """Create the namespaces, their network link to the host, and the cgroup of the pods."""
    LOG_DIR.mkdir(parents=True)
    _make_mount_points()
    _start_holder()
    _make_cgroup()
    _cover_the_host()
    _connect_to_host()


def exists() -> bool:
    """Return whether the process that holds the namespaces is alive."""
    return _holder_pid() is not None


def destroy() -> None:
    """End all processes of the cluster. Remove its mounts, links, iptables rules and folder.

    Raises LabError with the names of everything that could not be removed.
    """
    holder = _holder_pid()
    # Each component was started by an nsenter process outside the PID namespace. If a component has been stopped with
    # SIGSTOP, its nsenter process is stopped, too. The nsenter process would then survive the end of the PID namespace,
    # and keep the network link.
    for process in filter(None, map(_alive, STATE_DIR.glob("*.pid"))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if holder:
        _wait_until_gone(Path(f"/proc/{holder}"))
    # After the last process of a network namespace has ended, the kernel takes some time to remove its links.
    _wait_until_gone(Path(f"/sys/class/net/{LINK}"))
    _remove_cgroup()
    made = _MADE.read_text().split() if _MADE.exists() else []
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # A program of the host has put files into the folder.
            os.rmdir(folder)
    if STATE_DIR.exists():
        shutil.rmtree(STATE_DIR)


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
    """Return whether the process that was started under this name is alive."""
    return pid(name) is not None


def pid(name: str) -> int | None:
    """Return the id of the process that was started under this name, or None if it has ended."""
    return _alive(STATE_DIR / f"{name}.pid")


def last_words(name: str) -> str:
    return ((LOG_DIR / f"{name}.log").read_text(errors="replace").splitlines() or ["it said nothing"])[-1]


def run(*command: str) -> str:
    """Run a command inside the namespaces, and return its output.

    If the command fails, raise LabError with the command's message.
    """
    return run_on_host(*_enter(), *command)


def in_network() -> list[str]:
    """Return the beginning of a command line (nsenter) that runs a command in the network of the cluster's pods."""
    return ["nsenter", "--target", str(_holder_pid()), "--net", "--"]


def run_on_host(*command: str) -> str:
    """Run a command outside the namespaces, and return its output or raise LabError, as `run` does."""
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
        holder = _only_child(parent)
        try:
            _HOLDER.write_text(_identity(holder))
        except OSError:
            os.kill(holder, signal.SIGKILL)
            raise


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back the signals in STOPPING until the block has ended.

    Without this, a signal could end the lab after it has started `pause` and before it has stored the process id. Then
    no later command could find `pause` and stop it.
    """
    held: list[int] = []
    previous = {number: signal.signal(number, lambda number, _: held.append(number)) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if held:
            raise KeyboardInterrupt


def _only_child(parent: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    wait_until("unshare's child process", lambda: bool(parent.poll() is not None or children.read_text()), pause=0.01)
    if parent.returncode is not None:
        raise ChildProcessError("unshare ended at once")
    return int(children.read_text().split()[0])


def _holder_pid() -> int | None:
    return _alive(_HOLDER)


def _enter() -> list[str]:
    return ["nsenter", "--target", str(_holder_pid()), "--net", "--mount", "--pid", "--"]


def _make_mount_points() -> None:
    folders = [folder for path in OUTSIDE for folder in (*reversed(path.parents), path)]
    made = [folder for folder in dict.fromkeys(folders) if not folder.exists()]
    _MADE.write_text("".join(f"{folder}\n" for folder in made))
    for folder in made:
        folder.mkdir()


def _cover_the_host() -> None:
    """In the lab's mount namespace, mount the lab's own folders and files over the host's."""
    for path in OUTSIDE:
        own = STATE_DIR / "outside" / path.relative_to("/")
        own.mkdir(parents=True)
        run("mount", "--bind", str(own), str(path))
    for name, value in KERNEL_SETTINGS.items():
        own = STATE_DIR / "sysctl" / name
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(f"{value}\n")
        run("mount", "--bind", str(own), str(_SYSCTLS / name))


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
    # kubelet and kube-proxy use the default route to find the node's address. The gateway forwards nothing.
    run("ip", "route", "add", "default", "via", HOST_ADDRESS)
    run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")


def _make_cgroup() -> None:
    for controller in _cgroup_roots():
        if controller.name != "unified":  # if cgroup v1 is used, a cgroup v2 beside it has no controllers
            (controller / CGROUP).mkdir(exist_ok=True)


def _remove_cgroup() -> None:
    for controller in _cgroup_roots():
        for folder, _, _ in os.walk(controller / CGROUP, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(folder)


def _cgroup_roots() -> list[Path]:
    """Return the folders of the cgroup hierarchies. cgroup v1 has one per controller, and v2 has a single one."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _identity(pid: int) -> str:
    """Return a process's id and start time, which together identify it.

    Raises ProcessLookupError if the process has ended.
    """
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


def _wait_until_gone(path: Path) -> None:
    what = f"the end of {path}; run `make clean` again once it is gone"
    # After all pods were killed at once, the kernel of a busy machine may need more than 20 s to remove the cgroup.
    wait_until(what, lambda: not path.exists(), seconds=120, pause=0.02)
