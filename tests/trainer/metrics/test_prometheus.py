"""In a real Prometheus, test the metrics of a rescaled run and each query of the Grafana dashboard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.waiting import free_port, wait_until
from tests import prometheus
from tests.prometheus import QUERIES, Prometheus, filled
from tests.trainer.conftest import DIGITS_IN_IMAGE, FORKED, SCRIPTS, ProgramInImage
from tests.trainer.fixtures import rescaled_record

# The labels that the chart's PodMonitor adds to each metric.
LABELS = {"namespace": "team", "pod": "run1-worker-0", "app_kubernetes_io_instance": "run1"}
# In this test, the time window of the queries is so long that it contains both starts of the run.
VARIABLES = {"namespace": "team", "release": "run1", "window": "1h"}
# A start takes seconds. On a busy machine, this may take minutes.
LONGEST_SECONDS = 900
# The number of the last step in each start.
LENGTHS = (30, 60)


@dataclass(frozen=True)
class Rescaled:
    """A Prometheus server that has scraped a rescaled run.

    The fields also contain the time of its last sample, and the run's program and output.
    """

    prometheus: Prometheus
    end: float
    program: ProgramInImage
    output: Path


@pytest.fixture(scope="module")
def rescaled(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Iterator[Rescaled]:
    folder, port = tmp_path_factory.mktemp("rescaled"), free_port()
    (out := folder / "out").mkdir()
    out.chmod(0o777)
    program = ProgramInImage.named("pytorch-ddp", digits)
    places = ["--checkpoint=/out/checkpoints", "--checkpoint-at-end", "--output=/out/outcome"]
    arguments = [f"--data={DIGITS_IN_IMAGE}", f"--batch-size={rescaled_record.BATCH_SIZE}", "--log-every=5", *places]
    mounts = {out: "/out", SCRIPTS / "jobs/held.py": "/held.py"}
    scrape = {"job_name": "trainer", "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": LABELS}]}
    with prometheus.running(folder, scrape) as server, ThreadPoolExecutor() as threads:
        before = 0
        for steps, ranks in zip(LENGTHS, rescaled_record.RANKS, strict=True):
            more = [f"--steps={steps}", f"--metrics-port={port}"]
            in_image: dict[str, Any] = {
                "ranks": ranks,
                "mounts": mounts,
                "script": "/held.py",
                "starter": FORKED[program.name],
                "timeout": LONGEST_SECONDS,
            }
            run = threads.submit(program, *arguments, *more, **in_image)
            try:
                wait_for(server, run, f'distrain_step == {before} and distrain_trained_samples_total{{rank="0"}} == 0')
                (out / f"begin-{before}").touch()
                wait_for(server, run, f"distrain_step == {steps} and distrain_checkpoint_write_seconds_count >= 1")
                [(end, _)] = [series["value"] for series in server.ask("query", query="distrain_step")]
            finally:  # Create these files even if the test fails: the run waits for them.
                for name in (f"begin-{before}", f"end-{steps}"):
                    (out / name).touch()
            assert run.result().returncode == 0, run.result().stderr
            before = steps
        yield Rescaled(server, float(end), program, out / "outcome")


def wait_for(server: Prometheus, run: Any, condition: str) -> None:
    """Wait until the pod has series for both parts of the condition (`A and B`), even if their other labels differ."""
    first, _, second = condition.partition(" and ")

    def holds() -> bool:
        assert not run.done(), run.result().stderr
        return bool(server.values(f"{first} and on (pod) {second}"))

    wait_until(condition, holds, seconds=LONGEST_SECONDS)


def test_counters_are_right_over_a_rescale(rescaled: Rescaled) -> None:
    server, selector = rescaled.prometheus, 'distrain_trained_samples_total{rank="0"}'

    of_rank_0, of_rank_1 = values_of(server, selector), values_of(server, selector.replace("0", "1"))

    at_rescale, at_end = (max(values_of(server, "distrain_samples", at_step=step)) for step in LENGTHS)
    [last_before_reset] = [before for before, after in pairwise(of_rank_0) if after < before]
    assert (of_rank_0[0], of_rank_1[0]) == (0, 0)
    assert last_before_reset + of_rank_1[-1] == at_rescale
    assert of_rank_0[-1] == at_end - at_rescale
    [increase] = server.values(f"increase({selector}[1h])")
    counted = last_before_reset + of_rank_0[-1]
    assert counted <= increase <= counted * extrapolated_at_most(len(of_rank_0))
    assert values_of(server, 'distrain_step_seconds_count{rank="1"}')[-1] == 30


def extrapolated_at_most(samples: int) -> float:
    """Return the largest factor by which Prometheus' increase() may exceed the true increase between the samples.

    increase() extrapolates beyond the first and beyond the last sample in the window. If an end of the window is less
    than 1.1 mean sample intervals away from the nearest sample, increase() extrapolates to this end. Otherwise
    increase() extrapolates by half an interval (extrapolatedRate in Prometheus' promql/functions.go). In this test, the
    window begins long before the first sample, so both extrapolations together are at most 0.5 + 1.1 intervals.
    """
    return 1 + (0.5 + 1.1) / (samples - 1)


def values_of(server: Prometheus, selector: str, *, at_step: int | None = None) -> list[float]:
    """Return all values of a series. With `at_step`, return only the values at that step."""
    steps = dict(server.samples("distrain_step"))
    return [value for time, value in server.samples(selector) if at_step in (None, steps.get(time))]


def test_record_tells_of_the_rescale(rescaled: Rescaled) -> None:
    samples = max(values_of(rescaled.prometheus, "distrain_samples", at_step=LENGTHS[0]))

    rescaled_record.assert_told(rescaled.output, rescaled.program, LENGTHS, checkpoint=f"1-{samples:.0f}")


def test_position_goes_on_over_a_rescale(rescaled: Rescaled) -> None:
    steps = values_of(rescaled.prometheus, "distrain_step")
    sizes = values_of(rescaled.prometheus, "distrain_world_size")

    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 60)
    assert [sizes[0], *(after for before, after in pairwise(sizes) if after != before)] == [2, 1]
    for name in ("restarts", "rescales"):
        counted = values_of(rescaled.prometheus, f"distrain_{name}_total")
        assert sorted({*counted}) == [0, 1], name


@pytest.mark.parametrize("name", QUERIES)
def test_query_of_the_dashboard_has_an_answer(rescaled: Rescaled, name: str) -> None:
    found = rescaled.prometheus.ask("query", query=filled(QUERIES[name], **VARIABLES), time=rescaled.end)

    assert found
    assert all(math.isfinite(float(series["value"][1])) for series in found)
    assert any(float(series["value"][1]) > 0 for series in found)


def test_dashboard_has_no_gap_over_a_rescale(rescaled: Rescaled) -> None:
    begin = rescaled.prometheus.samples("distrain_step")[0][0]
    query = filled(QUERIES["Steps and ranks-A"], **VARIABLES)

    [series] = rescaled.prometheus.ask("query_range", query=query, start=begin, end=rescaled.end, step=1)

    assert len(series["values"]) == math.floor(rescaled.end - begin) + 1
