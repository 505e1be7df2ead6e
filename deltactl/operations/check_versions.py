"""Which files a check looks into: those of one version, or of every version of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ignore_warning
from deltactl.log.commit_json import CommitParser, LogFile
from deltactl.log.file_actions import file_keys
from deltactl.log.listing import LogListing
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.log.sweep import first_rebuildable
from deltactl.operations.check_files import Cut, as_batch
from deltactl.operations.check_tasks import BATCH
from deltactl.protocol.actions import Metadata

_COLUMNS: Final = tuple(BATCH.names[:-1])


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The live files of a version."""

    snapshot: Snapshot

    @property
    def metadata(self) -> tuple[Metadata, ...]:
        """The version's own."""
        return (self.snapshot.metadata,)

    def batches(self) -> Iterator[Cut]:
        """Stream them."""
        for batch in self.snapshot.file_batches(_COLUMNS):
            yield 0, as_batch(batch)


@dataclass(frozen=True, slots=True)
class AllFiles:
    """Files of every version that can be rebuilt, each once, under the metaData it came with.

    Memory holds the names of all of them.
    """

    latest: Snapshot
    oldest: Snapshot
    commits: Sequence[tuple[Metadata, tuple[str, ...]]]

    @classmethod
    def of(
        cls,
        latest: Snapshot,
        listing: LogListing,
        changes: Mapping[int, Metadata],
        broken: Collection[int],
    ) -> AllFiles:
        """Find the versions.

        Args:
            latest: the newest version.
            listing: the whole log.
            changes: the metaData action of each commit that has one.
            broken: versions whose commit cannot be parsed.

        Raises:
            CorruptLogError: the oldest version cannot be rebuilt.
        """
        first = first_rebuildable(latest.store, listing)
        oldest = load_snapshot(latest.store, first, warn=ignore_warning, listing=listing)
        runs: list[tuple[Metadata, list[str]]] = [(oldest.metadata, [])]
        for version in range(first + 1, latest.version + 1):
            if (metadata := changes.get(version)) is not None:
                runs.append((metadata, []))
            if version in listing.commits and version not in broken:
                runs[-1][1].append(listing.commits[version].name)
        return cls(latest, oldest, [(metadata, tuple(names)) for metadata, names in runs])

    @property
    def metadata(self) -> tuple[Metadata, ...]:
        """The latest, then those of the runs of commits."""
        return (self.latest.metadata, *(metadata for metadata, _ in self.commits))

    def batches(self) -> Iterator[Cut]:
        """Stream live files, then those that only older versions have."""
        seen: list[pa.Array] = []
        for batch in self.latest.file_batches(_COLUMNS):
            seen += file_keys(batch).chunks
            yield 0, as_batch(batch)
        for number, batch in self._older():
            keys = file_keys(batch)
            known = pa.chunked_array(seen, pa.string()).combine_chunks()
            fresh = pc.invert(pc.is_in(keys, value_set=known))
            seen += keys.filter(fresh).chunks
            yield number, as_batch(batch.filter(fresh), is_live=False)

    def _older(self) -> Iterator[Cut]:
        for batch in self.oldest.file_batches(_COLUMNS):
            yield 1, batch
        for number, (metadata, names) in enumerate(self.commits, 1):
            parser = CommitParser(f.physical_name for f in metadata.partition_fields)
            contents = zip(names, self.latest.store.read_many(names), strict=True)
            for parsed in parser.parse(LogFile(name, data) for name, data in contents):
                yield number, parsed.adds.select(_COLUMNS)
