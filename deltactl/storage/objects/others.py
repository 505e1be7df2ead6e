"""Read tables with any other file system of fsspec, also chained ones (``simplecache::s3://``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fsspec.core import url_to_fs

from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.network.traffic import Traffic
from deltactl.storage.objects.services import ObjectService

R = TypeVar("R")


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Open the file system of an address; its requests are not counted."""
    file_system, root = url_to_fs(uri, **{**settings, "skip_instance_cache": True})
    inner = file_system
    while inner is not None:  # the file systems of a chain
        inner.dircache.use_listings_cache = False
        inner = getattr(inner, "fs", None)
    return _Chain(file_system, uri, root)


class _Chain(ObjectService):
    """The files of an address, whose root only fsspec can find."""

    def __init__(self, file_system: Any, uri: str, root: str) -> None:
        retry = RetryPolicy() if file_system.async_impl else OneAtATime()
        super().__init__(file_system, retry)
        self._root = (uri, root)

    def key_of(self, uri: str) -> str:
        """Return the path of an address, as the library parses it."""
        address, root = self._root
        return root if uri == address else super().key_of(uri)


class OneAtATime(RetryPolicy):
    """Send one request at a time: most libraries of file systems are not safe in threads."""

    def __init__(self) -> None:
        """Start with no request in progress."""
        super().__init__()
        self._lock = threading.RLock()

    def call(self, request: Callable[[], R]) -> R:
        """Return the result of ``request``, or raise its last error."""
        with self._lock:
            return super().call(request)

    def once(self, request: Callable[[], R]) -> R:
        """Return the result of ``request``, which must not be sent again."""
        with self._lock:
            return request()
