"""Test the metrics that the trainer serves to Prometheus, and that the training continues if serving fails."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.saving import tell
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.metrics import Figures, families, serve_metrics
from lab.paths import REPOSITORY
from lab.waiting import free_port, listens
from tests.trainer.fixtures.counter_run import DATASET, begin, save_step
from tests.trainer.fixtures.disk import wait_until

BATCH = SimpleNamespace(samples=10, global_samples=10)


@pytest.fixture(autouse=True)
def record_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.record.background.SECONDS_BETWEEN_WRITES", 0.01)
    monkeypatch.setattr("distrain_trainer.record.record.SECONDS_FOR_LAST", 60.0)


@pytest.fixture
def port() -> int:
    return free_port()


def scrape(port: int, accept: str = "application/openmetrics-text; version=1.0.0") -> dict[str, float]:
    """Parse the served text, and return the samples of all metrics.

    The parser raises an error unless the text is valid OpenMetrics.
    """
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return samples(text_string_to_metric_families(answer.read().decode()))


def samples(metrics: Iterator[Metric]) -> dict[str, float]:
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sample.labels.items()): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def train(run: Run, steps: int, *, loss: float = 0.5) -> None:
    progress = Progress.start(run)
    run.watchdog.stop()
    for _ in range(steps):
        progress.add(BATCH, loss=loss, seconds=0.5, mean=lambda value: value)


def full() -> Figures:
    """Return the figures of rank 0, each of them with a value."""
    figures = Figures(info={"framework": "pytorch", "strategy": "allreduce", "model": "vgg16"})
    figures.set(**{each.name: 1.0 for each in (*families.GAUGES, *families.COUNTERS)})
    figures.begin_steps()
    figures.begin_checkpoints()
    figures.made_step(samples=10, seconds=0.02, input_wait=0.01, allreduce_wait=0.005)
    figures.saved(write_seconds=2.0, unix_seconds=1_767_225_600.0)
    return figures


def test_each_metric_is_in_the_documentation_with_its_type_and_unit() -> None:
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(distrain_\w+)` \| (\w+ \| [\w ]*?) ?\|", text, re.MULTILINE))
    served = {
        metric.name + {"counter": "_total", "info": "_info"}.get(metric.type, ""): (metric.type, metric.unit)
        for metric in families.families([full()])
    }

    assert rows.keys() == served.keys()
    for name, (kind, unit) in served.items():
        told_kind, told_unit = rows[name].split(" | ")
        assert told_kind == kind, name
        # In OpenMetrics, a metric that only counts has no unit.
        assert not unit or told_unit == unit.replace("_", " "), name


def test_metrics_of_a_run_over_a_restart_at_another_size(tmp_path: Path, port: int) -> None:
    first = begin(tmp_path, log_every=1)
    save_step(first)
    first.record.end("stopped")
    two = ProcessGroup(0, 2, lambda value: value, lambda value: [value], shares_state=False)
    run = begin(tmp_path, group=two, log_every=1, metrics_port=port)
    at_start = scrape(port)
    wait_until(lambda: run.record.count("start") is not None)
    train(run, 12, loss=0.25)

    found = scrape(port)

    assert at_start["distrain_run_info framework=tensorflow model=mnist strategy=allreduce"] == 1
    assert (at_start["distrain_step"], at_start["distrain_samples"]) == (1, 10)
    assert "distrain_loss" not in at_start
    figures = ("world_size", "step", "samples", "epoch", "loss", "restarts_total", "rescales_total")
    assert [found[f"distrain_{name}"] for name in figures] == [2, 13, 130, 1.3, 0.25, 1, 1]
    assert found["distrain_images_per_second"] > 0


def test_metrics_of_a_rank_are_added_up_step_by_step(tmp_path: Path, port: int) -> None:
    run = begin(tmp_path, epochs=None, steps=3, metrics_port=port)

    def make_step(*_arguments: Any, **_more: Any) -> Any:
        return lambda: Outcome(1.0, 0, allreduce_wait=0.25)

    make_steps(run, DATASET, make_step)

    found = scrape(port)
    assert found["distrain_step_seconds_count rank=0"] == 3
    assert found["distrain_step_seconds_bucket le=100.0 rank=0"] == 3
    assert found["distrain_trained_samples_total rank=0"] == 30
    assert found["distrain_allreduce_wait_seconds_total rank=0"] == 0.75
    assert 0 < found["distrain_input_wait_seconds_total rank=0"] <= found["distrain_step_seconds_sum rank=0"]


def test_checkpoints_are_counted_and_timed(tmp_path: Path, port: int) -> None:
    run = begin(tmp_path, metrics_port=port)
    save_step(run)
    assert run.writer
    wait_until(lambda: bool(run.writer and run.writer.saved))
    tell(run, run.writer)

    found = scrape(port)

    assert found["distrain_checkpoint_write_seconds_count"] == 1
    assert found["distrain_checkpoint_write_seconds_sum"] > 0
    assert found["distrain_checkpoint_stall_seconds_total"] > 0
    assert found["distrain_checkpoint_timestamp_seconds"] > 1_700_000_000


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"), id="mpirun"),
        pytest.param(("LOCAL_RANK", "LOCAL_WORLD_SIZE"), id="torchrun"),
    ],
)
def test_first_rank_of_a_pod_serves_the_others_too(
    port: int, monkeypatch: pytest.MonkeyPatch, variables: tuple[str, str]
) -> None:
    # The pod is configured for three ranks, but the third rank never starts.
    monkeypatch.setattr("distrain_trainer.metrics.server.SECONDS_TO_ANSWER", 60)
    for local_rank in ("1", "0"):
        monkeypatch.setenv(variables[0], local_rank)
        monkeypatch.setenv(variables[1], "3")
        figures = Figures(rank=8 + int(local_rank))
        figures.begin_steps()
        figures.made_step(samples=10 + int(local_rank), seconds=0.3)
        serve_metrics(figures, port)

    found = scrape(port)

    assert found["distrain_trained_samples_total rank=8"] == 10
    assert found["distrain_trained_samples_total rank=9"] == 11
    assert found["distrain_step_seconds_sum rank=9"] == 0.3
    assert not any("rank=10" in name or name == "distrain_run_info" for name in found)


def test_counters_begin_at_0(tmp_path: Path, port: int) -> None:
    run = begin(tmp_path, epochs=None, steps=3, metrics_port=port)
    found = []

    def make_step(*_arguments: Any, **_more: Any) -> Any:
        found.append(scrape(port))
        return lambda: Outcome(1.0, 0)

    make_steps(run, DATASET, make_step)

    names = ("trained_samples_total rank=0", "step_seconds_count rank=0", "checkpoint_write_seconds_count")
    assert [found[0][f"distrain_{name}"] for name in names] == [0, 0, 0]
    assert [found[2][f"distrain_{name}"] for name in names] == [20, 2, 0]


def test_step_is_in_the_bucket_of_its_time() -> None:
    figures = Figures()
    figures.begin_steps()
    for seconds in (0.1, 0.11, 1000.0):
        figures.made_step(samples=1, seconds=seconds)

    found = samples(families.families([figures]))

    buckets = ("0.05", "0.1", "0.25", "100.0", "+Inf")
    assert [found[f"distrain_step_seconds_bucket rank=0 le={le}"] for le in buckets] == [0, 1, 2, 2, 3]


def test_nothing_is_served_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The import of this module now fails. If the trainer tried to serve metrics, it would log the failure.
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    train(begin(tmp_path), 3)

    assert "metrics:" not in capsys.readouterr().out


def test_taken_port_is_one_line(tmp_path: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    serve_metrics(Figures(), port)

    train(begin(tmp_path, metrics_port=port), 3)

    out = capsys.readouterr().out
    said = f"metrics: rank 0 does not serve them on port {port} (Address already in use); training goes on\n"
    assert out.count("metrics:") == 1
    assert said in out


def test_image_without_the_library_is_one_line(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    train(begin(tmp_path, metrics_port=port), 3)

    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("metrics:")]
    assert [re.sub(r"\(.*\)", "()", line) for line in said] == [
        f"metrics: rank 0 does not serve them on port {port} (); training goes on"
    ]
    assert "prometheus_client" in said[0]
    assert not listens("127.0.0.1", port)
