"""Find out how to reach the API server of a target: address, TLS settings, proxy and the user's credentials.

The rules are the same as in client-go, so that Helm and kubectl reach the same server as the same user.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, quote

from msgspec import Struct
from msgspec.structs import replace

from distrain import files
from distrain.apiserver import kubeconfig, target, urls
from distrain.apiserver.credentials import OIDC, Credentials, from_exec, from_oidc, sendable
from distrain.apiserver.kubeconfig import Cluster, User, decoded
from distrain.apiserver.proxies import proxy_of
from distrain.apiserver.target import Overrides, Target
from distrain.errors import UnreachableError, is_full, reason

CA_FILE = target.TOKEN.with_name("ca.crt")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
IMPERSONATION = "--kube-as-user, --kube-as-group, or users.user.as and as-* of KUBECONFIG"

ANEW = "log in again, or copy the kubeconfig again"
NAMED = "correct the name, or copy the kubeconfig again"


class Access(Struct, frozen=True):
    """The URL of an API server, and what a connection to it needs, such as TLS settings, proxy and credentials.

    `credentials(True)` returns new credentials after the server has refused the previous ones.
    """

    server: str
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    credentials: Callable[[bool], Credentials]
    impersonation: Sequence[tuple[str, str]]

    def __repr__(self) -> str:
        return f"Access({self.server!r})"

    def headers(self, *, renewed: bool = False) -> list[tuple[str, str]]:
        """Return the headers that identify the user.

        With `renewed`, they contain new credentials, because the server refused the previous ones.
        """
        authorization = self.credentials(renewed).authorization
        own = [("Authorization", authorization)] if authorization else []
        return [*own, *self.impersonation]


def access(wanted: Target) -> Access:
    """Return how to reach the target; raise UnreachableError if its kubeconfig is incomplete or wrong.

    `server` is the URL without user and password, so that messages can show it.
    """
    cluster, user = _own_account() if wanted.in_cluster else _entries(wanted)
    cluster, user = _overridden(cluster, user, wanted.overrides)
    _refuse_unusable(cluster, user)
    url = _url(cluster.server or "http://localhost:8080")
    server = urls.without_login(url)._replace(query="", fragment="").geturl().rstrip("/")
    tls = _tls(cluster) if url.scheme == "https" else None
    # Without TLS no credentials are sent; Helm and kubectl do the same.
    login = _login(cluster, user, tls, urls.login(url)) if tls else lambda renewed: Credentials()
    proxy = proxy_of(server, cluster.proxy_url)
    return Access(server, tls, cluster.tls_server_name or None, proxy, login, _impersonation(user))


def _entries(wanted: Target) -> tuple[Cluster, User]:
    """Return the cluster and the user of the context.

    Both are empty if Helm's flags name the server, so that there is no context.
    """
    config = kubeconfig.load(wanted.kubeconfig) if wanted.kubeconfig else None
    context = config.contexts.get(wanted.context) if config else None
    if config is None or context is None:
        return Cluster(), User()
    for name, entries in ((context.cluster, config.clusters), (context.user, config.users)):
        if name and name not in entries:
            kind = "cluster" if entries is config.clusters else "user"
            words = f'context {wanted.context} names {kind} "{name}", which the kubeconfig does not contain; {NAMED}'
            raise UnreachableError(f"KUBECONFIG: {words}")
    cluster = config.clusters.get(context.cluster or "", Cluster())
    if not cluster.server and not wanted.overrides.server:
        raise UnreachableError(f"KUBECONFIG: context {wanted.context} has no server; set clusters.cluster.server")
    return cluster, config.users.get(context.user or "", User())


def _own_account() -> tuple[Cluster, User]:
    """Return the ServiceAccount of the pod that this program runs in; kubelet renews its token every hour."""
    host, port = os.environ[target.SERVICE_HOST], os.environ.get(target.SERVICE_PORT, "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    # Without ca.crt, the server's certificate is checked against the system's authorities, as in client-go.
    authority = str(CA_FILE) if CA_FILE.is_file() else None
    return Cluster(server=server, certificate_authority=authority), User(token_file=str(target.TOKEN))


def _overridden(cluster: Cluster, user: User, said: Overrides) -> tuple[Cluster, User]:
    """Replace the kubeconfig's settings by Helm's flags, and remove settings that contradict the flags."""
    if said.ca_file or said.insecure:
        cluster = replace(
            cluster,
            insecure_skip_tls_verify=said.insecure,
            certificate_authority=said.ca_file or None,
            certificate_authority_data=None,
        )
    if said.server or said.tls_server_name:
        cluster = replace(cluster, tls_server_name=said.tls_server_name, server=said.server or cluster.server)
    user = replace(
        user,
        token=said.token or user.token,
        impersonated=said.user or user.impersonated,
        as_groups=list(said.groups) or user.as_groups,
    )
    return cluster, user


def _refuse_unusable(cluster: Cluster, user: User) -> None:
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        words = "insecure-skip-tls-verify and certificate-authority contradict each other; leave one out"
        raise UnreachableError(f"KUBECONFIG: {words}")
    if cluster.tls_server_name and not urls.split(f"https://{cluster.tls_server_name}"):
        words = "tls-server-name is not a host name; write a name in the server's certificate"
        raise UnreachableError(f"KUBECONFIG: {words}")
    if user.auth_provider and user.auth_provider.name != OIDC:
        words = f'auth-provider "{user.auth_provider.name}" is no longer part of Kubernetes; use an exec plugin'
        raise UnreachableError(f"KUBECONFIG: {words}")
    if (user.as_groups or user.as_uid or user.as_user_extra) and not user.impersonated:
        step = "set --kube-as-user, or `as` in KUBECONFIG"
        raise UnreachableError(f"--kube-as-group, or as-groups of KUBECONFIG: a group needs a user; {step}")


def _url(server: str) -> SplitResult:
    # An address without a scheme means http, even if TLS settings are given too; client-go does the same.
    parts = urls.split(server if "://" in server else f"http://{server}")
    if parts is None or parts.scheme not in ("http", "https"):
        # The text before the @ may be a password.
        shown = "server" if "@" in server else f'server "{server}"'
        raise UnreachableError(f"KUBECONFIG: {shown} is not a URL; write https://HOST:PORT")
    return parts


def _tls(cluster: Cluster) -> ssl.SSLContext:
    data = cluster.certificate_authority_data
    file = None if data else cluster.certificate_authority or None
    try:
        if cluster.insecure_skip_tls_verify:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        # Comments between the certificates may contain names in any language.
        authority = decoded(data, "certificate-authority-data").decode("ascii", "ignore") if data else None
        context = ssl.create_default_context(cafile=file, cadata=authority)
    except (OSError, ValueError) as error:
        words = f"certificate-authority{f' {file}' if file else ''} cannot be used: {_in_file(error)}; {ANEW}"
        raise UnreachableError(f"KUBECONFIG: {words}") from error
    # Python 3.13 and newer refuse a certificate authority (CA) whose certificate lacks certain extensions; Go accepts
    # such a CA.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context


def _login(
    cluster: Cluster, user: User, tls: ssl.SSLContext, in_url: tuple[str, str] | None
) -> Callable[[bool], Credentials]:
    """Return a function that returns the user's credentials; a client certificate is loaded into the TLS context."""
    has_certificate = _load_certificate(user, tls)
    if in_url:
        # If the URL contains a login, the login is used; Go's HTTP client does the same.
        own = Credentials.basic(*in_url)
        return lambda renewed: own
    path, token = user.token_file, user.token
    if path:
        return lambda renewed: Credentials.bearer(_token(path))
    if token or user.username or user.password:
        own = Credentials.bearer(token) if token else Credentials.basic(user.username or "", user.password or "")
        return lambda renewed: own
    if user.auth_provider:
        return from_oidc(user.auth_provider)
    if user.exec and not has_certificate:
        return from_exec(user.exec, _told(cluster), tls)
    return lambda renewed: Credentials()


def _load_certificate(user: User, tls: ssl.SSLContext) -> bool:
    try:
        with (
            _on_disk(user.client_certificate_data, user.client_certificate, "client-certificate-data") as certificate,
            _on_disk(user.client_key_data, user.client_key, "client-key-data") as key,
        ):
            if not certificate:
                return False
            tls.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        if is_full(error):  # The disk for the temporary file is full; nothing is wrong with the certificate.
            raise
        files_of = " and ".join(path for path in _own_files(user) if path)
        words = f"client-certificate{files_of and f' {files_of}'} cannot be used: {_in_file(error)}; {ANEW}"
        raise UnreachableError(f"KUBECONFIG: {words}") from error
    return True


def _own_files(user: User) -> tuple[str | None, str | None]:
    """Return the paths of the client certificate and of its key.

    A path is None if the kubeconfig contains the data itself.
    """
    certificate = None if user.client_certificate_data else user.client_certificate
    return certificate, None if user.client_key_data else user.client_key


def _in_file(error: Exception) -> str:
    """Return what is wrong with a certificate or key.

    The message of OpenSSL is not returned, because it only names functions of OpenSSL.
    """
    if isinstance(error, ssl.SSLError):
        return "it is not in PEM format, or the key belongs to another certificate"
    return reason(error)


@contextmanager
def _on_disk(data: str | None, path: str | None, what: str) -> Iterator[str | None]:
    """Yield the path of the file with a certificate or key.

    If the kubeconfig contains the data itself, write the data to a temporary file, because Python's ssl module reads
    only files.
    """
    if not data:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="distrain-") as file:
        file.write(decoded(data, what))
        file.flush()
        yield file.name


def _no_password() -> str:
    """Refuse a key that needs a password: OpenSSL would ask for the password on the terminal."""
    raise ValueError("the key has a password")


def _token(path: str) -> str:
    try:
        return files.read(path, files.TOKEN).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreachableError(f"KUBECONFIG: tokenFile {path} cannot be read: {reason(error)}; {ANEW}") from error


def _told(cluster: Cluster) -> dict[str, object]:
    """Return the description of the cluster that an exec plugin receives if its entry sets `provideClusterInfo`."""
    extras = {extension.name: extension.extension for extension in cluster.extensions or ()}
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        authority = b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,
        "proxy-url": cluster.proxy_url,
        "config": extras.get(EXEC_EXTENSION),
    }
    return {key: value for key, value in told.items() if value}


def _impersonation(user: User) -> list[tuple[str, str]]:
    if not user.impersonated:
        return []
    headers = [("User", user.impersonated), ("Uid", user.as_uid), *(("Group", group) for group in user.as_groups or ())]
    for key, values in (user.as_user_extra or {}).items():
        headers += [(f"Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return [(f"Impersonate-{name}", sendable(value, IMPERSONATION)) for name, value in headers if value]
