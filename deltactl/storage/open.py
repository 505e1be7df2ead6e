"""From a table's address to its store: a registry of schemes.

Nothing heavy is imported before a scheme needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from deltactl.errors import StorageError, UsageError
from deltactl.storage.local.store import LocalStore
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import parse_scheme
from deltactl.storage.store import Store

Opener = Callable[[str, Mapping[str, str]], Store]
"""``opener(uri, options) -> Store`` for the addresses of one scheme."""

_PACKAGES: Final[Mapping[str, str]] = {
    "s3": "s3fs", "s3a": "s3fs",
    "gs": "gcsfs", "gcs": "gcsfs",
    "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
}  # fmt: skip
# What s3fs puts in one request; the rest goes up in parts.
_WHOLE_BELOW_BYTES: Final[Mapping[str, int]] = {"s3fs": 100 << 20}
_SINGLE_SLASH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/")


def open_store(uri: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store of a table: a path, ``~`` allowed, or a URI. Nothing need be there yet.

    Raises:
        UsageError: the address cannot be understood, or names a scheme nobody registered.
        StorageError: the storage cannot be reached, or its package is not installed.
    """
    if not uri or "\0" in uri:
        raise UsageError("the address of a table is empty" if not uri else "an address holds a NUL")
    scheme = parse_scheme(uri)
    if scheme is None:
        _refuse_lookalike(uri)
        # Unlike Path.expanduser, this leaves a folder be that is named like no user.
        return LocalStore(os.path.expanduser(uri))  # noqa: PTH111
    opener = OPENERS.get(scheme)
    if opener is None:
        raise UsageError(
            f"no storage is known for the scheme {scheme!r}",
            hint=f"known are: {', '.join(sorted(OPENERS))}, and plain paths",
        )
    return opener(uri, options or {})


def package_of(uri: str) -> str | None:
    """Name the package that serves an address, if it takes one of its own."""
    return _PACKAGES.get(parse_scheme(uri) or "")


def _open_local(uri: str, options: Mapping[str, str]) -> Store:
    path = uri_to_path(uri)
    if not path.startswith("/"):
        raise UsageError(f"{uri!r} is not absolute", hint="write file:///path, or a plain path")
    return LocalStore(path)


def _open_remote(uri: str, options: Mapping[str, str]) -> Store:
    _refuse_credentials(uri)
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    package = _PACKAGES[scheme]
    try:
        # fsspec takes 0.1 s and more to import: only those who need it pay.
        from deltactl.storage.objects.connect import find_service
        from deltactl.storage.objects.put_if_absent import PutIfAbsentGuard
        from deltactl.storage.objects.store import FsspecStore

        service = find_service(package, f"{scheme}://{rest}", options)
    except ImportError as error:
        raise StorageError(
            f"{scheme}:// needs the package {package}, which is not installed",
            hint=f"pip install {package}",
        ) from error
    key = service.key_of(f"{scheme}://{rest}")
    return FsspecStore(
        uri,
        service.file_system,
        key,
        exclusive_create=True,
        schemes=frozenset(name for name, package_of in _PACKAGES.items() if package_of == package),
        service=service,
        options=options,
        guard=PutIfAbsentGuard(
            package,
            service.find_endpoint,
            key.partition("/")[0],
            whole_below_bytes=_WHOLE_BELOW_BYTES.get(package),
        ),
    )


def _refuse_credentials(uri: str) -> None:
    """Refuse addresses that carry secrets: they would be printed, logged and kept in commits."""
    authority = uri.partition("://")[2].partition("/")[0]
    if ":" in authority.partition("@")[0] and "@" in authority:
        raise UsageError(
            "the address carries a password", hint="give credentials with --storage-option"
        )
    if re.search(r"\?.*(sig|token|key)=", uri, re.IGNORECASE):
        raise UsageError(
            "the address carries a signature", hint="give credentials with --storage-option"
        )


def _refuse_lookalike(uri: str) -> None:
    found = _SINGLE_SLASH.match(uri)
    if found and found[1].lower() in OPENERS:
        raise UsageError(
            f"{uri!r} lacks a slash", hint=f"write {found[1]}://…, or ./{uri} for a local folder"
        )


OPENERS: Final[dict[str, Opener]] = {"file": _open_local, **dict.fromkeys(_PACKAGES, _open_remote)}
"""The opener of each scheme."""
