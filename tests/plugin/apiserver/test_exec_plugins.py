"""Test how an exec plugin of a kubeconfig is found and run, and which of its output is used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from distrain.errors import UnreachableError
from tests.plugin.apiserver.reaching import base64_of, cluster_at, trusting
from tests.plugin.fake_api import FakeApi, write_kubeconfig

EXEC_VERSION = "client.authentication.k8s.io/v1"


def _plugin(folder: Path, answer: dict[str, Any] | str, **settings: Any) -> dict[str, Any]:
    """Return the `user` entry of a kubeconfig.

    The user's exec plugin records its input and prints `answer` as credentials.
    """
    text = answer if isinstance(answer, str) else json.dumps({"apiVersion": EXEC_VERSION, **answer})
    (folder / "answer").write_text(text)
    program = folder / "login"
    program.write_text(
        f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {folder}/told\necho "$MODE $*" >&2\ncat {folder}/answer\n'
    )
    program.chmod(0o755)
    plugin = {"apiVersion": EXEC_VERSION, "command": "./login", "args": ["get", "token"], "interactiveMode": "Never"}
    return {"exec": {**plugin, "env": [{"name": "MODE", "value": "fast"}], **settings}}


def _told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["spec"] for line in (folder / "told").read_text().splitlines()]


def test_exec_plugin_gives_the_token_once(secure: FakeApi, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user = _plugin(tmp_path, {"status": {"token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z"}})
    cluster = cluster_at(trusting(secure, tmp_path, **user))

    cluster.nodes()
    cluster.nodes()

    assert secure.authorizations == ["Bearer t", "Bearer t"]
    assert _told(tmp_path) == [{"interactive": False}]
    assert capfd.readouterr().err == "fast get token\n"


def _say_who(folder: Path, name: str) -> None:
    """Write an exec plugin whose token is the name of its own folder."""
    folder.mkdir(exist_ok=True)
    answer = json.dumps({"apiVersion": EXEC_VERSION, "status": {"token": folder.name}})
    (folder / name).write_text(f"#!/bin/sh\necho '{answer}'\n")
    (folder / name).chmod(0o755)


def test_exec_plugin_beside_a_relative_kubeconfig_is_run_and_none_on_the_path(
    secure: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    _say_who(home, "login")
    _say_who(tmp_path / "bin", "login")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    plugin = {"apiVersion": EXEC_VERSION, "command": "./login", "interactiveMode": "Never"}
    settings = {"certificate-authority": str(tmp_path / "tls.pem")}
    write_kubeconfig(home, secure.url, cluster=settings, exec=plugin)
    monkeypatch.chdir(home)

    cluster_at(Path("kubeconfig")).nodes()

    assert secure.authorizations == ["Bearer home"]


@pytest.mark.parametrize("path", ["", ".", "bin"])
def test_exec_plugin_of_a_bare_name_is_not_looked_up_in_the_current_folder(
    secure: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    _say_who(tmp_path / "here", "login-here")
    _say_who(tmp_path / "here" / "bin", "login-here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
    plugin = {"apiVersion": EXEC_VERSION, "command": "login-here", "interactiveMode": "Never"}

    with pytest.raises(UnreachableError, match="exec plugin login-here cannot be run: No such file or directory"):
        cluster_at(trusting(secure, tmp_path, exec=plugin)).nodes()


def test_exec_plugin_of_a_bare_name_is_looked_up_on_our_own_path(
    secure: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _say_who(tmp_path / "bin", "login-there")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    # The `env` of an exec plugin sets PATH for the plugin's process. The plugin itself is found through the caller's
    # PATH, as in client-go.
    environment = [{"name": "PATH", "value": "/usr/bin:/bin"}]
    plugin = {"apiVersion": EXEC_VERSION, "command": "login-there", "env": environment, "interactiveMode": "Never"}

    cluster_at(trusting(secure, tmp_path, exec=plugin)).nodes()

    assert secure.authorizations == ["Bearer bin"]


@pytest.mark.parametrize("cause", ["expired", "refused"])
def test_exec_plugin_is_run_again(secure: FakeApi, tmp_path: Path, cause: str) -> None:
    expires = {"expirationTimestamp": "2000-01-01T00:00:00Z"} if cause == "expired" else {}
    user = _plugin(tmp_path, {"status": {"token": "t", **expires}})
    secure.troubles["/api/v1/nodes"] = [200, 401] if cause == "refused" else []
    cluster = cluster_at(trusting(secure, tmp_path, **user))

    cluster.nodes()
    cluster.nodes()

    assert len(_told(tmp_path)) == 2


def test_exec_plugin_is_told_of_the_cluster(secure: FakeApi, tmp_path: Path, certificate: Path) -> None:
    user = _plugin(tmp_path, {"status": {"token": "t"}}, provideClusterInfo=True)

    cluster_at(trusting(secure, tmp_path, **user)).nodes()

    cluster = {"server": secure.url, "certificate-authority-data": base64_of(certificate)}
    assert _told(tmp_path) == [{"interactive": False, "cluster": cluster}]


def test_exec_plugin_gives_a_certificate(strict: FakeApi, tmp_path: Path, certificate: Path) -> None:
    text = certificate.read_text()
    user = _plugin(tmp_path, {"status": {"clientCertificateData": text, "clientKeyData": text}})

    assert len(cluster_at(trusting(strict, tmp_path, **user)).nodes()) == 1


@pytest.mark.parametrize(
    ("answer", "settings", "words"),
    [
        pytest.param("", {"command": "no-such-aws"}, "no-such-aws cannot be run: No such file", id="missing"),
        pytest.param("", {"command": "no-such-aws", "installHint": "Install\nit"}, "; Install it; run", id="hint"),
        pytest.param("", {"command": "false"}, "false failed with exit code 1; run it by hand to see why", id="fails"),
        pytest.param("oops", {}, "prints no ExecCredential: ", id="no-json"),
        pytest.param({"status": {}}, {}, "gives neither a token nor a certificate", id="nothing"),
        pytest.param({"status": {"clientKeyData": "k"}}, {}, "gives a certificate or a key, not both", id="half"),
        pytest.param(
            {"apiVersion": "v2", "status": {"token": "t"}}, {}, 'answers in "v2", not in client', id="version"
        ),
        pytest.param("", {"apiVersion": "v0"}, 'apiVersion "v0" of the exec plugin is neither client', id="too-old"),
        pytest.param("", {"interactiveMode": "Always"}, "needs a terminal (interactiveMode: Always)", id="no-terminal"),
        pytest.param("", {"interactiveMode": "Never?"}, 'has interactiveMode "Never?", which is none of', id="mode"),
    ],
)
def test_exec_plugin_that_gives_nothing_is_named(
    secure: FakeApi, tmp_path: Path, answer: Any, settings: dict[str, Any], words: str
) -> None:
    path = trusting(secure, tmp_path, **_plugin(tmp_path, answer, **settings))

    with pytest.raises(UnreachableError) as refused:
        cluster_at(path).nodes()

    assert str(refused.value).startswith("KUBECONFIG: ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
