"""Plant secrets everywhere, let commands fail in many ways, and test that no output contains a secret.

A secret in the user's login begins with LOGIN, a secret in the values with VALUE.
"""

from __future__ import annotations

import base64
import gzip
import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from distrain.check.judged_kinds import JUDGED
from lab.paths import CHART
from tests.plugin.fake_api import FakeApi, make_certificate, release_secret, releases, running, write_kubeconfig
from tests.plugin.objects import JOB, mpi_job, node
from tests.plugin.program import SECRETS, hold

LOGIN, VALUE = "geheim7f3a", "wertvoll9c1d"
EXEC_VERSION = "client.authentication.k8s.io/v1"
JOB_PATH = f"/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/{JOB}"

# The user's login in a kubeconfig or in the environment. Each login contains several secrets.
LOGINS: dict[str, dict[str, Any]] = {
    "token": {"token": f"{LOGIN}-token"},
    "token-file": {"tokenFile": "token"},
    "password": {"username": "me", "password": f"{LOGIN}-password"},
    "exec": {
        "exec": {
            "apiVersion": EXEC_VERSION,
            "command": "sh",
            "args": ["-c", 'printf "%s" "$ANSWER"', f"--client-secret={LOGIN}-argument"],
            "env": [
                {
                    "name": "ANSWER",
                    "value": json.dumps({"apiVersion": EXEC_VERSION, "status": {"token": f"{LOGIN}-x"}}),
                },
                {"name": "CLIENT_SECRET", "value": f"{LOGIN}-environment"},
            ],
            "interactiveMode": "Never",
        }
    },
    "exec-fails": {
        "exec": {
            "apiVersion": EXEC_VERSION,
            "command": "sh",
            "args": ["-c", f"echo {LOGIN}-output; exit 3", f"{LOGIN}-argument"],
            "interactiveMode": "Never",
        }
    },
    "exec-key": {
        "exec": {
            "apiVersion": EXEC_VERSION,
            "command": "echo",
            "args": [
                json.dumps(
                    {
                        "apiVersion": EXEC_VERSION,
                        "status": {"clientCertificateData": f"{LOGIN}-c", "clientKeyData": f"{LOGIN}-k"},
                    }
                )
            ],
            "interactiveMode": "Never",
        }
    },
    "oidc": {
        "auth-provider": {
            "name": "oidc",
            "config": {
                "idp-issuer-url": f"https://me:{LOGIN}-issuer@127.0.0.1:1",
                "client-id": "k",
                "client-secret": f"{LOGIN}-client",
                "id-token": "",
                "refresh-token": f"{LOGIN}-refresh",
            },
        }
    },
    "client-key": {
        "client-certificate-data": base64.b64encode(f"{LOGIN}-certificate".encode()).decode(),
        "client-key-data": base64.b64encode(f"{LOGIN}-key".encode()).decode(),
    },
    "helms-token": {},
}
# Values with secrets that the chart accepts.
SECRET_VALUES: dict[str, Any] = {
    "workers": {"replicas": 2, "gpus": 1},
    "trainer": {"extraArgs": [f"--api-key={VALUE}-argument"]},
    "env": [{"name": "API_TOKEN", "value": f"{VALUE}-environment"}, {"name": "U", "value": f"http://me:{VALUE}@host"}],
    "podAnnotations": {"example.com/password": f"{VALUE}-annotation"},
    "podLabels": {"example.com/secret": f"{VALUE}-label"},
    "global": {
        "apiToken": f"{VALUE}-token",
        "database": {"password": f"{VALUE}-password", "url": f"postgres://me:{VALUE}-login@host/db"},
        "list": [{"key": f"{VALUE}-key"}],
    },
    "x-clientSecret": f"{VALUE}-extension",
}
# Values files that Helm or the chart refuses.
BAD_VALUES = {
    "unknown-key": f"workers: {{apiTokn: {VALUE}}}\ntokn: {VALUE}",
    "number": f"workers: {{gpus: many}}\nglobal: {{apiToken: {VALUE}}}\nenv: [{{name: TOKEN, value: 7391824}}]",
    "env-as-a-block": f"env: {{API_TOKEN: {VALUE}, OTHER: {VALUE}}}",
    "env-without-name": f"env: [{{value: {VALUE}}}]",
    "arguments-as-text": f"trainer: {{extraArgs: '--token={VALUE}'}}\ncommand: run --password={VALUE}",
    "secret-name": f"s3: {{secretName: '{VALUE} {VALUE}'}}\nssh: {{secretName: '{VALUE}_!'}}",
    "login-in-endpoint": f"s3: {{endpoint: 'https://me:{VALUE}@host'}}",
    "login-in-uri": f"data: {{uri: 'https://me:{VALUE}@host/x'}}\ncheckpoint: {{uri: 'ftp://me:{VALUE}@host/x'}}",
    "yaml-alias": f"global: {{apiToken: *{VALUE}}}",
    "yaml-tag": f"global: {{apiToken: !{VALUE} x}}",
    "yaml-that-breaks-off": f'global: {{apiToken: "{VALUE}',
    "yaml-with-two-colons": f"global:\n  apiToken: {VALUE}: x\n",
    "text": f"{VALUE}",
}
# Helm passes a value with an unknown YAML tag unchanged to the chart.
ACCEPTED = ("yaml-tag",)
FLAGS = {
    "set-that-breaks-off": ["--set", f"global.apiToken={VALUE},x"],
    "set-without-index": ["--set", f"env[0.value={VALUE}"],
    "set-json-that-breaks-off": ["--set-json", f'global={{"apiToken": "{VALUE}"'],
    "set-file-that-is-not-there": ["--set-file", "global.apiToken=/nowhere"],
}
COMMANDS = {
    "check": ["check", "run1"],
    "derive": ["derive"],
    "template": ["template", "run1"],
    "init": ["init"],
    "install": ["install", "run2"],
    "upgrade": ["upgrade", "run1", "--yes"],
    "rescale": ["rescale", "run1", "--workers", "3", "--yes"],
    "snapshot": ["snapshot"],
    "doctor": ["doctor", "-o", "json"],
}
# These commands print the user's own values to stdout.
PRINTS_VALUES = ("derive", "template")
TAKES_VALUES = ("check", "derive", "template", "install", "upgrade")


@dataclass
class World:
    """A cluster with the release run1, a kubeconfig and a values file, all with secrets."""

    api: FakeApi
    folder: Path
    capfd: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def log_in(self, login: str, **cluster: Any) -> None:
        (self.folder / "token").write_text(f"{LOGIN}-file\n")
        user = LOGINS[login] or {"token": f"{LOGIN}-overridden"}
        if login == "helms-token":
            self.monkeypatch.setenv("HELM_KUBETOKEN", f"{LOGIN}-helm")
        trust = {"certificate-authority": "tls.pem", "server": self.api.url, **cluster}
        path = write_kubeconfig(self.folder, self.api.url, cluster=trust, **user)
        self.monkeypatch.setenv("KUBECONFIG", str(path))

    def write_values(self, text: str) -> None:
        (self.folder / "values.yaml").write_text(text)

    def run(self, command: str, *more: str) -> tuple[int, str, str]:
        values = ["-f", str(self.folder / "values.yaml")] if command in TAKES_VALUES else []
        try:
            code = cli.run([*COMMANDS[command], *values, *more])
        except Exception:
            traceback.print_exc()
            code = 1
        out, err = self.capfd.readouterr()
        return code, out, err


def _leave_out(api: FakeApi, status: int, *, echoes: bool = False) -> None:
    api.answers.clear()
    api.otherwise, api.echoes = status, echoes


def _refuse_helm(api: FakeApi) -> None:
    api.answers[SECRETS], api.echoes = 403, True


def _go_away(world: World) -> None:
    world.log_in("token", server=f"https://me:{LOGIN}-server@127.0.0.1:1")


def _go_behind_proxy(world: World) -> None:
    world.log_in("token", **{"proxy-url": f"http://me:{LOGIN}-proxy@127.0.0.1:1"})


def _go_behind_proxy_of_environment(world: World) -> None:
    world.monkeypatch.setenv("HTTPS_PROXY", f"http://me:{LOGIN}-proxy@127.0.0.1:1")
    world.log_in("token", server="https://me:x@api.invalid:6443")


def _answer_nonsense(world: World) -> None:
    world.api.answers |= {"/version": {"gitVersion": 7, "token": LOGIN}, "/api/v1/nodes": {"items": LOGIN}}


def _end_job(world: World) -> None:
    del world.api.answers[JOB_PATH]


def _answer_too_late(world: World) -> None:
    world.monkeypatch.setattr("distrain.apiserver.connection.REQUEST_SECONDS", 0.2, raising=False)
    world.api.delays |= {"/version": 0.5, "/api/v1/nodes": 0.5}


def _answer_garbage(world: World, status: int) -> None:
    """Answer like some proxies, with a page that repeats the request."""
    _leave_out(world.api, status)
    world.api.answers["/version"] = {} if status == 200 else status
    world.api.garbage = f"<html>Authorization: Bearer {LOGIN}-token {LOGIN}-token</html>"


FAILURES: dict[str, Callable[[World], None]] = {
    "none": lambda world: None,
    "away": _go_away,
    "behind-a-proxy": _go_behind_proxy,
    "behind-the-environments-proxy": _go_behind_proxy_of_environment,
    "401": lambda world: _leave_out(world.api, 401),
    "403": lambda world: _leave_out(world.api, 403),
    "403-that-echoes": lambda world: _leave_out(world.api, 403, echoes=True),
    "500-that-echoes": lambda world: _leave_out(world.api, 500, echoes=True),
    "helm-is-refused": lambda world: _refuse_helm(world.api),
    "cut": lambda world: _leave_out(world.api, 0),
    "nonsense": _answer_nonsense,
    "too-late": _answer_too_late,
    "no-json": lambda world: _answer_garbage(world, 200),
    "500-of-a-proxy": lambda world: _answer_garbage(world, 500),
    "namespace": lambda world: world.monkeypatch.setenv("HELM_NAMESPACE", "team a"),
    "no-room": lambda world: hold(world.api, [node("a", gpu="1")]),
    "job-is-gone": _end_job,
}


@pytest.fixture
def world(
    helm4: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    signals: None,
) -> Iterator[World]:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    # Ignore clients that disconnect early: the server's threads would print an error.
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *_: None)
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        _fill(api)
        world = World(api, tmp_path, capfd, monkeypatch)
        world.write_values(yaml.safe_dump(SECRET_VALUES))
        world.log_in("token")
        yield world


def _fill(api: FakeApi) -> None:
    api.serve_mpi_jobs()
    hold(api, [node("a", gpu="8")])
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    made_of = {"metadata": {"name": "distrain", "version": "0.1.0"}, "values": defaults}
    old = json.loads(json.dumps(SECRET_VALUES).replace(VALUE, f"{VALUE}-old"))
    job = mpi_job(workers=2, gpus=1)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"] = old["podAnnotations"]
    secret = release_secret("run1", "deployed", manifest=yaml.safe_dump(job), values=old, chart=made_of)
    secret["data"]["password"] = base64.b64encode(f"{VALUE}-object".encode()).decode()
    api.answers[SECRETS] = releases(secret)
    api.answers[f"{SECRETS}/{secret['metadata']['name']}"] = secret
    api.answers[JOB_PATH] = job
    api.answers["/api/v1/namespaces/team/pods"] = []


def _leaks(told: str) -> list[str]:
    encoded = [base64.b64encode(f"me:{secret}".encode()).decode().rstrip("=")[:-2] for secret in (LOGIN, VALUE)]
    # A few letters of a secret would already help an attacker.
    return [line for line in told.splitlines() if any(each in line for each in (LOGIN[:6], VALUE[:6], *encoded))]


def _holds_no_secret(command: str, told: tuple[int, str, str]) -> None:
    code, out, err = told
    assert code != 1, err
    assert "Traceback" not in err
    assert _leaks(err) == []
    if command in PRINTS_VALUES:
        out = out.replace(VALUE[:6], "")
    assert _leaks(out) == []


@pytest.mark.parametrize("failure", FAILURES)
def test_check_says_no_secret_whatever_fails(world: World, failure: str) -> None:
    FAILURES[failure](world)

    _holds_no_secret("check", world.run("check"))


def test_planted_values_are_accepted(world: World) -> None:
    assert world.run("check")[0] == 0


# Fields of objects of any kind that may hold a secret: a check judges none of them.
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
    assert _leaks(text) == []


@pytest.mark.parametrize("login", LOGINS)
def test_no_login_is_shown(world: World, login: str) -> None:
    world.log_in(login)
    _leave_out(world.api, 500, echoes=True)

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
    _leave_out(world.api, 403, echoes=True)

    _holds_no_secret(command, world.run(command))


@pytest.mark.parametrize("command", ["install", "upgrade", "rescale"])
@pytest.mark.parametrize("login", ["token", "exec"])
def test_words_of_helm_hold_no_secret(world: World, command: str, login: str) -> None:
    world.log_in(login)
    _refuse_helm(world.api)

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
