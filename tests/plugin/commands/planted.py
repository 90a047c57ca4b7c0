"""Plant secrets in a kubeconfig, in values and in a cluster, and make the cluster fail in many ways."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from tests.plugin.fake_api import FakeApi, release_secret, releases, write_kubeconfig
from tests.plugin.objects import JOB, mpi_job, node
from tests.plugin.program import SECRETS, hold
from tests.plugin.release.recorded import chart_values

LOGIN, VALUE = "geheim7f3a", "wertvoll9c1d"
EXEC_VERSION = "client.authentication.k8s.io/v1"
JOB_PATH = f"/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/{JOB}"
# LOGINS contains the forms of a user's login in a kubeconfig or in the environment. Each entry of LOGINS contains
# several secrets.
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
# Helm accepts a value with an unknown YAML tag and passes it to the chart unchanged.
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
    "cluster": ["cluster"],
}
# These commands print the user's own values to stdout, so their output may contain the secrets in values.
PRINTS_VALUES = ("derive", "template")
TAKES_VALUES = ("check", "derive", "template", "install", "upgrade", "cluster")


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


def leave_out(api: FakeApi, status: int, *, echoes: bool = False) -> None:
    api.answers.clear()
    api.otherwise, api.echoes = status, echoes


def refuse_helm(api: FakeApi) -> None:
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
    """Answer like a proxy that returns an HTML page with a copy of the request."""
    leave_out(world.api, status)
    world.api.answers["/version"] = {} if status == 200 else status
    world.api.garbage = f"<html>Authorization: Bearer {LOGIN}-token {LOGIN}-token</html>"


FAILURES: dict[str, Callable[[World], None]] = {
    "none": lambda world: None,
    "away": _go_away,
    "behind-a-proxy": _go_behind_proxy,
    "behind-the-environments-proxy": _go_behind_proxy_of_environment,
    "401": lambda world: leave_out(world.api, 401),
    "403": lambda world: leave_out(world.api, 403),
    "403-that-echoes": lambda world: leave_out(world.api, 403, echoes=True),
    "500-that-echoes": lambda world: leave_out(world.api, 500, echoes=True),
    "helm-is-refused": lambda world: refuse_helm(world.api),
    "cut": lambda world: leave_out(world.api, 0),
    "nonsense": _answer_nonsense,
    "too-late": _answer_too_late,
    "no-json": lambda world: _answer_garbage(world, 200),
    "500-of-a-proxy": lambda world: _answer_garbage(world, 500),
    "namespace": lambda world: world.monkeypatch.setenv("HELM_NAMESPACE", "team a"),
    "no-room": lambda world: hold(world.api, [node("a", gpu="1")]),
    "job-is-gone": _end_job,
}


def fill(api: FakeApi) -> None:
    api.serve_mpi_jobs()
    hold(api, [node("a", gpu="8")])
    made_of = {"metadata": {"name": "distrain", "version": "0.1.0"}, "values": chart_values()}
    old = json.loads(json.dumps(SECRET_VALUES).replace(VALUE, f"{VALUE}-old"))
    job = mpi_job(workers=2, gpus=1)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"] = old["podAnnotations"]
    secret = release_secret("run1", "deployed", manifest=yaml.safe_dump(job), values=old, chart=made_of)
    secret["data"]["password"] = base64.b64encode(f"{VALUE}-object".encode()).decode()
    api.answers[SECRETS] = releases(secret)
    api.answers[f"{SECRETS}/{secret['metadata']['name']}"] = secret
    api.answers[JOB_PATH] = job
    api.answers["/api/v1/namespaces/team/pods"] = []


def leaks(told: str) -> list[str]:
    encoded = [base64.b64encode(f"me:{secret}".encode()).decode().rstrip("=")[:-2] for secret in (LOGIN, VALUE)]
    # Even the first six letters of a secret must not be printed, because they would help an attacker.
    return [line for line in told.splitlines() if any(each in line for each in (LOGIN[:6], VALUE[:6], *encoded))]
