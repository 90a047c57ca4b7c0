"""Test InterPodAffinity: the effect of existing pods on a role, and of a job's roles on each other."""

from __future__ import annotations

from typing import Any

import pytest

from distrain.scheduler.messages import NOT_APART, NOT_NEAR, OTHER_NAME, REPELLED
from distrain.solver.problem import Affinity, AntiAffinity, Role
from distrain.workload.manifest import Job
from tests.plugin.check.judging import examined, job_of
from tests.plugin.objects import Object, batch_job, node, pod

ZONED = [node("a", labels={"zone": "1", "host": "a"}), node("b", labels={"zone": "1", "host": "b"}), node("c")]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _term(key: str, app: str | None = "web", **more: Any) -> Object:
    selector = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}}}
    return {"topologyKey": key, **selector, **more}


def _near(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def _apart(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def _pods(name: str, spec: Object, **labels: str) -> Object:
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}], **spec}}
    return batch_job(name, template)


def _running(on: str, spec: Object | None = None, namespace: str = "team", **labels: str) -> Object:
    running = pod("p", on=on)
    running["metadata"].update({"labels": labels, "namespace": namespace})
    running["spec"].update(spec or {})
    return running


def _role(job: Job, running: list[Object], others: list[Object] | None = None, cluster: list[Object] = ZONED) -> Role:
    _, snapshot = examined(job, cluster, running, others or [])
    return snapshot.role(job.main)


def _refusals(job: Job, running: list[Object], others: list[Object] | None = None) -> list[str | None]:
    _, snapshot = examined(job, ZONED, running, others or [])
    return [snapshot.refusal(each, job.main) for each in snapshot.nodes]


def test_anti_affinity_keeps_a_pod_out_of_the_domains_of_matching_pods() -> None:
    job = job_of(_pods("j", _apart(_term("zone"))))

    assert _refusals(job, [_running("a", app="web")]) == [NOT_APART, NOT_APART, None]
    assert _refusals(job, [_running("a", app="db")]) == [None, None, None]


def test_anti_affinity_to_a_pod_without_the_topology_label_has_no_effect() -> None:
    job = job_of(_pods("j", _apart(_term("zone"))))

    assert _refusals(job, [_running("c", app="web")]) == [None, None, None]


def test_anti_affinity_of_running_pods_is_obeyed_too() -> None:
    job = job_of(_pods("j", {}, app="web"))

    assert _refusals(job, [_running("a", _apart(_term("host")))]) == [REPELLED, None, None]
    assert _refusals(job, [_running("a", _apart(_term("host", app="db")))]) == [None, None, None]


def test_every_term_of_an_anti_affinity_counts_alone() -> None:
    job = job_of(_pods("j", _apart(_term("host", "web"), _term("host", "db"))))

    assert _refusals(job, [_running("a", app="web"), _running("b", app="db")]) == [NOT_APART, NOT_APART, None]


def test_affinity_needs_one_pod_that_matches_every_term() -> None:
    job = job_of(
        _pods("j", _near(_term("zone", "web"), _term("host", None, labelSelector={"matchLabels": {"v": "1"}})))
    )

    both = _role(job, [_running("a", app="web", v="1")])
    halves = _role(job, [_running("a", app="web"), _running("b", v="1")])

    assert both.affinity == Affinity(("zone", "host"), frozenset(), {"zone": frozenset("1"), "host": frozenset("a")})
    assert halves.affinity == Affinity(("zone", "host"), frozenset(), {"zone": frozenset(), "host": frozenset()})


def test_affinity_leaves_nodes_with_the_topology_alone() -> None:
    job = job_of(_pods("j", _near(_term("zone"))))

    assert _refusals(job, []) == [None, None, NOT_NEAR]
    assert _role(job, []).nodes == {"a", "b"}


def test_roles_that_affinity_is_about_are_named() -> None:
    job = job_of(_pods("w", _near(_term("zone")), app="web"), _pods("x", {}, app="web"), _pods("y", {}, app="db"))
    _, snapshot = examined(job, ZONED, [], [])

    rules = {role.name: snapshot.role(role).affinity for role in job.roles}

    assert rules == {"w": Affinity(("zone",), frozenset({"w", "x"}), {"zone": frozenset()}), "x": None, "y": None}


def test_anti_affinity_between_roles_is_given_on_both_sides() -> None:
    job = job_of(_pods("w", _apart(_term("zone", "db")), app="web"), _pods("x", {}, app="db"))
    _, snapshot = examined(job, ZONED, [], [])

    rules = {role.name: snapshot.role(role).anti_affinity for role in job.roles}

    assert rules == {"w": (AntiAffinity("zone", frozenset({"x"})),), "x": (AntiAffinity("zone", frozenset({"w"})),)}


def test_roles_of_one_topology_key_are_one_rule() -> None:
    both = _apart(_term("host", "web"), _term("host", "db"), _term("zone", "web"))
    job = job_of(_pods("w", both, app="web"), _pods("x", {}, app="db"))
    _, snapshot = examined(job, ZONED, [], [])

    rules = {role.name: snapshot.role(role).anti_affinity for role in job.roles}

    assert rules["w"] == (AntiAffinity("host", frozenset({"w", "x"})), AntiAffinity("zone", frozenset({"w"})))
    assert rules["x"] == (AntiAffinity("host", frozenset({"w"})),)


def _namespaces(**labels: dict[str, str]) -> list[Object]:
    return [{"kind": "Namespace", "metadata": {"name": name, "labels": found}} for name, found in labels.items()]


@pytest.mark.parametrize(
    ("term", "namespace", "refused"),
    [
        pytest.param({}, "team", True, id="own-namespace-is-the-default"),
        pytest.param({}, "blue", False, id="and-no-other"),
        pytest.param({"namespaces": ["blue"]}, "blue", True, id="named"),
        pytest.param({"namespaces": ["blue"]}, "team", False, id="named-others-leave-out-the-own"),
        pytest.param({"namespaceSelector": {}}, "blue", True, id="all"),
        pytest.param({"namespaceSelector": {"matchLabels": {"colour": "1"}}}, "blue", True, id="selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"colour": "2"}}}, "blue", False, id="not-selected"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"colour": "2"}}, "namespaces": ["blue"]}, "blue", True, id="either"
        ),
    ],
)
def test_term_is_about_the_namespaces_that_it_names_or_selects(term: Object, namespace: str, refused: bool) -> None:
    known = _namespaces(blue={"colour": "1"})
    ours = job_of(_pods("j", _apart(_term("host", **term))))
    assert (_refusals(ours, [_running("a", namespace=namespace, app="web")], known)[0] == NOT_APART) == refused


def test_running_pods_term_may_select_our_namespace_by_its_labels() -> None:
    job = job_of(_pods("j", {}, app="web"))
    selecting: Object = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}}

    theirs = _running("a", _apart(_term("host", **selecting)), namespace="blue")

    assert _refusals(job, [theirs])[0] == REPELLED
    assert _refusals(job, [_running("a", _apart(_term("host")), namespace="blue")])[0] is None


@pytest.mark.parametrize(
    ("keys", "version", "refused"),
    [
        pytest.param({"matchLabelKeys": ["v"]}, "1", True, id="the-own-value"),
        pytest.param({"matchLabelKeys": ["v"]}, "2", False, id="another-value"),
        pytest.param({"mismatchLabelKeys": ["v"]}, "2", True, id="all-but-the-own-value"),
        pytest.param({"mismatchLabelKeys": ["v"]}, "1", False, id="not-the-own-value"),
        pytest.param({"matchLabelKeys": ["absent"]}, "2", True, id="a-label-that-we-lack-asks-for-nothing"),
    ],
)
def test_label_keys_take_the_pods_own_values(keys: Object, version: str, refused: bool) -> None:
    job = job_of(_pods("j", _apart(_term("host", **keys)), v="1"))

    assert (_refusals(job, [_running("a", app="web", v=version)])[0] == NOT_APART) == refused


def test_pods_that_are_leaving_still_count() -> None:
    leaving = _running("a", app="web")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert _refusals(job_of(_pods("j", _apart(_term("host")))), [leaving])[0] == NOT_APART


def test_term_without_a_selector_matches_no_pod() -> None:
    assert _refusals(job_of(_pods("j", _apart(_term("host", None)))), [_running("a", app="web")])[0] is None


def test_nodes_carry_the_labels_that_rules_name() -> None:
    job = job_of(_pods("j", _apart(_term("zone"))))
    _, snapshot = examined(job, ZONED, [], [])

    assert [each.labels for each in snapshot.free()] == [{"zone": "1"}, {"zone": "1"}, {}]


def test_preferences_are_not_rules() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]}
    role = _role(job_of(_pods("j", {"affinity": {"podAffinity": preferred, "podAntiAffinity": preferred}})), [])

    assert (role.affinity, role.anti_affinity, len(role.nodes)) == (None, (), 3)


def test_once_other_pods_have_ended_their_rules_are_gone() -> None:
    job = job_of(_pods("j", {}, app="web"))
    _, snapshot = examined(job, ZONED, [_running("a", _apart(_term("host")))], [])

    assert snapshot.role(job.main).nodes == {"b", "c"}
    assert snapshot.emptied().role(job.main).nodes == {"a", "b", "c"}


@pytest.mark.parametrize(
    "rule",
    [
        {"matchLabelKeys": ["controller-uid"]},
        {"mismatchLabelKeys": ["controller-uid"]},
        {"labelSelector": {"matchLabels": {"controller-uid": "a"}}},
        {"labelSelector": {"matchExpressions": [{"key": "controller-uid", "operator": "Exists"}]}},
    ],
)
def test_label_that_is_unknown_before_the_pods_exist_is_named(rule: Object) -> None:
    prepared, _ = examined(job_of(_pods("j", _apart({**_term("host"), **rule}))), ZONED, [], [])

    assert prepared.unseen == ("label controller-uid in the rules of the j",)


def test_anti_affinity_of_a_nominated_pod_counts_where_other_rules_are_checked_too() -> None:
    waiting = _running("", _apart(_term("host")))
    waiting["status"] = {"phase": "Pending", "nominatedNodeName": "a"}

    assert _refusals(job_of(_pods("j", {}, app="web")), [waiting])[0] is None
    assert _refusals(job_of(_pods("j", _apart(_term("host", "db")), app="web")), [waiting])[0] == REPELLED


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(_apart(_term("zone")), id="anti-affinity"),
        pytest.param(_near(_term("zone", "gone")), id="affinity"),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "gone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            id="topology-spread",
        ),
    ],
)
def test_kubelet_applies_no_rule_between_pods(rule: Object) -> None:
    job = job_of(_pods("j", {**rule, "nodeName": "a"}, app="web"))
    keeping_off = _running("a", _apart(_term("host")), app="web")

    assert _refusals(job, [keeping_off]) == [None, OTHER_NAME, OTHER_NAME]
    assert _role(job, [keeping_off]).affinity is None
    assert _role(job, [keeping_off]).anti_affinity == ()
