"""Test the connection to an API server: keep-alive, reconnection, retries and proxies."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from distrain.apiserver import connection
from distrain.apiserver.access import access
from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.connection import JSON, LONGEST, Connection
from distrain.apiserver.pages import PAGE_SIZE, TRIES
from distrain.apiserver.target import Target
from distrain.errors import UnreachableError
from distrain.pods.counted_pod import BEGINNING, PROTOBUF, CountedPod
from lab.static_api import protobuf
from lab.waiting import wait_until
from tests.plugin.fake_api import FakeApi, make_certificate, running, write_kubeconfig
from tests.plugin.objects import Object, node, pod

PODS = "/api/v1/pods"
# A list of the pods in NAMES has three pages. The plugin starts two processes to read three pages.
NAMES = [f"p{number}" for number in range(2 * PAGE_SIZE + 1)]


def _cluster(api: FakeApi, folder: Path, **cluster: object) -> Cluster:
    return connect(_target(api, folder, **cluster))


def _target(api: FakeApi, folder: Path, **cluster: object) -> Target:
    return Target(str(write_kubeconfig(folder, api.url, cluster=cluster)), "fake", "team")


def _pod(name: str, on: str = "") -> Object:
    """Return a pod in a namespace of the same name, so that a test can recognize the pod by its namespace."""
    found = pod(name, on=on)
    return {**found, "metadata": {**found["metadata"], "namespace": name}}


def _pods() -> list[Object]:
    return [_pod(name, on="a") for name in NAMES]


def _names(pods: Iterator[CountedPod]) -> list[str]:
    return [found.namespace for found in pods]


@pytest.fixture
def three_pages(api: FakeApi) -> FakeApi:
    api.answers[PODS] = _pods()
    return api


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain.apiserver.pages._has_processors", lambda: False)


@pytest.fixture(params=[True, False], ids=["two", "one"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the plugin believe that the machine has two processors, or only one.

    With two processors, the plugin reads a long list in two processes.
    """
    monkeypatch.setattr("distrain.apiserver.pages._has_processors", lambda: request.param)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("distrain.apiserver.connection.sleep", found.append)
    return found


@pytest.mark.usefixtures("one_process")
def test_one_connection_serves_all_questions_of_a_process(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.answers["/api/v1/nodes"] = [node("a")]
    cluster = _cluster(three_pages, tmp_path)

    cluster.nodes()
    cluster.over_pods(list)

    assert (len(three_pages.requests), three_pages.connections) == (4, 1)


@pytest.mark.usefixtures("one_process")
def test_list_in_chunks_is_read_whole(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.in_chunks = True

    names = _cluster(three_pages, tmp_path).over_pods(_names)

    assert sorted(names) == sorted(NAMES)
    assert three_pages.connections == 1


def test_first_chunk_of_a_response_is_read_before_its_end_arrives(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.in_chunks = True
    heard: list[bytes] = []
    reading = Connection(access(Target(str(write_kubeconfig(tmp_path, three_pages.url)), "fake", "team")))

    answer = reading.ask(PODS, hear=lambda beginning: heard.append(bytes(beginning.body)))

    [beginning] = heard
    assert BEGINNING <= len(beginning) < len(answer.body)
    assert bytes(answer.body).startswith(beginning)


def test_page_is_read_into_the_memory_of_the_last_one(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.in_chunks = True
    reading = Connection(access(Target(str(write_kubeconfig(tmp_path, three_pages.url)), "fake", "team")))

    one, other = (reading.ask(PODS, hear=lambda beginning: None) for _ in range(2))

    assert one.body.obj is other.body.obj


def test_page_larger_than_the_buffer_is_read_whole(api: FakeApi, tmp_path: Path) -> None:
    big = _pod("big") | {"metadata": {"namespace": "big", "annotations": {"a": "x" * 3_000_000}}}
    api.answers[PODS] = [big, _pod("small")]

    for api.in_chunks in (False, True):
        assert _cluster(api, tmp_path).over_pods(_names) == ["big", "small"]


def test_list_that_expires_is_read_from_the_start(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.troubles[PODS] = [200, 200, 410]

    names = _cluster(three_pages, tmp_path).over_pods(_names)

    assert sorted(names) == sorted(NAMES)
    assert ["continue=" in request for request in three_pages.requests] == [False, True, True, False, True, True]


def test_list_that_expires_again_and_again_is_an_error(three_pages: FakeApi, tmp_path: Path) -> None:
    three_pages.troubles[PODS] = [200, 410] * TRIES

    with pytest.raises(
        UnreachableError,
        match=r"^pods of all namespaces: the API server's list expired while distrain read it; try "
        r"ag",
    ):
        _cluster(three_pages, tmp_path).over_pods(_names)


@pytest.mark.parametrize("status", [0, 429, 500, 502, 503, 504])
def test_page_that_fails_is_asked_for_again(three_pages: FakeApi, tmp_path: Path, status: int) -> None:
    three_pages.troubles[PODS] = [200, status, status]

    names = _cluster(three_pages, tmp_path).over_pods(_names)

    assert sorted(names) == sorted(NAMES)


@pytest.mark.usefixtures("processes")
def test_each_page_is_tried_again_on_its_own(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr("distrain.apiserver.pages.PAGE_SIZE", 1)
    api.answers[PODS] = [_pod(f"p{number}", on="a") for number in range(100)]
    # The list has 100 pages. Every 8th request fails with 429, and the plugin must repeat it.
    api.troubles[PODS] = ([200] * 7 + [429]) * 15

    names = _cluster(api, tmp_path).over_pods(_names)

    assert sorted(names) == sorted(f"p{number}" for number in range(100))
    assert len(api.requests) > 110


def test_slow_server_is_waited_for_and_asked_once(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"], api.delays["/api/v1/nodes"] = [node("a")], 1.2

    for request_timeout in (5, 0):
        assert len(connect(_target(api, tmp_path), request_timeout=request_timeout).nodes()) == 1

    assert len(api.requests) == 2


def test_server_slower_than_the_limit_is_asked_once(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"], api.delays["/api/v1/nodes"] = [node("a")], 1.2

    with pytest.raises(
        UnreachableError, match=r"timed out; check KUBECONFIG .*, or wait longer with --request-timeout$"
    ):
        connect(_target(api, tmp_path), request_timeout=0.2).nodes()

    # The server may read the request only after the client has given up.
    wait_until("the request", lambda: bool(api.requests))
    assert len(api.requests) == 1


@pytest.mark.full
def test_first_byte_after_eleven_seconds_is_waited_for(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"], api.delays["/api/v1/nodes"] = [node("a")], 11

    assert len(_cluster(api, tmp_path).nodes()) == 1

    assert len(api.requests) == 1


def test_limit_of_a_request_is_longer_than_the_servers_own() -> None:
    # The default of kube-apiserver's --request-timeout is 60 s.
    assert connection.REQUEST_SECONDS > 60


def test_refused_request_is_not_repeated(api: FakeApi, tmp_path: Path, pauses: list[float]) -> None:
    api.answers[PODS] = 403

    with pytest.raises(UnreachableError):
        _cluster(api, tmp_path).over_pods(_names)

    assert (len(api.requests), pauses) == (1, [])


@pytest.mark.parametrize("status", [0, 503])
def test_waiting_outlasts_an_outage_of_half_a_minute(
    api: FakeApi, tmp_path: Path, pauses: list[float], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers[PODS] = status

    with pytest.raises(UnreachableError, match=r"cannot be (read|reached): "):
        _cluster(api, tmp_path).over_pods(_names)

    assert pauses == sorted(pauses)
    assert 30 < sum(pauses) <= LONGEST
    # For each pause of at least 1 s, the plugin prints a line. For shorter pauses, it prints nothing.
    told = capsys.readouterr().err.splitlines()
    assert len(told) == sum(pause >= 1 for pause in pauses)
    assert all(line.startswith("distrain: ") and "; trying again in " in line for line in told)


def test_server_says_how_long_to_wait(
    api: FakeApi, tmp_path: Path, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers[PODS] = [pod("a")]
    api.troubles[PODS], api.retry_after = [429], "3"

    _cluster(api, tmp_path).over_pods(_names)

    assert pauses == [3]
    assert capsys.readouterr().err == f"distrain: {api.url} answers 429; trying again in 3 s\n"


def test_longer_wait_than_ours_is_the_end(api: FakeApi, tmp_path: Path, pauses: list[float]) -> None:
    api.troubles[PODS], api.retry_after = [429], "3600"

    with pytest.raises(UnreachableError, match="answers 429"):
        _cluster(api, tmp_path).over_pods(_names)

    assert pauses == []


def test_pods_of_a_few_nodes_are_asked_for_by_node(api: FakeApi, tmp_path: Path) -> None:
    api.answers[PODS] = [_pod("a1", on="a"), _pod("b1", on="b"), _pod("c1", on="c"), _pod("waits")]

    names = _cluster(api, tmp_path).over_pods(_names, ["a", "c"])

    assert sorted(names) == ["a1", "c1", "waits"]
    assert len(api.requests) == 3
    assert all("resourceVersion=0" in request for request in api.requests)


def test_failure_beside_others_is_reported(api: FakeApi, tmp_path: Path) -> None:
    api.answers[PODS] = 403

    with pytest.raises(UnreachableError, match="ask for a role that allows `get` and `list`"):
        _cluster(api, tmp_path).over_pods(_names, ["a", "b", "c", "d", "e"])


@pytest.mark.usefixtures("processes")
def test_every_page_is_read_once_by_one_process_and_by_two(three_pages: FakeApi, tmp_path: Path) -> None:
    cluster = _cluster(three_pages, tmp_path)

    for _ in range(2):
        assert sorted(cluster.over_pods(_names)) == sorted(NAMES)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("in_chunks", [True, False])
def test_list_is_read_in_protobuf_after_its_first_page(three_pages: FakeApi, tmp_path: Path, in_chunks: bool) -> None:
    three_pages.in_protobuf[PODS] = protobuf.pods(_pods())
    three_pages.in_chunks = in_chunks

    names = _cluster(three_pages, tmp_path).over_pods(_names)

    assert sorted(names) == sorted(NAMES)
    assert [accepted.split(",")[0] for accepted in three_pages.accepted] == [JSON, PROTOBUF, PROTOBUF]


def test_page_that_is_no_list_of_pods_is_reported(three_pages: FakeApi, tmp_path: Path) -> None:
    for broken in (b"\x0a\x05", b"\x12\x09\x05"):
        three_pages.in_protobuf[PODS] = [broken] * len(NAMES)

        with pytest.raises(UnreachableError, match=r"does not answer like Kubernetes: .*; check KUBECONFIG"):
            _cluster(three_pages, tmp_path).over_pods(_names)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("troubles", "words"),
    [
        pytest.param([200, 403], "ask for a role that allows `get` and `list`", id="refused"),
        pytest.param([200, *[0] * 20], "cannot be reached: Remote end closed connection", id="broken"),
        pytest.param([200, 410] * TRIES, "the API server's list expired while distrain read it", id="expired"),
    ],
)
def test_failure_in_the_middle_of_a_list_is_reported(
    three_pages: FakeApi, tmp_path: Path, troubles: list[int], words: str
) -> None:
    three_pages.troubles[PODS] = list(troubles)

    with pytest.raises(UnreachableError, match=words):
        _cluster(three_pages, tmp_path).over_pods(_names)


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """Run a proxy on loopback, and record its requests and the password that it received."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(f"CONNECT {self.path} {self.headers.get('Proxy-Authorization', '')}".strip())
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port))) as upstream:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_copy, args=(upstream, self.connection), daemon=True)
                back.start()
                _copy(self.connection, upstream)

        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            with urlopen(self.path) as answer:
                body = answer.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # The thread that copies in the other direction may have closed both sockets.
        while data := source.recv(65536):
            target.sendall(data)


def test_proxy_of_the_cluster_is_used(api: FakeApi, tmp_path: Path, proxy: tuple[str, list[str]]) -> None:
    api.answers["/api/v1/nodes"] = [node("a")]
    url, asked = proxy

    assert len(_cluster(api, tmp_path, **{"proxy-url": url}).nodes()) == 1

    assert asked == [f"GET {api.url}/api/v1/nodes?limit={PAGE_SIZE}"]


def test_proxy_that_does_not_answer_is_named_without_its_login(api: FakeApi, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError) as refused:
        _cluster(api, tmp_path, **{"proxy-url": "http://me:hidden@127.0.0.1:1"}).nodes()

    assert str(refused.value) == (
        f"the cluster at {api.url} cannot be reached through the proxy http://127.0.0.1:1: Connection refused; "
        "check proxy-url of KUBECONFIG, HTTPS_PROXY and NO_PROXY, and --kube-context"
    )


def test_tls_goes_through_a_proxy_that_asks_for_a_password(tmp_path: Path, proxy: tuple[str, list[str]]) -> None:
    make_certificate(tmp_path / "tls.pem")
    url, asked = proxy
    with running(tmp_path / "tls.pem") as api:
        api.answers["/api/v1/nodes"] = [node("a")]
        settings = {"proxy-url": url.replace("//", "//me:p%40ss@"), "certificate-authority": str(tmp_path / "tls.pem")}

        assert len(_cluster(api, tmp_path, **settings).nodes()) == 1

    password = base64.b64encode(b"me:p@ss").decode()
    assert asked == [f"CONNECT {api.url.removeprefix('https://')} Basic {password}"]
