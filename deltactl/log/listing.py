"""List ``_delta_log``, and sort the files by kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from deltactl.errors import MissingLogFileError, ObjectNotFoundError
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.committers.committer import CommitTail
from deltactl.protocol.names import (
    LAST_CHECKPOINT,
    LAST_VACUUM_INFO,
    LOG_DIR,
    CheckpointFile,
    ChecksumFile,
    CompactedFile,
    parse_commit_name,
    parse_log_name,
    version_prefix,
)
from deltactl.storage.store import FileInfo, Store

# If a version has several complete checkpoints, any of them is correct. deltactl reads the first in
# this order, because every reader can read classic ones (ADR 6). Delta on Spark reads the last.
_KIND_ORDER: Final = {"classic": 0, "multipart": 1, "uuid": 2}


_LOOKS: Final = 4

T = TypeVar("T")


@dataclass(slots=True)
class LogListing:
    """The files of the log from ``start_version`` on."""

    start_version: int
    commits: dict[int, FileInfo] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    empty_checkpoints: list[Checkpoint] = field(default_factory=list)
    """Checkpoint files of 0 bytes: deltactl ignores them, but other readers may fail."""
    compacted: dict[tuple[int, int], FileInfo] = field(default_factory=dict)
    checksums: dict[int, FileInfo] = field(default_factory=dict)
    published_through: int | None = None
    """The version up to which all commits are published; ``None``: all are."""
    has_hint: bool = False
    """Whether there is a ``_last_checkpoint``."""
    vacuum_info_ms: int | None = None
    """The modification time of ``_last_vacuum_info``, if there is one."""

    def add_tail(self, tail: CommitTail) -> None:
        """Add the commits that a committer knows, and drop what is not part of its table.

        Its file of a commit replaces that of the listing. ``tail`` is older than the listing.
        """
        self.commits |= {v: info for v, info in tail.commits.items() if v >= self.start_version}
        self.published_through = tail.published_through
        if tail.latest_version is not None:
            self.drop_after(tail.latest_version)

    def drop_after(self, latest: int) -> None:
        """Drop the files of later versions: they are not part of the table that is read."""
        for files in (self.commits, self.checksums):
            for version in [version for version in files if version > latest]:
                del files[version]
        self.checkpoints = [c for c in self.checkpoints if c.version <= latest]
        self.empty_checkpoints = [c for c in self.empty_checkpoints if c.version <= latest]
        self.compacted = {key: file for key, file in self.compacted.items() if key[1] <= latest}

    @property
    def latest_version(self) -> int | None:
        """Return the latest version that has a commit or a checkpoint, or ``None``."""
        newest = [*self.commits.keys(), *(c.version for c in self.checkpoints)]
        return max(newest, default=None)

    @property
    def oldest_version(self) -> int | None:
        """Return the oldest version that has a commit or a checkpoint, or ``None``."""
        oldest = [*self.commits.keys(), *(c.version for c in self.checkpoints)]
        return min(oldest, default=None)

    @property
    def files_ahead(self) -> dict[str, int]:
        """Return the checksums, compacted files and empty checkpoints beyond the latest version.

        The values are their last versions. Writers write these files after the commits.
        """
        latest = self.latest_version
        if latest is None:
            return {}
        found = {info.name: end for end, info in self.checksums.items() if end > latest}
        longer = {info.name: end for (_, end), info in self.compacted.items() if end > latest}
        empty = {c.names[0]: c.version for c in self.empty_checkpoints if c.version > latest}
        return found | longer | empty

    @property
    def first_commit(self) -> int:
        """Return the oldest version from which no commit is missing, up to the latest version."""
        latest = self.latest_version
        assert latest is not None
        version = latest + 1
        while version - 1 in self.commits:
            version -= 1
        return version


def list_log(store: Store, start_version: int = 0) -> LogListing:
    """List the log, from the files of ``start_version`` on.

    As the protocol requires, incomplete multi-part checkpoints are omitted, and empty checkpoints
    are apart from the others.
    Unknown names are ignored. A missing log gives an empty listing.

    If a commit is missing but a later commit exists, the log is listed again. The reason: if two
    files are created during a listing of a local directory, the listing may show only the later
    one. A commit counts as missing if both listings lack it.
    """
    listing = _list_once(store, start_version)
    missing, before = _first_missing(listing), None
    while missing is not None and missing != before:
        listing = _list_once(store, start_version)
        missing, before = _first_missing(listing), missing
    return listing


def retry_after_log_cleanup(look: Callable[[], T]) -> T:
    """List and read a log. If a log cleanup removed files that were just listed, repeat this.

    ``look`` lists and reads the log. It may be called several times, with the same effects.

    Raises:
        ObjectNotFoundError, MissingLogFileError: in every attempt, listed files did not exist.
    """
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except (ObjectNotFoundError, MissingLogFileError):
            continue
    return look()


def _first_missing(listing: LogListing) -> int | None:
    """Return the first missing commit after the latest checkpoint, if a later commit exists."""
    # An interrupted log cleanup leaves gaps before the latest checkpoint, and they harm nobody.
    newest = max((c.version for c in listing.checkpoints), default=listing.start_version - 1)
    above = sorted(version for version in listing.commits if version > newest)
    expected = range(newest + 1, newest + 1 + len(above))
    return next((e for e, v in zip(expected, above, strict=True) if e != v), None)


def _list_once(store: Store, start_version: int) -> LogListing:
    listing = LogListing(start_version)
    parts: dict[tuple[int, int], dict[int, FileInfo]] = defaultdict(dict)
    for info in store.list_from(LOG_DIR, version_prefix(start_version)):
        name = info.name.rpartition("/")[2]
        # Nearly all files are commits, and this is much faster than `parse_log_name`.
        commit = parse_commit_name(name)
        if commit is not None:
            listing.commits[commit] = info
            continue
        listing.has_hint |= name == LAST_CHECKPOINT
        if name == LAST_VACUUM_INFO:
            listing.vacuum_info_ms = info.modified_ms
        match parse_log_name(name):
            case ChecksumFile(version):
                listing.checksums[version] = info
            case CompactedFile(start, end):
                listing.compacted[start, end] = info
            case CheckpointFile() as found if info.size_bytes > 0:
                _add_checkpoint(listing, parts, found, info)
            case CheckpointFile(version, kind, format=form):
                listing.empty_checkpoints.append(Checkpoint(version, kind, form, (info,)))
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
        parts[found.version, found.num_parts][found.part] = info
        return
    listing.checkpoints.append(Checkpoint(found.version, found.kind, found.format, (info,)))
