"""Measure `check` against an API server on loopback with 5,000 nodes and 150,000 pods.

`python -m lab.bench.reading` prints for `check` the total time, the memory and the time of the first request. For
comparison, it prints the time of a bare reader: a client that fetches all pods without decoding them. First the server
sends pods in protobuf, then only in JSON. The bench installs the packaged plugin as Helm installs it.
"""

from __future__ import annotations

import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
# `check` may take at most this many seconds and megabytes to read all pods as JSON. The limits are for a machine with
# two idle cores, on which the API server runs, too.
SECONDS, MEGABYTES = 3.0, 120
# The bench measures the processes' memory at this interval in seconds.
PAUSE = 0.02
WORKERS = 1024
CPU_WORKER = {"cpu": "4", "memory": "16Gi"}
GPU_WORKER = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}
ON_GPU_NODES = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}


@dataclass(frozen=True)
class Run:
    """One run of `check`: wall-clock seconds, CPU seconds, the time of the first request, and the peak memory."""

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
        """Return when the server received its first request since this function was last called."""
        context = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(f"{self.url}{FIRST}", context=context) as answer:
            return float(json.load(answer)["monotonic"] or "nan")


def main() -> int:
    """Measure, and print the figures. Return 1 if `check` exceeds its limits when it reads JSON."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(installed(Path(folder)) / "bin" / "distrain")
        cpu = _manifest(Path(folder) / "cpu.yaml", WORKERS, CPU_WORKER)
        gpu = _manifest(Path(folder) / "gpu.yaml", 32, GPU_WORKER, **ON_GPU_NODES)
        with _server(Path(folder) / "protobuf", "protobuf") as server:
            _tell_of_reading("protobuf", program, cpu, server)
            _tell("64 nodes after filters", [_check(program, gpu, server) for _ in range(RUNS)])
        with _server(Path(folder) / "json", "json") as server:
            seconds, megabytes = _tell_of_reading("JSON", program, cpu, server)
    print(f"limits of JSON: {SECONDS} s, {MEGABYTES} MB of both processes")
    return int(seconds > SECONDS or megabytes > MEGABYTES)


def _tell_of_reading(form: str, program: str, manifest: Path, server: Server) -> tuple[float, float]:
    """Measure reading all pods in this format, and print the time and the memory.

    Return the seconds and the megabytes that all processes of `check` need.
    """
    # The machine's speed changes over time, so `check` and the bare reader run alternately.
    pairs = [(_check(program, manifest, server), _bare_reading(server)) for _ in range(RUNS)]
    together = _megabytes_together(program, manifest, server)
    _tell(f"{WORKERS} pods, all pods read as {form}", [run for run, _ in pairs])
    print(f"check, all pods read as {form}: {together:.0f} MB, the largest sum of both processes' PSS", flush=True)
    _tell_of_bare_reading(form, [bare for _, bare in pairs], [run.seconds / bare for run, bare in pairs])
    return statistics.median(run.seconds for run, _ in pairs), together


def _tell(what: str, runs: list[Run]) -> None:
    seconds = [run.seconds for run in runs]
    print(
        f"check, {what}: {statistics.median(seconds):.2f} s (of {RUNS}: {min(seconds):.2f} to {max(seconds):.2f}), "
        f"{statistics.median(run.processor_seconds for run in runs):.2f} s of processor, "
        f"{max(run.megabytes for run in runs):.0f} MB at most, "
        f"first request after {statistics.median(run.first_request for run in runs) * 1000:.0f} ms",
        flush=True,
    )


def _tell_of_bare_reading(form: str, seconds: list[float], ratios: list[float]) -> None:
    print(
        f"all pods read as {form} by two processes, and not looked at: {statistics.median(seconds):.2f} s "
        f"(of {RUNS}: {min(seconds):.2f} to {max(seconds):.2f}), of which the check takes "
        f"{statistics.median(ratios):.1f} x",
        flush=True,
    )


def _bare_reading(server: Server) -> float:
    """Return the seconds in which two processes fetch all pods without decoding them."""
    command = [sys.executable, "-m", "lab.static_api.bare_reader", server.url, str(server.authority)]
    started = time.monotonic()
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return time.monotonic() - started


def _megabytes_together(program: str, manifest: Path, server: Server) -> float:
    """Return the highest sum of the PSS of a program and its child processes.

    PSS divides shared memory between the processes that share it, so the sum counts it once.
    """
    largest = 0.0
    with _started(program, manifest, server) as process:
        while process.poll() is None:
            largest = max(largest, sum(map(_megabytes, [process.pid, *_children(process.pid)])))
            time.sleep(PAUSE)
    return largest


def _megabytes(pid: int) -> float:
    """Return a process's proportional set size (PSS), or 0 if the process has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _started(program: str, manifest: Path, server: Server) -> subprocess.Popen[str]:
    command = [program, "check", "-o", "json", "--manifest", str(manifest)]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _check(program: str, manifest: Path, server: Server) -> Run:
    server.first_request()
    started = time.monotonic()
    with _started(program, manifest, server) as process:
        assert process.stdout
        answer = process.stdout.read()
        # getrusage would count all child processes. In contrast, wait4 counts one child and its own children.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if process.returncode != 0 or json.loads(answer)["verdict"] != "fits":
        raise LabError(f"{program} check ended with {process.returncode}: {answer}")
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
def _server(folder: Path, form: str) -> Iterator[Server]:
    """Start the server with its own certificate.

    If the objects are not in the cache, the server creates them first.

    The server sends pods as JSON (`json`), or as protobuf to a client that accepts it (`protobuf`).
    """
    folder.mkdir()
    authority = Authority(folder / "pki")
    pair = authority.server("server", ["localhost"], ["127.0.0.1"])
    (folder / "server.pem").write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    command = [sys.executable, "-m", "lab.static_api.server", str(folder), form]
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
    sys.exit(main())
