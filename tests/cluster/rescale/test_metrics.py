"""Test that a Prometheus with the configuration of docs/metrics.md reads a run over a rescale on the lab."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lab.errors import LabError
from lab.paths import KUBECONFIG, REPOSITORY
from lab.waiting import wait_until
from tests import prometheus
from tests.cluster.testbed import Namespace
from tests.cluster.training import GROWING, rescale, upgrade
from tests.prometheus import QUERIES, Prometheus, filled

# A restart of the ranks takes a part of it. It is what Grafana takes with a scrape each minute and a quarter.
WINDOW = "5m"


def documented_scrape(namespace: Namespace) -> dict[str, Any]:
    """Return the scrape configuration of docs/metrics.md, for a Prometheus that runs outside of the cluster."""
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    [block] = re.findall(r"```yaml\n(scrape_configs:.*?)```", text, re.DOTALL)
    [scrape] = yaml.safe_load(block)["scrape_configs"]
    outside = {"kubeconfig_file": str(KUBECONFIG), "namespaces": {"names": [namespace.name]}}
    found: dict[str, Any] = {**scrape, "kubernetes_sd_configs": [{**scrape["kubernetes_sd_configs"][0], **outside}]}
    return found


def wait_for(server: Prometheus, query: str, namespace: Namespace) -> None:
    try:
        wait_until(query, lambda: bool(server.values(query)), seconds=GROWING, pause=1)
    except LabError as error:
        raise LabError(f"{error}\n{server.values('up')}\n{namespace.story()}") from None


def test_prometheus_reads_a_run_over_a_rescale(
    namespace: Namespace, helm4: Path, on_s3: list[str], tmp_path: Path
) -> None:
    metrics = {"trainer.metrics": True, "monitoring.annotations": True}
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2, **metrics})
    with prometheus.running(tmp_path, documented_scrape(namespace)) as server:
        wait_for(server, "distrain_checkpoint_write_seconds_count > 1 and on (pod) distrain_world_size == 2", namespace)

        rescale(namespace, 3)

        wait_for(server, "distrain_checkpoint_write_seconds_count > 1 and on (pod) distrain_world_size == 3", namespace)
        assert server.values("distrain_restarts_total") == server.values("distrain_rescales_total") == [1]
        assert {one["metric"]["rank"] for one in server.ask("query", query="distrain_step_seconds_count")} == {*"012"}
        # No step was lost, and each process has begun at 0.
        assert_increases(server.values_of("distrain_step"), resets=0)
        for rank in "01":
            assert_increases(server.values_of(f'distrain_trained_samples_total{{rank="{rank}"}}'), resets=1)
        samples = server.samples("distrain_step")
        for name, query in QUERIES.items():
            asked = filled(query, namespace=namespace.name, release="run1", window=WINDOW)
            assert server.ask("query", query=asked), name
        asked = filled(QUERIES["Steps and ranks-A"], namespace=namespace.name, release="run1", window=WINDOW)
        begin, end = samples[0][0], samples[-1][0]
        [series] = server.ask("query_range", query=asked, start=begin, end=end, step=1)
        assert len(series["values"]) == int(end - begin) + 1


def assert_increases(values: list[float], *, resets: int) -> None:
    assert len([after for before, after in pairwise(values) if after < before]) == resets
    assert values[-1] > 0
