"""Responses of an API server as typed structs: versions, API groups, reviews of access, and pages of lists.

As in `kube`, a struct has only the fields that the plugin uses, each with a default. Only commands that ask a cluster
import this module.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct, field

from distrain.kube.objects import Kube


class User(Kube):
    username: str = ""


class ReviewStatus(Kube):
    """What the cluster answers to a review: who asks, or whether they may."""

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
    next: str | None = field(default=None, name="continue")


Item = TypeVar("Item")


class Page(Struct, Generic[Item], rename="camel"):
    """One page of a list."""

    items: list[Item] | None = None
    metadata: PageMetadata = field(default_factory=PageMetadata)
