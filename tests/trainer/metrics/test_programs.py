"""Test the metrics that each program serves to Prometheus."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lab.waiting import free_port
from tests.trainer.conftest import DIGITS_IN_IMAGE, SCRIPTS, ProgramInImage, tried_by

# In the jobs of these programs, each task runs in a pod of its own. On a single machine, several tasks of a job would
# need the same port.
TASKS = ("tensorflow-ps", "mxnet-kvstore")
MEASURE_WAIT = ("tensorflow-horovod", "pytorch-ddp", "pytorch-horovod")


# test_prometheus.py tests pytorch-ddp. test_training.py checks how long TensorFlow's ranks wait, in the record of a run
# with two ranks.
@tried_by("mxnet-kvstore")
def test_metrics_of_a_run_that_has_made_its_steps(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    ranks = 1 if program.name in TASKS else 2
    arguments = [f"--data={DIGITS_IN_IMAGE}", "--steps=6", "--log-every=2", "--checkpoint=/out"]
    mounts = {tmp_path: "/out", SCRIPTS / "jobs/scraped.py": "/scraped.py"}

    run = program(*arguments, f"--metrics-port={free_port()}", ranks=ranks, mounts=mounts, script="/scraped.py")

    assert run.returncode == 0, run.stderr
    text = run.stdout[run.stdout.index("# HELP distrain_") : run.stdout.index("# EOF\n") + len("# EOF\n")]
    found = {metric.name: metric for metric in text_string_to_metric_families(text)}
    labels = found["distrain_run"].samples[0].labels
    strategy = "parameter-server" if program.name in TASKS else "allreduce"
    assert labels == {"framework": program.program.framework, "strategy": strategy, "model": "mnist"}
    position = {name: value_of(found, name) for name in ("step", "planned_steps", "samples", "world_size")}
    assert position == {"step": 6, "planned_steps": 6, "samples": 6 * 64 * ranks, "world_size": ranks}
    assert value_of(found, "loss") > 0
    assert value_of(found, "images_per_second") > 0
    # The chief of a TFJob does not make steps.
    steps = {} if program.name == "tensorflow-ps" else {str(rank): 6.0 for rank in range(ranks)}
    assert of_ranks(found, "step_seconds", "_count") == steps
    assert of_ranks(found, "trained_samples", "_total") == {rank: 64 * made for rank, made in steps.items()}
    waits = of_ranks(found, "allreduce_wait_seconds", "_total")
    times = of_ranks(found, "step_seconds", "_sum")
    assert waits.keys() == (times.keys() if program.name in MEASURE_WAIT else set())
    assert all(0 < wait < times[rank] for rank, wait in waits.items())


def value_of(found: dict[str, Metric], name: str) -> float:
    [sample] = found[f"distrain_{name}"].samples
    return float(sample.value)


def of_ranks(found: dict[str, Metric], name: str, suffix: str) -> dict[str, float]:
    metric = found.get(f"distrain_{name}")
    samples = metric.samples if metric else []
    return {each.labels["rank"]: each.value for each in samples if each.name == f"distrain_{name}{suffix}"}
