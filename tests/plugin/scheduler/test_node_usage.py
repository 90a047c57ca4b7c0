"""Test that the usage of nodes is the same whether the pods are read as JSON or protobuf, by one process or by two."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import Any

from msgspec import Struct

from distrain.check.snapshot import snapshot_file
from distrain.pods import pods_protobuf
from distrain.scheduler.constraints import JobConstraints
from distrain.scheduler.node_usage import ClusterUsage, usage_of
from distrain.workload.manifest import from_manifest
from lab.static_api import protobuf
from tests.plugin.check.random_clusters import Case, random_case

# Numbers of random cases. CASES is large, because some parts of the usage are filled by only a few of the random cases.
CASES, FEW = 600, 200


def test_usage_of_every_other_pod_adds_up_to_that_of_all() -> None:
    filled: Counter[str] = Counter()
    for seed in range(CASES):
        found, rules = _prepared(random_case(seed))

        halves = [_sent(found, found.pods[start::2], rules) for start in (0, 1)]

        whole = _parts(usage_of(found.nodes, found.pods, rules))
        assert _parts(halves[0] + halves[1]) == whole, seed
        filled.update(name for load in ("taken", "staying") for name, value in whole[load].items() if value)
        filled.update(name for marks in whole["taken"]["existing"].values() for name, value in marks.items() if value)
        filled.update(name for name, value in whole["counts"].items() if value)
    # For each part of the usage, at least one random case must fill it. The only exception is the part for the pods of
    # the release itself.
    parts = {"requests", "ports", "claims", "existing", "between", "affinity", "anti_affinity", "counts", "repelling"}
    assert set(filled) >= parts
    assert set(filled) >= {"blocked", "shunning", "pending", "lower"}


def test_each_of_the_pods_that_are_alike_counts() -> None:
    filled: Counter[str] = Counter()
    for seed in range(FEW):
        found, rules = _prepared(random_case(seed))

        once, twice = (_numbers(usage_of(found.nodes, [*found.pods] * times, rules)) for times in (1, 2))

        assert twice == {name: 2 * number for name, number in once.items()}, seed
        filled.update(once)
    assert set(filled) >= {"pending", "lower", "between", "requests"}


def test_usage_of_pods_is_equal_in_protobuf_and_json() -> None:
    cases = [random_case(seed) for seed in range(FEW)]
    objects = [[item for item in json.loads(case.cluster)["items"] if item["kind"] == "Pod"] for case in cases]
    encoded = iter(protobuf.pods([each for pods in objects for each in pods]))
    for seed, (case, pods) in enumerate(zip(cases, objects, strict=True)):
        found, rules = _prepared(case)
        page = protobuf.page([next(encoded) for _ in pods])

        summed_up = usage_of(found.nodes, pods_protobuf.pods(memoryview(page)), rules)

        assert _parts(summed_up) == _parts(usage_of(found.nodes, found.pods, rules)), seed


def _prepared(case: Case) -> tuple[snapshot_file.Contents, JobConstraints]:
    """Return the cluster of the case, and the scheduling rules of the case's job."""
    found = snapshot_file.contents(case.cluster)
    prepared, _ = snapshot_file.examined(found, from_manifest(case.manifest, "--manifest"), case.namespace)
    return found, prepared.constraints


def _sent(found: snapshot_file.Contents, pods: list[Any], rules: JobConstraints) -> ClusterUsage:
    """Compute the usage of these pods. Pickle and unpickle the result, as if another process had sent it."""
    sent: ClusterUsage = pickle.loads(pickle.dumps(usage_of(found.nodes, pods, rules)))
    return sent


def _numbers(loads: ClusterUsage) -> Counter[str]:
    """Return the counts of pods and the sums of their requests, without zeros."""
    load, counts = loads.taken, loads.counts
    taken = sum(amount for requests in load.requests.values() for amount in requests.values())
    return +Counter(pending=counts.pending, lower=counts.lower, between=load.between, requests=taken)


def _parts(part: Any) -> Any:
    """Return all parts of the usage, with sorted lists, so that the order of the pods does not matter."""
    if isinstance(part, Struct):
        return {name: _parts(getattr(part, name)) for name in part.__struct_fields__}
    if isinstance(part, list):
        return sorted(map(_parts, part), key=lambda each: sorted(each.items()))
    return {key: _parts(value) for key, value in part.items()} if isinstance(part, dict) else part
