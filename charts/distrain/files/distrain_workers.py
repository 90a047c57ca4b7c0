"""Reach the workers of a job with ssh or `kubectl exec`, many at once.

distrain-launch runs in any image, so this module uses only Python 3.6 and its standard library.
"""

import argparse
import os
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distrain_message import print_line
from distrain_root import readable_by_user_alone

# A folder in memory, which every container has.
MEMORY = "/dev/shm"
SECONDS_TO_ANSWER = 3
SECONDS_FOR_KUBECTL = 15
SECONDS_FOR_SSH = 10
SECONDS_BETWEEN_TRIES = 1
SECONDS_TO_END_WORKERS = 30
# The worker accepts a connection, but sshd sends no greeting: the machine is overloaded.
IS_SLOW = "sshd says nothing"
# The worker's machine answers, but sshd has ended. When a pod is deleted, sshd is the first of its programs to end.
REFUSES = "connection refused"
# The name server does not answer, so the worker's state is unknown. For the name of a deleted pod, a name server
# answers that there is no address.
NO_NAMES = "the name server does not answer"


class LaunchError(Exception):
    """The launcher cannot start the run, and gives up. The error's text becomes the message to the user."""


def say(text: str) -> None:
    print_line("distrain-launch: " + text)


def read_hostfile(path: str) -> dict:
    """Return the number of slots of each host, from lines such as `run1-worker-0.run1.team.svc slots=4`."""
    try:
        with open(path, encoding="utf-8") as lines:
            entries = [line.split() for line in lines if line.strip()]
        slots = {host: int(setting[len("slots=") :]) for host, setting in entries}
    except OSError as error:
        raise LaunchError(
            f"{path}: {error.strerror}; it should be mounted into the launcher of an MPIJob or a Plain job"
        ) from None
    except ValueError:
        raise LaunchError(f"{path}: expected lines of the form `host slots=number`") from None
    if not slots:
        raise LaunchError(f"{path}: names no worker")
    return slots


class Way:
    """The base class for reaching the workers, with ssh or with `kubectl exec`.

    It stores the identity of each worker's pod, and which workers are left out although they answer.
    """

    def __init__(self) -> None:
        # For each host, the identity of its pod when the host last answered. A later pod of the same name has another
        # identity, so the two pods can be told apart.
        self.pods = {}
        # For each host that is left out, the identity of its pod and the reason.
        self.unfit = {}

    def why_no_answer(self, host: str) -> str:
        """Return why a worker does not answer, or an empty text if the worker answers."""
        raise NotImplementedError

    def leave_out(self, host: str, why: str) -> None:
        """Treat a worker as absent until its pod is replaced."""
        self.unfit[host] = self.pods.get(host), why

    def why_absent(self, host: str) -> str:
        """Return why a worker cannot take part in the run, or an empty text if it can."""
        reason = self.why_no_answer(host)
        pod, why = self.unfit.get(host, (None, ""))
        if not reason and pod == self.pods.get(host):
            return why
        return reason


class Ssh(Way):
    """Reach the workers through their sshd, with the key that all pods of the job have."""

    tries_at_once = 32
    # With ssh, a check of a worker costs almost nothing, so all workers may be checked.
    is_cheap = True

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.port = options.ssh_port
        self.place = f" on port {self.port}"
        self.arguments = ssh_arguments(options.ssh_folder, self.port)

    def why_no_answer(self, host: str) -> str:
        """Connect to sshd. Return why the worker does not answer, or an empty text if the worker answers."""
        try:
            with socket.create_connection((host, self.port), timeout=SECONDS_TO_ANSWER) as connection:
                # Send a greeting, because sshd would otherwise log an error.
                connection.sendall(b"SSH-2.0-distrain\r\n")
                try:
                    if not connection.recv(256).startswith(b"SSH-"):
                        return "what answers is not sshd"
                except socket.timeout:
                    return IS_SLOW
                self.pods[host] = connection.getpeername()[0]
                return ""
        except ConnectionRefusedError:
            return REFUSES
        except socket.gaierror as error:
            return NO_NAMES if error.errno == socket.EAI_AGAIN else "no address yet"
        except socket.timeout:
            return "no answer"
        except OSError as error:
            return (error.strerror or str(error)).lower()

    def environment(self) -> dict:
        """Return the variables with which mpirun starts its daemons on the workers.

        `leave_session_attached` keeps each daemon a child process of ssh. Without this setting, mpirun would not notice
        a daemon that dies before it has connected to mpirun.
        """
        return {
            "OMPI_MCA_plm_rsh_args": self.arguments,
            "OMPI_MCA_orte_leave_session_attached": "1",
            "PRTE_MCA_plm_ssh_args": self.arguments,
            "PRTE_MCA_prte_leave_session_attached": "1",
        }

    def why_not_run(self, host: str, command: str) -> str:
        """Run a command on a worker. Return why the command failed, or an empty text if it succeeded."""
        return run(self.command(host, command), SECONDS_FOR_SSH)[0]

    def output(self, host: str, command: str) -> str:
        """Run a command on a worker. Return the command's output, or an empty text if the command failed."""
        return run(self.command(host, command), SECONDS_FOR_SSH)[1]

    def command(self, host: str, command: str) -> list:
        # If an option is set twice, ssh uses the first value.
        once = ["-o", "ConnectionAttempts=1", "-o", f"ConnectTimeout={SECONDS_TO_ANSWER}"]
        return ["ssh", *once, *self.arguments.split(), host, command]


class Kubexec(Way):
    """Reach the workers with `kubectl exec`.

    The operator of MPIJob v1 provides the script that calls `kubectl exec`, and the RBAC rights for it.
    """

    # Each check of a worker runs a kubectl process, which uses about 40 MB of memory.
    tries_at_once = 8
    is_cheap = False
    place = ""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.agent = kubexec_agent(options.kubexec)

    def why_no_answer(self, host: str) -> str:
        # A worker creates this file when it receives SIGTERM. The file is needed because kubectl can reach a pod for a
        # while after SIGTERM.
        leaving = 'test ! -e "${TMPDIR:-/tmp}/distrain-leaving" || { echo "is leaving" >&2; exit 1; }'
        reason, stat = run(self.command(host, f"{leaving}; cat /proc/1/stat"), SECONDS_FOR_KUBECTL)
        if not reason:
            # The start time of the pod's process 1 identifies the pod.
            self.pods[host] = stat.rpartition(")")[2].split()[19:20]
        return reason

    def why_not_run(self, host: str, command: str) -> str:
        return run(self.command(host, command), SECONDS_FOR_KUBECTL)[0]

    def output(self, host: str, command: str) -> str:
        return run(self.command(host, command), SECONDS_FOR_KUBECTL)[1]

    def command(self, host: str, command: str) -> list:
        return ["/bin/sh", self.agent, host, command]

    def environment(self) -> dict:
        # mpirun also passes the agent's name to its daemons on the workers. A daemon gives up if it does not find the
        # agent's program, so name /bin/sh, which every image has.
        agent = f"/bin/sh {self.agent}"
        return {"OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent}


def ssh_arguments(folder: str, port: int) -> str:
    """Return the arguments with which ssh trusts only the job's host key.

    All workers have the same host key. So known_hosts contains the key only once, under an alias, and ssh uses this
    alias for every worker.
    """
    key = os.path.join(folder, "id_rsa")
    try:
        with open(key + ".pub", encoding="utf-8") as public_key:
            known_hosts = own_file("known_hosts", "distrain " + public_key.read())
        identity = readable_by_user_alone(key, os.path.dirname(known_hosts))
    except OSError as error:
        raise LaunchError(f"{error.filename}: {error.strerror}; the job's SSH key should be mounted there") from None
    return (
        f"-F none -p {port} -i {identity} -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectionAttempts=10 "
        "-o StrictHostKeyChecking=yes -o HostKeyAlias=distrain -o GlobalKnownHostsFile=none "
        f"-o UserKnownHostsFile={known_hosts}"
    )


def kubexec_agent(path: str) -> str:
    """Return the path of the operator's script, or of a copy without the lines that need root.

    mpi-operator's script for v1alpha2 first adds all workers to /etc/hosts of each worker. Open MPI does not need these
    entries.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise LaunchError(
            f"{path}: {error.strerror}; the operator should mount this file into the launcher "
            "of an MPIJob v1 or v1alpha2"
        ) from None
    if "/etc/hosts_of_nodes" not in text:
        return path
    lines = [line for line in text.splitlines(keepends=True) if "kubectl cp " not in line]
    return own_file("kubexec.sh", "".join(lines).replace("cat /etc/hosts_of_nodes >> /etc/hosts && ", ""))


def own_file(name: str, text: str) -> str:
    """Write a file into a new folder, and return the file's path.

    If the disk is full, the folder is in memory: the program may have filled the disk, and may be started again.
    """
    try:
        return written(tempfile.mkdtemp(prefix="distrain-"), name, text)
    except OSError:
        return written(tempfile.mkdtemp(prefix="distrain-", dir=MEMORY), name, text)


def written(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def who_fails(hosts: list, why: Any, at_once: int) -> list:
    """Call `why(host)` for all hosts, at most `at_once` calls in parallel.

    Return (host, reason) for each host for which `why` returned a reason.
    """
    if not hosts:
        return []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        answers = pool.map(lambda host: (host, why(host)), hosts)
        return [(host, reason) for host, reason in answers if reason]


def end_workers(ssh: Ssh, hostfile: str, signal_name: str) -> None:
    """Tell process 1 of every worker to end. Log the workers that cannot be reached: their pods keep running."""
    # The run is over. If SIGTERM ended this pod now, the next launcher would run the training again.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deadline = time.monotonic() + SECONDS_TO_END_WORKERS

    def why_not_told(host: str) -> str:
        return "no time left" if time.monotonic() >= deadline else ssh.why_not_run(host, f"kill -{signal_name} 1")

    hosts = list(read_hostfile(hostfile))
    untold = who_fails(hosts, why_not_told, ssh.tries_at_once)
    while untold and time.monotonic() + SECONDS_BETWEEN_TRIES < deadline:
        time.sleep(SECONDS_BETWEEN_TRIES)
        untold = who_fails([host for host, _ in untold], why_not_told, ssh.tries_at_once)
    if untold:
        say(f"{len(untold)} of {len(hosts)} workers could not be asked to end: {names(untold)}; delete their pods")


def run(command: list, timeout: float) -> tuple:
    """Run a command. Return ("", output), or (last line of stderr, "") if the command failed."""
    streams: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(command, start_new_session=True, **streams)
    except OSError as error:
        return f"{command[0]}: {error.strerror}", ""
    with process:
        try:
            output, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # Also kill the processes that the agent has started.
            os.killpg(process.pid, signal.SIGKILL)
            return "no answer", ""
    if process.returncode == 0:
        return "", output.decode(errors="replace")
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return (lines[-1][:200] if lines else f"exit code {process.returncode}"), ""


def pod_of(host: str) -> str:
    """Return the pod's name in a host name such as run1-worker-0.run1.team.svc."""
    return host.split(".")[0] if ".svc" in host else host


def names(absent: list) -> str:
    """List the first five absent pods with their reasons."""
    shown = [f"{pod_of(host)} ({reason})" for host, reason in absent[:5]]
    return ", ".join([*shown, f"and {len(absent) - 5} more"] if len(absent) > 5 else shown)
