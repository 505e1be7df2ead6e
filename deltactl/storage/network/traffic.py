"""Count the requests of each cloud library and limit their rate.

The library calls a hook for each request that it sends, so that its own retries are counted too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deltactl.storage.network.counts import RequestKind, Requests, count
from deltactl.storage.network.pacing import Pacer

CONNECT_SECONDS: float = 5.0
SILENCE_SECONDS: float = 60.0
"""Limits for a connection, and for the next byte. Without them, gcsfs waits forever, and the client
of Azure waits for five minutes."""

_THROTTLED: Final = frozenset({429, 503})
_BY_METHOD: Final[Mapping[str, RequestKind]] = {
    "GET": "gets",
    "HEAD": "heads",
    "PUT": "puts",
    "POST": "puts",
    "PATCH": "puts",
    "DELETE": "deletes",
}


class Traffic:
    """Count the requests of one connection and limit their rate."""

    def __init__(self, pacer: Pacer) -> None:
        """Send requests at the times that ``pacer`` assigns."""
        self.pacer = pacer

    async def wait_to_send(self, kind: RequestKind) -> None:
        """Wait until a request may be sent, and count it."""
        import asyncio

        delay = self.pacer.reserve()
        if delay > 0:
            await asyncio.sleep(delay)
        count(Requests(**{kind: 1}))

    def count_answer(self, status: int, num_bytes: int) -> None:
        """Count an answer, by its HTTP status and size."""
        if status in _THROTTLED:
            self.pacer.refused()
            count(Requests(throttled=1))
        else:
            self.pacer.served()
            count(Requests(bytes_read=num_bytes))


def s3_session(profile: str | None, traffic: Traffic) -> Any:
    """Return a session of aiobotocore that counts requests of its clients and limits their rate."""
    from aiobotocore.session import AioSession

    async def before_request(request: Any, **_: Any) -> None:
        query = request.url.partition("?")[2]
        kind = _BY_METHOD.get(request.method, "others")
        if kind == "gets" and "list-type=" in query:
            kind = "lists"
        elif request.method == "POST" and query == "delete":
            kind = "deletes"
        await traffic.wait_to_send(kind)

    def after_answer(response_dict: Mapping[str, Any] | None, event_name: str, **_: Any) -> None:
        if response_dict is not None:
            length = response_dict["headers"].get("content-length")
            # The answer to a HEAD request has the length of the object, but no content.
            has_content = not event_name.rpartition(".")[2].startswith("Head")
            traffic.count_answer(
                response_dict["status_code"], _number(length) if has_content else 0
            )

    session = AioSession(profile=profile)
    session.register("before-send.s3", before_request)
    session.register("response-received.s3", after_answer)
    return session


def s3_http_session() -> type:
    """Return the class of the HTTP sessions of aiobotocore; they never send a request twice.

    If a connection breaks, aiohttp would send a PUT again, also a conditional one.
    """
    from aiobotocore.httpsession import AIOHTTPSession

    class SendOnceSession(AIOHTTPSession):  # type: ignore[misc]
        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False
            return session

    return SendOnceSession


def gcs_session_settings(traffic: Traffic) -> dict[str, Any]:
    """Return settings of an aiohttp session that count its requests and limit their rate."""
    import aiohttp

    async def before_request(_: Any, __: Any, request: Any) -> None:
        kind = _BY_METHOD.get(request.method, "others")
        path = request.url.raw_path
        if kind == "gets" and path.endswith("/o") and path.count("/") == _SLASHES_OF_A_LISTING:
            kind = "lists"
        elif "/batch/" in path:
            kind = "deletes"
        await traffic.wait_to_send(kind)

    async def after_answer(_: Any, __: Any, answer: Any) -> None:
        length = answer.response.headers.get("Content-Length") if answer.method == "GET" else None
        traffic.count_answer(answer.response.status, _number(length))

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(before_request)
    trace.on_request_end.append(after_answer)
    return {"trace_configs": [trace]}


_SLASHES_OF_A_LISTING: Final = 5  # /storage/v1/b/BUCKET/o


def azure_transport(traffic: Traffic, connect_s: float, silence_s: float) -> Any:
    """Return a transport for clients of Azure that counts requests and limits their rate.

    ``connect_s`` and ``silence_s`` are timeouts in seconds: for the connection, and for the next
    byte.
    """
    from azure.core.pipeline.transport import AioHttpTransport

    class WatchedTransport(AioHttpTransport):  # type: ignore[misc]
        async def send(self, request: Any, **config: Any) -> Any:
            kind = _BY_METHOD.get(request.method, "others")
            query = request.url.partition("?")[2]
            if kind == "gets" and "comp=list" in query:
                kind = "lists"
            elif "comp=batch" in query:
                kind = "deletes"
            await traffic.wait_to_send(kind)
            answer = await super().send(request, **config)
            length = answer.headers.get("Content-Length") if kind == "gets" else None
            traffic.count_answer(answer.status_code, _number(length))
            return answer

    return WatchedTransport(connection_timeout=connect_s, read_timeout=silence_s)


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0
