"""Run a fake Kubernetes API on loopback. Each test sets what the fake API answers."""

from __future__ import annotations

import base64
import gzip
import json
import queue
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, compress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import yaml

from lab.static_api import protobuf

Object = dict[str, Any]
T = TypeVar("T")

NAMESPACES, PODS = "/api/v1/namespaces/", "/api/v1/pods"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass
class FakeApi:
    """A fake API. `answers` maps paths to answers: a list is served page by page, and an int is an HTTP status.

    At first, the only namespace is `team`. The user is `jane`, who has all permissions except those in `denied`, such
    as "create mpijobs.kubeflow.org" or "get pods/log". A permission that ends with " everywhere" holds in all
    namespaces. A request for a path without an answer gets the HTTP status `otherwise`.

    `troubles` maps a path to a list of statuses for the next requests: 200 sends the normal answer, 0 cuts the
    connection, and any other status is sent instead of the answer. A request is carried out even if its connection is
    cut. `delays` maps a path to the number of seconds by which its answer is delayed. If `echoes` is set, error
    messages contain the headers of the request. If `garbage` is set, it is the body of every answer. `spoil` is a
    function that returns a changed status and body for an answer.

    `texts` maps a path to the text that is served there, such as a log. `watches` maps a path to a queue of changes. A
    watch of this path sends each change or line from its queue. If the queue contains a status, this status is sent
    instead of the watch. None in the queue ends the watch. Other watches send nothing. `stream` is a function that
    returns a status, or an answer in parts, which are sent one by one. If `stream` raises an exception, the connection
    is cut.

    `nodes_clock` is the number of seconds by which the nodes' clocks are ahead of this machine's clock. The times in
    `texts` come from the nodes' clocks. Lists in `in_protobuf` are sent as protobuf to clients that prefer protobuf to
    JSON.
    """

    answers: dict[str, Object | list[Object] | int] = field(
        default_factory=lambda: {
            "/api/v1/namespaces/team": {"kind": "Namespace", "metadata": {"name": "team"}},
            PRIORITY_CLASSES: [],
        }
    )
    denied: Container[str] = ()
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    headers: list[Message] = field(default_factory=list)
    connections: int = 0
    otherwise: int = 404
    in_protobuf: dict[str, list[bytes]] = field(default_factory=dict)
    troubles: dict[str, list[int]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    echoes: bool = False
    garbage: str = ""
    texts: dict[str, bytes] = field(default_factory=dict)
    watches: dict[str, queue.Queue[Object | bytes | int | None]] = field(default_factory=dict)
    stream: Callable[[str, dict[str, list[str]]], Iterator[bytes] | int | None] = lambda path, query: None
    spoil: Callable[[str, int, bytes], tuple[int, bytes]] | None = None
    retry_after: str = ""
    nodes_clock: float = 0
    in_chunks: bool = False
    url: str = ""

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        return write_kubeconfig(folder, self.url, **user)

    def serve_mpi_jobs(self) -> None:
        self.serve("v2beta1", "MPIJob")

    def serve(self, version: str, *kinds: str) -> None:
        """Make the fake API serve these kinds of `kubeflow.org` in one version."""
        self.serve_group("kubeflow.org", {version: kinds})

    def serve_group(self, group: str, versions: Mapping[str, Sequence[str]]) -> None:
        """Serve an API group. `versions` maps an API version to the kinds that it serves."""
        self.answers["/version"] = {"gitVersion": "v1.34.4"}
        self.answers[f"/apis/{group}"] = {"versions": [{"groupVersion": f"{group}/{version}"} for version in versions]}
        for version, kinds in versions.items():
            names = {kind: f"{kind.lower()}s" for kind in kinds}
            resources = [{"name": name, "kind": kind} for kind, name in names.items()]
            scales = [{"name": f"{name}/scale", "kind": "Scale"} for name in names.values()]
            self.answers[f"/apis/{group}/{version}"] = {"resources": resources + scales}

    def create_namespace(self, made: Object) -> None:
        """Create a namespace unless it exists. Answer with the new namespace, or with status 409 if it exists."""
        path = f"/api/v1/namespaces/{made['metadata']['name']}"
        exists = path in self.answers
        self.answers.setdefault(path, {**made, "metadata": {**made["metadata"], "uid": f"uid-{len(self.requests)}"}})
        self.answers["/api/v1/namespaces"] = 409 if exists else self.answers[path]

    def delete(self, path: str) -> None:
        """Remove an object, so that the fake API no longer returns it."""
        if isinstance(self.answers.get(path), dict):
            del self.answers[path]

    def answer(self, path: str, query: dict[str, list[str]], posted: Object | None = None) -> tuple[int, Object]:
        trouble = self.troubles[path].pop(0) if self.troubles.get(path) else 200
        found = self.answers.get(path, self._labelled_pods(path, query)) if trouble == 200 else trouble
        if posted and found == self.otherwise and path.endswith("reviews"):
            return 201, {"status": {"userInfo": {"username": "jane"}, "allowed": self._may(posted["spec"])}}
        if isinstance(found, int):
            return found, {"kind": "Status", "message": f"{path} is refused with {found}", "code": found}
        if isinstance(found, dict):
            return 200, found
        return 200, _page(found, query)

    def _labelled_pods(self, path: str, query: dict[str, list[str]]) -> list[Object] | int:
        """From the list of all pods, return those of the path's namespace that have the label in the query."""
        namespace, pods = path.removeprefix(NAMESPACES).partition("/"), self.answers.get(PODS)
        key, _, value = query.get("labelSelector", [""])[0].partition("=")
        if namespace[2] != "pods" or not key or not isinstance(pods, list):
            return self.otherwise
        found = (pod["metadata"] for pod in pods)
        wanted = [each["namespace"] == namespace[0] and each.get("labels", {}).get(key) == value for each in found]
        return list(compress(pods, wanted))

    def _may(self, spec: Object) -> bool:
        asked = spec.get("resourceAttributes")
        if not asked:
            return True
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked["subresource"] else "")
        name = f"{resource}.{asked['group']}" if asked["group"] else resource
        return f"{asked['verb']} {name}{'' if asked['namespace'] else ' everywhere'}" not in self.denied


@contextmanager
def running(certificate: Path | None = None, *, client_authority: Path | None = None) -> Iterator[FakeApi]:
    """Serve the API. `certificate` is a file with a certificate and key for TLS.

    `client_authority` requires client certificates.
    """
    api = FakeApi()
    server = _Server(("127.0.0.1", 0), _handler(api))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if client_authority:
            context.load_verify_locations(client_authority)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    api.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


def make_certificate(path: Path) -> None:
    """Write a self-signed certificate for loopback, and its key, into one file."""
    where = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    where += ["-keyout", str(path), "-out", f"{path}.crt"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(["openssl", "req", "-x509", *key, *where], check=True, capture_output=True)
    with path.open("a") as both:
        both.write(Path(f"{path}.crt").read_text())


def write_kubeconfig(
    folder: Path, server: str, *, name: str = "kubeconfig", cluster: Mapping[str, Any] | None = None, **user: Any
) -> Path:
    path = folder / name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", "namespace": "team"}}],
        "current-context": "fake",
    }
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


def releases(*secrets: Object) -> Object:
    """Return a list of Secrets, as Helm reads it to find its releases."""
    return {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": list(secrets)}


def release_secret(
    name: str,
    status: str,
    *,
    version: int = 1,
    manifest: str = "",
    values: Object | None = None,
    chart: Object | None = None,
    labels: Mapping[str, str] | None = None,
    apply_method: str = "csa",
) -> Object:
    """Return the Secret in which Helm would store a revision of a release with these values and this chart."""
    info = {"status": status, "first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00Z"}
    parts = {"config": values or {}, "manifest": manifest, "chart": chart or {"metadata": {}}}
    parts["apply_method"] = apply_method
    release = {"name": name, "namespace": "team", "version": version, "info": info, **parts}
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    labels = {"name": name, "owner": "helm", "status": status, "version": str(version), **(labels or {})}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{version}", "namespace": "team", "labels": labels}
    return {"metadata": metadata, "type": "helm.sh/release.v1", "data": {"release": packed}}


def _page(items: list[Object], query: dict[str, list[str]]) -> Object:
    chosen = [item for item in items if _is_labelled(item, query.get("labelSelector", [""])[0])]
    selected = [item for item in chosen if _selected(item, query.get("fieldSelector", [""])[0])]
    found, token = _cut(selected, query)
    metadata = {"resourceVersion": "1", **({"continue": token} if token else {})}
    return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": found}


def _cut(items: list[T], query: dict[str, list[str]]) -> tuple[list[T], str]:
    """Return the items of the requested page, and the token with which a client requests the next page."""
    start = int(query.get("continue", ["0"])[0])
    end = start + int(query.get("limit", ["100000"])[0])
    return items[start:end], str(end) if end < len(items) else ""


def _since(log: bytes, query: dict[str, list[str]], clock: float) -> bytes:
    """Remove log lines that are older than `sinceSeconds`, measured by the clock of the kubelet."""
    if "sinceSeconds" not in query:
        return log
    first = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + clock - int(query["sinceSeconds"][0])))
    return b"".join(line for line in log.splitlines(keepends=True) if line >= first.encode())


def _is_labelled(item: Object, selector: str) -> bool:
    """Tell whether a selector such as a=b,c=d selects the object. Objects without `labels` match every selector."""
    labels = (item.get("metadata") or {}).get("labels")
    terms = [term.partition("=") for term in selector.split(",") if term]
    return labels is None or all(labels.get(key) == value for key, _, value in terms)


def _selected(item: Object, selector: str) -> bool:
    """Apply a field selector's terms about spec.nodeName; "" means pods without a node. Ignore other terms."""
    node, terms = item.get("spec", {}).get("nodeName", ""), selector.split(",")
    named = [term.partition("=")[2] for term in terms if term.startswith("spec.nodeName=")]
    return f"spec.nodeName!={node}" not in terms and (not named or node == named[0])


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback if a client closes its connection."""


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"api": api})


class _Handler(BaseHTTPRequestHandler):
    """Handles HTTP requests to one fake API."""

    api: FakeApi
    server: _Server
    protocol_version = "HTTP/1.1"
    # Nagle's algorithm would delay each response by 40 ms: its body would wait for the acknowledgement of its headers.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.api.connections += 1

    def handle_any(self) -> None:
        self.note()
        api, parts = self.api, urlsplit(self.path)
        query = parse_qs(parts.query)
        posted = self.posted(parts.path)
        if "watch" in query:
            self.send_changes(api.watches.get(parts.path, queue.Queue()))
            return
        # An entry in `troubles` for this path takes precedence over `stream`.
        streamed = None if api.troubles.get(parts.path) else api.stream(parts.path, query)
        if streamed is not None and not isinstance(streamed, int):
            self.send_parts(streamed)
            return
        status, answer = api.answer(parts.path, query, posted)
        status = status if streamed is None else streamed
        time.sleep(api.delays.get(parts.path, 0))
        if self.command == "DELETE":
            api.delete(parts.path)
        if status == 0:
            self.close_connection = True
            return
        self.send_answer(parts.path, query, status, answer)

    def note(self) -> None:
        """Record the request, so that the test can inspect it."""
        self.api.requests.append(f"{self.command} {self.path}")
        self.api.headers.append(self.headers)
        self.api.authorizations.append(self.headers.get("Authorization", ""))
        self.api.accepted.append(self.headers.get("Accept", ""))

    def posted(self, path: str) -> Object | None:
        """Read the request's body. If the request creates a namespace, create it in the fake API.

        If the request is an access review, return its body.
        """
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if (self.command, path) == ("POST", "/api/v1/namespaces"):
            self.api.create_namespace(json.loads(sent))
        # Helm sends other bodies, which need not be JSON, so do not parse them.
        return json.loads(sent) if path.endswith("reviews") else None

    def send_answer(self, path: str, query: dict[str, list[str]], status: int, answer: Object) -> None:
        api = self.api
        status, body = self.body(path, query, status, answer)
        self.send_response(status)
        if api.retry_after:
            self.send_header("Retry-After", api.retry_after)
        is_accepted = self.headers.get("Accept", "").startswith(protobuf.MEDIA_TYPE)
        if status == 200 and is_accepted and path in api.in_protobuf:
            self.send_header("Content-Type", protobuf.MEDIA_TYPE)
            items, token = _cut(api.in_protobuf[path], query)
            self.send_body(protobuf.page(items, token))
        else:
            self.send_header("Content-Type", "application/json")
            self.send_body(body)

    def body(self, path: str, query: dict[str, list[str]], status: int, answer: Object) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        api = self.api
        if api.echoes and status >= 400:
            answer = {**answer, "apiVersion": "v1", "status": "Failure"}
            answer = {**answer, "message": f"{answer['message']}; headers: {dict(self.headers)}"}
        body = (api.garbage or json.dumps(answer, separators=(",", ":"))).encode()
        if status == 404 and path in api.texts:
            status, body = 200, _since(api.texts[path], query, api.nodes_clock)
        return api.spoil(path, status, body) if api.spoil else (status, body)

    def send_changes(self, changes: queue.Queue[Object | bytes | int | None]) -> None:
        change = self.next_change(changes)
        self.start_chunks(change if isinstance(change, int) else 200)
        while isinstance(change, dict | bytes):
            self.send_chunk((change if isinstance(change, bytes) else json.dumps(change).encode()) + b"\n")
            change = self.next_change(changes)
        self.wfile.write(b"0\r\n\r\n")

    def next_change(self, changes: queue.Queue[Object | bytes | int | None]) -> Object | bytes | int | None:
        """Return the next change, or None once the server has been closed, so that this thread ends."""
        while self.server.fileno() != -1:
            with suppress(queue.Empty):
                return changes.get(timeout=0.5)
        self.close_connection = True
        return None

    def send_parts(self, parts: Iterator[bytes]) -> None:
        first = next(parts, b"")
        self.start_chunks(200)
        for part in chain([first], parts):
            if part:
                self.send_chunk(part)
        self.wfile.write(b"0\r\n\r\n")

    def send_body(self, body: bytes) -> None:
        if not self.api.in_chunks:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(body), 1000):
            self.send_chunk(body[start : start + 1000])
        self.wfile.write(b"0\r\n\r\n")

    def start_chunks(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass
