"""The proxy of the fault tests does what its rules say, and nothing of its own."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.support.fault_proxy import (
    Answer,
    AnswerTwice,
    Cut,
    Edited,
    Fault,
    FaultProxy,
    HalfBody,
    Late,
    Meanwhile,
    Rule,
    SendTwice,
    SlowBody,
    fault_proxy,
)


class _Counting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    done: list[tuple[str, bytes]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.done.append((self.path, body))
        answer = f"answer {len(self.done)}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def counting_server() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    done: list[tuple[str, bytes]] = []
    handler = type("Handler", (_Counting,), {"done": done})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", done
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def served() -> Iterator[tuple[FaultProxy, list[tuple[str, bytes]]]]:
    with counting_server() as (upstream, done), fault_proxy(upstream) as proxy:
        yield proxy, done


def put(proxy: FaultProxy) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=10)
    try:
        connection.request("PUT", "/a%20b?x=1", b"content", {"If-None-Match": "*"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# The fault; what the client gets, None for a broken connection; how often the server did the work.
FAULTS: list[tuple[Fault, tuple[int, bytes] | None, int]] = [
    (Cut(after=False), None, 0),
    (Cut(after=True), None, 1),
    (Answer(503, after=False), (503, b""), 0),
    (Answer(500, after=True, body=b"sorry"), (500, b"sorry"), 1),
    (Late(0.01), (200, b"answer 1"), 1),
    (SlowBody(0.01), (200, b"answer 1"), 1),
    (HalfBody(), None, 1),
    (SendTwice(), (200, b"answer 2"), 2),
    (AnswerTwice(), (200, b"answer 1"), 1),
    (Edited(lambda body: body[::-1]), (200, b"1 rewsna"), 1),
]


@pytest.mark.parametrize(("fault", "answer", "done"), FAULTS, ids=lambda it: str(it)[:16])
def test_a_fault_applies_to_one_request(
    fault: Fault,
    answer: tuple[int, bytes] | None,
    done: int,
    served: tuple[FaultProxy, list[tuple[str, bytes]]],
) -> None:
    proxy, reached = served
    proxy.add(Rule(fault, "PUT", "/a b"))
    if answer is None:
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            put(proxy)
    else:
        assert put(proxy) == answer
    assert reached == [("/a%20b?x=1", b"content")] * done
    # The rule is used up: the next request goes through.
    assert put(proxy) == (200, f"answer {done + 1}".encode())
    assert [request.fault for request in proxy.requests] == [fault, None]
    assert [request.status for request in proxy.requests] == [200 if done else None, 200]


def test_what_happens_before_a_request_reaches_the_server(
    served: tuple[FaultProxy, list[tuple[str, bytes]]],
) -> None:
    proxy, reached = served
    with counting_server() as (other, done):
        proxy.add(Rule(Meanwhile(lambda: proxy.stand_before(other))))
        assert put(proxy) == (200, b"answer 1")
        assert (len(reached), len(done)) == (0, 1)


def test_a_rule_names_requests(served: tuple[FaultProxy, list[tuple[str, bytes]]]) -> None:
    proxy, _ = served
    proxy.add(
        Rule(Answer(400, after=False), "GET"),
        Rule(Answer(401, after=False), target="nothing"),
        Rule(Answer(402, after=False), headers={"if-none-match": "other"}),
        Rule(Answer(404, after=False), headers={"if-none-match": "*"}, skip=1, times=2),
    )
    assert [put(proxy)[0] for _ in range(4)] == [200, 404, 404, 200]
    seen = proxy.find("PUT", "x=1$")
    assert [request.body for request in seen] == [b"content"] * 4
    proxy.clear()
    assert proxy.requests == []
