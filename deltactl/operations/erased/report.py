"""The result of a search: where values are, what keeps them, and what ends it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Self
from urllib.parse import unquote

from deltactl.errors import (
    DataFileError,
    DeltactlError,
    FileMissingError,
    SearchIncompleteError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.operations.short_repr import ShortRepr
from deltactl.units import format_count, format_timestamp

_DELETE: Final = "DELETE FROM delta.`{path}` WHERE {it}"
_PURGE: Final = "deltactl optimize {} --purge"
_REWRITE: Final = "deltactl optimize {} --zorder-by COLUMN --full"
_RECLUSTER: Final = "deltactl optimize {} --cluster-by {it} --full"
_UNSET: Final = "deltactl alter {} --unset {it}"
# A later version, that of a property which nothing reads: a cleanup keeps the latest one.
_COMMIT: Final = "deltactl alter {} --set deltactl.versionAfter={version}"
_CLEANUP: Final = "deltactl checkpoint {} --cleanup"
# A lite vacuum finds no file that was copied back.
_VACUUM: Final = "deltactl vacuum {} --mode full"
_EMPTY_QUARANTINE: Final = "deltactl vacuum {} --purge-quarantine"
_MANIFEST: Final = "deltactl generate-manifest {}"


class Where(StrEnum):
    """The places that are searched: what keeps values there, and the steps that end it in order."""

    kept_by: str
    steps: tuple[str, ...]

    def __new__(cls, name: str, kept_by: str = "", *steps: str) -> Self:
        """Return a place; its value is its name."""
        place = str.__new__(cls, name)
        place._value_, place.kept_by, place.steps = name, kept_by, steps
        return place

    LIVE = "live rows", "the latest version", _DELETE, _PURGE, _VACUUM
    STORED = (
        "stored partition columns",
        "live files, beside other values in the log: sort them by any data column",
        _REWRITE,
        _VACUUM,
    )
    BESIDE = (
        "live files, not in rows",
        "live files: dictionaries with values that no row has, or key-value metadata of footers: "
        "sort them by any data column",
        _REWRITE,
        _VACUUM,
    )
    HIDDEN = "rows that deletion vectors hide", "files of the latest version", _PURGE, _VACUUM
    OLDER = "files of older versions", "the retention of removed files, for time travel", _VACUUM
    CHANGES = "change data", "the retention of removed files, for the change data feed", _VACUUM
    UNREFERENCED = (
        "unreferenced files",
        "nothing: no commit names them, and no tombstone of the latest version (a vacuum deletes "
        "them if it asks on a terminal)",
        _VACUUM,
    )
    UNKNOWN = (
        "unknown files",
        "nothing: no commit names them, and a vacuum does not know whose they are: delete the "
        "files if nobody needs them",
    )
    OF_SOURCE = (
        "files of the source of this clone",
        "the commits and checkpoints of this shallow clone, until their retention has passed",
        _CLEANUP,
    )
    SHARED = (
        "files that a shallow clone names",
        "the log of the clone: first clean it up",
        _VACUUM,
    )
    QUARANTINE = "quarantine", "the quarantine of a vacuum", _EMPTY_QUARANTINE
    LOST = (
        "quarantine without a journal",
        "no run whose journal can be read: delete the files if nobody needs them",
    )
    VERSIONS = "old object versions", "the versioning of the bucket: use a lifecycle rule of it"
    PATHS = "names of files and directories", "these files and directories, until they are deleted"
    LATEST = "latest commit", "the log, until a later version exists", _COMMIT, _CLEANUP
    PROPERTIES = (
        "table properties",
        "the latest version, and so each new checkpoint",
        _UNSET,
        _CLEANUP,
    )
    METADATA = (
        "metadata of the table",
        "the latest version, and so each new checkpoint: first change it, with ALTER TABLE or "
        "COMMENT ON; a domain, with the program that wrote it",
    )
    COMMITS = "commits", "the retention of the log", _CLEANUP
    CHECKPOINTS = "checkpoints", "the retention of the log, if they are not the latest", _CLEANUP
    CHECKSUMS = "checksums", "the retention of the log", _CLEANUP
    OTHER_LOG = (
        "other files of the log",
        "the log: delete a file only if no writer needs it, and a commit in it is in the log",
    )
    MANIFESTS = "symlink manifests", "the manifests of the latest run", _MANIFEST
    ICEBERG = "Iceberg metadata", "the Iceberg metadata, which Delta on Spark writes and expires"
    JOURNALS = (
        "journals of vacuums",
        "deltactl, for --undo: delete the directories of runs that ended and need no undo",
    )
    OWN = "records of deltactl", "deltactl, as long as it needs them"
    OTHER = "other files", "nothing that deltactl knows: delete the files if nobody needs them"
    CLONES = "clones"
    TABLES = (
        "other tables",
        "tables in subdirectories: search each of them by its address",
    )


RECORDS: Final = (Where.JOURNALS, Where.OWN)
"""Places of files of deltactl, which have no rows of the table."""

TEXTS: Final = (Where.MANIFESTS, Where.ICEBERG, *RECORDS, Where.OTHER)
"""Places of files that are neither data nor of the log."""

BY_HAND: Final = (Where.LOST, Where.UNKNOWN, Where.OTHER_LOG, Where.OTHER)
"""Places of files that no command deletes: ``parts`` are their names."""

MOST_PARTS: Final = 100

_BY_CLOCK: Final = {
    _VACUUM: "deltactl vacuum {} --mode full --force-retention",
    _EMPTY_QUARANTINE: "deltactl vacuum {} --purge-quarantine --force-retention",
    _CLEANUP: "deltactl checkpoint {} --cleanup --yes",
}
"""The steps that trust the clock of this machine, if nothing else proves the time."""
_STEPS: Final = (
    *(_DELETE, _UNSET, _PURGE, _REWRITE, _MANIFEST, _VACUUM),
    # Not before the vacuums: they delete only files that the log still names.
    *(_EMPTY_QUARANTINE, _COMMIT, _CLEANUP),
)
"""In the order in which to take them."""

_ERRORS: Final = (StorageError, UnsupportedFeatureError, DataFileError, SearchIncompleteError)

COUNTS: Final = {
    "names": "names listed",
    "log_files": "log files",
    "data_files": "data files opened",
    "rows": "rows read",
    "files_skipped": "data files of which only the footer was read",
    "groups_skipped": "row groups skipped by statistics",
    "dictionaries": "dictionaries read",
    "text_files": "other files",
    "gone": "removed files that do not exist",
    "vectors": "deletion vector files, not searched: they have no values",
    "old_versions": "old object versions",
}
"""The extent of a search; ``old_versions``, with deleted objects, are absent if none can exist."""

UNSEEN: Final = (
    "copies elsewhere: exports, deep clones (search these as further tables), tables that were "
    "computed from this one",
    "shallow clones that are not recorded in the table",
    "backups and snapshots of the storage, deleted objects that a soft delete keeps, and storage "
    "that is mounted elsewhere",
    "caches of engines, results of queries, and logs of programs",
    "files that are named as checksums of Hadoop: .NAME.crc",
    "blocks of a disk that a file system no longer uses",
)
"""What the search does not see."""


class NoColumnError(DataFileError):
    """A file without an action in the log, and without a column of the predicate."""


def mask_directories(name: str) -> str:
    """Return the name of a file without the values in its directories."""
    directory, slash, base = name.rpartition("/")
    return re.sub(r"=[^/]*", "=*", directory) + slash + base


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be searched; ``code`` and ``exit_code`` are those of an error."""

    name: str
    place: str
    code: str
    reason: str
    exit_code: int = DataFileError.exit_code

    @classmethod
    def of(cls, name: str, place: str, error: Exception) -> Unread:
        """Return the file with a reason that has no text of the file or of its name."""
        kind = type(error.__cause__ or error).__name__
        reason = f"unreadable: {kind}"
        if isinstance(error, NoColumnError | SearchIncompleteError):
            reason = error.message
        if isinstance(error, FileMissingError):
            reason = "it does not exist"
        if isinstance(error, ImportError):
            reason = "to read it, install deltactl[iceberg]"
        known = error if isinstance(error, DeltactlError) else DataFileError("")
        is_known = isinstance(known, _ERRORS)
        exit_code = known.exit_code if is_known else DataFileError.exit_code
        return cls(mask_directories(name), place, known.code, reason, exit_code)


@dataclass(frozen=True, slots=True)
class Place:
    """A place where values are: ``files`` with them, and ``rows`` or ``entries`` in these.

    ``table`` is the address of the table or clone. ``parts``: what has the values. ``until_ms``:
    when the last of them may be deleted, if that is known; ``waits``: that is past by the clock of
    this machine, but nothing else proves the time (see ``trusted_time``). ``of``: the places whose
    steps end this one, too. ``version`` is the latest one of the table. ``deleted``: the predicates
    of a DELETE in it, none if its schema lacks a column. ``clustered``: its clustering columns.
    """

    table: str
    name: Where
    files: int
    rows: int | None = None
    entries: int | None = None
    until_ms: int | None = None
    parts: tuple[str, ...] = ()
    waits: bool = False
    of: tuple[Where, ...] = ()
    version: int = 0
    deleted: tuple[str, ...] = ()
    clustered: str = ""

    @property
    def kept_by(self) -> str:
        """Return what keeps the values."""
        clock = "past by this machine's clock only: trust it, or wait for a later commit"
        return f"{self.name.kept_by} ({clock})" if self.waits else self.name.kept_by

    @property
    def steps(self) -> tuple[tuple[str, bool], ...]:
        """Return the steps that end it, in order, and which of them trust the clock."""
        steps = dict.fromkeys(it for place in (self.name, *self.of) for it in place.steps)
        return tuple((it, self.waits and it in _BY_CLOCK) for it in sorted(steps, key=_STEPS.index))

    def after_manifests(self) -> Place:
        """Return this place of a table with symlink manifests: a vacuum keeps what they list."""
        is_vacuumed = any(step == _VACUUM for step, _ in self.steps)
        return replace(self, of=(*self.of, Where.MANIFESTS)) if is_vacuumed else self

    def join(self, other: Place) -> Place:
        """Return this place with what was found in other files of it."""
        return replace(
            self,
            files=self.files + other.files,
            rows=(self.rows or 0) + (other.rows or 0) or None,
            entries=(self.entries or 0) + (other.entries or 0) or None,
            until_ms=max(self.until_ms or 0, other.until_ms or 0) or None,
            of=tuple(dict.fromkeys(self.of + other.of)),
            parts=tuple(dict.fromkeys(self.parts + other.parts))[:MOST_PARTS],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the place for JSON."""
        return {
            "table": self.table,
            "place": self.name,
            "files": self.files,
            "rows": self.rows,
            "entries": self.entries,
            "parts": list(self.parts),
            "kept_by": self.kept_by,
            "until": None if self.until_ms is None else format_timestamp(self.until_ms),
            "commands": [it for step in self.steps for it in self.spell(*step)],
        }

    def spell(self, step: str, by_clock: bool) -> list[str]:
        """Return a step as commands, or as statements for the engine that writes the table."""
        table = self.table
        path = unquote(table.removeprefix("file://")) if table.startswith("file:") else table
        texts = {"path": path.replace("`", "``"), "version": self.version}
        each: Iterable[str] = {_UNSET: map(shlex.quote, self.parts), _DELETE: self.deleted}.get(
            step, ("",)
        )
        command = _BY_CLOCK[step] if by_clock else step
        if step == _REWRITE and self.clustered:  # such a table refuses another order
            command, each = _RECLUSTER, [shlex.quote(self.clustered)]
        return [command.format(shlex.quote(table), it=it, **texts) for it in each]


def _needed(steps: Set[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the steps in the order to take them: each once, by the clock if one needs that."""
    needed = (it for it in steps if it[1] or (it[0], True) not in steps)
    return sorted(needed, key=lambda it: (_STEPS.index(it[0]), it[1]))


@dataclass(frozen=True, slots=True, repr=False)
class ErasedReport(ShortRepr):
    """The outcome of a search; it has no value of a column but those in the predicate.

    ``predicate`` is ``None`` if it was left out. ``unread`` could not be read; ``unsearchable`` are
    places in which this predicate cannot be searched for; ``unseen`` is what no search can see.
    ``digest``: SHA-256 of what was searched. ``tables``: the addresses and versions of the table
    and of its clones.
    """

    _SHOWN = ("places", "unread")
    unseen: ClassVar[tuple[str, ...]] = UNSEEN

    version: int
    searched_ms: int
    predicate: str | None
    engine: str
    engine_reason: str
    tables: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]
    unread: tuple[Unread, ...]
    unsearchable: tuple[str, ...]
    counts: Mapping[str, int]
    digest: str

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
        """Return the commands that end it, in the order in which to run them.

        Clones come before their source, which keeps the files that the log of a clone names.
        """
        found = dict[str, None]()
        tables = [*reversed([table for table, _ in self.tables])]
        for table in dict.fromkeys([*tables, *(it.table for it in self.places)]):
            places = [it for it in self.places if it.table == table]
            steps = {step for it in places for step in it.steps}
            names = {it.name for it in places}
            # Each cleanup writes a checkpoint, with the metadata of the latest version. A DELETE
            # rewrites files: perhaps no others are left to rewrite.
            vain = {_COMMIT, _CLEANUP} if Where.METADATA in names else set()
            vain |= {_REWRITE} if Where.LIVE in names and Where.BESIDE not in names else set()
            steps = {it for it in steps if it[0] not in vain}
            for step in _needed(steps):
                with_it = (it for it in places if step in it.steps)
                found |= dict.fromkeys(c for it in with_it for c in it.spell(*step))
        return tuple(found)

    def find_error(self) -> DeltactlError | None:
        """Return the error of a search that could not read or search everything."""
        if not (self.unread or self.unsearchable):
            return None
        codes = {it.exit_code for it in self.unread} | {SearchIncompleteError.exit_code}
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
        return {
            "erased": self.is_erased,
            "predicate": self.predicate,
            "searched_at": format_timestamp(self.searched_ms),
            "tables": [{"table": table, "version": version} for table, version in self.tables],
            "places": [it.to_dict() for it in self.places],
            "commands": list(self.commands),
            "unread": [
                {"file": it.name, "place": it.place, "code": it.code, "reason": it.reason}
                for it in self.unread
            ],
            "unsearchable": list(self.unsearchable),
            "unseen": list(self.unseen),
            "counts": {
                it: self.counts.get(it, None if it == "old_versions" else 0) for it in COUNTS
            },
            "digest": self.digest,
        }
