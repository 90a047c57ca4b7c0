"""Test that the objects of the largest run with the longest names stay below the limits of Kubernetes and etcd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from distrain.workload.object_sizes import MOST_DATA, MOST_STORED, data_size, json_size
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Yaml, refusal, render_with

WORKERS, LABEL = 1000, 63
LONGEST_RELEASE = 53 * "a"
LONGEST_NAMESPACE = 63 * "n"
# The test's limits for the sizes of the largest objects, in bytes. The test's limits are far below the limits of
# Kubernetes and etcd, so that users' values also fit.
SCRIPTS, HOSTFILE, OTHERS = MOST_DATA // 8, MOST_DATA // 4, MOST_STORED // 64


@every_kind
def test_objects_of_1000_workers_leave_most_of_their_limits_free(helm: Path, kind: str) -> None:
    values = (*KINDS[kind], f"workers.replicas={WORKERS}")

    rendered = render_with(helm, values, release=LONGEST_RELEASE)

    sizes = {each["metadata"]["name"]: data_size(each) or json_size(each) for each in rendered.documents}
    assert {name: size for name, size in sizes.items() if size > _most(name)} == {}
    assert [value for each in rendered.documents for value in _labels(each) if len(value) > LABEL] == []


def test_hostfile_of_1000_workers_has_a_line_for_each(helm: Path) -> None:
    values = (*KINDS["plain"], f"workers.replicas={WORKERS}", "workers.gpus=8")

    lines = render_with(helm, values, release=LONGEST_RELEASE).find("ConfigMap", "-hostfile")["data"]["hostfile"]

    assert len(lines.splitlines()) == WORKERS
    # Each line of the hostfile contains the namespace. The test renders for the namespace "default", so it adds what
    # the longest namespace would add to each line.
    assert len(lines) + WORKERS * (len(LONGEST_NAMESPACE) - len("default")) < HOSTFILE


def test_1001_workers_are_refused(helm: Path) -> None:
    message = refusal(helm, "--set", f"workers.replicas={WORKERS + 1}", release=LONGEST_RELEASE)

    assert "at '/workers/replicas': maximum: got 1,001, want 1,000" in message


def _most(name: str) -> int:
    return SCRIPTS if name.endswith("-scripts") else HOSTFILE if name.endswith("-hostfile") else OTHERS


def _labels(item: Yaml) -> Iterator[str]:
    """Yield the label values of the object and of its pod templates."""
    if isinstance(item, dict):
        if isinstance(item.get("labels"), dict):
            yield from item["labels"].values()
        for value in item.values():
            yield from _labels(value)
    elif isinstance(item, list):
        for value in item:
            yield from _labels(value)
