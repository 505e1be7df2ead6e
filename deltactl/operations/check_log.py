"""Checks of the log itself: no version is missing, and every commit says one thing.

Source: PROTOCOL.md, "Delta Log Entries", "Action Reconciliation", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.log.commit_changes import count_changes
from deltactl.log.commit_info import find_actions, in_commit_timestamp
from deltactl.log.commit_json import LogFile
from deltactl.log.listing import Checkpoint, LogListing
from deltactl.log.rebuildable import find_problem
from deltactl.operations.check_findings import Findings
from deltactl.protocol.actions import Metadata, parse_metadata
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store

_AT_MOST_ONE = ("protocol", "metaData")


def check_gaps(listing: LogListing, findings: Findings) -> None:
    """Find versions that are missing above the oldest one that stands by itself.

    What lies below it may be what log cleanup left over.
    """
    anchors = {c.version for c in listing.checkpoints} | ({0} & listing.commits.keys())
    oldest, newest = min(anchors, default=-1), max(anchors, default=-1)
    known = sorted({oldest, *(version for version in listing.commits if version > oldest)})
    for before, after in pairwise(known):
        if after - before == 1:
            continue
        first, last = before + 1, after - 1
        code = "LOG_GAP" if last > newest else "HISTORY_GAP"
        missing = f"commit {first} is" if first == last else f"commits {first} to {last} are"
        where = f"before version {after}" if before < 0 else f"between {before} and {after}"
        findings.add(
            code,
            f"{missing} missing {where}",
            version=first,
            file=f"{LOG_DIR}/{commit_name(first)}",
        )


def check_newest(listing: LogListing, findings: Findings) -> None:
    """Find newest commits that are gone: a version checksum is written after its commit."""
    latest, newest = listing.latest_version, max(listing.checksums, default=-1)
    if latest is not None and newest > latest:
        findings.add(
            "LOG_GAP",
            f"the log ends at version {latest}, but there is a checksum of version {newest}",
            version=latest + 1,
            file=f"{LOG_DIR}/{commit_name(newest)}",
        )


def check_checkpoint_heads(
    store: Store, listing: LogListing, findings: Findings
) -> frozenset[Checkpoint]:
    """Look into every complete checkpoint; give those that cannot be used."""
    broken = set()
    for checkpoint in listing.checkpoints:
        if (problem := find_problem(store, checkpoint)) is not None:
            broken.add(checkpoint)
            version, name = checkpoint.version, checkpoint.names[0]
            findings.add("CHECKPOINT_UNREADABLE", problem, version=version, file=name)
    return frozenset(broken)


class CommitChecker:
    """Reads every commit once; keeps what is told only by all of them together.

    ``broken`` are versions whose commit cannot be parsed, ``metadata`` the metaData actions of the
    others, by version.
    """

    def __init__(self, store: Store, listing: LogListing, findings: Findings) -> None:
        self._store, self._listing, self._findings = store, listing, findings
        self._times: dict[int, int | None] = {}
        self.broken: set[int] = set()
        self.metadata: dict[int, Metadata] = {}

    def run(self) -> None:
        """Parse all commits.

        Raises:
            StorageError: one cannot be read.
        """
        versions = sorted(self._listing.commits)
        changes = count_changes(self._read(versions))
        for version, change in zip(versions, changes, strict=True):
            if isinstance(change, CorruptLogError):
                self.broken.add(version)
                self._add("COMMIT_UNREADABLE", change.message, version)

    def check_times(self, metadata: Metadata) -> None:
        """Check in-commit timestamps where the table has them: each is there, and they ascend."""
        properties = TableProperties(metadata.configuration)
        if not properties.in_commit_timestamps:
            return
        since = properties.integer("delta.inCommitTimestampEnablementVersion", 0)
        newest: int | None = None
        for version, time in self._times.items():
            if version < since or version in self.broken:
                continue
            if time is None:
                problem = "it has no inCommitTimestamp, which the table enables"
                self._add("COMMIT_TIME", problem, version)
            elif newest is not None and time <= newest:
                self._add(
                    "COMMIT_TIME", f"its inCommitTimestamp {time} is not after {newest}", version
                )
            newest = time if newest is None or time is None else max(newest, time)

    def _read(self, versions: list[int]) -> Iterator[LogFile]:
        names = [self._listing.commits[version].name for version in versions]
        contents = self._store.read_many(names)
        for version, name, data in zip(versions, names, contents, strict=True):
            try:
                self._look(version, name, data)
            except (CorruptLogError, *MALFORMED):
                self._times[version] = None  # parsing will say it
            yield LogFile(name, data)

    def _look(self, version: int, name: str, data: bytes) -> None:
        info = next(find_actions(name, data, "commitInfo"), None)
        self._times[version] = in_commit_timestamp(info)
        for action in _AT_MOST_ONE:
            found = list(find_actions(name, data, action))
            if len(found) > 1:
                self._add("COMMIT_AMBIGUOUS", f"it has {len(found)} {action} actions", version)
            if found and action == "metaData":
                self.metadata[version] = parse_metadata(found[-1])

    def _add(self, code: str, problem: str, version: int) -> None:
        name = self._listing.commits[version].name
        self._findings.add(code, problem, version=version, file=name)
