"""Test how a kubeconfig, Helm's flags and a pod's ServiceAccount determine credentials and trusted certificates."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from distrain.apiserver import access
from distrain.apiserver.access import CA_FILE
from distrain.apiserver.cluster import connect
from distrain.apiserver.proxies import proxy_of
from distrain.apiserver.target import Overrides, Target
from distrain.errors import UnreachableError
from lab.paths import REPOSITORY
from tests.plugin.apiserver.reaching import base64_of, cluster_at, trusting
from tests.plugin.fake_api import FakeApi, write_kubeconfig
from tests.plugin.objects import node

SERVER = "https://10.0.0.1:6443"


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

    cluster_at(trusting(secure, tmp_path, **user)).nodes()

    assert secure.authorizations == [sent]


def test_token_file_that_changes_is_read_again(secure: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    cluster = cluster_at(trusting(secure, tmp_path, tokenFile="token"))
    cluster.nodes()

    (tmp_path / "token").write_text("new")
    cluster.nodes()

    assert secure.authorizations == ["Bearer old", "Bearer new"]


def test_credentials_do_not_go_over_plain_http(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"] = [node("a")]

    cluster_at(write_kubeconfig(tmp_path, api.url, token="secret")).nodes()

    assert api.authorizations == [""]


@pytest.mark.parametrize("form", ["certificate-authority", "certificate-authority-data"])
def test_authority_may_have_a_comment_in_any_language(
    secure: FakeApi, tmp_path: Path, certificate: Path, form: str
) -> None:
    (tmp_path / "named.pem").write_text(f"# Főtanúsítvány\n{certificate.read_text()}", encoding="utf-8")
    named = base64_of(tmp_path / "named.pem") if form.endswith("-data") else "named.pem"

    assert len(cluster_at(write_kubeconfig(tmp_path, secure.url, cluster={form: named}, token="x")).nodes()) == 1


@pytest.mark.parametrize("form", ["files", "data"])
def test_client_certificate_is_shown(strict: FakeApi, tmp_path: Path, certificate: Path, form: str) -> None:
    user = {"client-certificate": "tls.pem", "client-key": "tls.pem"}
    if form == "data":
        user = {f"{key}-data": base64_of(certificate) for key in user}
    settings = {"certificate-authority-data": base64_of(certificate)}

    assert len(cluster_at(write_kubeconfig(tmp_path, strict.url, cluster=settings, **user)).nodes()) == 1


def test_client_without_its_certificate_is_refused(strict: FakeApi, tmp_path: Path) -> None:
    # The connection may be closed before the client has read the server's TLS alert, so two messages are possible.
    with pytest.raises(UnreachableError, match=r"^the cluster at https://.* cannot be reached: .*(certificate|EOF)"):
        cluster_at(trusting(strict, tmp_path)).nodes()

    assert strict.requests == []


def test_server_of_an_unknown_authority_is_not_trusted(secure: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"cannot be reached: SSL: self.signed certificate; check KUBECONFIG"):
        cluster_at(write_kubeconfig(tmp_path, secure.url)).nodes()

    assert secure.requests == []


@pytest.mark.parametrize("unchecked", [False, True])
def test_server_without_tls_is_not_called_untrusted(api: FakeApi, tmp_path: Path, unchecked: bool) -> None:
    url = api.url.replace("http://", "https://")
    path = write_kubeconfig(tmp_path, url, cluster={"insecure-skip-tls-verify": unchecked})

    with pytest.raises(UnreachableError) as refused:
        cluster_at(path).nodes()

    advice = "write http:// in its address, or use the port that accepts TLS"
    assert str(refused.value) == f"the cluster at {url} cannot be reached: the server answers without TLS; {advice}"


def test_check_of_the_certificate_can_be_left_out(secure: FakeApi, tmp_path: Path) -> None:
    settings = {"insecure-skip-tls-verify": True}

    assert len(cluster_at(write_kubeconfig(tmp_path, secure.url, cluster=settings)).nodes()) == 1


def test_certificate_is_checked_for_the_name_that_is_given(secure: FakeApi, tmp_path: Path) -> None:
    settings = {"certificate-authority": "tls.pem", "tls-server-name": "kubernetes"}
    path = write_kubeconfig(tmp_path, secure.url, cluster=settings)

    with pytest.raises(UnreachableError, match=r"SSL: Hostname mismatch, certificate is not valid for 'kubernetes'"):
        cluster_at(path).nodes()

    assert len(cluster_at(path, Overrides(tls_server_name="127.0.0.1")).nodes()) == 1


def test_user_impersonates_another_user(secure: FakeApi, tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"Scope": ["x"]}}
    path = trusting(secure, tmp_path, **user)

    cluster_at(path).nodes()
    cluster_at(path, Overrides(user="joe", groups=("c",))).nodes()

    sent = [{name: headers.get_all(f"Impersonate-{name}") for name in ("User", "Group")} for headers in secure.headers]
    assert sent == [{"User": ["jane"], "Group": ["a", "b"]}, {"User": ["joe"], "Group": ["c"]}]
    assert secure.headers[0]["Impersonate-Uid"] == "7"
    assert secure.headers[0]["Impersonate-Extra-scope"] == "x"


def test_impersonated_user_is_sent_as_utf_8(secure: FakeApi, tmp_path: Path) -> None:
    cluster_at(trusting(secure, tmp_path, token="t", **{"as": "Jürgen"})).nodes()

    # Python's http.server decodes headers as Latin-1, so the test encodes the header again.
    assert secure.headers[0]["Impersonate-User"].encode("latin-1").decode() == "Jürgen"


@pytest.mark.parametrize("settings", [{}, {"insecure-skip-tls-verify": True}, {"certificate-authority": "tls.pem"}])
def test_server_without_a_scheme_is_one_of_http(api: FakeApi, tmp_path: Path, settings: dict[str, Any]) -> None:
    api.answers["/api/v1/nodes"] = [node("a")]
    server = api.url.removeprefix("http://")

    assert len(cluster_at(write_kubeconfig(tmp_path, server, cluster=settings, token="secret")).nodes()) == 1

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

    cluster_at(trusting(secure, tmp_path, **_oidc(**{"id-token": token}))).nodes()

    assert secure.authorizations == [f"Bearer {token}"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({"id-token": _id_token(time.time())}, "has expired; log in again, or let kubectl", id="expired"),
        pytest.param(
            {"refresh-token": "r"}, "has expired; log in again, or let kubectl renew it: `kubectl version`", id="none"
        ),
        pytest.param({"id-token": "secret.secret.secret"}, "is not a JSON Web Token; log in again", id="no-json"),
        pytest.param({"id-token": "secret"}, "is not a JSON Web Token; log in again", id="no-parts"),
    ],
)
def test_id_token_that_is_of_no_use_is_refused(
    secure: FakeApi, tmp_path: Path, config: dict[str, str], words: str
) -> None:
    path = trusting(secure, tmp_path, **_oidc(**config))

    with pytest.raises(UnreachableError) as refused:
        cluster_at(path).nodes()

    assert str(refused.value).startswith("KUBECONFIG: the id-token of auth-provider oidc ")
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)
    assert secure.requests == []


def test_flags_override_server_authority_and_token(secure: FakeApi, tmp_path: Path, certificate: Path) -> None:
    settings = {"insecure-skip-tls-verify": True, "tls-server-name": "other"}
    path = write_kubeconfig(tmp_path, SERVER, cluster=settings, token="own")

    cluster_at(path, Overrides(server=secure.url, ca_file=str(certificate), token="flag")).nodes()

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


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        pytest.param({}, {"auth-provider": {"name": "gcp"}}, 'auth-provider "gcp" is no longer part of', id="provider"),
        pytest.param(
            {"insecure-skip-tls-verify": True, "certificate-authority": "a"}, {}, "contradict each other", id="both"
        ),
        pytest.param({"certificate-authority-data": "%"}, {}, "certificate-authority-data is not base64", id="base64"),
        pytest.param({"certificate-authority-data": "AAAA"}, {}, "certificate-authority cannot be used", id="no-pem"),
        pytest.param(
            {},
            {"client-certificate-data": "AAAA", "client-key-data": "AAAA"},
            "client-certificate cannot be used: it is not in PEM format, or the key belongs to another "
            "certificate; log in again",
            id="no-pem-of-the-client",
        ),
        pytest.param(
            {"certificate-authority": "nope"}, {}, "nope cannot be used: No such file or directory; log in", id="no-ca"
        ),
        pytest.param({}, {"client-certificate": "nope"}, "nope cannot be used: No such file or directory", id="cert"),
        pytest.param({"server": ""}, {}, "context fake has no server; set clusters.cluster.server", id="no-server"),
        pytest.param({"server": "ftp://a"}, {}, 'server "ftp://a" is not a URL; write https://HOST:PORT', id="no-url"),
        pytest.param({}, {"as-groups": ["a"]}, "a group needs a user", id="groups-alone"),
        pytest.param({"proxy-url": "socks5://a:1"}, {}, "proxy-url: a proxy with socks5:// is not", id="socks"),
        pytest.param(
            {"proxy-url": "https://a:1"}, {}, "proxy-url: a proxy with https:// is not supported", id="tls-proxy"
        ),
        pytest.param({"proxy-url": "http://a b"}, {}, "proxy-url: is not the URL of a proxy", id="proxy-with-a-space"),
        pytest.param(
            {"proxy-url": "http://a..b"}, {}, "proxy-url: is not the URL of a proxy", id="proxy-with-empty-label"
        ),
        pytest.param({"server": "https://a..b"}, {}, 'server "https://a..b" is not a URL', id="empty-label"),
        pytest.param({"tls-server-name": "a..b"}, {}, "tls-server-name is not a host name", id="server-name"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnreachableError) as refused:
        cluster_at(write_kubeconfig(tmp_path, SERVER, cluster=cluster, **user))

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_host_with_an_umlaut_is_converted_to_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # If the package idna is missing, urllib3 accepts only host names in ASCII.
    monkeypatch.setitem(sys.modules, "idna", None)
    own = {"proxy-url": "http://k\u00f6ln.invalid:1", "tls-server-name": "k\u00f6ln.invalid"}

    cluster = cluster_at(write_kubeconfig(tmp_path, "https://m\u00fcnchen.invalid", cluster=own))

    way = "https://xn--mnchen-3ya.invalid cannot be reached through the proxy http://xn--kln-sna.invalid:1"
    # If the machine's name server does not answer, the reason is "Temporary failure in name resolution".
    with pytest.raises(UnreachableError, match=rf"{way}: \S+ .* (not known|name resolution)"):
        cluster.nodes()


def test_missing_token_file_is_named(secure: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"^KUBECONFIG: tokenFile .*/nope cannot be read: No such file"):
        cluster_at(trusting(secure, tmp_path, tokenFile="nope")).nodes()


def test_context_without_its_user_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, SERVER)
    path.write_text(path.read_text().replace("user: me", "user: you"))

    words = '^KUBECONFIG: context fake names user "you", which the kubeconfig does not contain; correct the name'
    with pytest.raises(UnreachableError, match=words):
        cluster_at(path)


def test_parts_of_a_context_may_be_in_several_files(secure: FakeApi, tmp_path: Path) -> None:
    first = trusting(secure, tmp_path, token="first")
    (tmp_path / "other").mkdir()
    second = write_kubeconfig(tmp_path / "other", SERVER, token="second")
    text = first.read_text()
    first.write_text(text[: text.index("users:")])

    cluster_at(Path(os.pathsep.join([str(first), str(second)]))).nodes()

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
    code = "import sys, distrain.answers.judge; print(sorted({'kubernetes', 'urllib3', 'pyhelm3'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "plugin")}

    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
