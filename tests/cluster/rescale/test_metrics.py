"""Test that Prometheus reads a run's metrics before and after a rescale, with the configuration in docs/metrics.md."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import namespaces
from lab.cluster.namespaces import NODE_ADDRESS
from lab.errors import LabError
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests import prometheus
from tests.cluster.testbed import Namespace
from tests.cluster.training import GROWING, TENSORFLOW, rescale, upgrade
from tests.prometheus import QUERIES, Prometheus, filled

# The dashboard's queries compute rates over this time window. The window is longer than a restart of the ranks takes.
# Grafana would choose this window if Prometheus scraped every 75 s.
WINDOW = "5m"
# The tests append `== N` to this query. The query has a result once rank 0 has saved two checkpoints and the run has N
# ranks.
SAVED = "distrain_checkpoint_write_seconds_count > 1 and on (pod) distrain_world_size"


def documented_scrape(file: Path) -> dict[str, Any]:
    """Return the scrape configuration of docs/metrics.md, with file discovery instead of Kubernetes discovery.

    Prometheus reads the pods' addresses from this file, because Debian's build cannot ask the Kubernetes API.
    """
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    [block] = re.findall(r"```yaml\n(scrape_configs:.*?)```", text, re.DOTALL)
    [scrape] = yaml.safe_load(block)["scrape_configs"]
    del scrape["kubernetes_sd_configs"]
    return {**scrape, "file_sd_configs": [{"files": [str(file)], "refresh_interval": "1s"}]}


def discover(namespace: Namespace, file: Path) -> None:
    """Write the addresses of the pods into the file, with the labels that Kubernetes discovery would set."""
    pods = [pod for pod in namespace.get("pods") if "podIP" in pod["status"]]
    file.write_text(json.dumps([{"targets": [pod["status"]["podIP"]], "labels": discovered(pod)} for pod in pods]))


def discovered(pod: dict[str, Any]) -> dict[str, str]:
    metadata, prefix = pod["metadata"], "__meta_kubernetes_pod"
    labels = {f"{prefix}_label_{re.sub('[^a-zA-Z0-9_]', '_', name)}": text for name, text in metadata["labels"].items()}
    annotations = metadata.get("annotations", {})
    labels |= {f"{prefix}_annotation_{re.sub('[^a-zA-Z0-9_]', '_', name)}": text for name, text in annotations.items()}
    place = {"__meta_kubernetes_namespace": metadata["namespace"], f"{prefix}_name": metadata["name"]}
    return {**labels, **place, f"{prefix}_ip": pod["status"]["podIP"]}


def wait_for(server: Prometheus, query: str, namespace: Namespace, file: Path) -> None:
    def is_there() -> bool:
        discover(namespace, file)
        return bool(server.values(query))

    try:
        wait_until(query, is_there, seconds=GROWING, pause=1)
    except LabError as error:
        raise LabError(f"{error}\n{server.values('up')}\n{namespace.story()}") from None


def test_prometheus_reads_a_run_over_a_rescale(
    namespace: Namespace, helm4: Path, on_s3: list[str], tmp_path: Path
) -> None:
    # Only TensorFlow and PyTorch measure how long a rank waits for the all-reduce.
    metrics = {**TENSORFLOW, "trainer.metrics": True, "monitoring.annotations": True}
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2, **metrics})
    discover(namespace, file := tmp_path / "pods.json")
    within = namespaces.in_network()
    with prometheus.running(tmp_path, documented_scrape(file), address=NODE_ADDRESS, within=within) as server:
        wait_for(server, f"{SAVED} == 2", namespace, file)

        rescale(namespace, 3)

        wait_for(server, f"{SAVED} == 3", namespace, file)
        # The trainer counts restarts and rescales in the run's record, from which these two metrics come. After a
        # restart, the trainer reads the record only after its first step.
        wait_for(server, "distrain_restarts_total and on (pod) distrain_rescales_total", namespace, file)
        # If a scrape of a busy rank fails, an instant query finds none of its series until the next scrape.
        for name in ("restarts", "rescales"):
            assert server.values(f"last_over_time(distrain_{name}_total[1m])") == [1]
        counts = server.ask("query", query="last_over_time(distrain_step_seconds_count[1m])")
        assert {one["metric"]["rank"] for one in counts} == {*"012"}
        # The step number never decreases, which shows that no step was lost. Each counter of samples starts at 0 again
        # when its process restarts.
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
