"""Test PodTopologySpread: which pods count, and on which nodes."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.scheduler.messages import NO_DOMAIN
from distrain.solver.problem import Role, TopologySpread
from distrain.workload.manifest import Job
from tests.plugin.check.judging import examined, job_of
from tests.plugin.objects import Object, batch_job, node, pod, tainted

ZONED = [
    node("a", labels={"zone": "1", "pool": "gpu"}),
    tainted(node("b", labels={"zone": "2", "pool": "cpu"}), "busy=yes:NoSchedule"),
    node("c", labels={"zone": "1", "pool": "gpu"}),
    node("d"),
]
WEB = {"matchLabels": {"app": "web"}}
ALL = frozenset("abc")


def _constraint(**more: Any) -> Object:
    base = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1, "labelSelector": WEB}
    return {key: value for key, value in {**base, **more}.items() if value is not None}


def _job(*constraints: Object, labels: Object | None = None, **spec: Any) -> Job:
    spec = {"containers": [{"name": "main"}], "topologySpreadConstraints": list(constraints), **spec}
    return job_of(batch_job("j", {"metadata": {"labels": labels or {}}, "spec": spec}))


def _running(on: str, namespace: str = "team", **labels: str) -> Object:
    running = pod("p", on=on)
    running["metadata"].update({"labels": labels, "namespace": namespace})
    return running


def _role(job: Job, *running: Object) -> Role:
    _, snapshot = examined(job, ZONED, list(running), [])
    return snapshot.role(job.main)


def test_pods_are_counted_per_domain() -> None:
    role = _role(
        _job(_constraint(maxSkew=2, minDomains=3), labels={"app": "web"}),
        *(_running(name, app="web") for name in "aaabc"),
        _running("a", app="db"),
        _running("d", app="web"),
    )

    assert role.spread == (TopologySpread("zone", 2, frozenset({"j"}), ALL, {"1": 4, "2": 1}, 3),)


def test_pod_that_its_own_constraint_does_not_count_is_left_out_of_it() -> None:
    assert _role(_job(_constraint())).spread == (TopologySpread("zone", 1, frozenset(), ALL, {}, 1),)


@pytest.mark.parametrize(
    "running",
    [
        pytest.param(_running("a", namespace="other", app="web"), id="another-namespace"),
        pytest.param(
            {
                **(leaving := _running("a", app="web")),
                "metadata": {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
            },
            id="leaving",
        ),
    ],
)
def test_other_pods_are_not_counted(running: Object) -> None:
    (spread,) = _role(_job(_constraint()), running).spread

    assert spread.present == {}


@pytest.mark.parametrize(
    ("constraint", "spec", "eligible"),
    [
        pytest.param({}, {}, "abc", id="taints-do-not-count"),
        pytest.param({}, {"nodeSelector": {"pool": "gpu"}}, "ac", id="affinity-counts"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"nodeSelector": {"pool": "gpu"}}, "abc", id="affinity-ignored"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, {}, "ac", id="taints-honoured"),
        pytest.param(
            {"nodeTaintsPolicy": "Honor"}, {"tolerations": [{"operator": "Exists"}]}, "abc", id="taints-tolerated"
        ),
    ],
)
def test_nodes_are_counted_as_their_policies_say(constraint: Object, spec: Object, eligible: str) -> None:
    (spread,) = _role(_job(_constraint(**constraint), **spec)).spread

    assert spread.eligible == set(eligible)


def test_node_has_to_have_the_labels_of_all_constraints() -> None:
    job = _job(_constraint(), _constraint(topologyKey="host"))
    _, snapshot = examined(job, [node("a", labels={"zone": "1", "host": "a"}), *ZONED[1:]], [], [])

    assert [snapshot.refusal(each, job.main) for each in snapshot.nodes][::2] == [None, NO_DOMAIN]
    assert all(spread.eligible == {"a"} for spread in snapshot.role(job.main).spread)


@pytest.mark.parametrize("selector", [pytest.param(None, id="none"), pytest.param({}, id="empty")])
def test_constraint_that_counts_no_pods_only_needs_its_label(selector: Object | None) -> None:
    role = _role(_job(_constraint(labelSelector=selector)), _running("a", app="web"))

    assert (role.spread, role.nodes) == ((), {"a", "c"})


def test_label_keys_take_the_pods_own_values() -> None:
    job = _job(_constraint(matchLabelKeys=["v"]), labels={"app": "web", "v": "1"})

    (spread,) = _role(job, _running("a", app="web", v="1"), _running("b", app="web", v="2")).spread

    assert spread.present == {"1": 1}


def test_preferences_are_not_rules() -> None:
    role = _role(_job(_constraint(whenUnsatisfiable="ScheduleAnyway")))

    assert (role.spread, role.nodes) == ((), {"a", "c", "d"})
