"""The result of a search: where values are, what keeps them, and what ends it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from deltactl.errors import (
    DataFileError,
    DeltactlError,
    PartialSuccessError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.operations.erased.tasks import HIDDEN, LIVE, Unread
from deltactl.operations.short_repr import ShortRepr
from deltactl.units import format_count, format_timestamp

LATEST = "latest commit"
OLDER, UNREFERENCED = "files of older versions", "unreferenced files"
CHANGES, QUARANTINE = "change data", "quarantine"
VERSIONS, PATHS = "old object versions", "names of directories"
MANIFESTS, ICEBERG = "symlink manifests", "Iceberg metadata"
OWN, OTHER, CLONES = "records of deltactl", "other files", "clones"

DELETE: Final = "delete"
_PURGE: Final = "deltactl optimize {} --purge"
_CLEANUP: Final = "deltactl checkpoint {} --cleanup"
_VACUUM: Final = "deltactl vacuum {}"
_VACUUM_ALL: Final = "deltactl vacuum {} --mode full"
_VACUUM_UNKNOWN: Final = "deltactl vacuum {} --mode full --include-unknown"
_EMPTY_QUARANTINE: Final = "deltactl vacuum {} --purge-quarantine"
_MANIFEST: Final = "deltactl generate-manifest {}"

# For each place: what keeps the values, and the steps that end it, in the order of the steps.
_KEPT: Final[dict[str, tuple[str, Sequence[str]]]] = {
    LIVE: ("the latest version", (DELETE, _PURGE, _VACUUM)),
    HIDDEN: ("the data files of the latest version", (_PURGE, _VACUUM)),
    OLDER: ("the retention of removed files, for time travel", (_VACUUM,)),
    CHANGES: ("the retention of removed files, for the change data feed", (_VACUUM,)),
    UNREFERENCED: ("nothing: no action of the log names them", (_VACUUM_UNKNOWN,)),
    QUARANTINE: ("the quarantine of a vacuum", (_EMPTY_QUARANTINE,)),
    VERSIONS: ("the versioning of the bucket: use a lifecycle rule of the bucket", ()),
    PATHS: ("the files below, or an empty directory", (_VACUUM_ALL,)),
    LATEST: ("the log: it can be deleted only after a later version exists", (_CLEANUP,)),
    "commits": ("the retention of the log", (_CLEANUP,)),
    "checkpoints": ("the retention of the log, if they are not the latest", (_CLEANUP,)),
    "checksums": ("the retention of the log", (_CLEANUP,)),
    "other files of the log": ("the log: delete the file if no writer needs it", (_CLEANUP,)),
    MANIFESTS: ("the manifests of the latest run", (_MANIFEST,)),
    ICEBERG: ("the Iceberg metadata, which Delta on Spark writes and expires", ()),
    OWN: ("deltactl, which does not need the records of vacuums that cannot be undone", ()),
    OTHER: ("nothing that deltactl knows: delete the files", ()),
}
_VACUUMS: Final = (_VACUUM, _VACUUM_ALL, _VACUUM_UNKNOWN)
STEPS: Final = (DELETE, _PURGE, _MANIFEST, _CLEANUP, *_VACUUMS, _EMPTY_QUARANTINE)
"""In the order in which to take them; of several vacuums, the last one does what all do."""

_ERRORS: Final = (StorageError, UnsupportedFeatureError, DataFileError, PartialSuccessError)

UNSEEN: Final = (
    "copies elsewhere: exports, deep clones, tables that were computed from this one",
    "shallow clones that are not recorded in the table",
    "backups and snapshots of the storage, and storage that is mounted elsewhere",
    "caches of engines, results of queries, and logs of programs",
    "blocks of a disk that a file system no longer uses",
)
"""What no search of the table's storage can see."""


@dataclass(slots=True)
class Place:
    """A place where values are: ``files`` with them, and ``rows`` or ``entries`` in these.

    ``table`` is the address of the table or clone. ``parts``: what has the values. ``until_ms``:
    when the last of them may be deleted, if that is known.
    """

    table: str
    name: str
    files: int = 0
    rows: int | None = None
    entries: int | None = None
    until_ms: int | None = None
    parts: dict[str, None] = field(default_factory=dict)

    @property
    def kept_by(self) -> str:
        """Return what keeps the values."""
        return _KEPT[self.name][0]

    @property
    def steps(self) -> Sequence[str]:
        """Return what ends it; members of :data:`STEPS`."""
        return _KEPT[self.name][1]

    def to_dict(self, redacted: str) -> dict[str, Any]:
        """Return the place for JSON; ``redacted`` is the predicate to show."""
        return {
            "table": self.table,
            "place": self.name,
            "files": self.files,
            "rows": self.rows,
            "entries": self.entries,
            "parts": list(self.parts),
            "kept_by": self.kept_by,
            "until": None if self.until_ms is None else format_timestamp(self.until_ms),
            "commands": [spell_step(step, self.table, redacted) for step in self.steps],
        }


def spell_step(step: str, table: str, predicate: str) -> str:
    """Return a step as a command, or as the statement for the engine that writes the table."""
    if step == DELETE:
        path = unquote(table.removeprefix("file://")) if table.startswith("file:") else table
        return f"DELETE FROM delta.`{path.replace('`', '``')}` WHERE {predicate}"
    return step.format(shlex.quote(table))


@dataclass(slots=True)
class SearchCounts:
    """The extent of a search. ``names``: of the listings; ``log_files``: those that were read.

    ``rows`` were read in ``data_files``; ``files_skipped`` were not opened, because of their
    partition values, and ``groups_skipped`` row groups not read, because of their footers.
    ``gone``: files of older versions that do not exist any more. ``vectors``: files of deletion
    vectors, which have no values. ``old_versions``: old object versions, and deleted objects.
    """

    names: int = 0
    log_files: int = 0
    data_files: int = 0
    rows: int = 0
    files_skipped: int = 0
    groups_skipped: int = 0
    text_files: int = 0
    gone: int = 0
    vectors: int = 0
    old_versions: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ErasedReport(ShortRepr):
    """The outcome of a search; it has no value of a column but those in the predicate.

    ``predicate`` is ``None`` if it was left out. ``unread`` could not be read; ``unsearchable`` are
    places in which this predicate cannot be searched for; ``unseen`` is what no search can see.
    ``digest``: SHA-256 of what was searched. ``tables``: the addresses and versions of the table
    and of its clones.
    """

    version: int
    searched_ms: int
    predicate: str | None
    engine: str
    engine_reason: str
    tables: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]
    unread: tuple[Unread, ...]
    unsearchable: tuple[str, ...]
    unseen: tuple[str, ...]
    counts: SearchCounts
    digest: str

    def _counts(self) -> dict[str, int]:
        return {"places": len(self.places), "unread": len(self.unread)}

    @property
    def is_found(self) -> bool:
        """Return whether a value was found."""
        return bool(self.places)

    @property
    def is_erased(self) -> bool:
        """Return whether everything was searched, and nothing was found."""
        return not (self.places or self.unread or self.unsearchable)

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands that end it, in the order in which to run them."""
        shown, found = self.predicate or "PREDICATE", []
        for table in dict.fromkeys(it.table for it in self.places):
            steps = {step for it in self.places if it.table == table for step in it.steps}
            weaker = [step for step in _VACUUMS if step in steps][:-1]
            found += [(STEPS.index(step), table, step) for step in steps.difference(weaker)]
        return tuple(spell_step(step, table, shown) for _, table, step in sorted(found))

    def find_error(self) -> DeltactlError | None:
        """Return the error of a search that could not read or search everything."""
        if not (self.unread or self.unsearchable):
            return None
        codes = {it.exit_code for it in self.unread} | {PartialSuccessError.exit_code}
        kind = next(it for it in _ERRORS if it.exit_code in codes)
        parts = [format_count(len(self.unread), "file") + " could not be read"] * bool(self.unread)
        parts += ["this predicate cannot be searched for in texts"] * bool(self.unsearchable)
        return kind(
            f"the search is not complete: {', and '.join(parts)}",
            hint="See the report for their names. Values that are compared with = or IN can be "
            "searched for everywhere.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; times RFC 3339."""
        counts = self.counts
        return {
            "erased": self.is_erased,
            "predicate": self.predicate,
            "searched_at": format_timestamp(self.searched_ms),
            "tables": [{"table": table, "version": version} for table, version in self.tables],
            "places": [it.to_dict(self.predicate or "PREDICATE") for it in self.places],
            "commands": list(self.commands),
            "unread": [
                {"file": it.name, "place": it.place, "code": it.code, "reason": it.reason}
                for it in self.unread
            ],
            "unsearchable": list(self.unsearchable),
            "unseen": list(self.unseen),
            "counts": {name: getattr(counts, name) for name in SearchCounts.__slots__},
            "digest": self.digest,
        }
