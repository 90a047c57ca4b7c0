"""Run Debian's Prometheus on loopback, query it, and fill in the queries of the Grafana dashboard."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.paths import REPOSITORY
from lab.waiting import free_port, wait_until

SCRAPE_INTERVAL = "200ms"
DASHBOARD = json.loads((REPOSITORY / "docs" / "grafana" / "distrain.json").read_text())
# The queries of the Grafana dashboard, by panel title.
QUERIES = {
    f"{panel['title']}-{target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}


def filled(query: str, *, namespace: str, release: str, window: str) -> str:
    """Replace Grafana's variables in a dashboard query with these values."""
    for name, value in (("$namespace", namespace), ("$release", release), ("$__rate_interval", window)):
        query = query.replace(name, value)
    assert "$" not in query
    return query


@dataclass(frozen=True)
class Prometheus:
    address: str

    def ask(self, what: str, **parameters: str | float) -> list[dict[str, Any]]:
        """Query Prometheus, and return the series of the result.

        `what` is the last part of the API's path: `query` or `query_range`.
        """
        url = f"{self.address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            data = json.load(answer)["data"]
        assert data["resultType"] != "scalar", parameters
        series: list[dict[str, Any]] = data["result"]
        return series

    def values(self, query: str) -> list[float]:
        """Return the current value of each series that the query selects."""
        return [float(series["value"][1]) for series in self.ask("query", query=query)]

    def samples(self, selector: str) -> list[tuple[float, float]]:
        """Return the samples of the only series that the selector matches, as (time, value)."""
        [series] = self.ask("query", query=f"{selector}[1h]")
        return [(time, float(value)) for time, value in series["values"]]

    def values_of(self, selector: str) -> list[float]:
        """Return the values of the only series that the selector matches."""
        return [value for _, value in self.samples(selector)]


@contextmanager
def running(
    folder: Path, scrape: Mapping[str, Any], *, address: str = "127.0.0.1", within: Sequence[str] = ()
) -> Iterator[Prometheus]:
    """Run a Prometheus with this scrape configuration while the block runs.

    `within` is the beginning of a command that runs Prometheus in another network namespace. `address` is an address in
    that namespace.
    """
    timing = {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({"global": timing, "scrape_configs": [dict(scrape)]}))
    own = f"{address}:{free_port()}"
    files = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*within, "prometheus", *files, f"--web.listen-address={own}"], stdout=log, stderr=log
        )
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
