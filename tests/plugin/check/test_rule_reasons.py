"""Test the reasons of a check if the nodes have enough resources, but rules between pods exclude every node."""

from __future__ import annotations

import pytest

from distrain.scheduler.messages import NOT_APART, NOT_NEAR, TOO_MANY_PODS, UNEVEN
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object, node, pod

HOST, ZONE = "kubernetes.io/hostname", "zone"
OWN = {"matchLabels": {"z": "z"}}
OTHER = {"matchLabels": {"z": "none"}}


def _affinity(kind: str, selector: Object, key: str = HOST) -> Object:
    terms = [{"labelSelector": selector, "topologyKey": key}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _spread(**fields: object) -> Object:
    rule = {"labelSelector": OWN, "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [rule]}


def _stateful_set(pods: int, rules: Object, **requests: str) -> Object:
    container = {"name": "c", "image": "image", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"a": "s", "z": "z"}}, "spec": {"containers": [container], **rules}}
    selector = {"matchLabels": {"a": "s"}}
    spec = {"replicas": pods, "podManagementPolicy": "Parallel", "serviceName": "x", "selector": selector}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {**spec, "template": template},
    }


def _node(name: str, zone: str = "a", **amounts: str) -> Object:
    return node(name, amounts, labels={HOST: name, ZONE: zone})


def _reasons(job: Object, *nodes: Object) -> list[tuple[int, str]]:
    answer = judged(job_of(job), list(nodes), [pod("p", on="a")])
    return [(each.nodes, each.reason) for each in answer.reasons]


# 200 pods also need more resources than the node has. Still, the rule must be named as the reason. It refuses every
# pod, or every pod except the first.
@pytest.mark.parametrize("pods", [2, 200])
@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        pytest.param(_affinity("podAffinity", OTHER), NOT_NEAR, id="affinity-to-a-missing-pod"),
        pytest.param(_affinity("podAntiAffinity", OWN), NOT_APART, id="anti-affinity-to-itself"),
        pytest.param(_spread(minDomains=2), UNEVEN, id="too-few-domains"),
    ],
)
def test_rule_that_refuses_an_almost_empty_node_is_the_reason(rules: Object, reason: str, pods: int) -> None:
    assert _reasons(_stateful_set(pods, rules), _node("a")) == [(1, reason)]


def test_one_pod_without_the_pod_that_it_must_be_near_is_not_short_of_pods() -> None:
    assert _reasons(_stateful_set(1, _affinity("podAffinity", OTHER)), _node("a")) == [(1, NOT_NEAR)]


def test_node_that_lacks_a_resource_for_a_single_pod_says_so_before_a_rule() -> None:
    job = _stateful_set(3, _affinity("podAntiAffinity", OWN), cpu="2")

    assert _reasons(job, _node("a"), _node("b", cpu="1")) == [(1, "Insufficient cpu"), (1, NOT_APART)]


def test_domain_that_the_first_pod_does_not_choose_is_too_far() -> None:
    job = _stateful_set(3, _affinity("podAffinity", OWN, ZONE), cpu="1")

    assert _reasons(job, _node("a", "a", cpu="2"), _node("b", "b", cpu="1")) == [(1, "Insufficient cpu"), (1, NOT_NEAR)]


def test_full_domain_keeps_pods_from_the_others() -> None:
    job = _stateful_set(3, _spread(topologyKey=ZONE), cpu="1")

    assert _reasons(job, _node("a", "a", cpu="8"), _node("b", "b", cpu="0")) == [(1, "Insufficient cpu"), (1, UNEVEN)]


def test_nodes_that_are_too_far_keep_the_spread_from_the_near_one() -> None:
    there = {"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}
    job = _stateful_set(3, {**_affinity("podAffinity", there), **_spread()})

    assert _reasons(job, _node("a"), _node("b")) == [(1, NOT_NEAR), (1, UNEVEN)]


def test_rule_of_another_role_than_the_main_one_is_the_reason() -> None:
    bare = _stateful_set(1, _affinity("podAffinity", OTHER))
    main = {**_stateful_set(2, {}), "metadata": {"name": "m"}}

    answer = judged(job_of(main, bare), [_node("a")])

    assert (answer.verdict, [each.reason for each in answer.reasons]) == ("impossible", [NOT_NEAR])


def test_pods_that_are_missing_are_still_the_reason() -> None:
    assert _reasons(_stateful_set(3, {}), _node("a", pods="3")) == [(1, TOO_MANY_PODS)]
