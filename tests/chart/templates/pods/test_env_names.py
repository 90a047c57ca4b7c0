"""Test that no container has two environment variables of the same name, whatever the names of the user's variables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import Yaml, containers, refusal, render_with, set_arguments
from tests.chart.templates.objects.everything import everything, pods

CLUSTER = "runAsUser=cluster"
# Values with which the chart sets as many variables as it can.
MANY = (
    CLUSTER, "workers.gpus=1", "data.source=s3", "data.uri=s3://d", "s3.secretName=keys",
    "s3.endpoint=https://s3.example.com", "s3.addressingStyle=path", "s3.caBundle.secretName=ca",
    "network.interface=eth0", "network.ncclDebug=INFO",
)  # fmt: skip
# For each role, its section of the values.
SECTIONS = {
    "Worker": "workers", "Master": "workers", "Launcher": "launcher", "Chief": "launcher", "Server": "servers",
    "PS": "servers", "Scheduler": "scheduler",
}  # fmt: skip
STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def _names(found: list[Yaml]) -> list[list[str]]:
    """Return the names of the variables of each container in these objects."""
    every = [container for pod in pods(found) for container in containers(pod["spec"])]
    return [[variable["name"] for variable in container.get("env", [])] for container in every]


def _env(at: str, names: Iterable[str]) -> list[str]:
    """Return --set values for variables with these names; `at` is the prefix of a section, such as `workers.`."""
    pairs = [(f"{at}env[{index}].name={name}", f"{at}env[{index}].value=mine") for index, name in enumerate(names)]
    return [word for pair in pairs for word in pair]


@every_kind
def test_users_variable_replaces_that_of_the_chart_or_is_refused(helm: Path, kind: str) -> None:
    of_chart = sorted({name for names in _names(everything(helm, kind, *MANY)) for name in names})
    message = refusal(helm, *set_arguments(*KINDS[kind], *MANY, *_env("", of_chart)))
    refused = re.findall(r"distrain: env\[\d+\]\.name: (\S+) is already set", message)
    accepted = [name for name in of_chart if name not in refused]
    sections = {f"{SECTIONS[role]}." for role in render_with(helm, KINDS[kind]).replicas if role in SECTIONS}

    for places in ({""}, sections, {"", *sections}):
        found = everything(helm, kind, *MANY, *(word for at in places for word in _env(at, accepted)))

        assert [name for names in _names(found) for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        pytest.param((CLUSTER,), "HOME", {"/tmp"}, id="chart"),
        pytest.param((CLUSTER, *_env("", ["HOME"])), "HOME", {"mine"}, id="top"),
        pytest.param((CLUSTER, *_env("workers.", ["HOME"])), "HOME", {"mine", "/tmp"}, id="role"),
        pytest.param((CLUSTER, "mpi.env.HOME=mine"), "HOME", {"mine"}, id="mpi"),
        pytest.param((CLUSTER, "job.kind=Plain", *_env("", ["HOME"])), "HOME", {"mine"}, id="plain"),
        pytest.param(("framework=pytorch", *_env("", [STORE])), STORE, {"mine"}, id="store"),
    ],
)
def test_users_value_of_a_variable_of_the_chart_wins(
    helm: Path, values: tuple[str, ...], name: str, expected: set[str]
) -> None:
    rendered = render_with(helm, values)

    found = [[one["value"] for one in rendered.container(role).get("env", []) if one["name"] == name]
             for role in rendered.replicas if role != "Keygen"]  # fmt: skip
    assert {each for [each] in found} == expected
