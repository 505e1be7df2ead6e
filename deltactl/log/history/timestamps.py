"""Calculate times of versions, and find the version at a timestamp (time travel).

As in Delta on Spark, a commit is newer than the previous commit by at least a millisecond, even if
the times of the files say otherwise. Source: PROTOCOL.md, "In-Commit Timestamps".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from deltactl.errors import VersionNotFoundError
from deltactl.log.commits.contents import CommitReader
from deltactl.log.commits.info import uses_in_commit_timestamp
from deltactl.log.listing import LogListing
from deltactl.protocol.properties import TableProperties
from deltactl.units import format_timestamp

if TYPE_CHECKING:  # Arrow is not needed for times
    from deltactl.log.segment import LogSegment
    from deltactl.protocol.actions import Metadata

_HINT: Final = "Run `deltactl describe-history --all` to list the versions and their times."


def file_times(listing: LogListing, versions: Iterable[int]) -> dict[int, int]:
    """Return the times of commit files, strictly ascending: each at least 1 ms after the last."""
    ordered = sorted(versions)
    found = (listing.commits[version].modified_ms for version in ordered)
    times = accumulate(found, lambda before, time: max(time, before + 1))
    return dict(zip(ordered, times, strict=True))


class _InCommitTimes(Sequence[int]):
    """In-commit timestamps of versions. Each is read when a binary search needs it."""

    def __init__(self, reader: CommitReader, listing: LogListing, versions: Sequence[int]) -> None:
        self._reader, self._listing, self._versions = reader, listing, versions

    def __len__(self) -> int:
        return len(self._versions)

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        file = self._listing.commits[self._versions[index]]
        return self._reader.read_one(file).in_commit_timestamp


def resolve_timestamp(
    reader: CommitReader,
    listing: LogListing,
    metadata: Metadata,
    timestamp_ms: int,
    *,
    allow_later: bool = False,
) -> int:
    """Return the last version that was committed at or before a time.

    Args:
        reader: of the commits.
        listing: the whole log.
        metadata: the metadata of the latest version, which says from when in-commit timestamps
            apply.
        timestamp_ms: ms since 1970 UTC.
        allow_later: if the time is after the latest version, whether to return this version instead
            of an error.

    Raises:
        VersionNotFoundError: the time is before the oldest commit in the log, or after the latest.
    """
    versions = sorted(listing.commits)
    if not versions:
        raise VersionNotFoundError(
            f"{reader.store.uri} has no commits, so no version can be found for a timestamp"
        )
    latest = versions[-1]
    properties = TableProperties(metadata.configuration)
    since = properties.in_commit_since
    first_timed = len(versions) if since is None else bisect_left(versions, since)
    untimed, timed = versions[:first_timed], versions[first_timed:]
    enabled_at = properties.integer("delta.inCommitTimestampEnablementTimestamp", 0)
    if timed and timestamp_ms >= enabled_at:
        chosen: Sequence[int] = timed
        times: Sequence[int] = _InCommitTimes(reader, listing, timed)
    else:
        chosen = untimed or timed
        times = list(file_times(listing, chosen).values())
    position = bisect_right(times, timestamp_ms)
    asked = format_timestamp(timestamp_ms)
    if position == 0:
        raise VersionNotFoundError(
            f"{asked} is before the first commit that is still in the log of {reader.store.uri} "
            f"(version {chosen[0]}, {format_timestamp(times[0])})",
            hint=_HINT,
        )
    if position == len(times) and chosen[-1] == latest and times[-1] < timestamp_ms:
        if allow_later:
            return latest
        raise VersionNotFoundError(
            f"{asked} is after the latest commit of {reader.store.uri} "
            f"(version {latest}, {format_timestamp(times[-1])})",
            hint=_HINT,
        )
    return chosen[position - 1]


def commit_timestamp(reader: CommitReader, segment: LogSegment, metadata: Metadata) -> int:
    """Return when the version of a segment was committed, in ms since 1970 UTC."""
    if segment.commit is None:
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].modified_ms
    if uses_in_commit_timestamp(metadata, segment.version):
        return reader.read_one(segment.commit).in_commit_timestamp
    return segment.commit.modified_ms
