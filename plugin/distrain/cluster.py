"""Read a Kubernetes cluster. What is posted are questions; the few methods that write say so, and have no callers but
those that change a release.

The official client does what is hard about reaching a cluster: kubeconfig, contexts, credentials, exec plugins, TLS.
Answers are decoded with msgspec straight into `kube`'s structs, page by page: the client's own models take minutes
for the pods of a large cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, new_client_from_config

from distrain import kube
from distrain.errors import DistrainError, ForbiddenError, UnreachableError
from distrain.target import Target

CONNECT_SECONDS = 5
READ_SECONDS = 10
PAGE_SIZE = 500
# The groups whose served versions decide what the chart renders.
GROUPS = ("kubeflow.org", "monitoring.coreos.com")
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
NEXT_STEP = "check KUBECONFIG and --kube-context"

T = TypeVar("T")

# A kubeconfig that skips the check of certificates says so itself; a warning per request would bury the answer.
urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the chart asks of a cluster: its version, and the APIs of GROUPS as `group/version` and with `/Kind`."""

    version: str
    apis: tuple[str, ...]


class NotFoundError(UnreachableError):
    """The cluster has no such thing."""


class Cluster:
    """A cluster reached with the user's kubeconfig, or as the pod that we run in."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @property
    def server(self) -> str:
        return str(self._api.configuration.host)

    def version(self) -> str:
        return self._get("/version", kube.Version, "its version").git_version

    def capabilities(self) -> Capabilities:
        return Capabilities(self.version(), tuple(api for group in GROUPS for api in self.served(group)))

    def served(self, group: str) -> list[str]:
        """Return the group's APIs as `group/version` and with `/Kind`; none where the cluster lacks the group."""
        return list(self._served(group))

    def nodes(self) -> list[kube.Node]:
        return list(self._list("/api/v1/nodes", kube.Node, "nodes"))

    def pods(self) -> Iterator[kube.Pod]:
        """Yield every pod, of all namespaces, that has not ended."""
        return self._list("/api/v1/pods", kube.Pod, "pods of all namespaces", fieldSelector=NOT_ENDED)

    def deployments(self) -> list[kube.Workload]:
        return list(self._list("/apis/apps/v1/deployments", kube.Workload, "deployments of all namespaces"))

    def storage_classes(self) -> list[kube.StorageClass]:
        return list(self._list("/apis/storage.k8s.io/v1/storageclasses", kube.StorageClass, "storage classes"))

    def namespaces(self) -> list[kube.Named]:
        return list(self._list("/api/v1/namespaces", kube.Named, "namespaces"))

    def namespace(self, name: str) -> kube.Named:
        """Raises NotFoundError when the cluster has none of this name."""
        return self._get(f"/api/v1/namespaces/{name}", kube.Named, f"namespace {name}")

    def user(self) -> str:
        """Return who the cluster takes us for; Kubernetes before 1.28 does not tell, a NotFoundError."""
        return self._review("authentication", "SelfSubjectReview", {}, "your user").user_info.username

    def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Tell whether we may; a subresource stands after a slash, and an empty namespace is all of them."""
        plural, _, subresource = resource.partition("/")
        names = {"resource": plural, "subresource": subresource, "group": group}
        attributes = {**names, "verb": verb, "namespace": namespace}
        spec = {"resourceAttributes": attributes}
        return self._review("authorization", "SelfSubjectAccessReview", spec, "your rights").allowed

    def read_list(self, path: str, item: type[T], what: str) -> list[T]:
        """Return the objects of a list; `what` names them in a message."""
        return list(self._list(path, item, what))

    def read_one(self, path: str, answer: type[T], what: str) -> T:
        """Raises NotFoundError when the cluster has no such object."""
        return self._get(path, answer, what)

    def read_metadata(self, path: str, what: str) -> kube.Named:
        """Return an object's metadata alone: of a Secret no key is sent."""
        return self._ask(path, kube.Named, what, {}, accept=METADATA)

    def workload(self, api_version: str, kind: str, namespace: str, name: str) -> kube.Workload:
        """Raises NotFoundError when the cluster has none."""
        path = f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s/{name}"
        return self._get(path, kube.Workload, f"{kind} {name}")

    def release_pods(self, namespace: str, release: str) -> list[kube.Pod]:
        selector = f"app.kubernetes.io/instance={release}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        return list(self._list(path, kube.Pod, f"pods of namespace {namespace}", labelSelector=selector))

    def warnings(self, namespace: str) -> list[kube.Event]:
        path = f"/api/v1/namespaces/{namespace}/events"
        return list(self._list(path, kube.Event, f"events of namespace {namespace}", fieldSelector="type=Warning"))

    def named(self, namespace: str, api_version: str, plural: str) -> list[kube.Named]:
        """Return a namespace's objects of one kind; none where the cluster does not know the kind."""
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        try:
            return list(self._list(f"{root}/namespaces/{namespace}/{plural}", kube.Named, plural))
        except NotFoundError:
            return []

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log."""
        query = {"container": container, "tailLines": str(lines)}
        status, body = self._fetch(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query, None)
        if status != 200:
            raise self._refusal(status, body, f"the log of {pod}")
        return body.decode(errors="replace")

    def create_namespace(self, name: str) -> str | None:
        """Write: make a namespace, as Helm would, and return its uid, or None when it is there already."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}}
        status, body = self._fetch("/api/v1/namespaces", {}, made)
        if status == 409:
            return None
        if status != 201:
            raise self._refusal(status, body, f"namespace {name}")
        return msgspec.json.decode(body, type=kube.Named).metadata.uid

    def delete_namespace(self, name: str, uid: str) -> None:
        """Write: delete this very namespace; one that is gone already is fine."""
        self._delete(f"/api/v1/namespaces/{name}", {"preconditions": {"uid": uid}}, f"namespace {name}")

    def delete_workload(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """Write: delete a job, which stays until its pods are gone; one that is gone already is fine."""
        path = f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s/{name}"
        self._delete(path, {"propagationPolicy": "Foreground"}, f"{kind} {name}")

    def _delete(self, path: str, options: dict[str, Any], what: str) -> None:
        status, body = self._fetch(path, {}, {"apiVersion": "v1", "kind": "DeleteOptions", **options}, "DELETE")
        if status not in (200, 202, 404):
            raise self._refusal(status, body, what)

    def _served(self, group: str) -> Iterator[str]:
        try:
            versions = self._get(f"/apis/{group}", kube.Group, f"the API group {group}").versions or []
        except NotFoundError:
            return
        for version in versions:
            yield version.group_version
            listing = self._get(f"/apis/{version.group_version}", kube.ResourceList, version.group_version)
            # Names with a slash are subresources such as mpijobs/status.
            kinds = [resource.kind for resource in listing.resources or () if "/" not in resource.name]
            yield from (f"{version.group_version}/{kind}" for kind in kinds)

    def _list(self, path: str, item: type[T], what: str, **query: str) -> Iterator[T]:
        token: str | None = ""
        while token is not None:
            paging = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            page = self._get(path, kube.Page[item], what, **query, **paging)  # type: ignore[valid-type]
            yield from page.items or ()
            token = page.metadata.next or None

    def _review(self, group: str, kind: str, spec: dict[str, Any], what: str) -> kube.ReviewStatus:
        """Ask the cluster about ourselves. It keeps nothing of such a review."""
        version = f"{group}.k8s.io/v1"
        question = {"apiVersion": version, "kind": kind, "spec": spec}
        return self._ask(f"/apis/{version}/{kind.lower()}s", kube.Review, what, {}, question).status

    def _get(self, path: str, answer: type[T], what: str, **query: str) -> T:
        return self._ask(path, answer, what, query)

    def _ask(
        self,
        path: str,
        answer: type[T],
        what: str,
        query: dict[str, str],
        question: dict[str, Any] | None = None,
        accept: str = JSON,
    ) -> T:
        status, body = self._fetch(path, query, question, accept)
        if status not in (200, 201):
            raise self._refusal(status, body, what)
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise UnreachableError(f"{self.server} answers like no Kubernetes: {error}; {NEXT_STEP}") from error

    def _fetch(
        self, path: str, query: dict[str, str], question: dict[str, Any] | None, accept: str = JSON, method: str = ""
    ) -> tuple[int, bytes]:
        """Ask through the client's connections, past its generated calls, whose form changes with each release."""
        asked = {"fields": query} if question is None else {"json": question}
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        ask = self._api.rest_client.pool_manager.request
        try:
            # One try: a cluster that does not answer is reported within seconds.
            response = ask(
                method or ("GET" if question is None else "POST"),
                self.server + path,
                **asked,
                headers={"Accept": accept, **self._login()},
                timeout=timeout,
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            words = f"the cluster at {self.server} cannot be reached: {_cause(error)}; {NEXT_STEP}"
            raise UnreachableError(words) from error
        return response.status, response.data

    def _login(self) -> dict[str, str]:
        """Return the header with the user's token, which is renewed where an exec plugin gave it for a while."""
        token = self._api.configuration.auth_settings().get("BearerToken")
        return {token["key"]: token["value"]} if token else {}

    def _refusal(self, status: int, body: bytes, what: str) -> DistrainError:
        words = _message(body)
        if status == 404:
            return NotFoundError(f"{what}: {words}")
        if status == 401:
            return UnreachableError(f"the cluster at {self.server} does not accept your credentials; {NEXT_STEP}")
        if status == 403:
            return ForbiddenError(f"{what} cannot be read: {words}; ask for a role that allows `list` on them")
        return UnreachableError(f"{what} cannot be read: {self.server} answers {status}: {words}; try again")


def connect(target: Target) -> Cluster:
    """Prepare to read the target's cluster; raises UnreachableError when its credentials cannot be used."""
    if target.in_cluster:
        return Cluster(_own_account())
    try:
        with _logged() as complaints:
            api = new_client_from_config(target.kubeconfig, target.context)
    except (ConfigException, OSError, ValueError) as error:
        raise UnreachableError(f"KUBECONFIG: context {target.context} cannot be used: {_line(error)}") from error
    if complaints:
        raise UnreachableError(f"KUBECONFIG: context {target.context} gives no credentials: {_line(complaints[0])}")
    return Cluster(api)


def _own_account() -> ApiClient:
    """Return a client with the credentials that Kubernetes puts into the pod we run in; nothing is written to disk."""
    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        raise UnreachableError(f"the pod's ServiceAccount cannot be used: {_line(error)}") from error
    return ApiClient(configuration)


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what the client only logs, such as an exec plugin that fails, before it goes on without credentials."""
    lines: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


def _message(body: bytes) -> str:
    """Return the words of a Kubernetes Status, or the start of whatever a proxy in between answered."""
    try:
        return msgspec.json.decode(body, type=kube.Status).message or "no reason given"
    except msgspec.DecodeError:
        return _line(body[:200].decode(errors="replace"))


def _cause(error: BaseException) -> str:
    """Return the innermost reason, which the client wraps several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return _line(getattr(error, "strerror", None) or error)


def _line(words: object) -> str:
    return " ".join(str(words).split())
