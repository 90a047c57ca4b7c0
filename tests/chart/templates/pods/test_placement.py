"""Test where the scheduler may place the workers: tolerations, topology spread and pod affinity."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, TRAINS, every_kind
from tests.chart.rendering import Yaml, render_with


@every_kind
def test_pods_leave_a_lost_node(helm: Path, kind: str) -> None:
    for pod in render_with(helm, (*KINDS[kind], "workers.evictAfterSeconds=7")).pods().values():
        assert [(one["key"], one["effect"], one["tolerationSeconds"]) for one in pod["tolerations"]] == [
            ("node.kubernetes.io/not-ready", "NoExecute", 7),
            ("node.kubernetes.io/unreachable", "NoExecute", 7),
        ]


def lost_node_keys(pod: Yaml) -> list[str]:
    return [one["key"] for one in pod.get("tolerations", []) if "tolerationSeconds" in one]


TOLERATION = "workers.tolerations[0]."


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        pytest.param(("workers.evictAfterSeconds=null",), [], id="never"),
        pytest.param((TOLERATION + "operator=Exists",), [], id="everything-is-tolerated"),
        pytest.param(
            (TOLERATION + "operator=Exists", TOLERATION + "key=node.kubernetes.io/not-ready"),
            ["node.kubernetes.io/unreachable"],
            id="one-is-tolerated",
        ),
        pytest.param(
            (TOLERATION + "operator=Exists", TOLERATION + "effect=NoSchedule"),
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
            id="another-effect-is-tolerated",
        ),
    ],
)
def test_taint_that_the_user_tolerates_is_his(helm: Path, values: tuple[str, ...], keys: list[str]) -> None:
    pod = render_with(helm, values).pod("Worker")

    assert lost_node_keys(pod) == keys


@every_kind
def test_workers_spread_where_asked(helm: Path, kind: str) -> None:
    values = ("workers.topology.policy=spread", "workers.topology.key=topology.kubernetes.io/zone")

    for role, pod in render_with(helm, (*KINDS[kind], *values)).pods().items():
        if role not in TRAINS:
            assert "topologySpreadConstraints" not in pod
            continue
        (constraint,) = pod["topologySpreadConstraints"]
        assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
        assert (constraint["maxSkew"], constraint["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
        assert constraint["nodeTaintsPolicy"] == "Honor"
        assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "run1"


def test_spread_that_is_required_lets_a_worker_wait(helm: Path) -> None:
    pod = render_with(helm, ("workers.topology.policy=spread", "workers.topology.required=true")).pod("Worker")

    assert pod["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule"


NEAR = "workers.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]."


def test_workers_are_packed_next_to_the_users_requests(helm: Path) -> None:
    values = ("workers.topology.policy=pack", NEAR + "weight=1", NEAR + "podAffinityTerm.topologyKey=rack")

    near = render_with(helm, values).pod("Worker")["affinity"]["podAffinity"]

    theirs, ours = near["preferredDuringSchedulingIgnoredDuringExecution"]
    assert theirs == {"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}
    assert (ours["weight"], ours["podAffinityTerm"]["topologyKey"]) == (100, "kubernetes.io/hostname")


def test_pack_that_is_required_is_an_affinity_to_each_other(helm: Path) -> None:
    values = ("workers.topology.policy=pack", "workers.topology.required=true")

    (term,) = render_with(helm, values).pod("Worker")["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]

    assert term["topologyKey"] == "kubernetes.io/hostname"
    labels = render_with(helm, values).metadata("Worker")["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
