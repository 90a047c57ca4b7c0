"""Test tolerations, affinities and topology spread constraints that the API server refuses, each with one mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.admission.refusing import POD, ROOM, assert_refused, changed, valid_job
from tests.plugin.check.judging import job_of, judged
from tests.plugin.objects import Object

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
IN = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def _nodes(*requirements: Object, **terms: Any) -> Object:
    term = {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
    return {"nodeAffinity": {**({REQUIRED: term} if requirements else {}), **terms}}


def _apart(**term: Any) -> Object:
    return {"podAntiAffinity": {REQUIRED: [term]}}


TOLERATIONS = [
    pytest.param({"key": "a", "operator": "In"}, 'operator: Unsupported value: "In": supported', id="operator"),
    pytest.param({"key": "a", "effect": "NoRun"}, 'effect: Unsupported value: "NoRun": supported', id="effect"),
    pytest.param(
        {"key": "a", "operator": "Exists", "value": "b"},
        "value must be empty when `operator` is 'Exists'",
        id="exists-with-value",
    ),
    pytest.param({"operator": "Equal"}, "operator must be Exists when `key` is empty", id="equal-without-key"),
    pytest.param(
        {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
        id="seconds",
    ),
]
SPREADS = [
    pytest.param([{**SPREAD, "maxSkew": 0}], "[0].maxSkew: Invalid value: 0: must be greater than zero", id="skew"),
    pytest.param([{**SPREAD, "maxSkew": None}], "[0].maxSkew: Invalid value: 0: must be greater", id="no-skew"),
    pytest.param([{**SPREAD, "minDomains": 0}], "[0].minDomains: Invalid value: 0: must be greater", id="domains"),
    pytest.param(
        [{**SPREAD, "minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}],
        "[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule",
        id="domains-of-a-score",
    ),
    pytest.param([{**SPREAD, "whenUnsatisfiable": "No"}], '[0].whenUnsatisfiable: Unsupported value: "No"', id="when"),
    pytest.param(
        [{**SPREAD, "topologyKey": ""}], "[0].topologyKey: Required value: can not be empty", id="no-topology-key"
    ),
    pytest.param(
        [SPREAD, SPREAD],
        '[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"',
        id="twice",
    ),
    pytest.param([{**SPREAD, "nodeTaintsPolicy": "no"}], '[0].nodeTaintsPolicy: Unsupported value: "no"', id="policy"),
]
AFFINITIES = [
    pytest.param(_nodes({**IN, "operator": "in"}), 'operator: Invalid value: "in": not a valid', id="operator"),
    pytest.param(_nodes({**IN, "values": []}), "values: Required value: must be specified", id="in-without-values"),
    pytest.param(_nodes({**IN, "operator": "Exists"}), "values: Forbidden: may not be specified", id="exists-values"),
    pytest.param(_nodes({**IN, "operator": "Gt", "values": []}), "single value when `operator` is 'Lt'", id="gt"),
    pytest.param(
        _nodes(**{REQUIRED: {"nodeSelectorTerms": []}}),
        "nodeSelectorTerms: Required value: must have at least one node selector term",
        id="no-terms",
    ),
    pytest.param(
        _nodes(**{PREFERRED: [{"weight": 101, "preference": {}}]}),
        f"nodeAffinity.{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100",
        id="weight-of-nodes",
    ),
    pytest.param(
        {"podAffinity": {PREFERRED: [{"podAffinityTerm": {"topologyKey": "zone"}}]}},
        f"podAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
        id="no-weight-of-pods",
    ),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        'matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys',
        id="label-key-twice",
    ),
    pytest.param(
        _apart(topologyKey="zone", matchLabelKeys=["a"]),
        "matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        id="label-key-without-selector",
    ),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={}, mismatchLabelKeys=["a b"]),
        'mismatchLabelKeys[0]: Invalid value: "a b": name part must consist of alphanumeric characters',
        id="label-key-that-is-none",
    ),
    pytest.param(_apart(), f"podAntiAffinity.{REQUIRED}[0].topologyKey: Required value", id="no-topology-key"),
    pytest.param(
        _apart(topologyKey="zone", labelSelector={"matchExpressions": [{**IN, "operator": "Gt"}]}),
        'labelSelector.matchExpressions[0].operator: Invalid value: "Gt"',
        id="operator-of-nodes",
    ),
]


@pytest.mark.parametrize(("toleration", "words"), TOLERATIONS)
def test_toleration_that_the_api_server_refuses_is_impossible(toleration: Object, words: str) -> None:
    assert_refused(changed(valid_job(), (*POD, "tolerations"), [toleration]), words)


@pytest.mark.parametrize(("constraints", "words"), SPREADS)
def test_topology_spread_that_the_api_server_refuses_is_impossible(constraints: list[Object], words: str) -> None:
    item = changed(valid_job(), (*POD, "topologySpreadConstraints"), constraints)

    assert_refused(item, f"spec.template.spec.topologySpreadConstraints{words}")


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "x"}}, {"matchExpressions": [{**IN, "key": "app"}]}])
def test_label_key_beside_the_same_key_of_the_selector_is_impossible(selector: Object) -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = [{**rule, "labelSelector": selector, "matchLabelKeys": ["app"]}]
    labelled = changed(valid_job(), ("spec", "template", "metadata"), {"labels": {"app": "x"}})
    words = 'topologySpreadConstraints[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector'

    assert_refused(changed(labelled, (*POD, "topologySpreadConstraints"), spread), words)
    # Without a label `app` on the pod, matchLabelKeys adds nothing to the selector, so the API server accepts the pod.
    without = changed(valid_job(), (*POD, "topologySpreadConstraints"), spread)
    assert not [each for each in judged(job_of(without), ROOM).reasons if "is invalid" in each.reason]


@pytest.mark.parametrize(("affinity", "words"), AFFINITIES)
def test_affinity_that_the_api_server_refuses_is_impossible(affinity: Object, words: str) -> None:
    assert_refused(changed(valid_job(), (*POD, "affinity"), affinity), words)
