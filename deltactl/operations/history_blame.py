"""``describe-history --blame``: the commits that touched a partition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltactl.errors import CorruptLogError, UsageError, Warn
from deltactl.log.history import CommitRecord, Selection, read_history
from deltactl.log.history_columns import HistoryRow
from deltactl.log.listing import list_log
from deltactl.log.snapshot import load_snapshot
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.storage.store import Store

if TYPE_CHECKING:
    from deltactl.log.commit_changes import CommitChange

Partition = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class BlameReport:
    """The commits that touched the partition, newest first, and what each did to its files.

    ``oldest_version`` is that of the oldest commit left: older ones may have touched it too.
    """

    latest_version: int
    oldest_version: int
    partition: Partition
    rows: list[HistoryRow]
    changes: Mapping[int, CommitChange]
    num_unread: int


def parse_partition(text: str) -> dict[str, str | None]:
    """Read ``day=2024-01-31/region=eu``, as folders are named; some columns may be left out.

    Raises:
        UsageError: it is not of this form.
    """
    values: dict[str, str | None] = {}
    for part in text.strip("/").split("/"):
        name, equals, value = part.partition("=")
        if not (name and equals):
            raise UsageError(
                f"{text!r} does not name a partition", hint="write day=2024-01-31/region=eu"
            )
        values[hive_unescape(name)] = hive_value(value)
    return values


def blame_partition(
    store: Store, partition: Partition, selection: Selection, warn: Warn
) -> BlameReport:
    """Find the commits of a selection that added or removed files of a partition.

    Every selected commit that is left in the log is read; memory holds what is found.

    Raises:
        UsageError: the table is not partitioned by these columns.
        NotATableError: there is no log.
        CorruptLogError: the latest version cannot be rebuilt, so its columns are not known.
    """
    listing = list_log(store)
    metadata = load_snapshot(store, warn=warn, listing=listing).metadata
    names = {field.name: field.physical_name for field in metadata.partition_fields}
    for name in partition:
        if name not in names:
            known = ", ".join(names) or "none"
            raise UsageError(
                f"{name!r} is no partition column of {store.uri}",
                hint=f"the partition columns: {known}",
            )
    observer = _Blame({names[name]: value for name, value in partition.items()})
    history = read_history(store, listing, replace(selection, limit=None), observer=observer)
    rows = [row for row in history.rows if _is_shown(row, observer)]
    shown = rows[: selection.limit]
    return BlameReport(
        history.latest_version,
        min(listing.commits, default=history.latest_version),
        partition,
        shown,
        observer.found,
        len(rows) - len(shown),
    )


def _is_shown(row: HistoryRow, observer: _Blame) -> bool:
    """Whether a commit touched the partition, or nobody can tell: it is missing or broken."""
    return row["version"] in observer.found or row["problem"] is not None


class _Blame:
    """Takes commits as they are read, and keeps what they did to the partition."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.found: dict[int, CommitChange] = {}
        self._traces = [_traces(value) for value in partition.values()]

    def see(self, record: CommitRecord, data: bytes) -> None:
        """Look at a commit, and closely if the values occur in it."""
        from deltactl.log.commit_changes import count_in_partition
        from deltactl.log.commit_json import LogFile

        if record.problem is not None:
            return
        if not all(any(trace in data for trace in traces) for traces in self._traces):
            return
        name = "" if record.file is None else record.file.name
        try:
            change = count_in_partition(LogFile(name, data), self.partition)
        except CorruptLogError as error:
            record.problem = error.message
            return
        if change is not None:
            self.found[record.version] = change

    def finish(self) -> None:
        """Nothing is left to do."""


def _traces(value: str | None) -> tuple[bytes, ...]:
    """What a commit holds somewhere if it names the value: as writers spell it in JSON."""
    if value is None:
        return (b"null", b'""')
    if not value.isascii() or '"' in value or "\\" in value or "/" in value:
        return (b"",)  # there is more than one way to spell it
    return (json.dumps(value).encode(),)
