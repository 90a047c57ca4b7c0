"""Read a Kubernetes cluster; methods that change it have docstrings that begin with "Write:".

Only code that changes releases calls these methods. Other POST requests are reviews, which change nothing. Responses
are decoded with msgspec directly into the structs of `kube`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from distrain import console, kube
from distrain.apiserver.access import access
from distrain.apiserver.connection import JSON, NO_RETRY, Answer, Connection
from distrain.apiserver.pages import Ahead, Listing, PodListing, Sum, again
from distrain.apiserver.responses import Group, ResourceList, Review, ReviewStatus, Version, decoded, refusal
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube.pods import CountedPod
from distrain.kube.pods_json import JsonPod
from distrain.kube.resource import Resource

# The number of parallel connections for many small lists.
CONNECTIONS = 4
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
ANY = "*/*"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

T = TypeVar("T")


class Capabilities(Struct, frozen=True):
    """The cluster's version, and APIs that it serves as `group/version` and `group/version/Kind`, for Helm."""

    version: str
    apis: tuple[str, ...]


class Cluster:
    """A cluster, reached with the user's kubeconfig or from a pod in it; `target` names it."""

    def __init__(self, target: Target, say: Callable[[str], None]) -> None:
        self.target = target
        self._say = say
        self._access = access(target)
        self._connections: list[Connection] = []
        self._own = threading.local()
        self._nodes: Ahead | None = None

    @property
    def _connection(self) -> Connection:
        if self._nodes:
            # `begin_nodes` uses the connection until the nodes have been read.
            self._nodes.result()
        if not hasattr(self._own, "connection"):
            self._own.connection = self._open()
        connection: Connection = self._own.connection
        return connection

    def _open(self) -> Connection:
        return Connection(self._access, self._say)

    @property
    def server(self) -> str:
        return self._access.server

    def version(self) -> str:
        return self.read_one("/version", Version, "its version").git_version

    def capabilities(self, groups: Sequence[str]) -> Capabilities:
        return Capabilities(self.version(), tuple(api for group in groups for api in self.served(group)))

    def served(self, group: str) -> list[str]:
        """Return the group's APIs as `group/version` and `group/version/Kind`; none if the cluster lacks the group."""
        found = []
        try:
            versions = self.read_one(f"/apis/{group}", Group, f"the API group {group}").versions or []
        except NotFoundError:
            return []
        for name in (version.group_version for version in versions):
            resources = self.read_one(f"/apis/{name}", ResourceList, name).resources or ()
            found += [name, *(f"{name}/{resource.kind}" for resource in resources if "/" not in resource.name)]
        return found

    def begin_nodes(self) -> None:
        """Start to read the nodes in the background; `nodes` waits for them."""
        connection = self._connection
        self._nodes = Ahead(self._read_nodes, connection)

    def nodes(self) -> list[kube.Node]:
        begun, self._nodes = self._nodes, None
        found: list[kube.Node] = begun.result() if begun else self._read_nodes(self._connection)
        return found

    def _read_nodes(self, connection: Connection) -> list[kube.Node]:
        return self._read(connection, "/api/v1/nodes", kube.Node, "nodes", {})

    def over_pods(self, use: Callable[[Iterator[CountedPod]], Sum], nodes: Sequence[str] | None = None) -> Sum:
        """Pass all pods that have not ended, of all namespaces and in no fixed order, to `use`; return its result.

        With `nodes`, only pods on those nodes and pods without a node are read. For a large cluster, a second process
        handles a part of the pods, and the sum of both results is returned. If a list expires while it is read, reading
        starts again and `use` is called again, so no pod counts twice.
        """
        if nodes is not None:
            return again(lambda: use(self._pods_on(nodes)))
        return again(lambda: self._pods(NOT_ENDED).used((self._connection, self._open()), use))

    def _pods_on(self, nodes: Sequence[str]) -> Iterator[CountedPod]:
        """List the pods per node, which the API server answers from its cache; "" lists pods without a node."""
        names = iter([*nodes, ""])
        # The connections take names from one shared iterator.
        asked = [Ahead(self._pods_of, connection, names) for connection in self._several()]
        for ahead in asked:
            yield from ahead.result()

    def _pods_of(self, connection: Connection, names: Iterator[str]) -> list[CountedPod]:
        lists = (self._pods(f"spec.nodeName={name},{NOT_ENDED}", resourceVersion="0") for name in names)
        return [pod for pods in lists for pod in pods.items(connection)]

    def _pods(self, selector: str, **query: str) -> Listing[CountedPod]:
        query["fieldSelector"] = selector
        return PodListing(self.server, "/api/v1/pods", JsonPod, "pods of all namespaces", query)

    def _several(self) -> list[Connection]:
        while len(self._connections) < CONNECTIONS:
            self._connections.append(self._open())
        return self._connections

    def user(self) -> str:
        """Return the user's name in the cluster; Kubernetes before 1.28 does not tell it (NotFoundError)."""
        return self._review("authentication", "SelfSubjectReview", {}, "your user").user_info.username

    def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Tell whether RBAC allows the user this verb.

        A subresource follows a slash in `resource`. An empty namespace means all namespaces.
        """
        plural, _, subresource = resource.partition("/")
        names = {"resource": plural, "subresource": subresource, "group": group}
        attributes = {**names, "verb": verb, "namespace": namespace}
        spec = {"resourceAttributes": attributes}
        return self._review("authorization", "SelfSubjectAccessReview", spec, "your rights").allowed

    def read_list(self, path: str, item: type[T], what: str, **query: str) -> list[T]:
        """Return the objects of a list; `what` names them in messages."""
        return self._read(self._connection, path, item, what, query)

    def read_one(self, path: str, answer: type[T], what: str, accept: str = JSON) -> T:
        """Return one object, or with METADATA only its metadata; raise NotFoundError if it does not exist."""
        return self._decoded(self._connection.ask(path, accept=accept), answer, what)

    def workload(self, resource: Resource, namespace: str) -> kube.Workload | None:
        """Return the object, or None if it does not exist."""
        what = f"{resource.kind} {resource.name}"
        return or_none(lambda: self.read_one(_path(resource, namespace), kube.Workload, what))

    def workloads(self, api_version: str, kind: str, namespace: str) -> list[kube.Workload]:
        """Return a namespace's objects of a kind that creates pods; none if the cluster does not know the kind."""
        plural = f"{kind.lower()}s"
        return self._list_if_served(f"/apis/{api_version}/namespaces/{namespace}/{plural}", kube.Workload, plural)

    def release_pods(self, namespace: str, release: str) -> list[kube.Pod]:
        return self._labelled_pods(namespace, f"app.kubernetes.io/instance={release}")

    def chart_pods(self, namespace: str) -> list[kube.Pod]:
        """Return the pods of all releases of the chart."""
        return self._labelled_pods(namespace, "app.kubernetes.io/name=distrain")

    def _labelled_pods(self, namespace: str, selector: str) -> list[kube.Pod]:
        path = f"/api/v1/namespaces/{namespace}/pods"
        return self.read_list(path, kube.Pod, f"pods of namespace {namespace}", labelSelector=selector)

    def warnings(self, namespace: str) -> list[kube.Event]:
        path = f"/api/v1/namespaces/{namespace}/events"
        return self.read_list(path, kube.Event, f"events of namespace {namespace}", fieldSelector="type=Warning")

    def named(self, namespace: str, api_version: str, plural: str) -> list[kube.Named]:
        """Return a namespace's objects of one kind; none if the cluster does not know the kind."""
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        return self._list_if_served(f"{root}/namespaces/{namespace}/{plural}", kube.Named, plural)

    def _list_if_served(self, path: str, item: type[T], what: str) -> list[T]:
        return or_none(lambda: self.read_list(path, item, what)) or []

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        query = urlencode({"container": container, "tailLines": str(lines)})
        answer = self._connection.ask(f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{query}", accept=ANY)
        if answer.status != 200:
            raise refusal(answer, f"the log of {pod}", self.server)
        return bytes(answer.body).decode(errors="replace")

    def create_namespace(self, name: str) -> str | None:
        """Write: create a namespace, as Helm would; return its uid, or None if it exists already."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}}
        answer = self._write("POST", "/api/v1/namespaces", made)
        return None if answer.status == 409 else self._decoded(answer, kube.Named, f"namespace {name}").metadata.uid

    def delete_namespace(self, name: str, uid: str) -> None:
        """Write: delete the namespace with this uid; ignore one that does not exist."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        answer = self._write("DELETE", f"/api/v1/namespaces/{name}", options)
        if answer.status not in (200, 202, 404):
            raise refusal(answer, f"namespace {name}", self.server)

    def delete_workload(self, resource: Resource, namespace: str) -> str | None:
        """Write: delete a workload in the foreground, so that it exists until its pods are gone.

        Returns its uid, or None if it does not exist.
        """
        found = self.workload(resource, namespace)
        if found is None:
            return None
        uid = found.metadata.uid
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        answer = self._write("DELETE", _path(resource, namespace), {**options, "preconditions": {"uid": uid}})
        what = f"{resource.kind} {resource.name}"
        if answer.status == 403:
            words = f"{what} may not be deleted by you; ask for a role that allows `delete` on {resource.kind.lower()}s"
            raise ForbiddenError(words)
        if answer.status not in (200, 202, 404):
            raise refusal(answer, what, self.server)
        return uid

    def annotate_pod(self, namespace: str, name: str, annotations: dict[str, str]) -> None:
        """Write: add annotations to a pod; ignore one that does not exist."""
        answer = self._write(
            "PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", {"metadata": {"annotations": annotations}}
        )
        if answer.status not in (200, 404):
            raise refusal(answer, f"pod {name}", self.server)

    def _write(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        return self._connection.ask(path, json.dumps(body).encode(), NO_RETRY, method=method)

    def _read(self, connection: Connection, path: str, item: type[T], what: str, query: dict[str, str]) -> list[T]:
        return again(lambda: list(Listing(self.server, path, item, what, query).items(connection)))

    def _review(self, group: str, kind: str, spec: dict[str, Any], what: str) -> ReviewStatus:
        """Post a review of the user's identity or rights; the API server stores nothing."""
        version = f"{group}.k8s.io/v1"
        question = json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
        return self._decoded(self._connection.ask(f"/apis/{version}/{kind.lower()}s", question), Review, what).status

    def _decoded(self, answer: Answer, form: type[T], what: str) -> T:
        return decoded(answer, msgspec.json.Decoder(form).decode, what, self.server)


def or_none(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None if the cluster does not have it."""
    try:
        return read()
    except NotFoundError:
        return None


def _path(resource: Resource, namespace: str) -> str:
    return f"/apis/{resource.api_version}/namespaces/{namespace}/{resource.kind.lower()}s/{resource.name}"


def connect(target: Target, say: Callable[[str], None] = console.say) -> Cluster:
    """Prepare to read the target's cluster; raise UnreachableError if its kubeconfig cannot be used.

    `say` receives a line whenever a request is tried again after a long pause.
    """
    return Cluster(target, say)
