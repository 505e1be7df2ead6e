"""Calculate times of versions, and find the version at a timestamp (time travel).

As in Delta on Spark, a commit is newer than the previous commit by at least a millisecond, even if
the times of the files say otherwise. Source: PROTOCOL.md, "In-Commit Timestamps".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    VersionNotFoundError,
    Warn,
    hint_at_versions,
)
from deltactl.log.commits.contents import (
    CommitReader,
    find_actions,
    in_commit_timestamp,
    uses_in_commit_timestamp,
)
from deltactl.log.listing import LogListing
from deltactl.protocol.properties import TableProperties
from deltactl.units import HOUR_MS, MAX_LONG, format_timestamp

if TYPE_CHECKING:  # Arrow is not needed for times
    from deltactl.log.segment import LogSegment
    from deltactl.protocol.actions import Metadata

_SECOND_MS: Final = 1000
_FAR_OFF_MS: Final = 60 * _SECOND_MS


def file_times(listing: LogListing, versions: Iterable[int]) -> dict[int, int]:
    """Return the times of commit files, strictly ascending: each at least 1 ms after the last."""
    ordered = sorted(versions)
    found = (listing.commits[version].modified_ms for version in ordered)
    times = accumulate(found, lambda before, time: max(time, before + 1))
    return dict(zip(ordered, times, strict=True))


def find_misdated(
    reader: CommitReader, listing: LogListing, metadata: Metadata, last: int, span: tuple[int, int]
) -> int | None:
    """Return the first commit up to version ``last`` that may have been written in a time span.

    If the file of a commit is dated more than an hour before that of an earlier one, the clock of a
    writer was wrong, unless the in-commit timestamp has the date of the file. Only the next commit
    whose date is not, shows until when it was written. Dates after the span prove nothing.
    """
    start_ms, now_ms = span
    dated = sorted((version, file.modified_ms) for version, file in listing.commits.items())
    times = [(version, time) for version, time in dated if time <= now_ms]
    newest_times = accumulate((time for _, time in times), max)
    until_ms, found = now_ms, list[tuple[int, int]]()
    for (version, time), newest in reversed([*zip(times, newest_times, strict=True)]):
        if newest - time <= HOUR_MS:
            until_ms = time
        elif version <= last and until_ms > start_ms:
            found.append((version, time))
    for version, time in reversed(found):
        if not uses_in_commit_timestamp(metadata, version):
            return version
        try:
            stated = reader.read_one(listing.commits[version]).in_commit_timestamp
        except CorruptLogError:  # it has none
            return version
        if stated - time > HOUR_MS:
            return version
    return None


def find_clamped(
    reader: CommitReader, listing: LogListing, metadata: Metadata, last: int
) -> int | None:
    """Return the first of the commits up to version ``last`` that may be newer than they say.

    If the clock of a writer is behind the previous commit, the in-commit timestamp is that of this
    commit plus 1 ms, however long ago it was. ``timestamp`` of ``commitInfo`` has the clock.
    """
    found = None
    for version in range(last, -1, -1):
        if version not in listing.commits or not uses_in_commit_timestamp(metadata, version):
            break
        info = reader.read_one(listing.commits[version]).info
        stated, clock = in_commit_timestamp(info), (info or {}).get("timestamp")
        if stated is None or not isinstance(clock, int) or stated - clock <= HOUR_MS:
            break
        found = version
    return found


class InCommitTimes(Sequence[int]):
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
    warn: Warn,
    allow_later: bool = False,
) -> int:
    """Return the last version that was committed at or before a time.

    Args:
        reader: of the commits.
        listing: the whole log.
        metadata: the metadata of the latest version, which says from when in-commit timestamps
            apply.
        timestamp_ms: ms since 1970 UTC.
        warn: is told if times of files that do not ascend decide which version it is.
        allow_later: if the time is after the latest version, whether to return this version instead
            of an error.

    Raises:
        VersionNotFoundError: the time is before the oldest commit in the log, or after the latest.
        LogGapError: the next commit is missing, so its version may have been the current one.
            With ``allow_later``, the version before the gap is returned.
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
    # Earlier versions have only times of files (PROTOCOL.md, "In-Commit Timestamps").
    if timed and timestamp_ms >= enabled_at:
        chosen: Sequence[int] = timed
        times: Sequence[int] = InCommitTimes(reader, listing, timed)
    else:
        # If no earlier commit is left, the error shows the oldest commit that is.
        chosen = untimed or timed
        times = list(file_times(listing, chosen).values())
    position = bisect_right(times, timestamp_ms)
    asked = format_timestamp(timestamp_ms)
    if position == 0:
        raise VersionNotFoundError(
            f"{asked} is before the first commit that is still in the log of {reader.store.uri} "
            f"(version {chosen[0]}, {format_timestamp(times[0])})",
            hint=hint_at_versions(reader.store.uri),
        )
    if position == len(times) and chosen[-1] == latest and times[-1] < timestamp_ms:
        if allow_later:
            return latest
        raise VersionNotFoundError(
            f"{asked} is after the latest commit of {reader.store.uri} "
            f"(version {latest}, {format_timestamp(times[-1])})",
            hint=hint_at_versions(reader.store.uri),
        )
    if not allow_later:
        _warn_of_same_second(chosen, times, position, timestamp_ms, warn)
    if chosen is not timed:
        known = dict(zip(chosen[position - 1 :], times[position - 1 :], strict=True))
        warn_of_late_times(listing, known, timestamp_ms, warn)
    if not allow_later and times[position - 1] < timestamp_ms:
        _ensure_next_commit(listing, chosen[position - 1], timestamp_ms, reader.store.uri)
    return chosen[position - 1]


def _warn_of_same_second(
    versions: Sequence[int], times: Sequence[int], position: int, timestamp_ms: int, warn: Warn
) -> None:
    """Warn if a time without milliseconds is that of a later version, which lists show so."""
    if timestamp_ms % _SECOND_MS or position == len(times) or times[position - 1] == timestamp_ms:
        return
    if times[position] < timestamp_ms + _SECOND_MS:
        warn(
            f"{format_timestamp(timestamp_ms)} is taken as version {versions[position - 1]}. "
            f"Version {versions[position]} was committed in the same second, at "
            f"{format_timestamp(times[position])}"
        )


def _ensure_next_commit(listing: LogListing, found: int, timestamp_ms: int, where: str) -> None:
    later = min((version for version in listing.commits if version > found), default=found + 1)
    if later == found + 1:
        return
    lost = f"{found + 1}" if later == found + 2 else f"{found + 1} to {later - 1}"
    raise LogGapError(
        f"it is unknown which version of {where} was current at {format_timestamp(timestamp_ms)}: "
        f"it is after version {found} and before version {later}, and the log has no commit of "
        f"version {lost}",
        hint=hint_at_versions(where),
    )


def warn_of_late_times(
    listing: LogListing, times: Mapping[int, int], timestamp_ms: int, warn: Warn
) -> None:
    """Warn if a version after the first of ``times``, the one found, is late by its order only.

    ``times`` are those of ``file_times``, in ms since 1970 UTC.
    """
    found, *later = times
    own = {version: listing.commits[version].modified_ms for version in times}
    older = [v for v in later if own[v] <= timestamp_ms and times[v] - own[v] >= _FAR_OFF_MS]
    if older:
        newer = max(range(found, older[-1]), key=lambda version: own.get(version, 0))
        warn(
            f"{format_timestamp(timestamp_ms)} is taken as version {found}, as by Delta on Spark, "
            f"but the commit of version {older[-1]} has a file of "
            f"{format_timestamp(own[older[-1]])}. The file of version {newer} is of "
            f"{format_timestamp(own[newer])}, perhaps a copy, and so later versions count as still "
            "later. To be sure, choose a version by its number"
        )


def commit_timestamp(reader: CommitReader, segment: LogSegment, metadata: Metadata) -> int:
    """Return when the version of a segment was committed, in ms since 1970 UTC."""
    if segment.commit is not None and uses_in_commit_timestamp(metadata, segment.version):
        return reader.read_one(segment.commit).in_commit_timestamp
    return segment.modified_ms


class CommitTimes:
    """Find the times of versions. Commits must be passed from newest to oldest.

    The latest metaData contains the version from which in-commit timestamps apply. But to find the
    metaData, the whole log may have to be read. This is not necessary. While in-commit timestamps
    are enabled, a writer must put one into every commit. So if the latest commit has none, they are
    disabled. And the commit that enables them contains a metaData.
    """

    def __init__(self, listing: LogListing) -> None:
        """Use the times of commit files until commits are passed."""
        self._listing = listing
        self._newest_seen = False
        self.uses_in_commit = False
        """Whether in-commit timestamps apply to the latest version."""
        self._since: int | None = None  # the first version with one, by the latest metaData
        self._oldest_timed: int | None = None  # the same, by the commits that were passed so far
        self._in_commit: dict[int, int] = {}
        self._chains: dict[int | None, dict[int, int]] = {}

    def see(self, version: int, name: str, info: dict[str, Any], data: bytes) -> None:
        """Take the next commit; ``info`` is its ``commitInfo``."""
        own = in_commit_timestamp(info)
        if not self._newest_seen:
            self._newest_seen, self.uses_in_commit = True, own is not None
        if not self.uses_in_commit:
            return
        # JSON allows larger numbers, which cannot be shown as times.
        if own is not None and abs(own) <= MAX_LONG:
            self._in_commit[version] = own
            self._oldest_timed = version
        if self._since is None:
            self._learn_properties(name, data)

    def _learn_properties(self, name: str, data: bytes) -> None:
        try:
            metadata = next(find_actions(name, data, "metaData"), None)
        # The row of the commit shows the problem.
        except CorruptLogError:
            return
        if metadata is None:
            return
        configuration = metadata.get("configuration")
        texts = configuration.items() if isinstance(configuration, dict) else ()
        properties = TableProperties({key: it for key, it in texts if isinstance(it, str)})
        since = properties.in_commit_since
        self.uses_in_commit, self._since = since is not None, since

    @property
    def since(self) -> int | None:
        """Return the first version with an in-commit timestamp, among the commits passed."""
        if not self.uses_in_commit:
            return None
        return self._oldest_timed if self._since is None else self._since

    def timestamp_ms(self, version: int) -> int:
        """Return when a version was committed, in ms since 1970 UTC. Its commit file must exist."""
        since = self.since
        if since is not None and version >= since:
            own = self._in_commit.get(version)
            return self._listing.commits[version].modified_ms if own is None else own
        return self._chain(since)[version]

    def lacks_timestamp(self, version: int) -> bool:
        """Return whether a version has no in-commit timestamp although the table requires one."""
        since = self.since
        return since is not None and version >= since and version not in self._in_commit

    def version_range(self, since_ms: int | None, until_ms: int | None) -> tuple[int, int]:
        """Return the first and last version committed in a time range, by times of the files."""
        chain = self._chain(None)
        versions, times = list(chain), list(chain.values())
        low = 0 if since_ms is None else bisect_left(times, since_ms)
        high = len(times) if until_ms is None else bisect_right(times, until_ms)
        return (versions[low], versions[high - 1]) if low < high else (1, 0)

    def _chain(self, before: int | None) -> dict[int, int]:
        """Return strictly ascending file times of versions: those below ``before``, or all."""
        if before not in self._chains:
            versions = (v for v in self._listing.commits if before is None or v < before)
            self._chains[before] = file_times(self._listing, versions)
        return self._chains[before]
