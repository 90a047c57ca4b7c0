"""Read kubeconfig files as kubectl and Helm do. Several files are merged, and a path is relative to its file.

The official Python client is not used, because importing it takes 0.4 s and 60 MB, more than a check of most clusters.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from distrain.errors import UnreachableError, reason
from distrain.kube import form
from distrain.yaml import yaml_loader


class Part(Struct, rename="kebab"):
    """A part of a kubeconfig. A missing field and null mean the same."""


class Variable(Part):
    name: str = ""
    value: str = ""


class Exec(Part, rename="camel"):
    """A program that prints the user's credentials."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None


class AuthProvider(Part):
    name: str = ""
    config: dict[str, str] | None = None


class User(Part):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    impersonated: str | None = field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Extension(Part):
    name: str = ""
    extension: object = None


class Cluster(Part):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    extensions: list[Extension] | None = None


class Context(Part):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class NamedUser(Part):
    name: str = ""
    user: User | None = None


class NamedCluster(Part):
    name: str = ""
    cluster: Cluster | None = None


class NamedContext(Part):
    name: str = ""
    context: Context | None = None


class File(Part):
    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


PartType = TypeVar("PartType", bound=Part)
# These fields hold a file's path, relative to the kubeconfig.
CLUSTER_PATHS = ("certificate_authority",)
USER_PATHS = ("client_certificate", "client_key", "token_file")


class Kubeconfig(Struct, frozen=True):
    """Several merged files.

    If two files both have an entry of the same name or a current context, the first file wins.
    """

    current: str
    clusters: dict[str, Cluster]
    users: dict[str, User]
    contexts: dict[str, Context]


def load(paths: str) -> Kubeconfig | None:
    """Read and merge the files of a list like KUBECONFIG; skip missing files, and return None if all are missing.

    Raises UnreachableError for a file that is not a kubeconfig.
    """
    files = [_read(path) for part in paths.split(os.pathsep) if os.path.isfile(path := Path(part).expanduser())]
    if not files:
        return None
    # The files are read in reverse: in a dict the last entry of a name wins, but the first file must win.
    return Kubeconfig(
        current=next((file.current_context for file in files if file.current_context), ""),
        clusters={it.name: it.cluster or Cluster() for file in files[::-1] for it in reversed(file.clusters or ())},
        users={it.name: it.user or User() for file in files[::-1] for it in reversed(file.users or ())},
        contexts={it.name: it.context or Context() for file in files[::-1] for it in reversed(file.contexts or ())},
    )


def decoded(data: str, what: str) -> bytes:
    """Decode the base64 of a `-data` field."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnreachableError(f"KUBECONFIG: {what} is not base64; copy the kubeconfig again") from error


def _read(path: Path) -> File:
    try:
        document = yaml_loader.load(path.read_text(encoding="utf-8"))
        file = form.converted({} if document is None else document, File)
    except form.FormError as error:
        words = (f"KUBECONFIG: {path}: {mistake}; correct the file" for mistake in error.mistakes)
        raise UnreachableError(*words) from error
    except (OSError, ValueError) as error:
        raise UnreachableError(f"KUBECONFIG: {path} cannot be read: {reason(error)}; correct the file") from error
    # The folder must be absolute. With a relative folder, the path of a program beside the kubeconfig could become a
    # bare name, which would be looked up on PATH.
    folder = path.parent.absolute()
    return replace(
        file,
        clusters=[replace(it, cluster=_beside(folder, it.cluster, CLUSTER_PATHS)) for it in file.clusters or ()],
        users=[replace(it, user=_program_beside(folder, it.user)) for it in file.users or ()],
    )


def _beside(folder: Path, part: PartType | None, fields: Sequence[str]) -> PartType | None:
    if part is None:
        return None
    named = {name: getattr(part, name) for name in fields}
    return replace(part, **{name: str(folder / path) for name, path in named.items() if path})


def _program_beside(folder: Path, user: User | None) -> User | None:
    """Make the user's paths absolute. The command of an exec plugin is a path if it contains a slash."""
    user = _beside(folder, user, USER_PATHS)
    if user and user.exec and os.sep in user.exec.command:
        return replace(user, exec=replace(user.exec, command=str(folder / user.exec.command)))
    return user
