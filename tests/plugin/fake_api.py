"""A Kubernetes API on loopback that answers with what a test gives it, for tests that are about something else."""

from __future__ import annotations

import base64
import gzip
import json
import ssl
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Object = dict[str, Any]


@dataclass
class FakeApi:
    """Answers by path; a list is served page by page, an int is an HTTP status to refuse with.

    The caller is `jane`, who may do all but what is `denied`, such as "create mpijobs.kubeflow.org" and "get pods/log";
    with " everywhere" at the end it is about all namespaces.
    """

    answers: dict[str, Object | list[Object] | int] = field(default_factory=dict)
    denied: Collection[str] = ()
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    url: str = ""

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        return write_kubeconfig(folder, self.url, **user)

    def serve_mpi_jobs(self) -> None:
        self.serve("v2beta1", "MPIJob")

    def serve(self, version: str, *kinds: str) -> None:
        """Be a cluster of an operator with one version of these kinds."""
        self.serve_group("kubeflow.org", {version: kinds})

    def serve_group(self, group: str, versions: Mapping[str, Sequence[str]]) -> None:
        """Be a cluster that serves these kinds of a group, by version."""
        self.answers["/version"] = {"gitVersion": "v1.34.4"}
        self.answers[f"/apis/{group}"] = {"versions": [{"groupVersion": f"{group}/{version}"} for version in versions]}
        for version, kinds in versions.items():
            names = {kind: f"{kind.lower()}s" for kind in kinds}
            resources = [{"name": name, "kind": kind} for kind, name in names.items()]
            scales = [{"name": f"{name}/scale", "kind": "Scale"} for name in names.values()]
            self.answers[f"/apis/{group}/{version}"] = {"resources": resources + scales}

    def answer(self, path: str, query: dict[str, list[str]], posted: Object | None = None) -> tuple[int, Object]:
        found = self.answers.get(path, 404)
        if posted and found == 404 and path.endswith("reviews"):
            return 201, {"status": {"userInfo": {"username": "jane"}, "allowed": self._may(posted["spec"])}}
        if isinstance(found, int):
            return found, {"kind": "Status", "message": f"{path} is refused with {found}", "code": found}
        if isinstance(found, dict):
            return 200, found
        return 200, _page(found, query)

    def _may(self, spec: Object) -> bool:
        asked = spec.get("resourceAttributes")
        if not asked:
            return True
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked["subresource"] else "")
        name = f"{resource}.{asked['group']}" if asked["group"] else resource
        return f"{asked['verb']} {name}{'' if asked['namespace'] else ' everywhere'}" not in self.denied


@contextmanager
def running(certificate: Path | None = None) -> Iterator[FakeApi]:
    """Serve, with TLS where a file holds the certificate and its key."""
    api = FakeApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
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
    """Write a certificate for loopback, signed by itself, and its key into one file."""
    where = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", f"{path}.crt"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(["openssl", "req", "-x509", *key, *where], check=True, capture_output=True)
    with path.open("a") as both:
        both.write(Path(f"{path}.crt").read_text())


def write_kubeconfig(folder: Path, server: str, *, name: str = "kubeconfig", **user: Any) -> Path:
    path = folder / name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", "namespace": "team"}}],
        "current-context": "fake",
    }
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


def releases(*secrets: Object) -> Object:
    """The list of Secrets in which Helm looks for releases."""
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
) -> Object:
    """The Secret in which Helm keeps a revision of a release: of these values of the user's, and of this chart."""
    info = {"status": status, "first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00Z"}
    parts = {"config": values or {}, "manifest": manifest, "chart": chart or {"metadata": {}}}
    release = {"name": name, "namespace": "team", "version": version, "info": info, **parts}
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    labels = {"name": name, "owner": "helm", "status": status, "version": str(version), **(labels or {})}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{version}", "namespace": "team", "labels": labels}
    return {"metadata": metadata, "type": "helm.sh/release.v1", "data": {"release": packed}}


def _page(items: list[Object], query: dict[str, list[str]]) -> Object:
    start = int(query.get("continue", ["0"])[0])
    end = start + int(query.get("limit", ["100000"])[0])
    metadata = {"continue": str(end)} if end < len(items) else {}
    return {"kind": "List", "apiVersion": "v1", "items": items[start:end], "metadata": metadata}


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            api.requests.append(f"{self.command} {self.path}")
            api.authorizations.append(self.headers.get("Authorization", ""))
            api.accepted.append(self.headers.get("Accept", ""))
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            # Helm posts other things in other forms.
            posted = json.loads(body) if parts.path.endswith("reviews") else None
            status, answer = api.answer(parts.path, parse_qs(parts.query), posted)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
