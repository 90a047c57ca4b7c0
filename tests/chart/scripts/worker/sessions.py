"""Start distrain-worker in a pod, and run commands there in ssh sessions."""

from __future__ import annotations

import subprocess

from tests.chart.scripts import pods
from tests.chart.scripts.pods import Pod, Running, wait_for

MULTI_LINE = "two \"quoted\"\n'lines' $HOME \\ `x` \t\u00e9"


def start_worker(pod: Pod, *options: str) -> Running:
    more = {"MULTI_LINE": MULTI_LINE, "EMPTY": "", "SECRET_KEY": "hidden"}
    worker = pod.start([pod.script("distrain-worker"), *pod.script_options(), *options], **more)
    wait_for(lambda: pods.is_listening(pod.port))
    return worker


def ssh_command(pod: Pod, command: str, key: str = "id_rsa") -> list[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR"]
    flags = [word for option in options for word in ("-o", option)]
    identity = str(pod.key.with_name(key))
    return pod.command(["ssh", "-F", "none", "-p", str(pod.port), "-i", identity, *flags, "127.0.0.1", command])


def ssh(pod: Pod, command: str, key: str = "id_rsa") -> subprocess.CompletedProcess[bytes]:
    arguments = ssh_command(pod, command, key)
    return subprocess.run(arguments, env=pod.environment(), capture_output=True, timeout=300, check=False)
