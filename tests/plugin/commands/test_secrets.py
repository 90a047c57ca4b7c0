"""Test that no command prints a credential, in any form and at any place in the kubeconfig."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from tests.plugin.fake_api import FakeApi, make_certificate, running, write_kubeconfig
from tests.plugin.objects import pytorch_job

SECRET = "geheim7f3a"
EXEC_VERSION = "client.authentication.k8s.io/v1"
# No server listens at this address.
NOBODY = "127.0.0.1:1"


def _exec(status: dict[str, str], more: str = "") -> dict[str, Any]:
    """Return a kubeconfig's `user` entry.

    The user's exec plugin prints a credential with this `status`, followed by the text `more`.
    """
    answer = json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}) + more
    plugin = {"apiVersion": EXEC_VERSION, "command": "printf", "args": ["%s", answer], "interactiveMode": "Never"}
    return {"user": {"exec": plugin}}


def _user(**user: Any) -> dict[str, Any]:
    return {"user": user}


def _cluster(**cluster: Any) -> dict[str, Any]:
    return {"cluster": cluster, "user": {"token": SECRET}}


# Entries of a kubeconfig that contain a secret. `HOST` is the API server's address.
WAYS: dict[str, dict[str, Any]] = {
    "token-with-line-break": _user(token=f"{SECRET}\n"),
    "token-of-two-lines": _user(token=f"x{SECRET}\r\n{SECRET}"),
    "token-with-control-character": _user(token=f"{SECRET}\x01"),
    "token-file-of-two-lines": {"user": {"tokenFile": "token"}, "token": f"{SECRET}\n{SECRET}\n"},
    "token-file-of-other-letters": {"user": {"tokenFile": "token"}, "token": f"{SECRET}ü"},
    "token-that-is-refused": _user(token=SECRET),
    "password-that-is-refused": _user(username="me", password=f"{SECRET}\n"),
    "user-to-impersonate": _user(token=SECRET, **{"as": f"jane\n{SECRET}"}),
    "exec-token-with-line-break": _exec({"token": f"{SECRET}\n"}),
    "exec-with-more-output": _exec({"token": SECRET}, SECRET),
    "exec-with-a-wrong-field": _exec({"token": SECRET, "expirationTimestamp": SECRET}),
    "exec-key-that-is-none": _exec({"clientCertificateData": "x", "clientKeyData": SECRET}),
    "server-with-password": _cluster(server=f"https://me:{SECRET}@HOST"),
    "server-with-password-away": _cluster(server=f"https://me:{SECRET}@{NOBODY}"),
    "server-with-slash-in-password": _cluster(server=f"https://me:{SECRET}/x@HOST"),
    "server-with-password-for-a-port": _cluster(server=f"https://me@127.0.0.1:{SECRET}"),
    "server-without-bracket": _cluster(server=f"https://me:{SECRET}@[::1"),
    "proxy-with-password-away": _cluster(**{"proxy-url": f"http://me:{SECRET}@{NOBODY}"}),
    "proxy-with-slash-in-password": _cluster(**{"proxy-url": f"http://me:{SECRET}/x@{NOBODY}"}),
    "proxy-of-another-kind": _cluster(**{"proxy-url": f"socks5://me:{SECRET}@{NOBODY}"}),
    "yaml-alias": {"text": f"users: [{{name: me, user: {{token: *{SECRET}}}}}]"},
    "yaml-tag": {"text": f"users: [{{name: me, user: {{token: !{SECRET} x}}}}]"},
    "yaml-that-breaks-off": {"text": f'users: [{{name: me, user: {{token: "{SECRET}'},
    "no-kubeconfig": {"text": f"users: {SECRET}"},
}
# Every command is tried with these few kubeconfigs, which have a credential at different places. One command is not
# enough, because each handles errors in a kubeconfig with its own code.
FOR_EACH_COMMAND = ("token-with-line-break", "server-with-password-away", "exec-with-more-output", "yaml-alias")
COMMANDS = {
    "check": ["check", "run1", "--set", "workers.gpus=1"],
    "derive": ["derive", "--set", "gpus=2"],
    "template": ["template", "run1"],
    "init": ["init"],
    "install": ["install", "run1", "--create-namespace"],
    "upgrade": ["upgrade", "run1", "--yes"],
    "rescale": ["rescale", "run1", "--workers", "2", "--yes"],
    "snapshot": ["snapshot"],
    "doctor": ["doctor"],
    "completion": ["__complete", "upgrade", ""],
}


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[FakeApi]:
    make_certificate(tmp_path / "tls.pem")
    with running(tmp_path / "tls.pem") as api:
        api.otherwise = 401
        yield api


@pytest.fixture
def printed(
    secure: FakeApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    signals: None,
) -> Callable[[list[str], str], tuple[int, str]]:
    """Return a function that runs a command with the kubeconfig that has this name in WAYS.

    The function returns the command's exit code and all its output.
    """
    monkeypatch.setattr("distrain.apiserver.connection.sleep", lambda _: None)

    def run(command: list[str], way: str) -> tuple[int, str]:
        monkeypatch.setenv("KUBECONFIG", str(_write(tmp_path, secure, WAYS[way])))
        try:
            code = cli.run(command)
        except Exception:
            traceback.print_exc()
            code = 1
        told = capfd.readouterr()
        return code, told.out + told.err

    return run


def _write(folder: Path, api: FakeApi, way: dict[str, Any]) -> Path:
    if "token" in way:
        (folder / "token").write_text(way["token"])
    if "text" in way:
        (folder / "kubeconfig").write_text(way["text"])
        return folder / "kubeconfig"
    trust = {"certificate-authority": "tls.pem", **way.get("cluster", {})}
    trust["server"] = trust.get("server", api.url).replace("HOST", api.url.removeprefix("https://"))
    return write_kubeconfig(folder, api.url, cluster=trust, **way["user"])


@pytest.mark.parametrize("way", WAYS)
def test_connection_that_fails_prints_no_secret(
    printed: Callable[[list[str], str], tuple[int, str]], tmp_path: Path, way: str
) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(pytorch_job(workers=2)))

    code, told = printed(["check", "--manifest", str(manifest)], way)

    assert code in (2, 3), told
    assert told.startswith("distrain: "), told
    assert told.count("\n") == 1, told
    assert not _secrets_in(told)


@pytest.mark.usefixtures("helm4_alone")
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_secret(
    printed: Callable[[list[str], str], tuple[int, str]], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for way in FOR_EACH_COMMAND:
        code, told = printed(COMMANDS[command], way)

        assert code != 1, told
        assert not _secrets_in(told)


@pytest.fixture
def helm4_alone(helm4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))


@pytest.mark.parametrize("token", [f"{SECRET}\r", f"x\n{SECRET}"])
def test_token_of_helms_environment_that_cannot_be_sent_is_refused_without_it(
    secure: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str
) -> None:
    monkeypatch.setenv("HELM_KUBETOKEN", token)
    monkeypatch.setenv("KUBECONFIG", str(_write(tmp_path, secure, WAYS["token-that-is-refused"])))

    assert cli.run(["doctor"]) == 2

    told = capsys.readouterr().err
    assert told.startswith("distrain: --kube-token: the token of this flag, or of HELM_KUBETOKEN, contains ")
    assert not _secrets_in(told)
    assert secure.requests == []


def _secrets_in(told: str) -> list[str]:
    encoded = base64.b64encode(f"me:{SECRET}".encode()).decode()
    # Even the first letters of a credential must not be printed, because they would help an attacker.
    return [part for part in (SECRET, SECRET[:6], encoded.rstrip("=")[:-2]) if part in told]
