"""An HTTP proxy on the loopback that fails on demand, and remembers what went through it.

It stands before a real server, so that the libraries' own retries and connection pools are part of
the test. A rule names requests and a fault; it applies to so many of them, then no more::

    with fault_proxy(endpoint) as proxy:
        proxy.add(Rule(Cut(after=True), "PUT", r"_delta_log/0+1\\.json$"))

``after`` faults happen once the server has done the work and answered: the client is lied to.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, cast
from urllib.parse import unquote, urlsplit

_UPSTREAM_TIMEOUT_SECONDS: Final = 60
# What concerns one connection only, and what this proxy writes itself.
_OF_THE_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection without an answer, before or after the server got the request."""

    after: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Say something else: in place of the server's work, or after it was done."""

    status: int
    after: bool
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Late:
    """The server's answer, so many seconds after it was given."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Held:
    """The server's answer, once the proxy is told to ``release`` such answers."""


@dataclass(frozen=True, slots=True)
class SlowBody:
    """Half of the answer's body; the other half so many seconds later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HalfBody:
    """Half of the answer's body, then the end of the connection."""


@dataclass(frozen=True, slots=True)
class SendTwice:
    """The server gets the request twice; the client gets its answer to the second."""


@dataclass(frozen=True, slots=True)
class AnswerTwice:
    """The client gets the answer twice on one connection, which then ends."""


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """The server's answer; ``act`` is called before the server gets the request."""

    act: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Edited:
    """The server's answer with another body."""

    edit: Callable[[bytes], bytes]


Fault = (
    Cut | Answer | Late | Held | SlowBody | HalfBody | SendTwice | AnswerTwice | Meanwhile | Edited
)


@dataclass(frozen=True, slots=True)
class Rule:
    """``fault`` for ``times`` requests (``None``: all) of a method whose target matches.

    ``target`` is searched in the decoded path and query; ``headers`` are texts that the request's
    headers must have (names in lower case), ``body`` is what its body must hold, and ``skip`` lets
    so many pass first.
    """

    fault: Fault
    method: str = ".*"
    target: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = 1
    skip: int = 0

    def matches(self, request: Request) -> bool:
        """Tell whether a request is meant."""
        return (
            re.fullmatch(self.method, request.method) is not None
            and re.search(self.target, request.target) is not None
            and self.body in request.body
            and all(request.headers.get(name) == text for name, text in self.headers.items())
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the client sent it.

    ``target`` is decoded; header names are in lower case. ``status`` is what the server answered,
    ``None`` where it was not asked; ``fault`` is what the client got instead.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    fault: Fault | None = None
    status: int | None = None


@dataclass(slots=True)
class _Quota:
    rule: Rule
    skip: int
    left: int | None


class FaultProxy:
    """Rules that can be added at any time, and the requests seen so far, in order of their end."""

    def __init__(
        self, upstream: str, *, keep_bodies: bool = True, one_write_at_a_time: bool = False
    ) -> None:
        """Stand before ``upstream``, an ``http://`` address.

        ``one_write_at_a_time`` lends a server whose conditional writes are not atomic what it
        lacks: no two requests other than GET and HEAD are with it at once.
        """
        self.stand_before(upstream)
        self.endpoint = ""
        self.stopping = threading.Event()
        self.released = threading.Event()
        self._keep_bodies = keep_bodies
        self._write = threading.Lock() if one_write_at_a_time else nullcontext()
        self._lock = threading.Lock()
        self._quotas: list[_Quota] = []
        self._requests: list[Request] = []
        self._dropped_headers: set[str] = set()

    def stand_before(self, upstream: str) -> None:
        """Forward requests to a server from now on."""
        address = urlsplit(upstream)
        assert address.hostname is not None
        self.upstream = (address.hostname, address.port or 80)

    @property
    def requests(self) -> list[Request]:
        """What was seen so far."""
        with self._lock:
            return list(self._requests)

    def add(self, *rules: Rule) -> None:
        """Apply rules from now on; the oldest that matches a request wins."""
        with self._lock:
            self._quotas += [_Quota(rule, rule.skip, rule.times) for rule in rules]

    def drop_header(self, name: str) -> None:
        """Keep a header, in lower case, from the server from now on: it will not know of it."""
        self._dropped_headers.add(name)

    def release(self) -> None:
        """Give the answers that are held, and hold none from now on."""
        self.released.set()

    def clear(self) -> None:
        """Forget all rules and requests."""
        with self._lock:
            self._quotas.clear()
            self._requests.clear()

    def find(self, method: str, target: str, body: bytes = b"") -> list[Request]:
        """Requests of a method whose decoded target and body match, as in ``Rule``."""
        wanted = Rule(Cut(after=False), method, target, body)
        return [request for request in self.requests if wanted.matches(request)]

    def _take(self, request: Request) -> Fault | None:
        with self._lock:
            for quota in self._quotas:
                if quota.left == 0 or not quota.rule.matches(request):
                    continue
                if quota.skip:
                    quota.skip -= 1
                    continue
                if quota.left is not None:
                    quota.left -= 1
                return quota.rule.fault
        return None

    def _remember(self, request: Request, fault: Fault | None, status: int | None) -> None:
        body = request.body if self._keep_bodies else b""
        seen = Request(request.method, request.target, request.headers, body, fault, status)
        with self._lock:
            self._requests.append(seen)

    def _forward(self, request: Request, target: str) -> _Reply:
        """Ask the server, on a connection of its own: nothing is ever sent again by chance."""
        reads = request.method in ("GET", "HEAD")
        not_forwarded = _OF_THE_CONNECTION | {"content-length", "expect"} | self._dropped_headers
        with nullcontext() if reads else self._write:
            connection = http.client.HTTPConnection(
                *self.upstream, timeout=_UPSTREAM_TIMEOUT_SECONDS
            )
            try:
                connection.putrequest(
                    request.method, target, skip_host=True, skip_accept_encoding=True
                )
                for name, text in request.headers.items():
                    if name not in not_forwarded:
                        connection.putheader(name, text)
                connection.putheader("Content-Length", str(len(request.body)))
                connection.putheader("Connection", "close")
                connection.endheaders(request.body)
                response = connection.getresponse()
                return _Reply(response.status, response.getheaders(), response.read())
            finally:
                connection.close()


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        proxy = cast("_Server", self.server).proxy
        headers = {name.lower(): text for name, text in self.headers.items()}
        request = Request(self.command, unquote(self.path), headers, self._read_body())
        fault = proxy._take(request)
        reply: _Reply | None = None
        match fault:
            case Cut(after=False) | Answer(after=False):
                pass
            case SendTwice():
                proxy._forward(request, self.path)
                reply = proxy._forward(request, self.path)
            case Meanwhile(act):
                act()
                reply = proxy._forward(request, self.path)
            case _:
                reply = proxy._forward(request, self.path)
        proxy._remember(request, fault, None if reply is None else reply.status)
        self._reply(fault, reply, proxy)

    def _reply(self, fault: Fault | None, reply: _Reply | None, proxy: FaultProxy) -> None:
        match fault:
            case Cut():
                self._hang_up()
                return
            case Answer(status, _, body, headers):
                self._send(_Reply(status, list(headers.items()), body))
                return
            case _:
                assert reply is not None
        match fault:
            case Late(seconds):
                proxy.stopping.wait(seconds)
                self._send(reply)
            case Held():
                proxy.released.wait()
                self._send(reply)
            case SlowBody(seconds):
                self._send_head(reply)
                half = len(reply.body) // 2
                self.wfile.write(reply.body[:half])
                proxy.stopping.wait(seconds)
                self.wfile.write(reply.body[half:])
            case HalfBody():
                self._send_head(reply)
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self._hang_up()
            case AnswerTwice():
                self._send(reply)
                self._send(reply)
                self._hang_up()
            case Edited(edit):
                self._send(_Reply(reply.status, reply.headers, edit(reply.body)))
            case _:
                self._send(reply)

    def _send(self, reply: _Reply) -> None:
        self._send_head(reply)
        if self.command != "HEAD":  # a body would be read as the next answer
            self.wfile.write(reply.body)

    def _send_head(self, reply: _Reply) -> None:
        self.send_response_only(reply.status)
        of_head = self.command == "HEAD"
        for name, text in reply.headers:
            skipped = name.lower() in _OF_THE_CONNECTION
            if not skipped and (of_head or name.lower() != "content-length"):
                self.send_header(name, text)
        if not of_head and reply.status not in (204, 304):
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return b"".join(iter(self._read_chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().partition(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk


@contextmanager
def fault_proxy(
    upstream: str, *, keep_bodies: bool = True, one_write_at_a_time: bool = False
) -> Iterator[FaultProxy]:
    """Start a proxy before ``upstream``; clients use its ``endpoint``. See ``FaultProxy``."""
    proxy = FaultProxy(upstream, keep_bodies=keep_bodies, one_write_at_a_time=one_write_at_a_time)
    with _Server(proxy) as server:
        proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.stopping.set()
            proxy.release()
            server.shutdown()
            thread.join()
