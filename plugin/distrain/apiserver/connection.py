"""Send requests to an API server with urllib3, and retry where the server is overloaded or the connection breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import urllib3
from msgspec import Struct
from urllib3.exceptions import HTTPError, InsecureRequestWarning, InvalidHeader, ReadTimeoutError
from urllib3.util import Retry, Timeout

from distrain import __version__
from distrain.apiserver import urls
from distrain.apiserver.access import Access
from distrain.apiserver.credentials import Credentials
from distrain.errors import UnreachableError, reason
from distrain.pods.counted_pod import BEGINNING

CONNECT_SECONDS = 5
# Wait longer than kube-apiserver, which ends a slow request after 60 s. The error from kube-apiserver says more than a
# timeout of the plugin.
REQUEST_SECONDS = 65
# The body of an answer is read in parts of at most PART bytes.
PART = 2**16
# Number of threads that send requests at the same time.
CONNECTIONS = 4
# Number of connections that stay open for further requests, including the connections of watches and followed logs.
KEPT = 24
# A request is repeated after these status codes: the server is overloaded or restarting, or a load balancer finds no
# server.
LATER = (429, 500, 502, 503, 504)
# The pauses before the retries are 0, 0.5, 1, 2, 4, 8 and 16 s: in this half a minute, the control plane of a single
# node can restart.
RETRIES, FIRST_PAUSE, LONGEST_PAUSE = 7, 0.25, 16
# No retry starts later than LONGEST seconds after the first attempt.
LONGEST = 40.0
# A caller that repeats the whole request itself gets FEW_RETRIES retries (after pauses of 0 and 0.5 s). Each request of
# such a caller may take LEAST_SECONDS, even if the caller's deadline has passed.
FEW_RETRIES, LEAST_SECONDS = 2, 2.0
# Pauses of at least WORTH_TELLING seconds are logged.
WORTH_TELLING = 1.0
# OpenSSL gives one of these reasons if the server answers without TLS. The reason depends on OpenSSL's version.
WITHOUT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")
NEXT_STEP = "check KUBECONFIG and --kube-context"
OF_PROXY = "check proxy-url of KUBECONFIG, HTTPS_PROXY and NO_PROXY, and --kube-context"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

# The user has chosen not to check the API server's certificate, so no warning is printed; kubectl prints none either.
urllib3.disable_warnings(InsecureRequestWarning)


class Answer(Struct, frozen=True):
    """An HTTP response.

    All requests with a `hear` function write the response's body into the same memory. So such a body is valid only
    until the next request with a `hear` function.
    """

    status: int
    body: memoryview


class Stream(Struct, frozen=True):
    """A response that comes in parts.

    `answer` has the status. With status 200, `parts` yields the body; with any other status, `answer` has the body.
    """

    answer: Answer
    parts: Iterator[bytes]


class Question(Struct, frozen=True):
    """An HTTP request.

    `hear` is called with the beginning of a long 200 response, while the rest of the response is still being received.
    """

    method: str
    path: str
    body: bytes | None
    accept: str
    hear: Callable[[Answer], None] | None = None


class Connection:
    """Connections to one API server, which threads share; a forked process needs its own.

    `say` receives a line before each long pause for a retry. A request fails if the server needs more than `seconds` to
    accept the connection, or then sends no byte for `seconds`; 0 means no limit.
    """

    def __init__(self, access: Access, say: Callable[[str], None] | None = None, seconds: float | None = None) -> None:
        self._access, self._say = access, say
        connect, read = (CONNECT_SECONDS, REQUEST_SECONDS) if seconds is None else (seconds or None,) * 2
        self._seconds = {"connect": connect, "read": read}
        self._pools = _pools(access)
        self._memory = _Memory()
        self._has_answered = False
        self._most_retries, self._until = RETRIES, math.inf

    def hurry(self, until: float, retries: int) -> None:
        """Let all requests end by `until` (a time of the monotonic clock), with at most `retries` retries."""
        self._most_retries, self._until = retries, until

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "",
        accept: str = JSON,
        hear: Callable[[Answer], None] | None = None,
        retries: int = RETRIES,
    ) -> Answer:
        """Send a request and return the response, whatever its status is.

        Raise UnreachableError if there is no response.

        Any request may be sent more than once, so a request that changes the cluster must be idempotent. For a request
        that changes the cluster, the caller sets `method`. A request with a `body` but without a `method` only asks
        about the user's name or rights. `hear` gets the beginning of a 200 response while the rest is being received.
        If the request is retried, `hear` is called again.
        """
        question = Question(method or ("GET" if body is None else "POST"), path, body, accept, hear)
        attempts = _Attempts(min(retries, self._most_retries), end=min(monotonic() + LONGEST, self._until))
        renewed = False
        while True:
            try:
                response, answer = self._send(question, renewed=renewed)
            except (HTTPError, ValueError) as error:
                told = f"the connection to {self._access.server} broke ({_cause(error)})"
                if self._is_final(error) or not self._waits(told, attempts.pause(error=error)):
                    raise self._unreachable(error) from error
                continue
            if response.status == 401 and not renewed:
                # A token may have expired since it was read from its file, or since the cluster issued it.
                renewed = True
                self._pools.clear()
                continue
            told = f"{self._access.server} answers {response.status}"
            if response.status not in LATER or not self._waits(told, attempts.pause(response=response)):
                return answer

    def stream(self, path: str, seconds: float, accept: str = JSON) -> Stream:
        """Send a GET request with a long-lived response. Raise UnreachableError if the server does not respond.

        The read timeout is `seconds` longer than that of other requests. There is no retry, because only the caller
        knows where to continue.
        """
        question = Question("GET", path, None, accept)
        timeout = Timeout(connect=self._seconds["connect"], read=seconds + REQUEST_SECONDS)
        try:
            response = self._open(question, timeout, renewed=False)
            if response.status == 401:
                self._pools.clear()
                response = self._open(question, timeout, renewed=True)
            if response.status != 200:
                return Stream(Answer(response.status, memoryview(response.read())), iter(()))
        except (HTTPError, ValueError) as error:
            raise self._unreachable(error) from error
        return Stream(Answer(200, memoryview(b"")), self._parts(response))

    def _parts(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        try:
            yield from response.stream(PART)
        except (HTTPError, ValueError) as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def _waits(self, trouble: str, pause: float | None) -> bool:
        """Wait before a retry; return False if no retry is left."""
        if pause is None:
            return False
        if self._say and pause >= WORTH_TELLING:
            self._say(f"{trouble}; trying again in {pause:g} s")
        sleep(pause)
        return True

    def _send(self, question: Question, *, renewed: bool) -> tuple[urllib3.BaseHTTPResponse, Answer]:
        response = self._open(question, self._left(), renewed=renewed)
        answer = Answer(response.status, self._body(response, question.hear))
        self._has_answered = True
        return response, answer

    def _left(self) -> Timeout:
        """Return the timeouts of a request; no request continues after the caller's deadline."""
        if self._until == math.inf:
            return Timeout(**self._seconds)
        left = max(self._until - monotonic(), LEAST_SECONDS)
        return Timeout(**{name: min(left, seconds or left) for name, seconds in self._seconds.items()})

    def _open(self, question: Question, timeout: Timeout, *, renewed: bool) -> urllib3.BaseHTTPResponse:
        # Compute the headers first: an exec plugin may return a client certificate, and the connection needs this
        # certificate.
        headers = self._headers(question, renewed=renewed)
        access = self._access
        # A request through a proxy without TLS contains the whole URL. TLS is tunnelled through the proxy, so an HTTPS
        # request contains only the path.
        start = access.server if access.proxy and not access.tls else urlsplit(access.server).path
        return self._pools.connection_from_url(access.server).urlopen(
            question.method,
            start + question.path,
            question.body,
            headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=timeout,
            preload_content=False,
        )

    def _body(self, response: urllib3.BaseHTTPResponse, hear: Callable[[Answer], None] | None) -> memoryview:
        if not hear or response.status != 200:
            return memoryview(response.read())
        size, is_heard = 0, False
        for part in response.stream(PART):
            size = self._memory.add(part, size)
            if not is_heard and size >= BEGINNING:
                hear(Answer(response.status, self._memory.first(size)))
                is_heard = True
        return self._memory.first(size)

    def _headers(self, question: Question, *, renewed: bool) -> urllib3.HTTPHeaderDict:
        headers = urllib3.HTTPHeaderDict({"Accept": question.accept, "User-Agent": f"distrain/{__version__}"})
        if question.body is not None:
            headers["Content-Type"] = MERGE_PATCH if question.method == "PATCH" else JSON
        for name, value in self._access.headers(renewed=renewed):
            # http.client encodes headers as Latin-1. Bytes from the environment that are not UTF-8 are sent as they
            # are.
            headers.add(name, value.encode(errors="surrogateescape").decode("latin-1"))
        return headers

    def _is_final(self, error: Exception) -> bool:
        """Tell whether a retry is useless: the server has never answered, is too slow, or rejects the certificate."""
        # With TLS 1.3 a server rejects the client certificate only after the handshake, and then sends an alert.
        is_refused = "ALERT" in str(getattr(_innermost(error), "reason", ""))
        never = not self._has_answered and not isinstance(error, urllib3.exceptions.ProtocolError)
        return never or is_refused or isinstance(error, ReadTimeoutError)

    def _unreachable(self, error: Exception) -> UnreachableError:
        server = self._access.server
        if getattr(_innermost(error), "reason", "") in WITHOUT_TLS:
            step = "write http:// in its address, or use the port that accepts TLS"
            return UnreachableError(
                f"the cluster at {server} cannot be reached: the server answers without TLS; {step}"
            )
        longer = ", or wait longer with --request-timeout" if isinstance(error, ReadTimeoutError) else ""
        proxy = self._access.proxy and urls.without_login(urlsplit(self._access.proxy)).geturl()
        way, advice = f" through the proxy {proxy}" if proxy else "", OF_PROXY if proxy else NEXT_STEP
        return UnreachableError(f"the cluster at {server} cannot be reached{way}: {_cause(error)}; {advice}{longer}")


class _Memory:
    """Memory for the body of one response.

    Each body overwrites the previous one. New memory for each body would be slower, because the kernel has to clear it,
    which takes as long as decrypting a body.
    """

    def __init__(self) -> None:
        self._all = memoryview(b"")

    def add(self, part: bytes, start: int) -> int:
        """Write a part of the body at the position `start`, and return the position after the part."""
        end = start + len(part)
        if end > len(self._all):
            larger = memoryview(bytearray(2 * end))
            larger[:start] = self._all[:start]
            self._all = larger
        self._all[start:end] = part
        return end

    def first(self, size: int) -> memoryview:
        return self._all[:size].toreadonly()


class _Attempts:
    """The retries of one request. urllib3 counts them and computes the pauses. No retry starts after the time `end`."""

    def __init__(self, count: int, *, end: float) -> None:
        self._retry = Retry(count, allowed_methods=None, backoff_factor=FIRST_PAUSE, backoff_max=LONGEST_PAUSE)
        self._end = end

    def pause(
        self, *, response: urllib3.BaseHTTPResponse | None = None, error: Exception | None = None
    ) -> float | None:
        """Return the seconds to wait before the next attempt, or None if no attempt is left."""
        try:
            self._retry = self._retry.increment("GET", response=response, error=error)
        except HTTPError:
            return None
        pause = max(self._retry.get_backoff_time(), self._asked(response))
        return pause if monotonic() + pause <= self._end else None

    def _asked(self, response: urllib3.BaseHTTPResponse | None) -> float:
        """Return the number of seconds for which the server asks the client to wait."""
        try:
            return (response and self._retry.get_retry_after(response)) or 0.0
        except InvalidHeader:
            return 0.0


def _pools(access: Access) -> urllib3.PoolManager:
    tls: dict[str, Any] = {"ssl_context": access.tls, "server_hostname": access.server_name}
    if not access.proxy:
        return urllib3.PoolManager(maxsize=KEPT, **tls)
    proxy = urlsplit(access.proxy)
    login = urls.login(proxy)
    headers = {"Proxy-Authorization": Credentials.basic(*login).authorization} if login else {}
    url = urls.without_login(proxy).geturl()
    return urllib3.ProxyManager(url, proxy_headers=headers, maxsize=KEPT, **tls)


def _innermost(error: BaseException) -> BaseException:
    """Return the error that is wrapped in urllib3's errors."""
    while inner := error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None):
        error = inner
    return error


def _cause(error: BaseException) -> str:
    """Return the innermost cause of an error, in one line."""
    error = _innermost(error)
    words = getattr(error, "verify_message", None)
    return f"SSL: {words}" if words else reason(error) or type(error).__name__
