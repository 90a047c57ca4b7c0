"""Read a Kubernetes cluster. The docstring of each method that changes the cluster says so first.

Only the package `release` and `progress.hostfile` call these methods. All other methods change nothing: their POST
requests only ask the API server about the user's name and rights. Responses are decoded with msgspec directly into the
structs of `kube`.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from distrain import console, kube
from distrain.apiserver import paths
from distrain.apiserver.access import access
from distrain.apiserver.capabilities import Capabilities
from distrain.apiserver.connection import CONNECTIONS, FEW_RETRIES, JSON, RETRIES, Answer, Connection
from distrain.apiserver.pages import Ahead, Listing, PodListing, Sum, again
from distrain.apiserver.responses import (
    Group,
    ResourceList,
    Review,
    ReviewStatus,
    Version,
    decoded,
    no_kubernetes,
    no_log,
    refusal,
)
from distrain.apiserver.target import Target
from distrain.apiserver.watch import Listed, Watch
from distrain.errors import ForbiddenError, NotFoundError
from distrain.kube import form
from distrain.kube.decoders import decoder
from distrain.kube.quantities import QuantityError, allocatable
from distrain.kube.resource import Resource
from distrain.pods.counted_pod import CountedPod
from distrain.pods.pods_json import JsonPod

NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
ANY = "*/*"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

T = TypeVar("T")
U = TypeVar("U")


class Cluster:
    """A cluster, which is reached with the user's kubeconfig or from a pod in the cluster; `target` says how."""

    def __init__(self, target: Target, say: Callable[[str], None], request_timeout: float | None = None) -> None:
        self.target = target
        self._access = access(target)
        self._open = partial(Connection, self._access, say, request_timeout)
        self._opened = self._open()
        self._nodes: Ahead | None = None
        self._version = ""

    @property
    def _connection(self) -> Connection:
        if self._nodes:
            # The requests of `begin_nodes` run in another thread. Wait for their end before another request is sent:
            # otherwise both would run the exec plugin for credentials.
            self._nodes.result()
        return self._opened

    def hurry(self, until: float = math.inf, *, asks_again: bool = True) -> None:
        """Let requests take no longer than `until`, a time of the monotonic clock.

        With `asks_again`, the caller itself repeats failed requests later, so each request has only a few retries.
        """
        self._connection.hurry(until, FEW_RETRIES if asks_again else RETRIES)

    @property
    def server(self) -> str:
        return self._access.server

    def version(self) -> str:
        """Ask the API server for its version, even if the version is known.

        The answer also shows that the server can be reached.
        """
        try:
            self._version = self.read_one("/version", Version, "its version").git_version
        except NotFoundError as error:
            raise no_kubernetes(self.server, str(error)) from error
        return self._version

    def known_version(self) -> str:
        """Return the API server's version; ask for it only if that has not been done before."""
        return self._version or self.version()

    def capabilities(self, groups: Sequence[str]) -> Capabilities:
        return Capabilities(self.known_version(), tuple(api for group in groups for api in self.served(group)))

    def served(self, group: str) -> list[str]:
        """Return the group's APIs as `group/version` and `group/version/Kind`.

        Return [] if the cluster does not serve the group.
        """
        found = []
        try:
            versions = self.read_one(f"/apis/{group}", Group, f"the API group {group}").versions or []
        except NotFoundError:
            return []
        for name in (version.group_version for version in versions):
            found += [name, *(f"{name}/{kind}" for kind in self.kinds(name))]
        return found

    def begin_kinds(self, api_version: str) -> Callable[[], list[str]]:
        """Start to read the kinds of an API version in the background; return a function that waits for them."""
        return Ahead(self.kinds, api_version).result

    def kinds(self, api_version: str) -> list[str]:
        """Return the kinds of an API version, or [] if the cluster does not serve this version."""
        found = self.read_optional(f"/apis/{api_version}", ResourceList, api_version)
        resources = (found.resources if found else None) or ()
        return [resource.kind for resource in resources if "/" not in resource.name]

    def begin_nodes(self) -> None:
        """Start to read the nodes in the background; `nodes` waits for them."""
        self._nodes = Ahead(self._read_nodes, self._opened)

    def nodes(self) -> list[kube.Node]:
        begun, self._nodes = self._nodes, None
        found: list[kube.Node] = begun.result() if begun else self._read_nodes(self._connection)
        return found

    def _read_nodes(self, connection: Connection) -> list[kube.Node]:
        try:
            return self._read(connection, "/api/v1/nodes", kube.Node, "nodes", {})
        except NotFoundError as error:
            raise no_kubernetes(self.server, str(error)) from error

    def node_images(self) -> list[kube.NodeImages]:
        """Return the images that each node has pulled."""
        return self._read(self._connection, "/api/v1/nodes", kube.NodeImages, "nodes", {})

    def over_pods(
        self,
        use: Callable[[Iterator[CountedPod]], Sum],
        nodes: Sequence[str] | None = None,
        namespaces: Sequence[str] = (),
    ) -> Sum:
        """Pass all pods that have not ended, of all namespaces and in no fixed order, to `use`; return its result.

        With `nodes`, read only pods on these nodes, pods without a node, and all pods of `namespaces`. For a large
        cluster, a second process handles a part of the pods, and the sum of the two results is returned. If a list
        expires before its end, everything is read again and `use` is called again, so that no pod is counted twice.
        """
        use_all = partial(self._understood, "pods of all namespaces", use)
        if nodes is not None:
            return again(lambda: use_all(chain(self._pods_on(nodes), self._pods_elsewhere(namespaces, nodes))))
        return again(lambda: self._pods(NOT_ENDED).used((self._connection, self._open()), use_all))

    def pods(self) -> Iterator[CountedPod]:
        """Yield all pods that have not ended, of all namespaces; raise ExpiredError if the list expires too early."""
        return self._pods(NOT_ENDED).items(self._connection)

    def _pods_on(self, nodes: Sequence[str]) -> Iterator[CountedPod]:
        """Yield the pods on these nodes and the pods without a node.

        Each node's pods are read with a separate request, because the API server answers such requests from its cache.
        """
        names = iter([*nodes, ""])
        # All threads take their next node name from one shared iterator.
        connection = self._connection
        asked = [Ahead(self._pods_of, connection, names) for _ in range(CONNECTIONS)]
        for ahead in asked:
            yield from ahead.result()

    def _pods_elsewhere(self, namespaces: Sequence[str], nodes: Sequence[str]) -> Iterator[CountedPod]:
        """Yield the pods of these namespaces that run on a node which is not one of `nodes`."""
        for namespace in namespaces:
            others = ",".join(f"spec.nodeName!={name}" for name in (*nodes, ""))
            path, what = f"{paths.namespace(namespace)}/pods", f"pods of namespace {namespace}"
            query = {"fieldSelector": f"{others},{NOT_ENDED}"}
            yield from PodListing(self.server, path, JsonPod, what, query).items(self._connection)

    def _pods_of(self, connection: Connection, names: Iterator[str]) -> list[CountedPod]:
        lists = (self._pods(f"spec.nodeName={name},{NOT_ENDED}", resourceVersion="0") for name in names)
        return [pod for pods in lists for pod in pods.items(connection)]

    def _pods(self, selector: str, **query: str) -> Listing[CountedPod]:
        query["fieldSelector"] = selector
        return PodListing(self.server, "/api/v1/pods", JsonPod, "pods of all namespaces", query)

    def user(self) -> str:
        """Return the user's name in the cluster; raise NotFoundError if Kubernetes is older than 1.28."""
        return self._review("authentication", "SelfSubjectReview", {}, "your user").user_info.username

    def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Tell whether RBAC allows the user this verb.

        `resource` may name a subresource after a slash, for example pods/log. An empty namespace means all namespaces.
        """
        plural, _, subresource = resource.partition("/")
        names = {"resource": plural, "subresource": subresource, "group": group}
        attributes = {**names, "verb": verb, "namespace": namespace}
        spec = {"resourceAttributes": attributes}
        return self._review("authorization", "SelfSubjectAccessReview", spec, "your rights").allowed

    def read_list(self, path: str, item: type[T], what: str, **query: str) -> list[T]:
        """Return the objects of a list; `what` names them in messages."""
        return self._read(self._connection, path, item, what, query)

    def each(self, path: str, item: type[T], what: str, **query: str) -> Iterator[T]:
        """Yield the objects of a list page by page; raise ExpiredError if the list expires before its end."""
        return Listing(self.server, path, item, what, query).items(self._connection)

    def watch(self, path: str, item: type[T], what: str, changed: threading.Event, **query: str) -> Watch[T]:
        """Keep the objects of a list up to date in the background; set `changed` after each change."""
        return Watch(self._connection, Listed(self.server, path, item, what, query), changed)

    def read_one(self, path: str, answer: type[T], what: str, accept: str = JSON) -> T:
        """Return one object, or with METADATA only its metadata; raise NotFoundError if it does not exist."""
        return self._decoded(self._connection.ask(path, accept=accept), answer, what)

    def read_optional(self, path: str, answer: type[T], what: str, accept: str = JSON) -> T | None:
        """Return one object as read_one does, or None if the object does not exist."""
        return or_none(lambda: self.read_one(path, answer, what, accept))

    def has(self, path: str, what: str) -> bool:
        """Tell whether the object exists.

        Only the object's metadata is read, so that the plugin never reads the content of a Secret.
        """
        return self.read_optional(path, kube.Named, what, METADATA) is not None

    def workload(self, resource: Resource, namespace: str) -> kube.Workload | None:
        """Return the object, or None if it does not exist."""
        what = f"{resource.kind} {resource.name}"
        return self.read_optional(_path(resource, namespace), kube.Workload, what)

    def workloads(self, api_version: str, kind: str, namespace: str) -> list[kube.Workload]:
        """Return a namespace's objects of a kind that creates pods, or [] if the cluster does not serve the kind."""
        return self._list_if_served(paths.of_kind(api_version, kind, namespace), kube.Workload, f"{kind.lower()}s")

    def release_pods(self, namespace: str, release: str) -> list[kube.Pod]:
        return self._labelled_pods(namespace, f"app.kubernetes.io/instance={release}")

    def chart_pods(self, namespace: str) -> list[kube.Pod]:
        """Return the pods of all releases of the chart."""
        return self._labelled_pods(namespace, "app.kubernetes.io/name=distrain")

    def namespace_pods(self, namespace: str) -> list[kube.Pod]:
        """Return the pods of a namespace, including pods that have ended."""
        return self.read_list(f"{paths.namespace(namespace)}/pods", kube.Pod, f"pods of namespace {namespace}")

    def _labelled_pods(self, namespace: str, selector: str) -> list[kube.Pod]:
        pods = f"{paths.namespace(namespace)}/pods"
        return self.read_list(pods, kube.Pod, f"pods of namespace {namespace}", labelSelector=selector)

    def warnings(self, namespace: str) -> list[kube.Event]:
        events = f"{paths.namespace(namespace)}/events"
        return self.read_list(events, kube.Event, f"events of namespace {namespace}", fieldSelector="type=Warning")

    def named(self, namespace: str, api_version: str, plural: str) -> list[kube.Named]:
        """Return a namespace's objects of one kind, or [] if the cluster does not serve the kind."""
        return self._list_if_served(f"{paths.namespace(namespace, api_version)}/{plural}", kube.Named, plural)

    def _list_if_served(self, path: str, item: type[T], what: str) -> list[T]:
        return or_none(lambda: self.read_list(path, item, what)) or []

    def log(
        self, namespace: str, pod: str, container: str, lines: int, *, timestamps: bool = False, since: int = 0
    ) -> str:
        """Return the last lines of a container's log; with `timestamps`, each line begins with its time stamp.

        With `since`, return only the lines of the last `since` seconds by kubelet's clock. Raises NoLogError if there
        is no such log.
        """
        query = {"container": container, "tailLines": str(lines)}
        query |= {"timestamps": "true"} if timestamps else {}
        query |= {"sinceSeconds": str(since)} if since else {}
        answer = self._connection.ask(f"{paths.pod(namespace, pod)}/log?{urlencode(query)}", accept=ANY)
        if answer.status != 200:
            raise no_log(answer, f"the log of {pod}", self.server)
        return bytes(answer.body).decode(errors="replace")

    def log_parts(self, namespace: str, pod: str, **query: str) -> Iterator[bytes]:
        """Return the parts of a container's log as they arrive; `query` holds the log parameters of the API.

        Raises NoLogError if there is no such log.
        """
        stream = self._connection.stream(f"{paths.pod(namespace, pod)}/log?{urlencode(query)}", 0, accept=ANY)
        if stream.answer.status != 200:
            raise no_log(stream.answer, f"the log of {pod}", self.server)
        return stream.parts

    def create_namespace(self, name: str, annotations: dict[str, str]) -> str | None:
        """Change the cluster: create a namespace, as Helm would, with these annotations. Return its uid.

        Returns None if a namespace of this name exists but has other annotations. If the namespace has the same
        annotations, an earlier attempt created it, and only the response was lost.
        """
        metadata = {"name": name, "labels": {"name": name}, "annotations": annotations}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        answer, what = self._write("POST", "/api/v1/namespaces", made), f"namespace {name}"
        if answer.status != 409:
            return self._decoded(answer, kube.Named, what).metadata.uid
        try:
            found = self.read_one(paths.namespace(name), kube.Named, what, METADATA).metadata
        except (ForbiddenError, NotFoundError):
            return None
        return found.uid if annotations.items() <= (found.annotations or {}).items() else None

    def delete_namespace(self, name: str, uid: str) -> None:
        """Change the cluster: delete the namespace with this uid. Do nothing if the namespace is missing."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        answer = self._write("DELETE", paths.namespace(name), options)
        if answer.status not in (200, 202, 404):
            raise refusal(answer, f"namespace {name}", self.server)

    def delete_workload(self, resource: Resource, namespace: str) -> str | None:
        """Change the cluster: delete a workload in the foreground, so that the object exists until its pods are gone.

        Returns the uid of the workload, or None if the workload does not exist.
        """
        found = self.workload(resource, namespace)
        if found is None:
            return None
        uid = found.metadata.uid
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        answer = self._write("DELETE", _path(resource, namespace), {**options, "preconditions": {"uid": uid}})
        what = f"{resource.kind} {resource.name}"
        if answer.status == 403:
            role = f"a role that allows `delete` on {resource.kind.lower()}s"
            raise ForbiddenError(f"you have no permission to delete {what}; ask for {role}")
        if answer.status not in (200, 202, 404):
            raise refusal(answer, what, self.server)
        return uid

    def annotate_pod(self, namespace: str, name: str, annotations: dict[str, str]) -> None:
        """Change the cluster: add annotations to a pod. Do nothing if the pod is missing."""
        answer = self._write("PATCH", paths.pod(namespace, name), {"metadata": {"annotations": annotations}})
        if answer.status not in (200, 404):
            raise refusal(answer, f"pod {name}", self.server)

    def _write(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        return self._connection.ask(path, json.dumps(body).encode(), method=method)

    def _read(self, connection: Connection, path: str, item: type[T], what: str, query: dict[str, str]) -> list[T]:
        found = again(lambda: list(Listing(self.server, path, item, what, query).items(connection)))
        self._understood(what, _look_at_nodes if item is kube.Node else form.refuse_odd_amounts, found)
        return found

    def _understood(self, what: str, use: Callable[[T], U], found: T) -> U:
        """Return `use(found)`.

        Raise UnreachableError if a part of the server's response has a wrong form, so that `use` cannot decode it.
        """
        try:
            return use(found)
        except (msgspec.DecodeError, QuantityError) as error:
            raise no_kubernetes(self.server, f"{what}: {form.why(error)}") from error

    def _review(self, group: str, kind: str, spec: dict[str, Any], what: str) -> ReviewStatus:
        """Post a review of the user's identity or rights; the API server stores nothing."""
        version = f"{group}.k8s.io/v1"
        question = json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
        return self._decoded(self._connection.ask(f"/apis/{version}/{kind.lower()}s", question), Review, what).status

    def _decoded(self, answer: Answer, form: type[T], what: str) -> T:
        return decoded(answer, decoder(form).decode, what, self.server)


def or_none(read: Callable[[], T]) -> T | None:
    """Return the result of `read`, or None if the cluster does not have the object."""
    try:
        return read()
    except NotFoundError:
        return None


def _look_at_nodes(nodes: Sequence[Any]) -> None:
    for node in nodes:
        allocatable(node)


def _path(resource: Resource, namespace: str) -> str:
    return paths.of_kind(resource.api_version, resource.kind, namespace, resource.name)


def connect(target: Target, say: Callable[[str], None] = console.say, request_timeout: float | None = None) -> Cluster:
    """Prepare to read the cluster of the target; raise UnreachableError if its kubeconfig cannot be used.

    `say` receives a line whenever a request is repeated after a long pause. A request fails if the server does not
    answer for `request_timeout` seconds; 0 means no limit.
    """
    return Cluster(target, say, request_timeout)
