"""Run Debian's Prometheus on loopback, which reads one address, and ask it."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.waiting import free_port, wait_until

# Labels as the PodMonitor of the chart gives them.
LABELS = {"namespace": "team", "pod": "run1-worker-0", "app_kubernetes_io_instance": "run1"}
SCRAPE_INTERVAL = "200ms"


@dataclass(frozen=True)
class Prometheus:
    address: str

    def ask(self, what: str, **parameters: str | float) -> list[dict[str, Any]]:
        """Return the series of an answer. `what` is query or query_range."""
        url = f"{self.address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            data = json.load(answer)["data"]
        assert data["resultType"] != "scalar", parameters
        series: list[dict[str, Any]] = data["result"]
        return series

    def values(self, query: str) -> list[float]:
        """Return the value of each series now."""
        return [float(series["value"][1]) for series in self.ask("query", query=query)]

    def samples(self, selector: str) -> list[tuple[float, float]]:
        """Return all samples of one series as times and values."""
        [series] = self.ask("query", query=f"{selector}[1h]")
        return [(time, float(value)) for time, value in series["values"]]


@contextmanager
def running(folder: Path, target: int) -> Iterator[Prometheus]:
    """Run a Prometheus that reads the port `target` of this machine while the block runs."""
    scrape = {"job_name": "trainer", "static_configs": [{"targets": [f"127.0.0.1:{target}"], "labels": LABELS}]}
    timing = {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({"global": timing, "scrape_configs": [scrape]}))
    own = f"127.0.0.1:{free_port()}"
    files = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *files, f"--web.listen-address={own}"], stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://{own}")
        wait_until("Prometheus", lambda: is_ready(server, process))
        yield server
    finally:
        process.terminate()
        process.wait()


def is_ready(server: Prometheus, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Prometheus has ended; its log is in its folder"
    try:
        with urllib.request.urlopen(f"{server.address}/-/ready", timeout=30):
            return True
    except OSError:
        return False
