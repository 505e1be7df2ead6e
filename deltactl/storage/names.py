"""Check names under the root of a store: which can be read, and which can be written.

A name is relative, decoded, with ``/`` between its parts. Reading methods also accept absolute
names, because shallow clones and deletion vectors contain them. Writing and deleting methods never
accept absolute names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from deltactl.errors import SafetyError, StorageError

CATALOG_SCHEMES: Final = frozenset({"uc", "glue", "hive"})
"""The schemes of names of tables in catalogs; ``catalog`` has a row for each."""

OWN_DIR: Final = "_deltactl"
"""The directory of journals and quarantined files; hidden, because its name begins with ``_``."""

ONE_STORAGE_HINT: Final = (
    "Run `deltactl clone TABLE NEW --deep`, which copies all files to one kind of storage. "
    "deltactl cannot read the rows of a table with files on several kinds of storage, optimize it "
    "or vacuum it."
)

# Hadoop writes file:/path, with one slash.
_ABSOLUTE: Final = re.compile(r"/|file:/|[A-Za-z][A-Za-z0-9+.\-]*://")
_SCHEME: Final = re.compile(
    r"((?:[A-Za-z][A-Za-z0-9+.\-]*::)*[A-Za-z][A-Za-z0-9+.\-]*)://|(file):/"
)
# Users, catalogs and engines spell the scheme of one place in different ways.
_SAME_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "gcs": "gs"}


def is_absolute_name(name: str) -> bool:
    """Return whether ``name`` is a path that begins with ``/``, or a URI.

    All other names are below the root.
    """
    return _ABSOLUTE.match(name) is not None


def parse_scheme(name: str) -> str | None:
    """Return the lower-case scheme of a URI (``file:/x`` included), or None for a plain path.

    An address of fsspec can have several: ``simplecache::s3``.
    """
    found = _SCHEME.match(name)
    return (found[1] or found[2]).lower() if found else None


def common_address(uri: str) -> str:
    """Return an address without slashes at its end, and with one scheme for all that mean it."""
    scheme = parse_scheme(uri)
    if scheme is None or "://" not in uri:
        return uri.rstrip("/")
    return f"{_SAME_SCHEMES.get(scheme, scheme)}://{uri.partition('://')[2].rstrip('/')}"


def decode_address(uri: str) -> str:
    """Return the address of a store decoded, as names are: only ``file:`` URIs have escapes."""
    return unquote(uri) if is_local_uri(uri) else uri


def refuse_chain(address: str) -> None:
    """Raise an error for a chained address of fsspec: a cache must not decide what is deleted.

    Raises:
        SafetyError: the address is ``simplecache::s3://...``, for example.
    """
    if "::" in (parse_scheme(address) or ""):
        raise SafetyError(
            f"{address!r} can be behind a cache of fsspec, which can be outdated, so it cannot"
            " decide which files are deleted",
            hint="Give the address of the store itself.",
        )


def is_plain_name(name: str) -> bool:
    """Return whether ``name`` is certainly in normal form. Faster than :func:`resolve_name`."""
    return (
        name != ""
        and name[0] not in "/."
        and name[-1] != "/"
        and "/." not in name
        and "//" not in name
        and ":/" not in name
        and "\0" not in name
    )


def resolve_name(name: str) -> str:
    """Return the normal form of a relative name.

    Raises:
        SafetyError: the name is absolute, or its ``..`` parts lead out of the root.
        StorageError: a file cannot have this name.
    """
    if is_plain_name(name):
        return name
    resolved = resolve_prefix(name)
    if not resolved or name.endswith(("/", "/.", "/..")):
        raise StorageError(f"{name!r} is not the name of a file")
    return resolved


def find_unaddressable(names: Iterable[str]) -> set[str]:
    """Return the names that are not in normal form: for them, a store would use another name."""
    return {name for name in names if not _is_normal(name)}


def _is_normal(name: str) -> bool:
    try:
        return resolve_name(name) == name
    except (SafetyError, StorageError):
        return False


def is_utf8(name: str) -> bool:
    """Return whether a name is valid UTF-8; Python holds other bytes as lone surrogates."""
    return name.encode("utf-8", "ignore").decode() == name


def is_table_name(address: str) -> bool:
    """Return whether an address is the name of a table in a catalog, or a pattern of names."""
    return parse_scheme(address) in CATALOG_SCHEMES


def resolve_prefix(prefix: str) -> str:
    """Return the normal form of a relative directory name; the name of the root is ``""``.

    Raises:
        SafetyError: the name is absolute, or its ``..`` parts lead out of the root.
        StorageError: the name contains a NUL character.
    """
    refuse_nul(prefix)
    if is_absolute_name(prefix):
        raise SafetyError(
            f"{prefix!r} is an absolute name; only names below the root of the table are allowed"
        )
    resolved = posixpath.normpath(prefix) if prefix else ""
    if resolved == ".." or resolved.startswith("../"):
        raise SafetyError(
            f"{prefix!r} is outside of the table directory",
            hint="Check which writer wrote this name to the log.",
        )
    return "" if resolved == "." else resolved


def refuse_nul(name: str) -> None:
    """Raise an error for a name with a NUL character: the operating system would cut it there.

    Raises:
        StorageError: the name contains a NUL character.
    """
    if "\0" in name:
        raise StorageError(f"{name!r} contains a NUL character, which no file name can contain")


def is_local_uri(uri: str) -> bool:
    """Return whether an address is on a local file system, without opening a store."""
    return parse_scheme(uri) in (None, "file")
