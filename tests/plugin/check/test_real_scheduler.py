"""Compare `check` with kube-scheduler's own code on random clusters, and test that the comparison finds mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from distrain.scheduler.messages import NOT_NEAR, TOO_MANY_PODS
from distrain.workload.manifest import Job
from tests.matrix import one_of
from tests.plugin.check import comparison
from tests.plugin.check.comparison import Outcome, RealScheduler, compare_seeds, told
from tests.plugin.check.random_clusters import Case, random_case, resized
from tests.plugin.check.random_pods import Object

# `make test` compares the first clusters, and `make bench-check` compares 100,000.
CLUSTERS = [range(300), range(300, 1000), *(range(first, first + 1000) for first in range(1000, 5000, 1000))]
OVER_QUOTA = {"admitted": {"refusals": [{}, {"quota": "exceeded quota"}]}}
OVER_EMPTY = {"admitted": {"refusals": [{"quota": "exceeded quota", "empty": "exceeded quota"}]}}
ZONE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ZONE]}}


@pytest.fixture(scope="module")
def scheduler() -> RealScheduler:
    return RealScheduler()


@pytest.mark.parametrize("seeds", one_of(CLUSTERS), ids=str)
def test_check_answers_as_the_real_scheduler(seeds: range) -> None:
    tally = compare_seeds(seeds)

    print(tally)
    assert tally.compared == len(seeds)
    assert not tally.disagreements, "\n".join(told(seed) for seed, _ in tally.disagreements[:3])


@pytest.mark.parametrize(
    ("pods", "rules", "verdict", "ends"),
    [
        pytest.param(3, {}, "fits", {"success"}, id="fits"),
        pytest.param(4, {}, "none", {"stuck"}, id="one-too-many"),
        # Pods with the rule NEAR must all be in the zone of the first pod. Zone `a` has capacity for two pods, and zone
        # `b` for one pod.
        pytest.param(2, NEAR, "depends", {"success", "stuck"}, id="depends-on-the-first-pod"),
        pytest.param(3, NEAR, "none", {"stuck"}, id="no-zone-has-room"),
    ],
)
def test_scheduler_program_finds_every_end(
    scheduler: RealScheduler, pods: int, rules: Object, verdict: str, ends: set[str]
) -> None:
    answer = scheduler.ask(_case(pods, {"affinity": rules}))

    assert (answer["verdict"], answer["complete"]) == (verdict, True)
    assert set(answer["witness"]) == ends


def test_scheduler_program_tells_what_an_emptied_cluster_would_hold(scheduler: RealScheduler) -> None:
    spec = {"nodeName": "a", "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    metadata = {"name": "other", "namespace": "team"}
    other = {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    agent = {**other, "metadata": {**metadata, "annotations": {"kubernetes.io/config.mirror": "1"}}}
    case = _case(3, {})

    passing, staying = (scheduler.ask(Case([*case.items, pod], case.gang)) for pod in (other, agent))

    assert (passing["verdict"], passing["emptied"]) == ("none", "possible")
    assert (staying["verdict"], staying["emptied"]) == ("none", "none")


def test_scheduler_program_says_why_a_node_takes_no_more(scheduler: RealScheduler) -> None:
    answer = scheduler.ask(_case(4, {}), explain=True)

    assert list(answer["reasons"].values()) == [{"a": "Insufficient cpu", "b": "Insufficient cpu"}]


def test_pod_that_the_api_server_would_refuse_is_an_error(scheduler: RealScheduler) -> None:
    answer = scheduler.ask(_case(1, {"restartPolicy": "Perhaps"}))

    assert "restartPolicy" in answer["error"]


@pytest.mark.parametrize(
    ("checked", "real", "words"),
    [
        pytest.param("fits", {"verdict": "depends"}, "leaves pods over", id="fits"),
        pytest.param("impossible", {"verdict": "depends"}, "places all pods", id="impossible"),
        pytest.param("busy", {"verdict": "fits"}, "places all pods", id="busy"),
        pytest.param("impossible", {"verdict": "none", "emptied": "possible"}, "emptied", id="rather-busy"),
        pytest.param("busy", {"verdict": "none", "emptied": "none"}, "emptied", id="rather-impossible"),
        pytest.param("depends", {"verdict": "fits", "complete": True}, "says fits", id="depends"),
        pytest.param("fits", {"verdict": "fits", **OVER_QUOTA}, "quotas refuse pods", id="over-quota"),
        pytest.param("busy", {"verdict": "fits", **OVER_EMPTY}, "empty quotas refuse", id="over-empty-quota"),
        pytest.param("impossible", {"verdict": "fits", **OVER_QUOTA}, "places all pods", id="rather-busy-by-quota"),
    ],
)
def test_contradiction_is_a_disagreement(checked: str, real: dict[str, Any], words: str) -> None:
    assert words in Outcome(checked, undecided=False, real=real).disagreement


@pytest.mark.parametrize(
    ("checked", "undecided", "real"),
    [
        pytest.param("fits", False, {"verdict": "fits", "complete": True}, id="fits"),
        pytest.param("depends", False, {"verdict": "depends", "complete": True}, id="depends"),
        pytest.param("depends", True, {"verdict": "fits", "complete": True}, id="undecided"),
        pytest.param("depends", False, {"verdict": "fits", "complete": False}, id="not-explored-to-the-end"),
        pytest.param("busy", False, {"verdict": "none", "emptied": "possible"}, id="busy"),
        pytest.param("impossible", False, {"verdict": "none", "emptied": "none"}, id="impossible"),
        pytest.param("busy", False, {"verdict": "fits", **OVER_QUOTA}, id="busy-by-quota"),
        pytest.param("impossible", False, {"verdict": "fits", **OVER_EMPTY}, id="impossible-by-quota"),
    ],
)
def test_same_answer_is_no_disagreement(checked: str, undecided: bool, real: dict[str, Any]) -> None:
    assert Outcome(checked, undecided, real).disagreement == ""


def test_false_reason_is_a_disagreement() -> None:
    real = {"verdict": "none", "emptied": "none", "reasons": {"p": {"a": NOT_NEAR, "b": NOT_NEAR}}}

    outcome = Outcome("impossible", undecided=False, real=real, reasons=frozenset({TOO_MANY_PODS}))

    assert outcome.disagreement == "check says Too many pods, rules between pods refuse every node"


def test_disagreement_is_reported_with_the_smallest_case(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(4, {"nodeSelector": {"zone": "nowhere"}, "hostNetwork": True})
    monkeypatch.setattr(comparison, "random_case", lambda *_: case)
    monkeypatch.setattr(comparison, "check_snapshot", _wrong_about_node_selectors)

    text = told(7)

    assert text.startswith("seed 7: check says fits, the scheduler leaves pods over")
    assert '"items": []' in text
    assert '"spec": {"containers": [{"name": "main", "image": "image"}], "nodeSelector": {"zone": "nowhere"}}' in text


def _wrong_about_node_selectors(_cluster: bytes, job: Job, _namespace: str) -> SimpleNamespace:
    verdict = "fits" if job.main.spec.node_selector else "impossible"
    return SimpleNamespace(verdict=verdict, undecided=False, reasons=[])


def test_same_seed_makes_the_same_case() -> None:
    assert random_case(3) == random_case(3) != random_case(4)


def _case(pods: int, spec: Object) -> Case:
    """Return a case with pods of one CPU.

    Zone `a` has one node with capacity for two pods, and zone `b` one node for one pod.
    """
    nodes = [_node("a", "2"), _node("b", "1")]
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}}
    return Case(nodes, [resized(job, pods)])


def _node(name: str, cpu: str) -> Object:
    metadata = {"name": name, "labels": {"zone": name}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}
