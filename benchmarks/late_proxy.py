"""A proxy that delays answers, as a remote store does: `python -m benchmarks.late_proxy`."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK_BYTES = 1 << 20


@contextmanager
def late_proxy(endpoint: str, delay_ms: int) -> Iterator[str]:
    """Stand before a server on this machine; gives the endpoint. A process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    upstream = endpoint.rpartition(":")[2]
    command = [sys.executable, "-m", "benchmarks.late_proxy", str(port), upstream, str(delay_ms)]
    process = subprocess.Popen(command)
    try:
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def _serve(port: int, upstream: int, delay_s: float) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, back = await asyncio.open_connection("127.0.0.1", upstream)
        # What comes first after an answer is a request, and waits; what follows is the rest of it.
        answered = asyncio.Event()
        answered.set()

        async def wait() -> None:
            if answered.is_set():
                answered.clear()
                await asyncio.sleep(delay_s)

        async def note() -> None:
            answered.set()

        await asyncio.gather(_copy(reader, back, wait), _copy(to, writer, note))

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    await server.serve_forever()


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    before: Callable[[], Awaitable[None]],
) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            await before()
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000))
