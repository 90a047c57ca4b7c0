"""One connection to an API server: kept open, made anew when it breaks, patient with answers that say "later".

It stands on http.client, since a library on top costs half of the time in which a check is to ask its first question.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from io import BufferedReader
from time import monotonic, sleep
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from distrain import __version__, console
from distrain.apiserver import urls
from distrain.apiserver.access import Access
from distrain.apiserver.credentials import Credentials
from distrain.errors import UnreachableError
from distrain.kube.encoding import BEGINNING

CONNECT_SECONDS = 5
READ_SECONDS = 10
# What a server answers that has too much to do, restarts, or is not there behind its load balancer.
LATER = (429, 500, 502, 503, 504)
# The pauses between tries: half a minute in all, with the tries 40 s, in which a control plane of one node restarts.
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 14.0)
LONGEST = 40.0
# A pause of this length is worth a line.
WORTH_TELLING = 1.0
NEXT_STEP = "check KUBECONFIG and --kube-context"
BUFFER = 2**20
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Answer(Struct, frozen=True):
    """An HTTP answer. The body is good until the connection is asked twice more: somebody may read on meanwhile."""

    status: int
    body: memoryview
    retry_after: str | None = None


class Question(Struct, frozen=True):
    """An HTTP request; `hear` is called with the beginning of each answer 200 that comes in chunks."""

    method: str
    path: str
    body: bytes | None
    accept: str
    hear: Callable[[Answer], None] | None = None


class BrokenError(Exception):
    """The connection broke after it was made; the same question may be answered by the next one."""


class Patience:
    """How long one question may be tried again: a schedule without chance, and an end."""

    def __init__(self, pauses: Sequence[float] = PAUSES) -> None:
        self._pauses = list(pauses)
        self._left = LONGEST

    def wait(self, reason: str, spent: float, retry_after: str | None = None) -> bool:
        """Wait, and tell why where that takes long; False when there was enough of it, the time spent included."""
        self._left -= spent
        if not self._pauses:
            return False
        asked = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        pause = max(self._pauses.pop(0), asked)
        if pause > self._left:
            return False
        self._left -= pause
        if pause >= WORTH_TELLING:
            console.say(f"{reason}; trying again in {pause:g} s")
        sleep(pause)
        return True


# Of what is tried once.
IMPATIENT = Patience(())


class Connection:
    """A connection for one thread. Opened when it is first asked."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._http: _Http | None = None
        self._was_open = False
        self._buffer, self._other_buffer = bytearray(BUFFER), bytearray(BUFFER)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        patience: Patience | None = None,
        *,
        method: str = "",
        accept: str = JSON,
        hear: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Return the answer, which may be a refusal; raises UnreachableError when there is none.

        What changes something has a method of its own, and no patience: it is not to be done twice. Any other question
        with a body is one about ourselves, which may be asked twice. `hear` gets the beginning of a good answer while
        the rest is on its way, and again where it breaks off.
        """
        question = Question(method or ("GET" if body is None else "POST"), path, body, accept, hear)
        patience = patience or Patience()
        renewed = False
        while True:
            started = monotonic()
            try:
                answer = self._once(question, renewed)
            except BrokenError as error:
                if patience.wait(f"the connection to {self._access.server} broke ({error})", monotonic() - started):
                    continue
                raise self._unreachable(error) from error
            if answer.status == 401 and not renewed:
                # A token may have expired since it was read or granted.
                renewed = True
                self.close()
                continue
            told = f"{self._access.server} answers {answer.status}"
            if answer.status not in LATER or not patience.wait(told, monotonic() - started, answer.retry_after):
                return answer

    def close(self) -> None:
        if self._http:
            self._http.close()
            self._http = None

    def _once(self, question: Question, renewed: bool) -> Answer:
        # First of all: an exec plugin may give a certificate, which the connection needs.
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
                # With TLS 1.3 a server says only after the handshake that it does not take our certificate.
                raise self._unreachable(error) from error
            raise BrokenError(_cause(error)) from error
        except BaseException:
            # Ctrl-C: half an answer is on its way.
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
            # What never answered will hardly do so in a moment.
            raise self._unreachable(error) from error
        self._http, self._was_open = http, True
        return http

    def _unreachable(self, error: BaseException) -> UnreachableError:
        return UnreachableError(f"the cluster at {self._access.server} cannot be reached: {_cause(error)}; {NEXT_STEP}")

    def _read(self, response: HTTPResponse, hear: Callable[[Answer], None] | None) -> int:
        """Read the body into the buffer, and return its size.

        http.client would copy each piece twice more, of which a large list has one per item.
        """
        file = response.fp
        if not response.chunked or file is None:
            body = response.read()
            self._room(len(body))[: len(body)] = body
            return len(body)
        size, view = 0, self._room(0)
        while length := _chunk_length(file.readline()):
            # With its CRLF, which the next chunk takes the place of.
            end = size + length + 2
            if end > len(view):
                view = self._room(end)
            if file.readinto(view[size:end]) != length + 2:
                raise IncompleteRead(b"", length)
            size += length
            if hear and size >= BEGINNING:
                hear(Answer(200, view[:size]))
                hear = None
        while file.readline() not in (b"\r\n", b"\n", b""):
            pass
        response.close()
        return size

    def _room(self, size: int) -> memoryview:
        if size > len(self._buffer):
            # A new one: the old one may still be looked at.
            self._buffer = self._buffer + bytes(max(size, 2 * len(self._buffer)) - len(self._buffer))
        return memoryview(self._buffer)


class _Response(HTTPResponse):
    """An answer whose file has a buffer for many records of TLS, not for half of one."""

    def __init__(self, sock: socket.socket, *arguments: object, **options: object) -> None:
        super().__init__(sock, *arguments, **options)  # type: ignore[arg-type]
        self.fp.close()
        self.fp = cast(BufferedReader, sock.makefile("rb", BUFFER))


class _Http(HTTPConnection):
    """HTTP to the server, through its proxy if there is one, and within TLS."""

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
            # http.client would send it as Latin-1. A byte of the environment that is no UTF-8 stays what it is.
            self.putheader(name, value.encode(errors="surrogateescape"))
        if body is not None:
            self.putheader("Content-Type", MERGE_PATCH if question.method == "PATCH" else JSON)
            self.putheader("Content-Length", str(len(body)))
        self.endheaders(body)

    def _proxy_login(self) -> list[tuple[str, str]]:
        login = urls.login(self._proxy) if self._proxy else None
        return [("Proxy-Authorization", Credentials.basic(*login).authorization)] if login else []


def _chunk_length(line: bytes) -> int:
    try:
        # After a semicolon, which no API server writes, something of no use to us.
        return int(line.partition(b";")[0] if b";" in line else line, 16)
    except ValueError as error:
        raise IncompleteRead(line) from error


def _cause(error: BaseException) -> str:
    """Return the innermost reason, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"SSL: {error.verify_message}"
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(words).split())
