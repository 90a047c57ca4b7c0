"""Measure `check` against an API server on loopback with 5,000 nodes and 150,000 pods.

`python -m lab.bench.reading` prints times, memory, the time of the first request, and the time of reading alone. The
packaged plugin is installed as Helm installs it.
"""

from __future__ import annotations

import json
import os
import shlex
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.builds.installed import installed
from lab.cluster.certificates import Authority
from lab.cluster.kubeconfig import write
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.static_api.server import FIRST

RUNS = 5
WORKERS = 1024
CPU_WORKER = {"cpu": "4", "memory": "16Gi"}
GPU_WORKER = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}
ON_GPU_NODES = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}


@dataclass(frozen=True)
class Run:
    """One run of the program: wall-clock and CPU seconds, the time of its first request, and its peak memory."""

    seconds: float
    processor_seconds: float
    first_request: float
    megabytes: float


@dataclass(frozen=True)
class Server:
    """The API server's URL, a kubeconfig for it, and its CA certificate."""

    url: str
    kubeconfig: Path
    authority: Path

    def first_request(self) -> float:
        """Return the time of the first request since the last call, and reset it."""
        context = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(f"{self.url}{FIRST}", context=context) as answer:
            return float(json.load(answer)["monotonic"] or "nan")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as server:
        program = str(installed(Path(folder)) / "bin" / "distrain")
        cpu = _manifest(Path(folder) / "cpu.yaml", WORKERS, CPU_WORKER)
        gpu = _manifest(Path(folder) / "gpu.yaml", 32, GPU_WORKER, **ON_GPU_NODES)
        # Alternate between the two, because the machine's speed changes.
        pairs = [(_check(program, cpu, server), _bare_reading(server)) for _ in range(RUNS)]
        _tell(f"{WORKERS} pods, all pods read", [run for run, _ in pairs])
        _tell_of_bare_reading([bare for _, bare in pairs], [run.seconds / bare for run, bare in pairs])
        _tell("64 nodes after filters", [_check(program, gpu, server) for _ in range(RUNS)])


def _tell(what: str, runs: list[Run]) -> None:
    seconds = [run.seconds for run in runs]
    print(
        f"check, {what}: {statistics.median(seconds):.2f} s (of {RUNS}: {min(seconds):.2f} to {max(seconds):.2f}), "
        f"{statistics.median(run.processor_seconds for run in runs):.2f} s of processor, "
        f"{max(run.megabytes for run in runs):.0f} MB at most, "
        f"first request after {statistics.median(run.first_request for run in runs) * 1000:.0f} ms",
        flush=True,
    )


def _tell_of_bare_reading(seconds: list[float], ratios: list[float]) -> None:
    print(
        f"all pods read by two processes, and not looked at: {statistics.median(seconds):.2f} s "
        f"(of {RUNS}: {min(seconds):.2f} to {max(seconds):.2f}), of which the check takes "
        f"{statistics.median(ratios):.1f} x",
        flush=True,
    )


def _bare_reading(server: Server) -> float:
    """Return the seconds that two processes take to fetch all pods at the machine's current speed."""
    command = [sys.executable, "-m", "lab.static_api.bare_reader", server.url, str(server.authority)]
    started = time.monotonic()
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return time.monotonic() - started


def _check(program: str, manifest: Path, server: Server) -> Run:
    command = [program, "check", "-o", "json", "--manifest", str(manifest)]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    server.first_request()
    started = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        answer = process.stdout.read()
        # getrusage would count all children. wait4 counts this child and the processes that it waited for.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode != 0 or json.loads(answer)["verdict"] != "fits":
        raise LabError(f"{shlex.join(command)} ended with {process.returncode}: {answer}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, server.first_request() - started, usage.ru_maxrss / 1000)


def _manifest(path: Path, workers: int, amounts: dict[str, str], **spec: Any) -> Path:
    container = {"name": "pytorch", "image": "training", "resources": {"limits": amounts}}
    replica = {"replicas": workers, "template": {"spec": {"containers": [container], **spec}}}
    job = {"pytorchReplicaSpecs": {"Worker": replica}}
    path.write_text(
        yaml.safe_dump(
            {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "run"}, "spec": job}
        )
    )
    return path


@contextmanager
def _server(folder: Path) -> Iterator[Server]:
    """Start the server with its own certificate. If the cache has no objects, the server writes them first."""
    authority = Authority(folder / "pki")
    pair = authority.server("server", ["localhost"], ["127.0.0.1"])
    (folder / "server.pem").write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    command = [sys.executable, "-m", "lab.static_api.server", str(folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            url = f"https://127.0.0.1:{int(process.stdout.readline())}"
            user = authority.client("user", "admin", "system:masters")
            kubeconfig = write(folder / "kubeconfig", url, authority.pair, user)
            yield Server(url, kubeconfig, authority.pair.certificate)
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
