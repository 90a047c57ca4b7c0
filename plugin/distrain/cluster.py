"""Read a Kubernetes cluster. What is posted are questions; the few methods that write say so, and have no callers but
those that change a release.

Answers are decoded with msgspec straight into `kube`'s structs, page by page, and the next page is on its way
meanwhile: the pods of a large cluster are a gigabyte, of which nothing is kept but what somebody makes of it.
"""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from distrain import kube
from distrain.access import access
from distrain.connection import IMPATIENT, JSON, NEXT_STEP, Answer, Connection, Patience
from distrain.errors import DistrainError, ForbiddenError, UnreachableError
from distrain.kube_pods import CountedPod
from distrain.reader import Reader, is_worthwhile
from distrain.target import Target

PAGE_SIZE = 500
# How many lists are asked for at once, where there are many small ones.
CONNECTIONS = 4
# A list is kept for minutes by its server; one that expires this often is read too slowly.
TRIES = 3
# The groups whose served versions decide what the chart renders.
GROUPS = ("kubeflow.org", "monitoring.coreos.com")
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
ANY = "*/*"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# A list ends its metadata before its items begin.
ITEMS = b',"items":['

T = TypeVar("T")


class Head(msgspec.Struct):
    """What stands before the items of a list."""

    metadata: kube.PageMetadata = msgspec.field(default_factory=kube.PageMetadata)


HEAD = msgspec.json.Decoder(Head)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the chart asks of a cluster: its version, and the APIs of GROUPS as `group/version` and with `/Kind`."""

    version: str
    apis: tuple[str, ...]


class NotFoundError(UnreachableError):
    """The cluster has no such thing."""


class ExpiredError(UnreachableError):
    """The server no longer has the state of which it gave the first pages of a list."""


class Cluster:
    """A cluster reached with the user's kubeconfig, or as the pod that we run in."""

    def __init__(self, target: Target) -> None:
        self._access = access(target)
        self._connections: list[Connection] = []
        self._own = threading.local()
        self._nodes: _Ahead | None = None

    @property
    def _connection(self) -> Connection:
        """The thread's own connection."""
        if self._nodes:
            # Whoever asks for the nodes has it until the answer is there.
            self._nodes.result()
        if not hasattr(self._own, "connection"):
            self._own.connection = Connection(self._access)
        connection: Connection = self._own.connection
        return connection

    @property
    def server(self) -> str:
        return self._access.server

    def version(self) -> str:
        return self._get("/version", kube.Version, "its version").git_version

    def capabilities(self) -> Capabilities:
        return Capabilities(self.version(), tuple(api for group in GROUPS for api in self.served(group)))

    def served(self, group: str) -> list[str]:
        """Return the group's APIs as `group/version` and with `/Kind`; none where the cluster lacks the group."""
        return list(self._served(group))

    def begin_nodes(self) -> None:
        """Ask for the nodes while the caller does something else."""
        connection = self._connection
        self._nodes = _Ahead(self._read_nodes, connection)

    def nodes(self) -> list[kube.Node]:
        begun, self._nodes = self._nodes, None
        found: list[kube.Node] = begun.result() if begun else self._read_nodes(self._connection)
        return found

    def _read_nodes(self, connection: Connection) -> list[kube.Node]:
        return _again(lambda: list(self._pages(connection, "/api/v1/nodes", kube.Node, "nodes", {})))

    def over_pods(self, use: Callable[[Iterator[CountedPod]], T], nodes: Sequence[str] | None = None) -> T:
        """Return what `use` makes of every pod, of all namespaces, that has not ended.

        With `nodes` it is of the pods on those nodes, and of the ones that have none. A list that expires on the way
        is read from the start, and `use` called anew: no pod counts twice.
        """
        read = self.pods if nodes is None else lambda: self._pods_on(nodes)
        return _again(lambda: use(read()))

    def pods(self) -> Iterator[CountedPod]:
        """Yield every pod, of all namespaces, that has not ended; raises ExpiredError where `over_pods` begins anew."""
        return self._pods(self._connection, {"fieldSelector": NOT_ENDED}, long=True)

    def _pods_on(self, nodes: Sequence[str]) -> Iterator[CountedPod]:
        """Ask per node, which a server answers from its memory; an empty name stands for the pods without a node."""
        names = iter([*nodes, ""])
        # Each connection takes a name after the other.
        asked = [_Ahead(self._pods_of, connection, names) for connection in self._several()]
        for ahead in asked:
            yield from ahead.result()

    def _pods_of(self, connection: Connection, names: Iterator[str]) -> list[CountedPod]:
        selectors = (f"spec.nodeName={name},{NOT_ENDED}" for name in names)
        lists = (self._pods(connection, {"resourceVersion": "0", "fieldSelector": selector}) for selector in selectors)
        return [pod for pods in lists for pod in pods]

    def _pods(self, connection: Connection, query: dict[str, str], *, long: bool = False) -> Iterator[CountedPod]:
        return self._pages(connection, "/api/v1/pods", CountedPod, "pods of all namespaces", query, long=long)

    def _several(self) -> list[Connection]:
        while len(self._connections) < CONNECTIONS:
            self._connections.append(Connection(self._access))
        return self._connections

    def deployments(self) -> list[kube.Workload]:
        return self._list("/apis/apps/v1/deployments", kube.Workload, "deployments of all namespaces")

    def storage_classes(self) -> list[kube.StorageClass]:
        return self._list("/apis/storage.k8s.io/v1/storageclasses", kube.StorageClass, "storage classes")

    def namespaces(self) -> list[kube.Named]:
        return self._list("/api/v1/namespaces", kube.Named, "namespaces")

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
        return self._list(path, item, what)

    def read_one(self, path: str, answer: type[T], what: str) -> T:
        """Raises NotFoundError when the cluster has no such object."""
        return self._get(path, answer, what)

    def read_metadata(self, path: str, what: str) -> kube.Named:
        """Return an object's metadata alone: of a Secret no key is sent."""
        return self._decoded(self._connection.ask(path, accept=METADATA), msgspec.json.Decoder(kube.Named), what)

    def workload(self, api_version: str, kind: str, namespace: str, name: str) -> kube.Workload:
        """Raises NotFoundError when the cluster has none."""
        path = f"/apis/{api_version}/namespaces/{namespace}/{kind.lower()}s/{name}"
        return self._get(path, kube.Workload, f"{kind} {name}")

    def release_pods(self, namespace: str, release: str) -> list[kube.Pod]:
        selector = f"app.kubernetes.io/instance={release}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        return self._list(path, kube.Pod, f"pods of namespace {namespace}", labelSelector=selector)

    def warnings(self, namespace: str) -> list[kube.Event]:
        path = f"/api/v1/namespaces/{namespace}/events"
        return self._list(path, kube.Event, f"events of namespace {namespace}", fieldSelector="type=Warning")

    def named(self, namespace: str, api_version: str, plural: str) -> list[kube.Named]:
        """Return a namespace's objects of one kind; none where the cluster does not know the kind."""
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        try:
            return self._list(f"{root}/namespaces/{namespace}/{plural}", kube.Named, plural)
        except NotFoundError:
            return []

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log."""
        query = urlencode({"container": container, "tailLines": str(lines)})
        answer = self._connection.ask(f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{query}", accept=ANY)
        if answer.status != 200:
            raise self._refusal(answer, f"the log of {pod}")
        return bytes(answer.body).decode(errors="replace")

    def create_namespace(self, name: str) -> str | None:
        """Write: make a namespace, as Helm would, and return its uid, or None when it is there already."""
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}}
        answer = self._write("POST", "/api/v1/namespaces", made)
        if answer.status == 409:
            return None
        return self._decoded(answer, msgspec.json.Decoder(kube.Named), f"namespace {name}").metadata.uid

    def delete_namespace(self, name: str, uid: str) -> None:
        """Write: delete this very namespace; one that is gone already is fine."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        answer = self._write("DELETE", f"/api/v1/namespaces/{name}", options)
        if answer.status not in (200, 202, 404):
            raise self._refusal(answer, f"namespace {name}")

    def annotate_pod(self, namespace: str, name: str, annotations: dict[str, str]) -> None:
        """Write: give a pod annotations; one that is gone is fine."""
        answer = self._write(
            "PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", {"metadata": {"annotations": annotations}}
        )
        if answer.status not in (200, 404):
            raise self._refusal(answer, f"pod {name}")

    def _write(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        return self._connection.ask(path, json.dumps(body).encode(), IMPATIENT, method=method)

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

    def _list(self, path: str, item: type[T], what: str, **query: str) -> list[T]:
        return _again(lambda: list(self._pages(self._connection, path, item, what, query)))

    def _pages(
        self, connection: Connection, path: str, item: type[T], what: str, query: dict[str, str], *, long: bool = False
    ) -> Iterator[T]:
        """Yield a list's items, a page at a time, while the next page is read; for a long list by another process.

        The state that the first page tells of is that of all; raises ExpiredError when the server has it no more.
        """
        decoder = msgspec.json.Decoder(kube.Page[item])  # type: ignore[valid-type]
        patience = Patience()

        def ask(token: str | None) -> Answer:
            paging = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            return connection.ask(f"{path}?{urlencode({**query, **paging})}", patience=patience)

        def items(answer: Answer) -> Sequence[T]:
            # Of a long list nobody keeps an item, so its text may be overwritten by the page after the next.
            kept = answer if long else replace(answer, body=memoryview(bytes(answer.body)))
            return self._decoded(kept, decoder, what).items or ()

        def next_token(answer: Answer) -> str | None:
            return self._continuation(answer, what)

        answer = ask(None)
        token = next_token(answer)
        if not token:
            yield from items(answer)
            return
        reader = None
        if long and is_worthwhile():
            # The process goes on with this connection, which is of no more use to us.
            reader = Reader(ask, next_token, token)
            connection.close()
        try:
            with _no_collection():
                while True:
                    following = (reader.page if reader else _Ahead(ask, token).result) if token else None
                    yield from items(answer)
                    if following is None:
                        return
                    answer = following()
                    if answer.status == 410:
                        raise ExpiredError(f"{what}: the list expired while it was read; try again")
                    token = next_token(answer)
        finally:
            if reader:
                reader.close()

    def _continuation(self, answer: Answer, what: str) -> str | None:
        """Return the token of the next page, which stands in a list's head: the whole of it is yet to be decoded."""
        if answer.status != 200:
            raise self._refusal(answer, what)
        head, items, _ = bytes(answer.body[:4096]).partition(ITEMS)
        start = head + b"}" if items else answer.body
        return self._decoded(Answer(200, memoryview(start)), HEAD, what).metadata.next or None

    def _review(self, group: str, kind: str, spec: dict[str, Any], what: str) -> kube.ReviewStatus:
        """Ask the cluster about ourselves. It keeps nothing of such a review."""
        version = f"{group}.k8s.io/v1"
        question = {"apiVersion": version, "kind": kind, "spec": spec}
        return self._ask(f"/apis/{version}/{kind.lower()}s", kube.Review, what, question).status

    def _get(self, path: str, answer: type[T], what: str) -> T:
        return self._ask(path, answer, what)

    def _ask(self, path: str, answer: type[T], what: str, question: dict[str, Any] | None = None) -> T:
        body = None if question is None else json.dumps(question).encode()
        return self._decoded(self._connection.ask(path, body), msgspec.json.Decoder(answer), what)

    def _decoded(self, answer: Answer, decoder: msgspec.json.Decoder[T], what: str) -> T:
        if answer.status not in (200, 201):
            raise self._refusal(answer, what)
        try:
            return decoder.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UnreachableError(f"{self.server} answers like no Kubernetes: {error}; {NEXT_STEP}") from error

    def _refusal(self, answer: Answer, what: str) -> DistrainError:
        status, words = answer.status, _message(bytes(answer.body))
        if status == 404:
            return NotFoundError(f"{what}: {words}")
        if status == 401:
            return UnreachableError(f"the cluster at {self.server} does not accept your credentials; {NEXT_STEP}")
        if status == 403:
            return ForbiddenError(f"{what} cannot be read: {words}; ask for a role that allows `list` on them")
        return UnreachableError(f"{what} cannot be read: {self.server} answers {status}: {words}; try again")


def connect(target: Target) -> Cluster:
    """Prepare to read the target's cluster; raises UnreachableError when its kubeconfig cannot be used."""
    return Cluster(target)


class _Ahead(threading.Thread):
    """A call that is made while its caller does something else."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        super().__init__(daemon=True)
        self._call: Callable[[], Any] = partial(call, *arguments)
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        self.join()
        if self._error:
            raise self._error
        return self._result


def _again(read: Callable[[], T]) -> T:
    """Read, from the start where the list expired in the middle."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except ExpiredError:
            continue
    return read()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for cycles, of which decoded JSON has none, after every few hundred objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _message(body: bytes) -> str:
    """Return the words of a Kubernetes Status, or the start of whatever a proxy in between answered."""
    try:
        return msgspec.json.decode(body, type=kube.Status).message or "no reason given"
    except msgspec.DecodeError:
        return _line(body[:200].decode(errors="replace"))


def _line(words: object) -> str:
    return " ".join(str(words).split())
