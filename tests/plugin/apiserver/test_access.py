"""Test how a kubeconfig, Helm's flags and a pod's ServiceAccount determine credentials and trusted certificates."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver import access
from distrain.apiserver.access import CA_FILE
from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.proxies import proxy_of
from distrain.apiserver.target import Overrides, Target
from distrain.errors import UnreachableError
from lab.paths import REPOSITORY
from tests.plugin.fake_api import FakeApi, make_certificate, running, write_kubeconfig
from tests.plugin.objects import node

EXEC_VERSION = "client.authentication.k8s.io/v1"
SERVER = "https://10.0.0.1:6443"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Write the fake server's self-signed certificate, which is also its CA, and its key into one file."""
    make_certificate(tmp_path / "tls.pem")
    return tmp_path / "tls.pem"


@pytest.fixture
def secure(certificate: Path) -> Iterator[FakeApi]:
    with running(certificate) as api:
        api.answers["/api/v1/nodes"] = [node("a")]
        yield api


@pytest.fixture
def strict(certificate: Path) -> Iterator[FakeApi]:
    """Run a server that accepts only a client with this certificate."""
    with running(certificate, client_authority=certificate) as api:
        api.answers["/api/v1/nodes"] = [node("a")]
        yield api


def _cluster(path: Path, overrides: Overrides | None = None) -> Cluster:
    return connect(Target(str(path), "fake", "team", overrides or Overrides()))


def _trusting(api: FakeApi, folder: Path, **user: Any) -> Path:
    settings = {"certificate-authority": "tls.pem"}
    return write_kubeconfig(folder, api.url, cluster=settings, **user)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        pytest.param({"token": "secret"}, "Bearer secret", id="token"),
        pytest.param({"tokenFile": "token"}, "Bearer from-file", id="token-file-beside-the-kubeconfig"),
        pytest.param({"token": "secret", "tokenFile": "token"}, "Bearer from-file", id="the-file-wins"),
        pytest.param({"username": "me", "password": "pass"}, "Basic bWU6cGFzcw==", id="password"),
    ],
)
def test_user_is_told_to_the_server(secure: FakeApi, tmp_path: Path, user: dict[str, str], sent: str) -> None:
    (tmp_path / "token").write_text("from-file\n")

    _cluster(_trusting(secure, tmp_path, **user)).nodes()

    assert secure.authorizations == [sent]


def test_token_file_that_changes_is_read_again(secure: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    cluster = _cluster(_trusting(secure, tmp_path, tokenFile="token"))
    cluster.nodes()

    (tmp_path / "token").write_text("new")
    cluster.nodes()

    assert secure.authorizations == ["Bearer old", "Bearer new"]


def test_credentials_do_not_go_over_plain_http(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"] = [node("a")]

    _cluster(write_kubeconfig(tmp_path, api.url, token="secret")).nodes()

    assert api.authorizations == [""]


@pytest.mark.parametrize("form", ["files", "data"])
def test_client_certificate_is_shown(strict: FakeApi, tmp_path: Path, certificate: Path, form: str) -> None:
    user = {"client-certificate": "tls.pem", "client-key": "tls.pem"}
    if form == "data":
        user = {f"{key}-data": _base64(certificate) for key in user}
    settings = {"certificate-authority-data": _base64(certificate)}

    assert len(_cluster(write_kubeconfig(tmp_path, strict.url, cluster=settings, **user)).nodes()) == 1


def test_client_without_its_certificate_is_refused(strict: FakeApi, tmp_path: Path) -> None:
    # The connection may end before the server's TLS alert arrives.
    with pytest.raises(UnreachableError, match=r"^the cluster at https://.* cannot be reached: .*(certificate|EOF)"):
        _cluster(_trusting(strict, tmp_path)).nodes()

    assert strict.requests == []


def test_server_of_an_unknown_authority_is_not_trusted(secure: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"cannot be reached: SSL: self.signed certificate; check KUBECONFIG"):
        _cluster(write_kubeconfig(tmp_path, secure.url)).nodes()

    assert secure.requests == []


def test_check_of_the_certificate_can_be_left_out(secure: FakeApi, tmp_path: Path) -> None:
    settings = {"insecure-skip-tls-verify": True}

    assert len(_cluster(write_kubeconfig(tmp_path, secure.url, cluster=settings)).nodes()) == 1


def test_certificate_is_checked_for_the_name_that_is_given(secure: FakeApi, tmp_path: Path) -> None:
    settings = {"certificate-authority": "tls.pem", "tls-server-name": "kubernetes"}
    path = write_kubeconfig(tmp_path, secure.url, cluster=settings)

    with pytest.raises(UnreachableError, match=r"SSL: Hostname mismatch, certificate is not valid for 'kubernetes'"):
        _cluster(path).nodes()

    assert len(_cluster(path, Overrides(tls_server_name="127.0.0.1")).nodes()) == 1


def test_user_impersonates_another_user(secure: FakeApi, tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"Scope": ["x"]}}
    path = _trusting(secure, tmp_path, **user)

    _cluster(path).nodes()
    _cluster(path, Overrides(user="joe", groups=("c",))).nodes()

    sent = [{name: headers.get_all(f"Impersonate-{name}") for name in ("User", "Group")} for headers in secure.headers]
    assert sent == [{"User": ["jane"], "Group": ["a", "b"]}, {"User": ["joe"], "Group": ["c"]}]
    assert secure.headers[0]["Impersonate-Uid"] == "7"
    assert secure.headers[0]["Impersonate-Extra-scope"] == "x"


def test_impersonated_user_is_sent_as_utf_8(secure: FakeApi, tmp_path: Path) -> None:
    _cluster(_trusting(secure, tmp_path, token="t", **{"as": "Jürgen"})).nodes()

    # http.server decodes headers as Latin-1.
    assert secure.headers[0]["Impersonate-User"].encode("latin-1").decode() == "Jürgen"


@pytest.mark.parametrize("settings", [{}, {"insecure-skip-tls-verify": True}, {"certificate-authority": "tls.pem"}])
def test_server_without_a_scheme_is_one_of_http(api: FakeApi, tmp_path: Path, settings: dict[str, Any]) -> None:
    api.answers["/api/v1/nodes"] = [node("a")]
    server = api.url.removeprefix("http://")

    assert len(_cluster(write_kubeconfig(tmp_path, server, cluster=settings, token="secret")).nodes()) == 1

    assert api.authorizations == [""]


def _id_token(expires: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"head.{claims}.signature"


def _oidc(**config: str) -> dict[str, Any]:
    return {
        "auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://issuer", "client-id": "k", **config}}
    }


def test_valid_id_token_is_sent(secure: FakeApi, tmp_path: Path) -> None:
    token = _id_token(time.time() + 600)

    _cluster(_trusting(secure, tmp_path, **_oidc(**{"id-token": token}))).nodes()

    assert secure.authorizations == [f"Bearer {token}"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({"id-token": _id_token(time.time())}, "has expired; log in again, or renew it with", id="expired"),
        pytest.param(
            {"refresh-token": "r"}, "has expired; log in again, or renew it with `kubectl version`", id="none"
        ),
        pytest.param({"id-token": "secret.secret.secret"}, "is no JSON Web Token; log in again", id="no-json"),
        pytest.param({"id-token": "secret"}, "is no JSON Web Token; log in again", id="no-parts"),
    ],
)
def test_id_token_that_is_of_no_use_is_refused(
    secure: FakeApi, tmp_path: Path, config: dict[str, str], words: str
) -> None:
    path = _trusting(secure, tmp_path, **_oidc(**config))

    with pytest.raises(UnreachableError) as refused:
        _cluster(path).nodes()

    assert str(refused.value).startswith("KUBECONFIG: the id-token of auth-provider oidc ")
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)
    assert secure.requests == []


def test_flags_override_server_authority_and_token(secure: FakeApi, tmp_path: Path, certificate: Path) -> None:
    settings = {"insecure-skip-tls-verify": True, "tls-server-name": "other"}
    path = write_kubeconfig(tmp_path, SERVER, cluster=settings, token="own")

    _cluster(path, Overrides(server=secure.url, ca_file=str(certificate), token="flag")).nodes()

    assert secure.authorizations == ["Bearer flag"]


def test_server_from_a_flag_needs_no_kubeconfig(secure: FakeApi, certificate: Path) -> None:
    overrides = Overrides(server=secure.url, ca_file=str(certificate), token="flag")

    assert len(connect(Target("", "", "team", overrides)).nodes()) == 1
    assert secure.authorizations == ["Bearer flag"]


def test_pods_renewed_token_is_used(
    secure: FakeApi, tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = secure.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr("distrain.apiserver.target.TOKEN", tmp_path / "token")
    monkeypatch.setattr(access, "CA_FILE", certificate)
    (tmp_path / "token").write_text("first")
    cluster = connect(Target("", "", "team"))
    cluster.nodes()

    (tmp_path / "token").write_text("second")
    cluster.nodes()

    assert secure.authorizations == ["Bearer first", "Bearer second"]
    assert CA_FILE.name == "ca.crt"


def _plugin(folder: Path, answer: dict[str, Any] | str, **settings: Any) -> dict[str, Any]:
    """Return a user whose exec plugin records its input, and prints credentials."""
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
    cluster = _cluster(_trusting(secure, tmp_path, **user))

    cluster.nodes()
    cluster.nodes()

    assert secure.authorizations == ["Bearer t", "Bearer t"]
    assert _told(tmp_path) == [{"interactive": False}]
    assert capfd.readouterr().err == "fast get token\n"


def _say_who(folder: Path, name: str) -> None:
    """Write an exec plugin whose token is its folder's name."""
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

    _cluster(Path("kubeconfig")).nodes()

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
        _cluster(_trusting(secure, tmp_path, exec=plugin)).nodes()


def test_exec_plugin_of_a_bare_name_is_looked_up_on_our_own_path(
    secure: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _say_who(tmp_path / "bin", "login-there")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    # The exec plugin's own environment does not decide which program is run; Go's behaviour is the same.
    environment = [{"name": "PATH", "value": "/usr/bin:/bin"}]
    plugin = {"apiVersion": EXEC_VERSION, "command": "login-there", "env": environment, "interactiveMode": "Never"}

    _cluster(_trusting(secure, tmp_path, exec=plugin)).nodes()

    assert secure.authorizations == ["Bearer bin"]


@pytest.mark.parametrize("cause", ["expired", "refused"])
def test_exec_plugin_is_run_again(secure: FakeApi, tmp_path: Path, cause: str) -> None:
    expires = {"expirationTimestamp": "2000-01-01T00:00:00Z"} if cause == "expired" else {}
    user = _plugin(tmp_path, {"status": {"token": "t", **expires}})
    secure.troubles["/api/v1/nodes"] = [200, 401] if cause == "refused" else []
    cluster = _cluster(_trusting(secure, tmp_path, **user))

    cluster.nodes()
    cluster.nodes()

    assert len(_told(tmp_path)) == 2


def test_exec_plugin_is_told_of_the_cluster(secure: FakeApi, tmp_path: Path, certificate: Path) -> None:
    user = _plugin(tmp_path, {"status": {"token": "t"}}, provideClusterInfo=True)

    _cluster(_trusting(secure, tmp_path, **user)).nodes()

    cluster = {"server": secure.url, "certificate-authority-data": _base64(certificate)}
    assert _told(tmp_path) == [{"interactive": False, "cluster": cluster}]


def test_exec_plugin_gives_a_certificate(strict: FakeApi, tmp_path: Path, certificate: Path) -> None:
    text = certificate.read_text()
    user = _plugin(tmp_path, {"status": {"clientCertificateData": text, "clientKeyData": text}})

    assert len(_cluster(_trusting(strict, tmp_path, **user)).nodes()) == 1


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
        pytest.param("", {"apiVersion": "v0"}, 'apiVersion "v0" of the exec plugin is none of client', id="too-old"),
        pytest.param("", {"interactiveMode": "Always"}, "needs a terminal to ask at", id="no-terminal"),
        pytest.param("", {"interactiveMode": "Never?"}, 'has interactiveMode "Never?", which is none of', id="mode"),
    ],
)
def test_exec_plugin_that_gives_nothing_is_named(
    secure: FakeApi, tmp_path: Path, answer: Any, settings: dict[str, Any], words: str
) -> None:
    path = _trusting(secure, tmp_path, **_plugin(tmp_path, answer, **settings))

    with pytest.raises(UnreachableError) as refused:
        _cluster(path).nodes()

    assert str(refused.value).startswith("KUBECONFIG: ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        pytest.param({}, {"auth-provider": {"name": "gcp"}}, 'auth-provider "gcp" is no longer part of', id="provider"),
        pytest.param(
            {"insecure-skip-tls-verify": True, "certificate-authority": "a"}, {}, "contradict each other", id="both"
        ),
        pytest.param({"certificate-authority-data": "%"}, {}, "certificate-authority-data is no base64", id="base64"),
        pytest.param({"certificate-authority-data": "AAAA"}, {}, "certificate-authority cannot be used", id="no-pem"),
        pytest.param(
            {"certificate-authority": "nope"}, {}, "certificate-authority cannot be used: No such", id="no-ca"
        ),
        pytest.param({}, {"client-certificate": "nope"}, "client-certificate cannot be used: No such file", id="cert"),
        pytest.param({"server": ""}, {}, "context fake has no server; set clusters.cluster.server", id="no-server"),
        pytest.param({"server": "ftp://a"}, {}, 'server "ftp://a" is no URL; write https://HOST:PORT', id="no-url"),
        pytest.param({}, {"as-groups": ["a"]}, "groups to impersonate need a user", id="groups-alone"),
        pytest.param({"proxy-url": "socks5://a:1"}, {}, "proxy-url: a proxy of socks5:// is not supported", id="socks"),
        pytest.param(
            {"proxy-url": "https://a:1"}, {}, "proxy-url: a proxy of https:// is not supported", id="tls-proxy"
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnreachableError) as refused:
        _cluster(write_kubeconfig(tmp_path, SERVER, cluster=cluster, **user))

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_token_file_is_named(secure: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"^KUBECONFIG: tokenFile .*/nope cannot be read: No such file"):
        _cluster(_trusting(secure, tmp_path, tokenFile="nope")).nodes()


def test_context_without_its_user_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, SERVER)
    path.write_text(path.read_text().replace("user: me", "user: you"))

    with pytest.raises(UnreachableError, match=r'^KUBECONFIG: context fake names user "you", which is not there$'):
        _cluster(path)


def test_parts_of_a_context_may_be_in_several_files(secure: FakeApi, tmp_path: Path) -> None:
    first = _trusting(secure, tmp_path, token="first")
    (tmp_path / "other").mkdir()
    second = write_kubeconfig(tmp_path / "other", SERVER, token="second")
    text = first.read_text()
    first.write_text(text[: text.index("users:")])

    _cluster(Path(os.pathsep.join([str(first), str(second)]))).nodes()

    assert secure.authorizations == ["Bearer second"]


@pytest.mark.parametrize(
    ("server", "exceptions", "expected"),
    [
        pytest.param(SERVER, "", "http://proxy:8080", id="none"),
        pytest.param(SERVER, "10.0.0.0/8", None, id="network"),
        pytest.param(SERVER, "10.0.0.1", None, id="address"),
        pytest.param(SERVER, "11.0.0.0/8, *", None, id="all"),
        pytest.param("https://api.example.com", "example.com", None, id="domain"),
        pytest.param("https://api.example.com", ".example.com", None, id="below-a-domain"),
        pytest.param("https://example.com", ".example.com", "http://proxy:8080", id="not-below"),
        pytest.param("https://myexample.com", "example.com", "http://proxy:8080", id="other-domain"),
        pytest.param("https://api.example.com:6443", "example.com:443", "http://proxy:8080", id="other-port"),
        pytest.param("https://api.example.com:6443", "example.com:6443", None, id="port"),
        pytest.param("https://127.0.0.1:6443", "", None, id="loopback"),
        pytest.param("https://localhost:6443", "", None, id="localhost"),
        pytest.param("http://api.example.com", "", None, id="https-only"),
    ],
)
def test_environments_proxy_is_used_where_go_would(
    monkeypatch: pytest.MonkeyPatch, server: str, exceptions: str, expected: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:8080")
    monkeypatch.setenv("NO_PROXY", exceptions)

    assert proxy_of(server, None) == expected


def test_clusters_own_proxy_wins_over_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:8080")
    monkeypatch.setenv("NO_PROXY", "*")

    assert proxy_of(SERVER, "http://own:1") == "http://own:1"


def test_no_secret_shows_when_an_access_is_printed(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, SERVER, token="secret")

    found = access.access(Target(str(path), "fake", "team"))

    assert "secret" not in repr(found)
    assert isinstance(found.tls, ssl.SSLContext)


def test_client_library_is_not_needed() -> None:
    code = "import sys, distrain.commands.judge; print(sorted({'kubernetes', 'urllib3', 'pyhelm3'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}

    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
