"""Run the pods' scripts as kubelet does: as process 1, as root or an unprivileged user, with an SSH key owned by root.

If the tests run as root, each script gets a process namespace of its own. It also gets a mount namespace, in which
/etc/passwd contains the user. Nothing on the machine changes, and all processes end with the namespace's first process.
Without root, the scripts run as the tests' own user.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from lab.waiting import free_port
from tests.chart.rendering import CHART

SCRIPTS = CHART / "files"
T = TypeVar("T")

UID = 48123
IS_ROOT = os.getuid() == 0

# The Linux capabilities that a container runtime leaves to root.
CAPABILITIES = (
    "audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw",
    "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
)  # fmt: skip


@dataclass(frozen=True)
class Pod:
    """The files that the launcher and the worker share: scripts, SSH key, and an /etc/passwd that contains the user."""

    folder: Path
    port: int
    uid: int = UID

    @property
    def key(self) -> Path:
        return self.folder / "ssh" / "id_rsa"

    def script(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def change(self, name: str, line: str, other: str) -> None:
        change(Path(self.script(name)), line, other)

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return a command that runs these arguments in new mount and process namespaces, if the tests run as root."""
        if not IS_ROOT:
            return list(arguments)
        binds = [name for name in ("passwd", "hosts") if (self.folder / name).exists()]
        mount = " && ".join(f"mount --bind {self.folder}/{name} /etc/{name}" for name in binds)
        rights = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        if self.uid:
            rights += ["--no-new-privs", "--bounding-set=-all"]
        else:
            # In an image that runs as root but was not built to run sshd, the folder /run is empty.
            mount += " && mount -t tmpfs tmpfs /run"
            rights.append("--bounding-set=-all" + "".join(f",+{name}" for name in CAPABILITIES))
        isolation = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        return [*isolation, "sh", "-c", f'{mount} && exec setpriv "$@"', "sh", *rights, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        home = str(self.folder / "home")
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "TMPDIR": str(self.folder / "tmp"), **more}

    def script_options(self) -> list[str]:
        return [f"--ssh-port={self.port}", f"--ssh-folder={self.key.parent}"]

    def start(self, arguments: Sequence[str], **more: str) -> Running:
        process = subprocess.Popen(
            self.command(arguments),
            env=self.environment(**more),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Running(process)


@dataclass(frozen=True)
class Running:
    """A running script.

    Signals are sent to the script itself, because the command that isolates it does not forward them.
    """

    process: subprocess.Popen[str]

    def script_pid(self) -> int:
        """Return the pid of the script, which is a descendant of the commands that isolate it."""
        if not IS_ROOT:
            return self.process.pid
        return wait_for(lambda: next(iter(children(self.process.pid)), 0))

    def terminate(self) -> None:
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.script_pid(), number)

    def end(self, timeout: float = 60) -> tuple[int, str]:
        """Wait until the script has ended. Return the script's exit code and output."""
        try:
            output, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode, output

    def kill(self) -> str:
        """Kill the script. Because the script is process 1, all processes in its namespace end with it.

        Return the script's output.
        """
        if self.process.poll() is None:
            os.kill(self.script_pid(), signal.SIGKILL)
        return self.process.communicate()[0]


@contextlib.contextmanager
def make_pod(uid: int = UID) -> Iterator[Pod]:
    """Create a pod's folder that another user can read, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="pod-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part, mode in (("bin", 0o755), ("ssh", 0o755), ("home", 0o777), ("tmp", 0o777)):
            (folder / part).mkdir()
            (folder / part).chmod(mode)
        for script in SCRIPTS.glob("distrain*"):
            shutil.copy(script, folder / "bin")
        own_line = f"trainee:x:{UID}:{UID}::{folder}/home:/bin/sh\n"
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + own_line)
        pod = Pod(folder, free_port(), uid)
        make_key(pod.key)
        yield pod


def make_key(path: Path) -> None:
    """Create an SSH key in three files.

    Root owns the files and everyone can read them, as if the operator had mounted them.
    """
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-C", "", "-f", path], check=True)
    authorized = path.with_name("authorized_keys")
    shutil.copy(path.with_name(path.name + ".pub"), authorized)
    if IS_ROOT:
        path.chmod(0o644)


@functools.cache
def changed_scripts(*replaced: tuple[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Copy the scripts to a folder and replace texts in them.

    `replaced` contains pairs: a text to replace, and the new text.

    All tests use the same folder, so that Python compiles the modules only once.
    """
    folder = tempfile.TemporaryDirectory(prefix="scripts-")
    Path(folder.name).chmod(0o755)
    for script in SCRIPTS.glob("distrain*"):
        text = script.read_text()
        for former, new in replaced:
            text = text.replace(former, new)
        Path(folder.name, script.name).write_text(text)
    return folder


def change(script: Path, line: str, other: str) -> None:
    """Replace one line of a script, to change a waiting time."""
    text = script.read_text()
    assert text.count(f"\n{line}\n") == 1
    script.write_text(text.replace(f"\n{line}\n", f"\n{other}\n"))


def children(pid: int) -> list[int]:
    """Return the children of a process, including orphans that it has inherited."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def program(pid: int) -> str:
    """Return the name of a process's program.

    The name of a process that has ended can be read until its parent has waited for it.
    """
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def load(name: str) -> ModuleType:
    """Load a script as a module, to test its functions."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_").removesuffix(".py"), str(SCRIPTS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    dont_write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(SCRIPTS))
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = dont_write
        sys.path.remove(str(SCRIPTS))
    return module


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], T], seconds: float = 60) -> T:
    """Wait until the condition returns a true value. Return this value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"not within {seconds} s")
