"""List the files of one version or of all versions, and check older versions in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.errors import CorruptLogError
from deltactl.log.commits.file_actions import KEY_COLUMNS, sized_file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.commits import CommitChecker
from deltactl.operations.check.files import Cut, as_batch
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.protocol import Readable, check_protocol
from deltactl.operations.check.state import PARTITION_COLUMNS, check_partitions
from deltactl.operations.check.tasks import BATCH
from deltactl.protocol.actions import Metadata

_COLUMNS: Final = tuple(BATCH.names[:-1])


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The live files of a version."""

    snapshot: Snapshot

    @property
    def metadata(self) -> tuple[Metadata, ...]:
        """Return the metaData action of the version."""
        return (self.snapshot.metadata,)

    def batches(self) -> Iterator[Cut]:
        """Stream the files."""
        for batch in self.snapshot.file_batches(_COLUMNS):
            yield 0, as_batch(batch)


@dataclass(frozen=True, slots=True)
class _Run:
    """Versions of commits that share one metaData action."""

    metadata: Metadata
    versions: list[int]


@dataclass(frozen=True, slots=True)
class AllFiles:
    """Files of every rebuildable version, each once, with the metaData of its commit.

    Memory: 8 bytes per file.
    """

    log: DeltaLog
    latest: Snapshot
    oldest: Snapshot
    runs: Sequence[_Run]

    @property
    def metadata(self) -> tuple[Metadata, ...]:
        """Return the latest metaData, then those of the runs of commits."""
        return (self.latest.metadata, *(run.metadata for run in self.runs))

    def batches(self) -> Iterator[Cut]:
        """Stream live files, then those that only older versions have."""
        for number, batch in self._fresh(_COLUMNS):
            yield number, as_batch(batch, is_live=number == 0)

    def check_partitions(self, findings: Findings) -> None:
        """Check partition values of files that only older versions have."""
        for number, batch in self._fresh(PARTITION_COLUMNS):
            if number:
                check_partitions(batch, self.runs[number - 1].metadata, None, findings)

    def _fresh(self, columns: Sequence[str]) -> Iterator[Cut]:
        """Yield the files of the latest version, then other files, each once.

        A file that was replaced in place, with another size, is another file.
        """
        columns = list(dict.fromkeys([*columns, *KEY_COLUMNS, "size_bytes"]))
        seen = SeenKeys()
        for batch in self.latest.file_batches(columns):
            seen.take(sized_file_keys(batch))
            yield 0, batch
        for number, batch in self._older(columns):
            yield number, batch.filter(seen.take(sized_file_keys(batch)))

    def _older(self, columns: Sequence[str]) -> Iterator[Cut]:
        for batch in self.oldest.file_batches(columns):
            yield 1, batch
        for number, run in enumerate(self.runs, 1):
            for parsed in self.log.parsed_commits(run.versions, run.metadata.partition_keys):
                yield number, parsed.adds.select(columns)


def find_all_files(
    log: DeltaLog, latest: Snapshot, commits: CommitChecker, findings: Findings
) -> tuple[AllFiles, Readable]:
    """Find the files of all versions and check them in the log; return the level of readability.

    Raises:
        CorruptLogError: the oldest version cannot be rebuilt, or a schema is invalid.
    """
    first = log.first_rebuildable()
    oldest = log.snapshot(first)
    readable = _check_states(oldest, latest, commits, findings)
    if readable is Readable.NOTHING:
        raise CorruptLogError("the schema of a version is invalid")
    runs = [_Run(oldest.metadata, [])]
    for version in range(first + 1, latest.version + 1):
        if (metadata := commits.metadata.get(version)) is not None:
            runs.append(_Run(metadata, []))
        if version in log.commit_files and version not in commits.broken:
            runs[-1].versions.append(version)
    files = AllFiles(log, latest, oldest, runs)
    files.check_partitions(findings)
    return files, readable


def _check_states(
    oldest: Snapshot, latest: Snapshot, commits: CommitChecker, findings: Findings
) -> Readable:
    """Check each protocol and metaData before the latest; return the least readable level.

    A problem is reported once, where it begins, unless the latest version still has it.
    """
    protocol, metadata, worst = oldest.protocol, oldest.metadata, Readable.ROWS
    known = {(code, problem) for code, _, _, problem in findings.rows}
    changed = (commits.protocols.keys() | commits.metadata.keys()) - commits.broken
    later = [version for version in sorted(changed) if oldest.version < version < latest.version]
    for version in (oldest.version, *later):
        if version > oldest.version:
            protocol = commits.protocols.get(version, protocol)
            metadata = commits.metadata.get(version, metadata)
        found = Findings(notes=findings.notes)
        worst = min(worst, check_protocol(protocol, metadata, version, found))
        for code, _, _, problem in found.rows:
            if (code, problem) not in known:
                known.add((code, problem))
                findings.add(code, problem, version=version)
    return worst
