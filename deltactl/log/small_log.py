"""Read a short log without Arrow, because the import of Arrow would take most of the time.

Only simple logs are read: no checkpoint, a few commits, actions with fields of the expected types,
and paths that normalization and decoding do not change. For any other log,
:mod:`deltactl.log.snapshot` is used, and it also raises all errors. A log that this module accepts
is also valid for :mod:`deltactl.log.snapshot`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.errors import MALFORMED, CorruptLogError, DeltactlError
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.listing import LogListing
from deltactl.log.segment import LogSegment, select_segment
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.names import commit_version
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.store import Store

_MOST_BYTES: Final = 512 << 10
_MOST_COMMITS: Final = 100

_INT64: Final = range(-(1 << 63), 1 << 63)
# Neither normalization nor decoding changes these paths. Segments of dots are excluded.
_PLAIN_PATH: Final = re.compile(r"\w[\w=-]*(?:[./][\w=-]+)*", re.ASCII)
_FILE_ACTIONS: Final = frozenset({"add", "remove"})
_NON_FILE_ACTIONS: Final = frozenset({"protocol", "metaData", "txn", "domainMetadata"})
_NOTES: Final = frozenset({"commitInfo", "cdc"})


class _NotPlainError(ValueError):
    """The log is not simple, so the full reader must be used."""


@dataclass(frozen=True, slots=True)
class SmallLog:
    """A version of a table with a short log. ``sizes`` are the sizes of its live files in bytes."""

    version: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata]
    segment: LogSegment
    sizes: Sequence[int] = field(repr=False)


class ReadBefore(ForwardingStore):
    """A store that caches the commits that were read, so that no commit is read twice."""

    def __init__(self, inner: Store) -> None:
        """Wrap ``inner``."""
        super().__init__(inner)
        self._contents: dict[str, bytes] = {}

    def keep(self, names: Sequence[str]) -> list[bytes]:
        """Read files, and keep their contents in the cache."""
        contents = list(self._inner.read_many(names))
        self._contents = dict(zip(names, contents, strict=True))
        return contents

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._contents[name] if name in self._contents else self._inner.read(name)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents of files."""
        rest = self._inner.read_many([name for name in names if name not in self._contents])
        for name in names:
            yield self._contents[name] if name in self._contents else next(rest)


def read_small_log(
    store: ReadBefore, listing: LogListing, version: int | None = None
) -> SmallLog | None:
    """Rebuild a version from a short, simple log; return ``None`` for any other log.

    Raises:
        StorageError: a commit cannot be read.
    """
    try:
        segment = select_segment(listing, version, where=store.uri)
    except DeltactlError:
        return None
    names = [info.name for info in segment.tail]
    if (
        segment.checkpoint is not None
        or len(names) > _MOST_COMMITS
        or sum(info.size_bytes for info in segment.tail) > _MOST_BYTES
        or any(commit_version(name) is None for name in names)
    ):
        return None
    replay = _Replay()
    try:
        for content in store.keep(names):
            replay.read(content)
    except (_NotPlainError, CorruptLogError, RecursionError, *MALFORMED):
        return None
    return replay.finish(segment)


class _Replay:
    """Replay commits in ascending order. The latest action of each path is kept."""

    def __init__(self) -> None:
        self._found = NonFileActions()
        self._sizes: dict[str, int | None] = {}

    def read(self, content: bytes) -> None:
        text = content.decode()
        if "\r" in text or "\\u" in text or not text.strip():
            raise _NotPlainError
        for line in text.split("\n"):
            if line:
                self._apply(_DECODER.decode(line))

    def _apply(self, action: Any) -> None:
        if not isinstance(action, dict) or len(action) != 1:
            raise _NotPlainError
        kind, node = next(iter(action.items()))
        if not isinstance(node, dict):
            raise _NotPlainError
        if kind in _NON_FILE_ACTIONS:
            self._found.apply(action)
            if kind == "metaData" and self._found.metadata is not None:
                _ = self._found.partition_keys  # raises if a schema is needed but invalid
        elif kind in _FILE_ACTIONS:
            _ensure_plain(node)
            size = max(node.get("size") or 0, 0)
            self._sizes[node["path"]] = size if kind == "add" else None
        elif kind not in _NOTES:
            raise _NotPlainError

    def finish(self, segment: LogSegment) -> SmallLog | None:
        found = self._found
        if found.protocol is None or found.metadata is None:
            return None
        sizes = [size for size in self._sizes.values() if size is not None]
        return SmallLog(
            segment.version, found.protocol, found.metadata, found.live_domains, segment, sizes
        )


def _ensure_plain(node: Mapping[str, Any]) -> None:
    for name, value in node.items():
        if value is not None and not _MEMBERS.get(name, _is_anything)(value):
            raise _NotPlainError
    if not isinstance(node.get("path"), str):
        raise _NotPlainError


def _is_anything(_: object) -> bool:
    return True


def _is_plain_path(value: object) -> bool:
    return isinstance(value, str) and _PLAIN_PATH.fullmatch(value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return type(value) is int and value in _INT64


def _is_string_map(value: object) -> bool:
    return isinstance(value, dict) and all(it is None or _is_text(it) for it in value.values())


def _is_nothing(_: object) -> bool:
    return False


_MEMBERS: Final[Mapping[str, Callable[[object], bool]]] = {
    "path": _is_plain_path,
    "partitionValues": _is_string_map,
    "size": _is_integer,
    "stats": _is_text,
    "tags": _is_string_map,
    "deletionVector": _is_nothing,  # it would be part of the file's key
    "baseRowId": _is_integer,
    "defaultRowCommitVersion": _is_integer,
    "dataChange": _is_flag,
    "modificationTime": _is_integer,
    "clusteringProvider": _is_text,
    "deletionTimestamp": _is_integer,
    "extendedFileMetadata": _is_flag,
}
"""The members of file actions that ``commits/columns.py`` reads."""


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _NotPlainError
    return members


def _refuse_constant(_: str) -> float:
    raise _NotPlainError


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_members_once, parse_constant=_refuse_constant)
