"""Hold one connection to an API server: keep it open, reconnect when it breaks, and retry on overload.

It uses http.client: an HTTP library on top would take half of the time before the first request.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BufferedReader
from time import monotonic, sleep
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from distrain import __version__
from distrain.apiserver import urls
from distrain.apiserver.access import Access
from distrain.apiserver.credentials import Credentials
from distrain.errors import UnreachableError, reason
from distrain.kube.pods import BEGINNING

CONNECT_SECONDS = 5
READ_SECONDS = 10
# Status codes of a server that is overloaded or restarting, or missing behind its load balancer.
LATER = (429, 500, 502, 503, 504)
# Pauses between tries in seconds: 30 s in all, 40 s with the tries. A control plane of one node restarts within that
# time.
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 14.0)
LONGEST = 40.0
# Pauses of at least this many seconds are logged.
WORTH_TELLING = 1.0
NEXT_STEP = "check KUBECONFIG and --kube-context"
BUFFER = 2**20
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Answer(Struct, frozen=True):
    """An HTTP response. Its body stays valid until the second request after it on the same connection."""

    status: int
    body: memoryview
    retry_after: str | None = None


class Question(Struct, frozen=True):
    """An HTTP request; `hear` is called with the beginning of each chunked 200 response."""

    method: str
    path: str
    body: bytes | None
    accept: str
    hear: Callable[[Answer], None] | None = None


class BrokenError(Exception):
    """The connection broke after it was established; a retry may succeed."""


class Backoff:
    """The retry schedule of one request: fixed pauses and a limit for the total time."""

    def __init__(self, pauses: Sequence[float] = PAUSES) -> None:
        self._pauses = list(pauses)
        self._left = LONGEST

    def next_pause(self, spent: float, retry_after: str | None = None) -> float | None:
        """Return the seconds to wait before a retry, None if no retry is left.

        `spent` is the time of the last try in seconds. `retry_after` is the response's header.
        """
        self._left -= spent
        if not self._pauses:
            return None
        asked = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        pause = max(self._pauses.pop(0), asked)
        if pause > self._left:
            return None
        self._left -= pause
        return pause


# For requests that are not retried.
NO_RETRY = Backoff(())


class Connection:
    """A connection for one thread, opened at the first request.

    `say` receives a line before each long pause for a retry.
    """

    def __init__(self, access: Access, say: Callable[[str], None] | None = None) -> None:
        self._access, self._say = access, say
        self._http: _Http | None = None
        self._was_open = False
        self._buffer, self._other_buffer = bytearray(BUFFER), bytearray(BUFFER)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        backoff: Backoff | None = None,
        *,
        method: str = "",
        accept: str = JSON,
        hear: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Send a request and return the response, which may be an error status; raise UnreachableError without one.

        Requests that change the cluster pass `method` and NO_RETRY, because they must not be repeated. A request with
        a body but without `method` is a review of the user, and may be repeated. `hear` gets the beginning of a 200
        response while the rest is being received, and again after a retry.
        """
        question = Question(method or ("GET" if body is None else "POST"), path, body, accept, hear)
        backoff = backoff or Backoff()
        renewed = False
        while True:
            started = monotonic()
            try:
                answer = self._once(question, renewed)
            except BrokenError as error:
                if self._waits(f"the connection to {self._access.server} broke ({error})", backoff, started):
                    continue
                raise self._unreachable(error) from error
            if answer.status == 401 and not renewed:
                # A token may have expired since it was read or granted.
                renewed = True
                self.close()
                continue
            told = f"{self._access.server} answers {answer.status}"
            if answer.status not in LATER or not self._waits(told, backoff, started, answer.retry_after):
                return answer

    def close(self) -> None:
        if self._http:
            self._http.close()
            self._http = None

    def _waits(self, reason: str, backoff: Backoff, started: float, retry_after: str | None = None) -> bool:
        """Wait before a retry; return False if no retry is left. `started` is when the last try began."""
        pause = backoff.next_pause(monotonic() - started, retry_after)
        if pause is None:
            return False
        if self._say and pause >= WORTH_TELLING:
            self._say(f"{reason}; trying again in {pause:g} s")
        sleep(pause)
        return True

    def _once(self, question: Question, renewed: bool) -> Answer:
        # Headers come first: an exec plugin may return a client certificate that the connection needs.
        headers = self._access.headers(renewed=renewed)
        http = self._http or self._open()
        self._buffer, self._other_buffer = self._other_buffer, self._buffer
        try:
            http.send_question(question, headers)
            response = http.getresponse()
            size = self._read(response, question.hear if response.status == 200 else None)
        except (HTTPException, OSError) as error:
            self.close()
            if "ALERT" in str(getattr(error, "reason", "")):
                # With TLS 1.3 a server rejects the client certificate only after the handshake.
                raise self._unreachable(error) from error
            raise BrokenError(_cause(error)) from error
        except BaseException:
            # After Ctrl-C, part of a response may still be in the connection.
            self.close()
            raise
        if response.will_close:
            self.close()
        return Answer(response.status, memoryview(self._buffer)[:size], response.headers.get("Retry-After"))

    def _open(self) -> _Http:
        http = _Http(self._access)
        try:
            http.connect()
        except (HTTPException, OSError, ValueError) as error:
            http.close()
            if self._was_open:
                raise BrokenError(_cause(error)) from error
            # A server that has never answered is not retried.
            raise self._unreachable(error) from error
        self._http, self._was_open = http, True
        return http

    def _unreachable(self, error: BaseException) -> UnreachableError:
        return UnreachableError(f"the cluster at {self._access.server} cannot be reached: {_cause(error)}; {NEXT_STEP}")

    def _read(self, response: HTTPResponse, hear: Callable[[Answer], None] | None) -> int:
        """Read the body into the buffer, and return its size in bytes.

        `read` would copy each chunk twice more, and a large list has one chunk per item.
        """
        if not response.chunked:
            body = response.read()
            self._room(len(body))[: len(body)] = body
            return len(body)
        size, view = 0, self._room(0)
        end = BEGINNING if hear else len(view)
        while count := response.readinto(view[size:end]):
            size += count
            if hear and size >= BEGINNING:
                hear(Answer(200, view[:size]))
                hear = None
            view = self._room(size + 1)
            end = len(view)
        return size

    def _room(self, size: int) -> memoryview:
        if size > len(self._buffer):
            # A new buffer: the caller may still read the old one.
            self._buffer = self._buffer + bytes(max(size, 2 * len(self._buffer)) - len(self._buffer))
        return memoryview(self._buffer)


class _Response(HTTPResponse):
    """A response with a read buffer for many TLS records instead of half a record."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(cast(socket.socket, _LargeReads(sock)), *arguments, **options)


class _LargeReads:
    """The part of a socket that HTTPResponse uses: a file to read from."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, mode: str) -> BufferedReader:
        return cast(BufferedReader, self._sock.makefile(mode, BUFFER))  # type: ignore[call-overload]


class _Http(HTTPConnection):
    """An HTTP connection to the server, through its proxy and with TLS if configured."""

    response_class = _Response

    def __init__(self, access: Access) -> None:
        self._access = access
        server = urlsplit(access.server)
        self._host = server.hostname or ""
        self._port = server.port or (443 if access.tls else 80)
        self._prefix = server.path
        self._proxy = urlsplit(access.proxy) if access.proxy else None
        via = (self._proxy.hostname or "", self._proxy.port or 80) if self._proxy else (self._host, self._port)
        super().__init__(*via, timeout=CONNECT_SECONDS)
        if self._proxy and access.tls:
            self.set_tunnel(self._host, self._port, dict(self._proxy_login()))

    def connect(self) -> None:
        super().connect()
        if self._access.tls:
            name = self._access.server_name or self._host
            self.sock = self._access.tls.wrap_socket(self.sock, server_hostname=name)
        self.sock.settimeout(READ_SECONDS)

    def send_question(self, question: Question, headers: list[tuple[str, str]]) -> None:
        url, body = self._prefix + question.path, question.body
        if self._proxy and not self._access.tls:
            url = f"{self._access.server}{question.path}"
            headers = [*headers, *self._proxy_login()]
        self.putrequest(question.method, url, skip_host=True, skip_accept_encoding=True)
        self.putheader("Host", urlsplit(self._access.server).netloc)
        self.putheader("Accept", question.accept)
        self.putheader("User-Agent", f"distrain/{__version__}")
        for name, value in headers:
            # http.client would encode a str as Latin-1. Bytes from the environment that are not UTF-8 are kept.
            self.putheader(name, value.encode(errors="surrogateescape"))
        if body is not None:
            self.putheader("Content-Type", MERGE_PATCH if question.method == "PATCH" else JSON)
            self.putheader("Content-Length", str(len(body)))
        self.endheaders(body)

    def _proxy_login(self) -> list[tuple[str, str]]:
        login = urls.login(self._proxy) if self._proxy else None
        return [("Proxy-Authorization", Credentials.basic(*login).authorization)] if login else []


def _cause(error: BaseException) -> str:
    """Return the innermost cause of an error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"SSL: {error.verify_message}"
    return reason(error) or type(error).__name__
