"""Run the program as a user does, and put nodes and pods into a fake cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from distrain import cli
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object

SECRETS = "/api/v1/namespaces/team/secrets"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def values(self) -> Any:
        """Return the values file that the program printed."""
        return yaml.load(self.out, yaml.CSafeLoader)

    @property
    def workers(self) -> dict[str, Any]:
        return self.values["workers"]


Run = Callable[..., Outcome]


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    """Run `distrain` with these arguments in this process."""
    code = cli.run(arguments)
    printed = capsys.readouterr()
    return Outcome(code, printed.out, printed.err)


def hold(api: FakeApi, nodes: list[Object], pods: list[Object] | None = None) -> None:
    """Make the fake API serve these nodes and pods."""
    api.answers |= {"/api/v1/nodes": nodes, "/api/v1/pods": pods or []}
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}


def wrote_nothing(api: FakeApi) -> bool:
    return all(request.startswith("GET ") for request in api.requests)
