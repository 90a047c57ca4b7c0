"""Get the user's credentials: a token, a password, an OpenID Connect token, or the output of an exec plugin.

An exec plugin is a program in the kubeconfig, such as `aws eks get-token`. It follows client-go's
client.authentication.k8s.io.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
from msgspec import Struct

from distrain.apiserver.kubeconfig import AuthProvider, Exec
from distrain.errors import CredentialsError, UnreachableError, reason
from distrain.kube.decoders import decoder
from distrain.redact import remember

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# A token that expires within the MARGIN may expire before the request arrives.
MARGIN = timedelta(seconds=10)
OIDC = "oidc"
# Go's HTTP client sends no header that contains one of these control characters; the tab is allowed.
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
TOKENS = "KUBECONFIG: the token (users.user.token or tokenFile, or what the exec plugin prints)"
# Helm passes the value of --kube-token to a plugin in the environment variable HELM_KUBETOKEN.
FLAGS_TOKEN = "--kube-token: the token of this flag, or of HELM_KUBETOKEN,"


class Credentials(Struct, frozen=True):
    """The value of the Authorization header, and the time at which it expires."""

    authorization: str = ""
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"Credentials(expires={self.expires})"

    @classmethod
    def bearer(cls, token: str, expires: datetime | None = None) -> Credentials:
        remember(token)
        where = FLAGS_TOKEN if token == os.environ.get("HELM_KUBETOKEN") else TOKENS
        return cls(f"Bearer {sendable(token, where)}" if token else "", expires)

    @classmethod
    def basic(cls, user: str, password: str) -> Credentials:
        encoded = b64encode(f"{user}:{password}".encode(errors="surrogateescape")).decode()
        remember(password)
        remember(encoded)
        return cls(f"Basic {encoded}")

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.now(timezone.utc) > self.expires - MARGIN


def sendable(value: str, what: str) -> str:
    """Return the value if it can be sent as an HTTP header.

    Otherwise raise CredentialsError with a message that does not show the value.
    """
    if UNSENDABLE.search(value):
        words = f"{what} contains a line break or another control character, so Helm and kubectl would not send it"
        in_yaml = ": in YAML, `|` adds a line break and `>-` does not" if "KUBECONFIG" in what else ""
        raise CredentialsError(f"{words}; remove it{in_yaml}")
    return value


class Granted(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class ExecCredential(Struct, rename="camel"):
    api_version: str = ""
    status: Granted | None = None


class _Claims(Struct):
    exp: float = 0


def from_oidc(provider: AuthProvider) -> Callable[[bool], Credentials]:
    """Return a function that returns the provider's id-token.

    Helm and kubectl renew an expired token, but this plugin does not.
    """
    token = (provider.config or {}).get("id-token") or ""
    own = Credentials.bearer(token, _expiry(token))

    def credentials(renewed: bool) -> Credentials:
        if own.expired:
            words = "the id-token of auth-provider oidc has expired"
            raise UnreachableError(f"KUBECONFIG: {words}; log in again, or let kubectl renew it: `kubectl version`")
        return own

    return credentials


def _expiry(token: str) -> datetime:
    """Return the time at which a JSON Web Token expires; treat a missing token as expired."""
    try:
        claims = urlsafe_b64decode(token.split(".")[1] + "===") if token else b"{}"
        return datetime.fromtimestamp(decoder(_Claims).decode(claims).exp, timezone.utc)
    except (ValueError, LookupError, OverflowError, msgspec.DecodeError) as error:
        words = "the id-token of auth-provider oidc is not a JSON Web Token; log in again"
        raise UnreachableError(f"KUBECONFIG: {words}") from error


def from_exec(plugin: Exec, cluster: dict[str, Any], tls: ssl.SSLContext) -> Callable[[bool], Credentials]:
    """Return a function that runs the exec plugin and caches its credentials.

    The function runs the plugin again if the credentials have expired, or if its argument says that the server refused
    them.
    """
    if plugin.api_version not in VERSIONS:
        words = f'apiVersion "{plugin.api_version}" of the exec plugin is neither {" nor ".join(VERSIONS)}'
        raise UnreachableError(f"KUBECONFIG: {words}; update the kubeconfig")
    held: list[Credentials] = []

    def credentials(renewed: bool) -> Credentials:
        if renewed or not held or held[0].expired:
            held[:] = [_run(plugin, cluster, tls)]
        return held[0]

    return credentials


def _run(plugin: Exec, cluster: dict[str, Any], tls: ssl.SSLContext) -> Credentials:
    interactive = _is_interactive(plugin)
    spec = {"interactive": interactive, **({"cluster": cluster} if plugin.provide_cluster_info else {})}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **{it.name: it.value for it in plugin.env or ()}}
    try:
        # stderr is not captured, so the user sees the exec plugin's messages.
        done = subprocess.run(
            [_program(plugin), *(plugin.args or ())],
            env={**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise _failure(plugin, f"failed with exit code {error.returncode}") from error
    except OSError as error:
        hint = f"; {reason(plugin.install_hint)}" if plugin.install_hint else ""
        raise _failure(plugin, f"cannot be run: {reason(error)}{hint}") from error
    return _granted(plugin, done.stdout, tls)


def _program(plugin: Exec) -> str:
    """Return the path of the program. A name without a slash is looked up on PATH, but never in the current folder."""
    if os.sep in plugin.command:
        return plugin.command
    folders = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    found = shutil.which(plugin.command, path=folders)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return found


def _is_interactive(plugin: Exec) -> bool:
    mode = plugin.interactive_mode or "IfAvailable"
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not terminal:
        raise _failure(plugin, "needs a terminal (interactiveMode: Always), and standard input is not a terminal")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise _failure(plugin, f'has interactiveMode "{mode}", which is none of Never, IfAvailable and Always')
    return terminal and mode != "Never"


def _granted(plugin: Exec, output: bytes, tls: ssl.SSLContext) -> Credentials:
    try:
        answer = decoder(ExecCredential).decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _failure(plugin, f"prints no ExecCredential: {error}") from error
    granted = answer.status or Granted()
    if answer.api_version != plugin.api_version:
        raise _failure(plugin, f'answers in "{answer.api_version}", not in {plugin.api_version}')
    if bool(granted.client_certificate_data) != bool(granted.client_key_data):
        raise _failure(plugin, "gives a certificate or a key, not both")
    if granted.client_certificate_data:
        _load(plugin, granted, tls)
    elif not granted.token:
        raise _failure(plugin, "gives neither a token nor a certificate")
    return Credentials.bearer(granted.token, granted.expiration_timestamp)


def _load(plugin: Exec, granted: Granted, tls: ssl.SSLContext) -> None:
    with tempfile.NamedTemporaryFile(prefix="distrain-", mode="w") as file:
        file.write(f"{granted.client_certificate_data}\n{granted.client_key_data}\n")
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except (OSError, ValueError) as error:
            raise _failure(plugin, f"gives a certificate that cannot be used: {reason(error)}") from error


def _failure(plugin: Exec, words: str) -> UnreachableError:
    return UnreachableError(f"KUBECONFIG: exec plugin {plugin.command} {words}; run it by hand to see why")
