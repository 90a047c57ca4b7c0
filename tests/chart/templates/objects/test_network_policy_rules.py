"""Test the evaluator of NetworkPolicies with the examples of Kubernetes' documentation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.network_policies import Connection, Host, Pod, allows

WEB, DB = Pod({"app": "web"}), Pod({"app": "db"})
DENY = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team"}, "spec": {"podSelector": {}, **spec}}


def ingress(*rules: Any) -> dict[str, Any]:
    return policy(policyTypes=["Ingress"], ingress=list(rules))


def egress(*rules: Any) -> dict[str, Any]:
    return policy(policyTypes=["Egress"], egress=list(rules))


BLOCK = {"cidr": "10.0.0.0/16", "except": ["10.0.1.0/24"]}
CASES: dict[str, tuple[list[dict[str, Any]], bool, Pod, Pod | Host, int]] = {
    "no-policy": ([], True, WEB, DB, 80),
    "deny-all": ([policy(policyTypes=["Ingress", "Egress"])], False, WEB, DB, 80),
    "only-one-end-consents": ([policy(policyTypes=["Ingress", "Egress"]), egress({})], False, WEB, DB, 80),
    "both-ends-consent": ([policy(policyTypes=["Ingress", "Egress"]), egress({}), ingress({})], True, WEB, DB, 80),
    "other-direction-is-free": ([policy(policyTypes=["Ingress"])], True, WEB, Host("1.2.3.4"), 80),
    "port": ([ingress({"ports": [{"port": 80}]})], True, WEB, DB, 80),
    "other-port": ([ingress({"ports": [{"port": 80}]})], False, WEB, DB, 81),
    "range-of-ports": ([ingress({"ports": [{"port": 80, "endPort": 90}]})], True, WEB, DB, 90),
    "other-protocol": ([ingress({"ports": [{"port": 80, "protocol": "UDP"}]})], False, WEB, DB, 80),
    "all-ports-of-a-protocol": ([ingress({"ports": [{"protocol": "TCP"}]})], True, WEB, DB, 80),
    "peer": ([ingress({"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]})], True, WEB, DB, 80),
    "other-peer": ([ingress({"from": [{"podSelector": {"matchLabels": {"app": "api"}}}]})], False, WEB, DB, 80),
    "peer-elsewhere": ([ingress({"from": [{"podSelector": {}}]})], False, Pod({"app": "web"}, "other"), DB, 80),
    "namespace": ([ingress({"from": [{"namespaceSelector": {}}]})], True, Pod({}, "other"), DB, 80),
    "other-namespace": (
        [ingress({"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}}]})],
        False, Pod({}, "other"), DB, 80,
    ),
    "policy-of-another-namespace": ([policy(policyTypes=["Ingress"])], True, WEB, Pod({}, "other"), 80),
    "block": ([egress({"to": [{"ipBlock": BLOCK}]})], True, WEB, Host("10.0.2.1"), 80),
    "exception-of-a-block": ([egress({"to": [{"ipBlock": BLOCK}]})], False, WEB, Host("10.0.1.1"), 80),
    "outside-of-a-block": ([egress({"to": [{"ipBlock": BLOCK}]})], False, WEB, Host("10.1.0.1"), 80),
    "host-is-no-pod": ([egress({"to": [{"namespaceSelector": {}}]})], False, WEB, Host("10.0.2.1"), 80),
    "not-selected": ([policy(podSelector={"matchLabels": {"app": "api"}}, policyTypes=["Ingress"])], True, WEB, DB, 80),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_connection_is_allowed_as_kubernetes_does(case: str) -> None:
    policies, allowed, source, target, port = CASES[case]

    assert allows(policies, Connection(source, target, port)) == allowed
