"""Find the time of each version while the commits are read.

The latest metaData contains the version from which in-commit timestamps apply. But to find the
metaData, the whole log may have to be read. This is not necessary. While in-commit timestamps are
enabled, a writer must put one into every commit. So if the latest commit has none, they are
disabled. And the commit that enables them contains a metaData.

Source: PROTOCOL.md, "In-Commit Timestamps".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from deltactl.errors import CorruptLogError
from deltactl.log.commits.info import find_actions, in_commit_timestamp
from deltactl.log.history.timestamps import file_times
from deltactl.log.listing import LogListing
from deltactl.protocol.properties import TableProperties

_MAX_LONG = 2**63 - 1


class CommitTimes:
    """Find the times of versions. Commits must be passed from newest to oldest."""

    def __init__(self, listing: LogListing) -> None:
        """Use the times of commit files until commits are passed."""
        self._listing = listing
        self._newest_seen = False
        self._uses_in_commit = False
        self._since: int | None = None  # the first version with one, by the latest metaData
        self._oldest_timed: int | None = None  # the same, by the commits that were passed so far
        self._in_commit: dict[int, int] = {}
        self._chains: dict[int | None, dict[int, int]] = {}

    @property
    def uses_in_commit(self) -> bool:
        """Return whether in-commit timestamps apply to the latest version."""
        return self._uses_in_commit

    def see(self, version: int, name: str, info: dict[str, Any], data: bytes) -> None:
        """Take the next commit; ``info`` is its ``commitInfo``."""
        own = in_commit_timestamp(info)
        if not self._newest_seen:
            self._newest_seen, self._uses_in_commit = True, own is not None
        if not self._uses_in_commit:
            return
        if own is not None and abs(own) <= _MAX_LONG:
            self._in_commit[version] = own
            self._oldest_timed = version
        if self._since is None:
            self._learn_properties(name, data)

    def _learn_properties(self, name: str, data: bytes) -> None:
        try:
            metadata = next(find_actions(name, data, "metaData"), None)
        except CorruptLogError:
            return
        if metadata is None:
            return
        configuration = metadata.get("configuration")
        texts = configuration.items() if isinstance(configuration, dict) else ()
        properties = TableProperties({key: it for key, it in texts if isinstance(it, str)})
        since = properties.in_commit_since
        self._uses_in_commit, self._since = since is not None, since

    @property
    def since(self) -> int | None:
        """Return the first version with an in-commit timestamp, among the commits passed."""
        if not self._uses_in_commit:
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
