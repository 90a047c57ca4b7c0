"""The ways to reach the workers of a job, and what to ask of many at once.

Imported by distrain-launch, which runs in anyone's image: hence Python 3.6 and the standard library alone.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from distrain_root import readable_by_user_alone

SECONDS_TO_ANSWER = 3
SECONDS_FOR_KUBECTL = 15
SECONDS_FOR_SSH = 10
# Of a worker that takes a connection and says nothing: its machine has too much to do.
IS_SLOW = "sshd says nothing"
# Of one whose machine answers: its sshd has ended, as it does first in a pod that is told to.
REFUSES = "connection refused"


class LaunchError(Exception):
    """A reason to give up: its text is the line for the user."""


def say(text: str) -> None:
    print("distrain-launch: " + text, file=sys.stderr, flush=True)


def read_hostfile(path: str) -> dict:
    """Return host -> slots, from lines such as `run1-worker-0.run1.team.svc slots=4`."""
    try:
        with open(path, encoding="utf-8") as lines:
            entries = [line.split() for line in lines if line.strip()]
        slots = {host: int(setting[len("slots=") :]) for host, setting in entries}
    except OSError as error:
        raise LaunchError(
            f"{path}: {error.strerror}; it is mounted into the launcher of an MPIJob or a Plain job"
        ) from None
    except ValueError:
        raise LaunchError(f"{path}: expected lines of the form `host slots=number`") from None
    if not slots:
        raise LaunchError(f"{path}: names no worker")
    return slots


class Ssh:
    """The way to the workers through their sshd, with the key that all pods of the job have."""

    tries_at_once = 32
    # To ask every worker now and then costs nothing.
    is_cheap = True

    def __init__(self, options: argparse.Namespace) -> None:
        # Host -> what tells this pod from a later one of the name, as of its last answer.
        self.pods = {}
        self.port = options.ssh_port
        self.place = f" on port {self.port}"
        self.arguments = ssh_arguments(options.ssh_folder, self.port)

    def why_no_answer(self, host: str) -> str:
        """Return why a worker cannot be reached, or nothing when it answers."""
        try:
            with socket.create_connection((host, self.port), timeout=SECONDS_TO_ANSWER) as connection:
                # With a greeting of its own, the visit leaves no error in the worker's log.
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
        except socket.gaierror:
            return "no address yet"
        except socket.timeout:
            return "no answer"
        except OSError as error:
            return (error.strerror or str(error)).lower()

    def environment(self) -> dict:
        """Return what mpirun must know to start ranks there.

        Its daemons stay children of ssh: of one that dies before it has called back, mpirun would else never hear.
        """
        return {
            "OMPI_MCA_plm_rsh_args": self.arguments,
            "OMPI_MCA_orte_leave_session_attached": "1",
            "PRTE_MCA_plm_ssh_args": self.arguments,
            "PRTE_MCA_prte_leave_session_attached": "1",
        }

    def why_not_run(self, host: str, command: str) -> str:
        """Run a command on a worker. Return why it failed, or nothing when it did not."""
        return run(self.command(host, command), SECONDS_FOR_SSH)[0]

    def output(self, host: str, command: str) -> str:
        """Return what a command prints on a worker; nothing when it fails."""
        return run(self.command(host, command), SECONDS_FOR_SSH)[1]

    def command(self, host: str, command: str) -> list:
        # Of two settings of one option, ssh takes the first.
        once = ["-o", "ConnectionAttempts=1", "-o", f"ConnectTimeout={SECONDS_TO_ANSWER}"]
        return ["ssh", *once, *self.arguments.split(), host, command]


class Kubexec:
    """The way through `kubectl exec`, with the script and the rights that an MPIJob v1's operator gives."""

    # Each try is a kubectl of some 40 MB.
    tries_at_once = 8
    is_cheap = False
    place = ""

    def __init__(self, options: argparse.Namespace) -> None:
        self.pods = {}
        self.agent = kubexec_agent(options.kubexec)

    def why_no_answer(self, host: str) -> str:
        # A worker that is told to end leaves the file, and could be reached for a while yet.
        leaving = 'test ! -e "${TMPDIR:-/tmp}/distrain-leaving" || { echo "is leaving" >&2; exit 1; }'
        reason, stat = run([self.agent, host, f"{leaving}; cat /proc/1/stat"], SECONDS_FOR_KUBECTL)
        if not reason:
            # When its process 1 has started.
            self.pods[host] = stat.rpartition(")")[2].split()[19:20]
        return reason

    def why_not_run(self, host: str, command: str) -> str:
        return run([self.agent, host, command], SECONDS_FOR_KUBECTL)[0]

    def output(self, host: str, command: str) -> str:
        return run([self.agent, host, command], SECONDS_FOR_KUBECTL)[1]

    def environment(self) -> dict:
        # Each worker's daemon is told the agent too, and gives up when it does not find the program.
        agent = f"/bin/sh {self.agent}"
        return {"OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent}


def ssh_arguments(folder: str, port: int) -> str:
    """Return the arguments that make ssh trust one host key alone.

    All workers have the key that was made for this job; under one alias it stands for every one of them.
    """
    key = os.path.join(folder, "id_rsa")
    own_folder = tempfile.mkdtemp(prefix="distrain-")
    try:
        with open(key + ".pub", encoding="utf-8") as public_key:
            known_host = "distrain " + public_key.read()
        identity = readable_by_user_alone(key, own_folder)
    except OSError as error:
        raise LaunchError(f"{error.filename}: {error.strerror}; the job's SSH key is mounted there") from None
    known_hosts = os.path.join(own_folder, "known_hosts")
    with open(known_hosts, "w", encoding="utf-8") as file:
        file.write(known_host)
    return (
        f"-F none -p {port} -i {identity} -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectionAttempts=10 "
        "-o StrictHostKeyChecking=yes -o HostKeyAlias=distrain -o GlobalKnownHostsFile=none "
        f"-o UserKnownHostsFile={known_hosts}"
    )


def kubexec_agent(path: str) -> str:
    """Return the operator's script, or one without its lines that only root can run.

    mpi-operator's script for v1alpha2 first adds all workers to the /etc/hosts of each. Open MPI has their addresses.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise LaunchError(
            f"{path}: {error.strerror}; the operator mounts it into the launcher of an MPIJob v1 or v1alpha2"
        ) from None
    if "/etc/hosts_of_nodes" not in text:
        return path
    lines = [line for line in text.splitlines(keepends=True) if "kubectl cp " not in line]
    agent = os.path.join(tempfile.mkdtemp(prefix="distrain-"), "kubexec.sh")
    with open(os.open(agent, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w", encoding="utf-8") as file:
        file.write("".join(lines).replace("cat /etc/hosts_of_nodes >> /etc/hosts && ", ""))
    return agent


def who_fails(hosts: list, why: object, at_once: int) -> list:
    """Ask `why` about so many hosts at once. Return those for which there is a reason, with it."""
    if not hosts:
        return []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        answers = pool.map(lambda host: (host, why(host)), hosts)
        return [(host, reason) for host, reason in answers if reason]


def run(command: list, timeout: float) -> tuple:
    """Run a command. Return the last thing it said when it failed, or nothing when it did not; and its output."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(command, start_new_session=True, **streams)
    except OSError as error:
        return f"{command[0]}: {error.strerror}", ""
    with process:
        try:
            output, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # With all that a script has started.
            os.killpg(process.pid, signal.SIGKILL)
            return "no answer", ""
    if process.returncode == 0:
        return "", output.decode(errors="replace")
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return (lines[-1][:200] if lines else f"exit code {process.returncode}"), ""


def names(absent: list) -> str:
    """Name the first few with their reason, by the pod's name: a host is <pod>.<job>.<namespace>.svc."""
    shown = [f"{host.split('.')[0] if '.svc' in host else host} ({reason})" for host, reason in absent[:5]]
    return ", ".join([*shown, f"and {len(absent) - 5} more"] if len(absent) > 5 else shown)
