"""Convert local paths to ``file:`` URIs and back."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote_to_bytes

from deltactl.errors import StorageError
from deltactl.storage.names import ONE_STORAGE_HINT, parse_scheme


def path_to_uri(path: str) -> str:
    """Return the ``file:`` URI of an absolute path, without a trailing slash."""
    # These characters need no escape in a path (RFC 3986).
    encoded = quote(os.fsencode(path), safe="/-_.~!$&'()*+,;=:@")
    return f"file://{encoded if encoded.startswith('/') else f'/{encoded}'}"


def uri_to_path(uri: str) -> str:
    """Return the absolute path of a ``file:`` URI, decoded once.

    Raises:
        StorageError: the URI has another host, or no absolute path.
    """
    # The names of a local file system need not be UTF-8.
    return os.fsdecode(unquote_to_bytes(strip_file_scheme(uri).encode("utf-8", "surrogateescape")))


def strip_file_scheme(name: str) -> str:
    """Return the path in an absolute name, whose escapes are already decoded.

    Raises:
        StorageError: the name is on another host or another kind of storage.
    """
    scheme = parse_scheme(name)
    if scheme is None:
        return name
    if scheme != "file":
        raise StorageError(
            f"{name!r} is not a local file, but the table is on local storage",
            hint=ONE_STORAGE_HINT,
        )
    rest = name[len("file:") :]
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            host = host.rpartition("@")[2]  # without a password
            shown = f"file://{host}/{path}"
            raise StorageError(
                f"{shown!r} is on the host {host!r}, but deltactl only opens files of this machine",
                hint="Write file:///path without a host.",
            )
        rest = f"/{path}"
    return rest
