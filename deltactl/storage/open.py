"""Open the store of an address, by its scheme (``s3://``, ``gs://``, ...).

``providers`` has a row for each object store; docs/contributing.md shows how to add a store.
A large package is imported only if the scheme of the address needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deltactl.errors import DeltactlError, SafetyError, StorageError, UsageError, find_secret
from deltactl.option_names import option
from deltactl.storage.local.store import LocalStore
from deltactl.storage.local.uris import strip_file_scheme, uri_to_path
from deltactl.storage.names import common_address, is_local_uri, is_utf8, parse_scheme
from deltactl.storage.providers import (
    AZURE,
    GCS,
    PROVIDERS,
    S3,
    Provider,
    other_provider,
    provider_of,
)
from deltactl.storage.store import Store
from deltactl.storage.write_guard import guarded

if TYPE_CHECKING:
    from deltactl.storage.objects.store import ObjectStore

Opener = Callable[[str, Mapping[str, str]], Store]
"""``opener(uri, options) -> Store`` for the addresses of one scheme."""

_SINGLE_SLASH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/")


def open_store(uri: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store of a table.

    The address is a path (``~`` is expanded) or a URI. The table need not exist yet.

    Raises:
        UsageError: the address is not valid, or has an unknown scheme.
        StorageError: the storage cannot be reached, or its package is not installed.
    """
    if not uri or "\0" in uri:
        raise UsageError(
            "the address of a table is empty" if not uri else "an address contains a NUL"
        )
    scheme = parse_scheme(uri)
    if scheme is None:
        _refuse_lookalike(uri)
        # Unlike Path.expanduser, this accepts a directory with the name `~name` if there is no user
        # `name`.
        return _open_directory(os.path.expanduser(uri))  # noqa: PTH111
    opener = OPENERS.get(scheme, _open_other)
    return opener(uri, options or {})


def open_directory(name: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store of a directory by its absolute decoded name, such as a log has.

    For ``open_store``, a ``file:`` name is a URI, whose escapes it decodes.

    Raises:
        UsageError, StorageError: as ``open_store``.
    """
    if parse_scheme(name) == "file":
        return _open_directory(strip_file_scheme(name))
    return open_store(name, options)


def open_existing(uri: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store of a table that exists, for a worker: its directory is not created again.

    Raises:
        StorageError: the directory was moved, deleted or unmounted during the run; or as
            ``open_store``.
    """
    store = open_store(uri, options)
    if isinstance(store, LocalStore):
        store.ensure_content()
    return store


def canonical_uri(uri: str, options: Mapping[str, str] | None = None) -> str:
    """Return one text for all addresses of a directory, as far as no request tells them apart.

    With storage options, this includes addresses on Azure with and without the account.
    """
    with suppress(DeltactlError):
        if is_local_uri(uri) or (options is not None and provider_of(uri) is AZURE):
            return common_address(open_store(uri, options).engine_uri)
    return common_address(uri)


def _open_local(uri: str, options: Mapping[str, str]) -> Store:
    path = uri_to_path(uri)
    if not path.startswith("/"):
        raise UsageError(f"{uri!r} is not absolute", hint="Write file:///path, or a plain path.")
    return _open_directory(path)


def _open_directory(path: str) -> Store:
    """Open a directory; nothing is changed in one whose path is not UTF-8, as Arrow needs it."""
    store = LocalStore(path)
    if is_utf8(uri_to_path(store.uri)):
        return store

    def refuse(change: str) -> None:
        raise SafetyError(
            f"cannot {change} in {store.uri}: this path is not UTF-8, so deltactl could not read "
            "what it writes",
            hint="Move the table to a path that is UTF-8.",
        )

    return guarded(store, refuse)


def _open_remote(uri: str, options: Mapping[str, str]) -> Store:
    scheme, _, rest = uri.partition("://")
    provider = PROVIDERS[scheme.lower()]
    if provider in (S3, GCS) and not rest.partition("/")[0]:
        raise UsageError(f"{uri!r} has no bucket", hint=f"Write {scheme}://BUCKET/PATH.")
    return _open_objects(uri, f"{scheme.lower()}://{rest}", options, provider)


def _open_other(uri: str, options: Mapping[str, str]) -> Store:
    """Open an address that only fsspec knows: there is no put-if-absent, so nothing is changed."""
    from fsspec import available_protocols

    scheme = uri.partition("://")[0]
    if scheme.lower().partition("::")[0] not in available_protocols():
        raise UsageError(
            f"the scheme {scheme!r} is not supported",
            hint=f"Use one of: {', '.join(sorted(OPENERS))}, a scheme of fsspec, or a plain path.",
        )

    def refuse(change: str) -> None:
        raise SafetyError(
            f"cannot {change} in {uri}: deltactl only reads {scheme}://, because fsspec has no call"
            " for it that creates a file only if the file does not exist. Two writers could"
            " overwrite each other's commits",
            hint="Run this command where the table has a local path, or on S3, GCS or Azure.",
        )

    return guarded(_open_objects(uri, uri, options, other_provider(scheme.lower())), refuse)


def _open_objects(
    uri: str, address: str, options: Mapping[str, str], provider: Provider
) -> ObjectStore:
    refuse_secrets(uri)
    try:
        # The packages of clouds take 0.1 s and more to import.
        from deltactl.storage.objects.connect import find_service
        from deltactl.storage.objects.put_probe import PutIfAbsentGuard
        from deltactl.storage.objects.store import ObjectStore

        service = find_service(provider, address, options)
    except ImportError as error:
        causes = (getattr(found, "name", None) for found in (error, error.__cause__))
        missing = next(filter(None, causes), provider.package)
        raise StorageError(
            f"{address.partition('://')[0]}:// needs the Python module {missing}, which is not"
            " installed",
            hint=f"Run pip install {provider.package or missing}.",
        ) from error
    key = service.key_of(address)
    return ObjectStore(
        uri,
        service,
        key,
        schemes=frozenset(provider.schemes),
        options=options,
        guard=PutIfAbsentGuard(provider, service.find_endpoint, key.partition("/")[0]),
        access=provider.access,
    )


def refuse_secrets(uri: str) -> None:
    """Raise an error if an address contains secrets: it would be logged and committed.

    Raises:
        UsageError: it contains a password or a signature.
    """
    if secret := find_secret(uri):
        raise UsageError(
            f"the address contains a {secret}",
            hint=f"Remove the {secret}. Give credentials with {option('storage_options')}.",
        )


def _refuse_lookalike(uri: str) -> None:
    found = _SINGLE_SLASH.match(uri)
    if found and found[1].lower() in OPENERS:
        raise UsageError(
            f"{uri!r} lacks a slash",
            hint=f"Write {found[1]}://…, or ./{uri} for a local directory.",
        )


OPENERS: Final[dict[str, Opener]] = {"file": _open_local, **dict.fromkeys(PROVIDERS, _open_remote)}
"""The function that opens a store, for each scheme."""
