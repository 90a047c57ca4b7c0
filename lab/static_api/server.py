"""Serve the objects of a large cluster as kube-apiserver would, to measure how fast a client reads them.

`python -m lab.static_api.server FOLDER FORM` serves the objects of `lab.static_api.objects` over TLS. A client reads
them page by page: all objects of a kind, or only the pods of one node. The server sends nodes as JSON. It sends pods as
protobuf if FORM is `protobuf` and the client accepts it, otherwise as JSON. FOLDER holds `server.pem`. The server
prints its port once it listens.
"""

from __future__ import annotations

import json
import mmap
import ssl
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lab.static_api import protobuf
from lab.static_api.objects import NODES, PODS_PER_NODE, Items, node_name, nodes, pods, pods_in_protobuf

PODS = "/api/v1/pods"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUP = "kubeflow.org"
VERSION = "v1"
DISCOVERY = {
    "/version": {"gitVersion": "v1.34.4"},
    f"/apis/{GROUP}": {"versions": [{"groupVersion": f"{GROUP}/{VERSION}"}]},
    f"/apis/{GROUP}/{VERSION}": {"resources": [{"name": "pytorchjobs", "kind": "PyTorchJob"}]},
}
# A client asks at this path when the server received the first request since the client last asked.
FIRST = "/first-request"


class Listing:
    """The chunks of all items of a list, mapped into memory."""

    media_type = "application/json"

    def __init__(self, items: Items) -> None:
        with items.path.open("rb") as file:
            self._chunks = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._offsets, self._sizes = items.offsets, items.sizes

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def page(self, start: int, stop: int, token: str) -> Iterator[bytes | memoryview]:
        """Yield the chunks for one page of items."""
        following = f',"continue":"{token}"' if token else ""
        head = f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"{following}}},"items":['
        yield _chunk(head.encode())
        if start < stop:
            yield self._between(start, stop - 1)
            # JSON allows no comma after the last item of a page.
            yield _chunk(bytes(self._between(stop - 1, stop)).partition(b"\r\n")[2].removesuffix(b",\r\n"))
        yield _chunk(b"]}\n")

    def _between(self, start: int, stop: int) -> memoryview:
        return self._chunks[self._offsets[start] : self._offsets[stop]]


class ProtobufListing(Listing):
    media_type = protobuf.MEDIA_TYPE

    def page(self, start: int, stop: int, token: str) -> Iterator[bytes | memoryview]:
        yield _chunk(protobuf.head(self._sizes[stop] - self._sizes[start], token))
        yield self._between(start, stop)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, certificate: Path, form: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lists = {"/api/v1/nodes": Listing(nodes()), PODS: Listing(pods())}
        self.pods_in_protobuf = ProtobufListing(pods_in_protobuf()) if form == "protobuf" else None
        self.numbers = {node_name(number): number for number in range(NODES)}
        self.first_request: float | None = None
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # As in kube-apiserver. With Nagle's algorithm, the server would send the end of a response only after the client
    # has acknowledged the beginning.
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        # Do the TLS handshake in this thread. A slow handshake in the accept loop would delay all other connections.
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == FIRST:
            first, self.server.first_request = self.server.first_request, None
            self._answer(200, {"monotonic": first})
            return
        self.server.first_request = self.server.first_request or time.monotonic()
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path in self.server.lists:
            self._list(self._accepted(url.path), query)
        elif url.path in DISCOVERY:
            self._answer(200, DISCOVERY[url.path])
        elif url.path.startswith("/api/v1/namespaces/") or url.path == PRIORITY_CLASSES:
            self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []})
        else:
            self._answer(404, {"kind": "Status", "message": f"{url.path} not found", "code": 404})

    def _list(self, listing: Listing, query: dict[str, str]) -> None:
        start, end = self._selected(len(listing), query.get("fieldSelector", ""))
        start += int(query.get("continue", 0))
        stop = min(end, start + int(query.get("limit", end)))
        self.send_response(200)
        self.send_header("Content-Type", listing.media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunks in listing.page(start, stop, str(stop) if stop < end else ""):
            self.wfile.write(chunks)
        self.wfile.write(b"0\r\n\r\n")

    def _accepted(self, path: str) -> Listing:
        pods = self.server.pods_in_protobuf
        if pods and path == PODS and self.headers.get("Accept", "").startswith(protobuf.MEDIA_TYPE):
            return pods
        return self.server.lists[path]

    def _selected(self, count: int, selector: str) -> tuple[int, int]:
        """Return the range of items that a field selector matches.

        Only a selector by spec.nodeName makes a difference: all pods run and have a node, so any other selector matches
        all.
        """
        for term in selector.split(","):
            if term.startswith("spec.nodeName="):
                number = self.server.numbers.get(term.partition("=")[2])
                return (0, 0) if number is None else (number * PODS_PER_NODE, (number + 1) * PODS_PER_NODE)
        return 0, count

    def _answer(self, status: int, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


def main() -> None:
    folder, form = sys.argv[1:]
    with Server(Path(folder) / "server.pem", form) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
