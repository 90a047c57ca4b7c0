"""Decode an API server's responses, and convert error responses to exceptions.

The responses are versions, API groups, reviews of access, and pages of lists. As in `kube`, a struct has only the
fields that the plugin reads, and each field has a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field

from distrain.apiserver.connection import NEXT_STEP, Answer
from distrain.errors import DistrainError, ForbiddenError, NoLogError, NotFoundError, UnreachableError
from distrain.kube import form
from distrain.kube.decoders import decoder
from distrain.kube.objects import Kube

T = TypeVar("T")

# The API server's message if the user lacks a right.
DENIED = re.compile(r' cannot (\w+) resource "([^"]+)"')


class User(Kube):
    username: str = ""


class ReviewStatus(Kube):
    """The answer to a review of access: the user's name, or whether the user has a right."""

    user_info: User = field(default_factory=User)
    allowed: bool = False


class Review(Kube):
    status: ReviewStatus = field(default_factory=ReviewStatus)


class ApiResource(Kube):
    name: str = ""
    kind: str = ""


class ResourceList(Kube):
    resources: list[ApiResource] | None = None


class GroupVersion(Kube):
    group_version: str = ""


class Group(Kube):
    versions: list[GroupVersion] | None = None


class Version(Kube):
    git_version: str = ""


class Status(Kube):
    message: str | None = None


class PageMetadata(Kube):
    resource_version: str = ""
    next: str | None = field(default=None, name="continue")


Item = TypeVar("Item")


class PageHead(Kube):
    metadata: PageMetadata = field(default_factory=PageMetadata)


class WatchedMetadata(Kube):
    uid: str = ""
    resource_version: str = ""


class Watched(Kube):
    """The fields that a watch reads, either from an object of any kind or from the error that ends the watch."""

    metadata: WatchedMetadata = field(default_factory=WatchedMetadata)
    code: int = 0


class WatchEvent(Struct):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object, which is decoded later."""

    type: str
    object: msgspec.Raw


class Page(Struct, Generic[Item]):
    """The items of a page.

    The field `items` is required: a response without this field is not an empty list, but comes from a server that is
    not an API server of Kubernetes.
    """

    items: list[Item] | None


def decoded(answer: Answer, decode: Callable[[memoryview], T], what: str, server: str) -> T:
    """Decode a response's body; raise the matching error for an error status.

    `what` names the requested object in messages.
    """
    if answer.status not in (200, 201):
        raise refusal(answer, what, server)
    try:
        return decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise no_kubernetes(server, f"{what}: {form.why(error)}") from error


def no_kubernetes(server: str, why: str) -> UnreachableError:
    """Return the error for a server whose answer does not come from a Kubernetes API server."""
    return UnreachableError(f"{server} does not answer like Kubernetes: {why}; {NEXT_STEP}")


def refusal(answer: Answer, what: str, server: str) -> DistrainError:
    status, words = answer.status, _message(bytes(answer.body))
    if status == 404:
        return NotFoundError(f"{what}: {words}")
    if status == 401:
        return UnreachableError(f"the cluster at {server} does not accept your credentials; {NEXT_STEP}")
    if status == 403:
        denied = DENIED.search(words)
        right = f"`{denied[1]}` on {denied[2]}" if denied else "`get` and `list` on them"
        message = f"{what} cannot be read: {words}; ask for a role that allows {right}"
        return ForbiddenError(message, right=(denied[1], denied[2]) if denied else None)
    # Among the status codes 400 to 499, a retry helps only after 408 (timeout) and 429 (too many requests).
    step = "try again" if status >= 500 or status in (408, 429) else NEXT_STEP
    return UnreachableError(f"{what} cannot be read: {server} answers {status}: {words}; {step}")


def no_log(answer: Answer, what: str, server: str) -> DistrainError:
    """Return the error for a log that cannot be read. Status 400 means that there is no such log."""
    if answer.status == 400:
        return NoLogError(f"{what}: {_message(bytes(answer.body))}")
    return refusal(answer, what, server)


def _message(body: bytes) -> str:
    """Return the message of a Kubernetes Status, or the first 200 bytes of any other body, for example a proxy's."""
    try:
        return decoder(Status).decode(body).message or "no reason given"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return " ".join(body[:200].decode(errors="replace").split())
