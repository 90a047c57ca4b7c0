"""Get the user's credentials: a token, a password, or what an exec plugin returns.

An exec plugin is a program in the kubeconfig, such as `aws eks get-token`. It follows client-go's
client.authentication.k8s.io.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
from msgspec import Struct

from distrain.apiserver.kubeconfig import Exec
from distrain.errors import UnreachableError, reason

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# A token that expires this soon may expire before the request arrives.
MARGIN = timedelta(seconds=10)


class Credentials(Struct, frozen=True):
    """The value of the Authorization header, and when it expires."""

    authorization: str = ""
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"Credentials(expires={self.expires})"

    @classmethod
    def bearer(cls, token: str, expires: datetime | None = None) -> Credentials:
        return cls(f"Bearer {token}" if token else "", expires)

    @classmethod
    def basic(cls, user: str, password: str) -> Credentials:
        return cls("Basic " + b64encode(f"{user}:{password}".encode(errors="surrogateescape")).decode())

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.now(timezone.utc) > self.expires - MARGIN


class Granted(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class ExecCredential(Struct, rename="camel"):
    api_version: str = ""
    status: Granted | None = None


def from_exec(plugin: Exec, cluster: dict[str, Any], tls: ssl.SSLContext) -> Callable[[bool], Credentials]:
    """Return a function that runs the exec plugin and caches its credentials.

    The function runs the plugin again if the credentials have expired, or if its argument says that they were refused.
    """
    if plugin.api_version not in VERSIONS:
        words = f'apiVersion "{plugin.api_version}" of the exec plugin is none of {" and ".join(VERSIONS)}'
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
        # The plugin's stderr goes to the user's terminal.
        done = subprocess.run(
            [plugin.command, *(plugin.args or ())],
            env={**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise _failure(plugin, f"failed with exit code {error.returncode}") from error
    except OSError as error:
        hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
        raise _failure(plugin, f"cannot be run: {error.strerror}{hint}") from error
    return _granted(plugin, done.stdout, tls)


def _is_interactive(plugin: Exec) -> bool:
    mode = plugin.interactive_mode or "IfAvailable"
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not terminal:
        raise _failure(plugin, "needs a terminal to ask at (interactiveMode: Always), and standard input is none")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise _failure(plugin, f'has interactiveMode "{mode}", which is none of Never, IfAvailable and Always')
    return terminal and mode != "Never"


def _granted(plugin: Exec, output: bytes, tls: ssl.SSLContext) -> Credentials:
    try:
        answer = msgspec.json.decode(output, type=ExecCredential)
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
