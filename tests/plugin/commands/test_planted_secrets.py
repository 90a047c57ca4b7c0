"""Plant secrets everywhere, let commands fail in many ways, and test that no output contains a secret.

Secrets in the user's login begin with LOGIN. Secrets in the values begin with VALUE.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.check.snapshot.judged_kinds import JUDGED
from tests.plugin.commands.planted import (
    ACCEPTED,
    BAD_VALUES,
    COMMANDS,
    FAILURES,
    FLAGS,
    LOGINS,
    PRINTS_VALUES,
    SECRET_VALUES,
    TAKES_VALUES,
    VALUE,
    World,
    fill,
    leaks,
    leave_out,
    refuse_helm,
)
from tests.plugin.fake_api import make_certificate, running


@pytest.fixture
def world(
    helm4: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    signals: None,
) -> Iterator[World]:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    # If a client disconnects early, the server's thread must not print an error.
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *_: None)
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        fill(api)
        world = World(api, tmp_path, capfd, monkeypatch)
        world.write_values(yaml.safe_dump(SECRET_VALUES))
        world.log_in("token")
        yield world


def _holds_no_secret(command: str, told: tuple[int, str, str]) -> None:
    code, out, err = told
    assert code != 1, err
    assert "Traceback" not in err
    assert leaks(err) == []
    if command in PRINTS_VALUES:
        out = out.replace(VALUE[:6], "")
    assert leaks(out) == []


@pytest.mark.parametrize("failure", FAILURES)
def test_check_says_no_secret_whatever_fails(world: World, failure: str) -> None:
    FAILURES[failure](world)

    _holds_no_secret("check", world.run("check"))


def test_planted_values_are_accepted(world: World) -> None:
    assert world.run("check")[0] == 0


# These fields may contain secrets, in objects of any kind. A check reads none of these fields.
SECRET_FIELDS: dict[str, Any] = {
    "data": {"password": f"{VALUE}-data"},
    "secrets": [{"name": f"{VALUE}-account"}],
    "imagePullSecrets": [{"name": f"{VALUE}-registry"}],
    "parameters": {"adminSecretName": f"{VALUE}-class"},
    "status": {
        "phase": "Running",
        "message": VALUE,
        "nodeInfo": VALUE,
        "conditions": [{"type": "R", "message": VALUE}],
    },
}
SECRET_SPEC: dict[str, Any] = {
    "nodeName": "a",
    "csi": {"driver": "d", "volumeHandle": VALUE, "volumeAttributes": {"token": VALUE}},
    "imagePullSecrets": [{"name": VALUE}],
    "volumes": [
        {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"t": VALUE}}, "secret": {"secretName": VALUE}}
    ],
    "containers": [
        {
            "name": "main",
            "image": f"registry/{VALUE}",
            "command": ["sh", "-c", VALUE],
            "args": [f"--token={VALUE}"],
            "env": [{"name": "TOKEN", "value": VALUE}, {"name": "PLAIN", "value": VALUE}],
            "lifecycle": {"preStop": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": VALUE}]}}},
        }
    ],
}


@pytest.mark.parametrize("name", ["", "cluster.json", "cluster.json.gz"])
def test_snapshot_holds_no_secret_of_any_object(world: World, tmp_path: Path, name: str) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": VALUE, "example.com/token": VALUE}
    for kind in JUDGED:
        metadata = {"name": "a", "namespace": "team", "annotations": annotations, "managedFields": [{"manager": VALUE}]}
        world.api.answers[kind.path()] = [{"metadata": metadata, "spec": SECRET_SPEC, **SECRET_FIELDS}]

    told = world.run("snapshot", *(["-o", str(tmp_path / name)] if name else []))

    assert told[0] == 0, told
    _holds_no_secret("snapshot", told)
    written = (tmp_path / name).read_bytes() if name else told[1].encode()
    text = (gzip.decompress(written) if name.endswith(".gz") else written).decode()
    assert len(json.loads(text)["items"]) == len(JUDGED) + 1
    assert leaks(text) == []


@pytest.mark.parametrize("login", LOGINS)
def test_no_login_is_shown(world: World, login: str) -> None:
    world.log_in(login)
    leave_out(world.api, 500, echoes=True)

    _holds_no_secret("doctor", world.run("doctor"))


@pytest.mark.parametrize("values", BAD_VALUES)
def test_no_value_is_shown_when_it_is_refused(world: World, values: str) -> None:
    world.write_values(BAD_VALUES[values])

    told = world.run("check")

    assert told[0] in ((2,) if values not in ACCEPTED else (0,)), told
    _holds_no_secret("check", told)


@pytest.mark.parametrize("flags", FLAGS)
def test_no_flag_is_shown_when_it_is_refused(world: World, flags: str) -> None:
    _holds_no_secret("check", world.run("check", *FLAGS[flags]))


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", ["upgrade", "rescale"])
def test_plan_shows_no_secret(world: World, command: str, form: str) -> None:
    told = world.run(command, "--dry-run", "-o", form)

    assert told[0] == 0, told
    _holds_no_secret(command, told)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_says_a_secret_of_an_echoing_server(world: World, command: str) -> None:
    leave_out(world.api, 403, echoes=True)

    _holds_no_secret(command, world.run(command))


@pytest.mark.parametrize("command", ["install", "upgrade", "rescale"])
@pytest.mark.parametrize("login", ["token", "exec"])
def test_words_of_helm_hold_no_secret(world: World, command: str, login: str) -> None:
    world.log_in(login)
    refuse_helm(world.api)

    code, out, err = world.run(command)

    assert code == 4, err
    assert "is refused with 403" in err
    _holds_no_secret(command, (code, out, err))


@pytest.mark.full
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_says_a_secret_whatever_fails(world: World, command: str, failure: str) -> None:
    FAILURES[failure](world)

    _holds_no_secret(command, world.run(command))


@pytest.mark.full
@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_login(world: World, command: str, login: str) -> None:
    world.log_in(login)
    world.api.echoes = True

    _holds_no_secret(command, world.run(command))


@pytest.mark.full
@pytest.mark.parametrize("values", BAD_VALUES)
@pytest.mark.parametrize("command", TAKES_VALUES)
def test_no_command_shows_a_refused_value(world: World, command: str, values: str) -> None:
    world.write_values(BAD_VALUES[values])

    _holds_no_secret(command, world.run(command))
