"""Print why the launcher gets no answer from a worker.

Three cases: a silent name server, a working one, and a deleted worker.

    unshare --net --mount python -m tests.chart.scripts.launch.slow_dns

The program prints the three reasons as JSON. The program replaces /etc/resolv.conf in its own mount namespace.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.chart.scripts.pods import load

WORKER, GONE = "run1-worker-0.run1.team.svc", "run1-worker-1.run1.team.svc"
LOOPBACK = bytes([127, 0, 0, 1])
RESOLVER = "nameserver 127.0.0.1\noptions timeout:4 attempts:1\n"


def prepare() -> None:
    """Make this machine's resolver ask the name server that this program runs.

    The change is visible only inside the namespaces of this program.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    file = Path(tempfile.mkdtemp()) / "resolv.conf"
    file.write_text(RESOLVER, encoding="utf-8")
    subprocess.run(["mount", "--bind", file, "/etc/resolv.conf"], check=True)


def answer(question: bytes) -> bytes:
    """Return a DNS response: the IP address of WORKER, or an error for any other name."""
    name = question[12:].split(b"\0")[0]
    is_known, is_address = WORKER.split(".")[0].encode() in name, question[-3] == 1
    head = question[:2] + (b"\x81\x80" if is_known else b"\x81\x83") + b"\0\1"
    if not (is_known and is_address):
        return head + b"\0\0\0\0\0\0" + question[12:]
    record = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + LOOPBACK
    return head + b"\0\1\0\0\0\0" + question[12:] + record


def serve(server: socket.socket, is_silent: threading.Event) -> None:
    while True:
        question, sender = server.recvfrom(512)
        if not is_silent.is_set():
            server.sendto(answer(question), sender)


def greet(sshd: socket.socket) -> None:
    while True:
        connection, _ = sshd.accept()
        with connection:
            connection.sendall(b"SSH-2.0-test\r\n")
            while connection.recv(256):
                pass


def main() -> None:
    prepare()
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    sshd, is_silent = socket.create_server(("127.0.0.1", 0)), threading.Event()
    threading.Thread(target=serve, args=(server, is_silent), daemon=True).start()
    threading.Thread(target=greet, args=(sshd,), daemon=True).start()
    module: Any = load("distrain_workers.py")
    module.ssh_arguments = lambda *_: ""
    ssh = module.Ssh(SimpleNamespace(ssh_port=sshd.getsockname()[1], ssh_folder="/nowhere"))

    is_silent.set()
    silent = ssh.why_no_answer(WORKER)
    is_silent.clear()
    print(json.dumps([silent, ssh.why_no_answer(WORKER), ssh.why_no_answer(GONE)]))


if __name__ == "__main__":
    main()
