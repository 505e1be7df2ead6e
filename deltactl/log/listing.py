"""One listing of ``_delta_log``, sorted into kinds of files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from deltactl.errors import MissingLogFileError, ObjectNotFoundError
from deltactl.protocol.names import (
    LOG_DIR,
    CheckpointFile,
    ChecksumFile,
    CommitFile,
    CompactedFile,
    parse_log_name,
    version_prefix,
)
from deltactl.storage.store import FileInfo, Store

# Of several complete checkpoints at one version any is correct; this order is Delta on Spark's.
_KIND_ORDER: Final = {"classic": 0, "multipart": 1, "uuid": 2}


_LOOKS: Final = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: all parts of one kind at one version (sidecars not counted)."""

    version: int
    kind: str
    format: str
    files: tuple[FileInfo, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Store names of the parts."""
        return tuple(info.name for info in self.files)


@dataclass(slots=True)
class LogListing:
    """What lies in the log from ``start_version`` on."""

    start_version: int
    commits: dict[int, FileInfo] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    compacted: dict[tuple[int, int], FileInfo] = field(default_factory=dict)
    checksums: dict[int, FileInfo] = field(default_factory=dict)

    @property
    def latest_version(self) -> int | None:
        """The newest version that a commit or checkpoint names."""
        newest = [*self.commits.keys(), *(c.version for c in self.checkpoints)]
        return max(newest, default=None)


def list_log(store: Store, start_version: int = 0) -> LogListing:
    """List the log, from the files of ``start_version`` on.

    Incomplete multi-part sets and zero-byte checkpoints are left out, as the protocol demands of
    readers; unknown names are ignored. A missing log gives an empty listing.

    It is listed once, and again only where a commit is missing below another: a folder of a local
    file system, read while files are created in it, may show the later one alone. A commit that
    is missing twice is missing.
    """
    listing = _list_once(store, start_version)
    missing, before = _first_missing(listing), None
    while missing is not None and missing != before:
        listing = _list_once(store, start_version)
        missing, before = _first_missing(listing), missing
    return listing


def outlast_cleanup(look: Callable[[], T]) -> T:
    """List and read a log, and do so again where a log cleanup removed what had just been listed.

    Args:
        look: lists anew each time it is called; what it changes can be done twice.

    Raises:
        ObjectNotFoundError, MissingLogFileError: what is listed is missing time and again.
    """
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except (ObjectNotFoundError, MissingLogFileError):
            continue
    return look()


def _first_missing(listing: LogListing) -> int | None:
    """The lowest version above the newest checkpoint that has no commit, though a later one has."""
    newest = max((c.version for c in listing.checkpoints), default=listing.start_version - 1)
    above = sorted(version for version in listing.commits if version > newest)
    expected = range(newest + 1, newest + 1 + len(above))
    return next((e for e, v in zip(expected, above, strict=True) if e != v), None)


def _list_once(store: Store, start_version: int) -> LogListing:
    listing = LogListing(start_version)
    parts: dict[tuple[int, int], dict[int, FileInfo]] = defaultdict(dict)
    for info in store.list_from(LOG_DIR, version_prefix(start_version)):
        match parse_log_name(info.name.rpartition("/")[2]):
            case CommitFile(version):
                listing.commits[version] = info
            case ChecksumFile(version):
                listing.checksums[version] = info
            case CompactedFile(start, end):
                listing.compacted[start, end] = info
            case CheckpointFile() as found if info.size_bytes > 0:
                _add_checkpoint(listing, parts, found, info)
    for (version, num_parts), files in parts.items():
        if len(files) == num_parts:
            ordered = tuple(files[part] for part in sorted(files))
            listing.checkpoints.append(Checkpoint(version, "multipart", "parquet", ordered))
    listing.checkpoints.sort(key=lambda c: (c.version, _KIND_ORDER[c.kind], c.names))
    return listing


def _add_checkpoint(
    listing: LogListing,
    parts: dict[tuple[int, int], dict[int, FileInfo]],
    found: CheckpointFile,
    info: FileInfo,
) -> None:
    if found.kind == "multipart":
        assert found.part is not None and found.num_parts is not None
        if 1 <= found.part <= found.num_parts:
            parts[found.version, found.num_parts][found.part] = info
        return
    listing.checkpoints.append(Checkpoint(found.version, found.kind, found.format, (info,)))
