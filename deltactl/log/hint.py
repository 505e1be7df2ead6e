"""Read and replace ``_last_checkpoint``, which tells readers from which checkpoint to list the log.

Source: PROTOCOL.md, "Last Checkpoint File" and "JSON checksum".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from deltactl.errors import ObjectNotFoundError, StorageError, Warn
from deltactl.log.listing import list_log
from deltactl.protocol.names import LAST_CHECKPOINT, LOG_DIR
from deltactl.storage.store import Store

HINT_NAME = f"{LOG_DIR}/{LAST_CHECKPOINT}"
# All other bytes but letters and digits are encoded (PROTOCOL.md, "JSON checksum").
_SAFE = "-._~"


class _Literal(str):
    """A JSON number, boolean or null that keeps its text."""

    __slots__ = ()


def read_hint(store: Store, warn: Warn) -> int | None:
    """Return the version in ``_last_checkpoint``; ``None`` if the file is absent or not valid.

    This never raises an error. If the file is truncated or unreadable, or its checksum is wrong, a
    warning is printed.
    """
    try:
        data = store.read(HINT_NAME)
    except ObjectNotFoundError:
        return None
    except StorageError as error:
        warn(f"{HINT_NAME} cannot be read ({error.message}), so the whole log is listed")
        return None
    return parse_hint(data, warn)


def parse_hint(data: bytes, warn: Warn) -> int | None:
    """Return the version in the content of ``_last_checkpoint``. If it is not valid, warn."""
    try:
        node = _load_verbatim(data)
    except (ValueError, RecursionError):
        warn(f"{HINT_NAME} is not valid JSON, so the whole log is listed")
        return None
    version = _version_of(node)
    if version is None:
        warn(f"{HINT_NAME} names no version, so the whole log is listed")
        return None
    stored = node.get("checksum")
    if stored is not None and stored not in json_checksums(node):
        warn(f"{HINT_NAME} does not match its own checksum; listing the whole log")
        return None
    return version


def parse_unchecked(data: bytes) -> int | None:
    """Return the version for readers that do not compare the checksum, such as delta-rs."""
    try:
        return _version_of(_load_verbatim(data))
    except (ValueError, RecursionError):
        return None


def _version_of(node: Mapping[str, Any]) -> int | None:
    try:
        version = int(node["version"])
    except (ValueError, KeyError, TypeError):
        return None
    return version if version >= 0 else None


def count_parts(data: bytes) -> int | None:
    """Return the number of files in the content of a valid ``_last_checkpoint``, if it is one."""
    try:
        parts = json.loads(data).get("parts")
    except ValueError:  # a number has too many digits
        return None
    return 1 if parts is None else parts if isinstance(parts, int) else None


def encode_hint(node: Mapping[str, Any]) -> bytes:
    """Return the content of ``_last_checkpoint`` with its checksum; keys keep their order.

    If the two orders of :func:`json_checksums` give different checksums, the checksum is omitted,
    because some readers would find it wrong.
    """
    # Numbers and literals keep their text, because a reader computes the checksum from the text in
    # the file.
    by_path, by_text = json_checksums(_load_verbatim(json.dumps(node).encode()))
    body = dict(node) | ({"checksum": by_path} if by_path == by_text else {})
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def json_checksums(node: dict[str, Any]) -> tuple[str, str]:
    """Return the checksum of a JSON object in both orders that writers use.

    The protocol sorts by path. Delta on Spark sorts the joined ``path=value`` strings. The two
    orders differ for arrays of more than ten scalars. A reader must accept both checksums.
    """
    pairs = list(_flatten({k: v for k, v in node.items() if k != "checksum"}, ""))
    by_path = sorted(pairs, key=lambda pair: pair[0].encode())
    joined = [f"{path}={value}" for path, value in by_path]
    return _md5(joined), _md5(sorted(joined, key=str.encode))


def _md5(parts: list[str]) -> str:
    import hashlib  # loads OpenSSL, and few hints have a checksum

    return hashlib.md5(",".join(parts).encode(), usedforsecurity=False).hexdigest()


def _load_verbatim(data: bytes) -> dict[str, Any]:
    """Return an object; other JSON is an object without members."""
    node = json.loads(
        data,
        parse_int=_Literal,
        parse_float=_Literal,
        parse_constant=_Literal,
        object_pairs_hook=_unique_keys,
    )
    return node if isinstance(node, dict) else {}


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    node = dict(pairs)
    # PROTOCOL.md, "JSON checksum": no key may occur twice.
    if len(node) != len(pairs):
        raise ValueError("duplicate keys")
    return node


def _flatten(node: Any, prefix: str) -> Iterator[tuple[str, str]]:
    match node:
        case dict():
            children = [(f'"{quote(key, safe=_SAFE)}"', value) for key, value in node.items()]
        case list():
            children = [(str(index), value) for index, value in enumerate(node)]
        case _:
            yield prefix, _scalar_text(node)
            return
    for segment, value in children:
        yield from _flatten(value, f"{prefix}+{segment}" if prefix else segment)


def _scalar_text(value: object) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, str):
        return f'"{quote(value, safe=_SAFE)}"'
    return {True: "true", False: "false"}.get(value, "null")  # type: ignore[call-overload,no-any-return]


def move_hint(store: Store, hint: Mapping[str, Any]) -> bool:
    """Write ``_last_checkpoint`` for a checkpoint, unless there is a newer checkpoint.

    The log is listed again, because another writer may have written a checkpoint since the last
    listing. If the present file is not valid, or refers to a missing checkpoint, it is replaced
    too.

    Returns:
        Whether the file was written.
    """
    version = int(hint["version"])
    if any(found.version > version for found in list_log(store, version + 1).checkpoints):
        return False
    # Another writer may write a newer one just before this: readers then list a few more files.
    store.put(HINT_NAME, encode_hint(hint))
    return True
