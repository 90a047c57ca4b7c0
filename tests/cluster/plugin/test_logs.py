"""Test that `logs` and the run's record continue after a rescale, and after the launcher's pod was replaced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.cluster import client, lifecycle
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.cluster.testbed import BUCKET, Namespace
from tests.cluster.training import RESUMED, STOPPED, rescale, upgrade, wait_for_checkpoint

START = re.compile(r"^(?=resumed from )", re.M)
STEP = re.compile(r"^(\d+)\timages/sec: ", re.M)


@contextmanager
def _following(namespace: Namespace, file: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Write the output of `logs run1 --follow` to a file while the block runs."""
    command = [sys.executable, "-m", "distrain", "logs", "run1", "--follow", *flags, "--namespace", namespace.name]
    with file.open("wb") as output, file.with_suffix(".stderr").open("wb") as errors:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _starts(log: str) -> list[list[int]]:
    """Return the numbers of the logged steps: one list for each time that the ranks were started."""
    return [[int(step) for step in STEP.findall(part)] for part in START.split(log)]


def _wait_for_start(file: Path, number: int) -> None:
    """Wait until the ranks have been started for the `number`-th time and have logged a step."""

    def has_begun() -> bool:
        starts = _starts(file.read_text())
        return len(starts) >= number and bool(starts[number - 1])

    wait_until(f"start {number} in the followed log", has_begun, seconds=300, pause=0.5)


def _record(namespace: Namespace) -> list[dict[str, Any]]:
    s3 = lifecycle.s3_server().boto3_client()
    found = s3.get_object(Bucket=BUCKET, Key=f"models/{namespace.name}/run1/record.jsonl")["Body"].read()
    return [json.loads(line) for line in found.splitlines()]


def test_log_and_record_go_on_over_a_rescale_and_another_launcher(
    namespace: Namespace, helm4: Path, on_s3: list[str], tmp_path: Path
) -> None:
    file, everything = tmp_path / "log", tmp_path / "all"
    upgrade(namespace, helm4, on_s3, {"workers.replicas": 2})
    wait_for_checkpoint(namespace)

    with _following(namespace, file) as following, _following(namespace, everything, "--all"):
        _wait_for_start(file, 1)
        rescale(namespace, 3)
        _wait_for_start(file, 2)
        client.kubectl("-n", namespace.name, "delete", "pod", "-l", "app.kubernetes.io/component=launcher")
        _wait_for_start(file, 3)
        saved = namespace.distrain("logs", "run1", "--save", str(tmp_path / "saved"))
        last = namespace.launcher_log()
        removed = namespace.helm(helm4, "uninstall", "run1", "--wait")
        code = following.wait(timeout=300)

    log, gone = file.read_text(), "distrain: run1: the run is gone: someone removed it"
    assert removed.returncode == 0, removed.stderr
    assert code == 4
    assert file.with_suffix(".stderr").read_text().splitlines()[-1] == gone
    # After each start, the ranks log each step once, and begin with the step after the last one of the previous start.
    starts = _starts(log)
    assert [steps for steps in starts if steps != list(range(steps[0], steps[0] + len(steps)))] == []
    resumed = [(found[1], found[2]) for found in RESUMED.findall(log)]
    assert [ranks for _, ranks in resumed] == ["3", "3"]
    assert STOPPED.findall(log)[:2] == [samples for samples, _ in resumed]
    assert last in log
    titles = {line.partition(" | ")[0] for line in everything.read_text().splitlines()}
    assert titles == {"launcher", "worker-0", "worker-1", "worker-2"}
    assert saved.returncode == 0, saved.stderr
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "configmaps.txt", "events.json", "logs", "mpijobs.json", "pods.json",
    ]  # fmt: skip
    told = [line["event"] for line in _record(namespace) if line["event"] != "checkpoint" and line["event"] != "step"]
    assert told == ["record", "start", "end", "rescale", "start", "end", "start", "end"]
