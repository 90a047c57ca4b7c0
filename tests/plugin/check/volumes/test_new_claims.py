"""Test whether quotas and LimitRanges admit the claims that are created for a job's pods."""

from __future__ import annotations

import time
from typing import Any

import pytest

from distrain.check.report import Report
from tests.plugin.check.judging import job_of, judged
from tests.plugin.check.volumes.test_own_claims import NODES, WAITS, _class, _set
from tests.plugin.objects import Object, batch_job, pod, template

FIVE = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}
GOLD = _class("gold", **WAITS)
OF_GOLD = "gold.storageclass.storage.k8s.io"


def _policy(kind: str, **spec: Any) -> Object:
    return {"kind": kind, "metadata": {"name": "storage", "namespace": "team"}, **spec}


def _quota(name: str, hard: str, used: str = "0") -> Object:
    return _policy("ResourceQuota", status={"hard": {name: hard}, "used": {name: used}})


def _answer(pods: int, *others: Object, is_ephemeral: bool = False) -> Report:
    return judged(job_of(_set(pods, FIVE, is_ephemeral=is_ephemeral)), NODES, others=[GOLD, *others])


@pytest.fixture(params=[True, False], ids=["ephemeral", "claim-template"])
def is_ephemeral(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        pytest.param({"max": {"storage": "4Gi"}}, "maximum storage usage per PersistentVolumeClaim is 4Gi", id="max"),
        pytest.param({"min": {"storage": "6Gi"}}, "minimum storage usage per PersistentVolumeClaim is 6Gi", id="min"),
        pytest.param({"min": {"storage": "5Gi"}, "max": {"storage": "5Gi"}}, "", id="within"),
        pytest.param({"max": {"x/y": "1"}}, "maximum x/y usage per PersistentVolumeClaim is 1", id="max-of-another"),
        pytest.param({"min": {"x/y": "1"}}, "minimum x/y usage per PersistentVolumeClaim is 1", id="min-of-another"),
    ],
)
def test_limit_range_refuses_claims(bounds: Object, words: str, is_ephemeral: bool) -> None:
    limits = _policy("LimitRange", spec={"limits": [{"type": "PersistentVolumeClaim", **bounds}]})

    answer = _answer(1, limits, is_ephemeral=is_ephemeral)

    reason = f"{words}, but request is 5Gi" if "storage" in words else f"{words}.  No request is specified"
    assert (answer.verdict, [each.reason for each in answer.reasons]) == (
        ("impossible", [reason]) if words else ("fits", [])
    )
    if words:
        assert answer.next == (
            f"web: volume scratch: LimitRange storage refuses the claim: {reason}. "
            "Change what it asks for, or the LimitRange."
        )


@pytest.mark.parametrize(
    ("name", "hard", "used", "verdict"),
    [
        ("requests.storage", "10Gi", "0", "fits"),
        ("requests.storage", "9Gi", "0", "impossible"),
        ("requests.storage", "20Gi", "12Gi", "busy"),
        ("persistentvolumeclaims", "1", "0", "impossible"),
        ("count/persistentvolumeclaims", "3", "2", "busy"),
        (f"{OF_GOLD}/requests.storage", "9Gi", "0", "impossible"),
        (f"{OF_GOLD}/persistentvolumeclaims", "1", "0", "impossible"),
        ("silver.storageclass.storage.k8s.io/requests.storage", "0", "0", "fits"),
    ],
)
def test_quota_counts_claims(name: str, hard: str, used: str, verdict: str, is_ephemeral: bool) -> None:
    answer = _answer(2, _quota(name, hard, used), is_ephemeral=is_ephemeral)

    assert answer.verdict == verdict
    assert not any("ResourceQuota" in each for each in answer.unseen)


@pytest.mark.parametrize(
    ("name", "scope", "verdict"),
    [
        ("fast", {"operator": "In", "values": ["fast"]}, "impossible"),
        ("fast", {"operator": "In", "values": ["slow"]}, "fits"),
        ("fast", {"operator": "NotIn", "values": ["slow"]}, "impossible"),
        ("fast", {"operator": "Exists"}, "impossible"),
        (None, {"operator": "Exists"}, "fits"),
        ("", {"operator": "DoesNotExist"}, "impossible"),
    ],
)
def test_scope_selects_the_volume_attributes_class_of_claims(
    name: str | None, scope: Object, verdict: str, is_ephemeral: bool
) -> None:
    selector = {"matchExpressions": [{"scopeName": "VolumeAttributesClass", **scope}]}
    quota = {**_quota("requests.storage", "4Gi"), "spec": {"scopeSelector": selector}}
    claim = {**FIVE, "volumeAttributesClassName": name}

    answer = judged(job_of(_set(1, claim, is_ephemeral=is_ephemeral)), NODES, others=[GOLD, quota])

    assert answer.verdict == verdict
    assert not any("ResourceQuota" in each for each in answer.unseen)


def test_quota_counts_only_claims_that_do_not_exist_yet() -> None:
    there = {"kind": "PersistentVolumeClaim", "metadata": {"name": "scratch-web-0", "namespace": "team"}, "spec": FIVE}

    assert _answer(2, _quota("persistentvolumeclaims", "2", "1"), there).verdict == "fits"


def test_quota_of_a_class_is_not_judged_where_the_default_class_is_unknown() -> None:
    unnamed = _set(1, {"resources": FIVE["resources"]})

    answer = judged(job_of(unnamed), NODES, others=[_quota(f"{OF_GOLD}/persistentvolumeclaims", "0")])

    assert f"ResourceQuota storage: {OF_GOLD}/persistentvolumeclaims" in answer.unseen


def test_claims_of_the_release_that_end_are_free() -> None:
    scratch = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": FIVE}}}]}
    worker = template("worker", {"requests": {"cpu": "2"}}, scratch)
    own = pod("run1-worker", on="a")
    own["metadata"]["labels"] = worker["metadata"]["labels"]
    own["spec"] |= scratch

    job, quota = job_of(batch_job("run1", worker)), _quota("requests.storage", "6Gi", "5Gi")

    assert judged(job, NODES, [own], [GOLD, quota], "run1").verdict == "fits"
    assert judged(job, NODES, [own], [GOLD, quota]).verdict == "busy"


def test_claims_begin_at_the_first_ordinal() -> None:
    numbered = _set(1, FIVE)
    numbered["spec"]["ordinals"] = {"start": 7}
    names = ("scratch-web-7", "scratch-web-0")
    claims = [
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": "team",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {**FIVE, "volumeName": "v"},
        }
        for name in names
    ]
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["3"]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": affinity}

    found = [judged(job_of(numbered), NODES, others=[GOLD, claim, volume]).verdict for claim in claims]

    assert found == ["impossible", "fits"]


@pytest.mark.usefixtures("hidden_heap")
def test_number_of_claims_costs_no_time() -> None:
    many = _set(1_000_000, FIVE)
    there = {"kind": "PersistentVolumeClaim", "metadata": {"name": "scratch-web-7", "namespace": "team"}, "spec": FIVE}
    job = job_of(many)
    started = time.thread_time()

    answer = judged(job, NODES, others=[GOLD, there])

    assert answer.verdict == "impossible"
    assert time.thread_time() - started < 0.5
