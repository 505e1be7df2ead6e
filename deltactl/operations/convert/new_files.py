"""Find the new files of a directory: not in the log, and newer than the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser
from deltactl.log.listing import LogListing
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.convert.directory import FROM_BEFORE, LeftOut
from deltactl.operations.find_files import find_files
from deltactl.units import format_count

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files to add, and files that are omitted; ``unsure`` are files within the margin."""

    fresh: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    unsure: tuple[str, ...]

    def warn_of_doubt(self, warn: Warn) -> None:
        """Warn about files that may be new, or may have been removed long ago."""
        if not self.unsure:
            return
        warn(
            f"{format_count(len(self.unsure), 'file was', 'files were')} left out: "
            f"{', '.join(map(repr, self.unsure[:_SHOWN]))}. deltactl cannot tell whether these "
            "files are new or were removed from the table earlier: the log no longer goes back to "
            "the time when the files were last modified. If the files are new, run `touch` on them"
        )


def choose_new_files(
    snapshot: Snapshot,
    listing: LogListing,
    candidates: Sequence[str],
    watermark_ms: int,
    *,
    margin_ms: int,
) -> NewFiles:
    """Return candidates that are not in the log and are newer than the watermark."""
    names = pa.array(candidates, pa.string())
    known = locate(snapshot.store, _named_paths(snapshot, listing))
    unknown = names.filter(pc.invert(pc.is_in(names, value_set=known))).to_pylist()
    found, _ = find_files(snapshot.store, unknown)
    infos = [info for info in found.values() if info is not None]
    remembers_all = all(version in listing.commits for version in range(snapshot.version + 1))
    limit = watermark_ms - (margin_ms if remembers_all else 0)
    fresh = tuple(info.name for info in infos if info.modified_ms > limit)
    old = [info for info in infos if info.modified_ms <= limit]
    unsure = tuple(info.name for info in old if info.modified_ms > watermark_ms - margin_ms)
    return NewFiles(fresh, tuple(LeftOut(info.name, FROM_BEFORE) for info in old), unsure)


def _named_paths(snapshot: Snapshot, listing: LogListing) -> pa.ChunkedArray:
    """Return every path of the adds and removes in the log."""
    chunks: list[pa.Array] = []
    for batches in (snapshot.file_batches(["path"]), snapshot.tombstone_batches(["path"])):
        for batch in batches:
            chunks += batch["path"].chunks
    # Also commits before the checkpoint: they have tombstones that the checkpoint dropped.
    infos = [info for version, info in listing.commits.items() if version <= snapshot.version]
    contents = snapshot.store.read_many([info.name for info in infos])
    keys = snapshot.metadata.partition_keys
    files = (CommitBytes(i.name, data) for i, data in zip(infos, contents, strict=True))
    for parsed in CommitParser(keys).parse(files):
        chunks += [*parsed.adds["path"].chunks, *parsed.removes["path"].chunks]
    return pa.chunked_array(chunks, pa.string())
