"""Find the time of each version, while the commits are read.

Source: PROTOCOL.md, "In-Commit Timestamps". The latest metaData contains the version from which
in-commit timestamps apply, but to load it, the whole log may have to be read. It is not needed.
While in-commit timestamps are enabled, a writer must put one into every commit: if the latest
commit has none, they are disabled. The commit that enables them contains the metaData.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from deltactl.errors import CorruptLogError
from deltactl.log.commits.info import find_actions, in_commit_timestamp
from deltactl.log.history.timestamps import monotonise
from deltactl.log.listing import LogListing
from deltactl.protocol.properties import TableProperties

_MAX_LONG = 2**63 - 1


class CommitTimes:
    """Find the times of versions; commits must be passed newest first."""

    def __init__(self, listing: LogListing) -> None:
        """Start with the times of the commit files."""
        self._listing = listing
        self._newest_seen = False
        self._uses_in_commit = False
        self._since: int | None = None  # by the latest metaData
        self._oldest_timed: int | None = None  # by the commits seen
        self._in_commit: dict[int, int] = {}
        self._chains: dict[int, dict[int, int]] = {}

    @property
    def uses_in_commit(self) -> bool:
        """Return whether in-commit timestamps apply to the latest version."""
        return self._uses_in_commit

    def see(self, version: int, name: str, info: dict[str, Any], data: bytes) -> None:
        """Use a commit; ``info`` is its ``commitInfo``."""
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
        """Return the first version with an in-commit timestamp, among the commits seen."""
        if not self._uses_in_commit:
            return None
        return self._oldest_timed if self._since is None else self._since

    def timestamp_ms(self, version: int) -> int:
        """Return when a version with a commit file was committed, in ms since 1970 UTC."""
        since = self.since
        if since is not None and version >= since:
            own = self._in_commit.get(version)
            return self._listing.commits[version].modified_ms if own is None else own
        return self._chain(since)[version]

    def lacks_timestamp(self, version: int) -> bool:
        """Return whether a version lacks a required in-commit timestamp."""
        since = self.since
        return since is not None and version >= since and version not in self._in_commit

    def version_range(self, since_ms: int | None, until_ms: int | None) -> tuple[int, int]:
        """Return the versions committed within a time, by file times; both ends included."""
        chain = self._chain(None)
        versions, times = list(chain), list(chain.values())
        low = 0 if since_ms is None else bisect_left(times, since_ms)
        high = len(times) if until_ms is None else bisect_right(times, until_ms)
        return (versions[low], versions[high - 1]) if low < high else (1, 0)

    def _chain(self, before: int | None) -> dict[int, int]:
        """Return strictly ascending file times of the versions ``before`` one, or of all."""
        key = -1 if before is None else before
        if key not in self._chains:
            commits = self._listing.commits
            versions = sorted(v for v in commits if before is None or v < before)
            times = monotonise(commits[v].modified_ms for v in versions)
            self._chains[key] = dict(zip(versions, times, strict=True))
        return self._chains[key]
