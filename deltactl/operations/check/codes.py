"""Register the codes of findings: one row per code, with its effect on readers and the repair.

To add a check, add a row. Codes are stable, for programs; the wording may change. ``repair`` is a
command, or says that there is none; ``{table}`` and ``{file}`` are replaced by those of the
finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """``error``: a reader fails or returns wrong rows. ``warning``: other loss or wrong data."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class CheckCode:
    """A row of the registry."""

    name: str
    severity: Severity
    meaning: str
    repair: str


_E, _W = Severity.ERROR, Severity.WARNING
_RESTORE = "cannot be repaired: restore {file} from a backup"
_RESTORE_LOG = "cannot be repaired: restore _delta_log from a backup"
_CHECKPOINT = "deltactl checkpoint {table} --repair"
_WRITER = (
    "cannot be repaired by deltactl: restore {table} to a version without the finding. Or let "
    "the writer that caused the finding correct the table in a new commit"
)
_REWRITE = (
    "cannot be repaired in place. If the file is wrong, restore {file} from a backup. If the "
    "statistics in the log are wrong, rewrite the rows of the file with the writer of the "
    "table"
)
_SKIPPING = "readers that skip files by statistics omit rows or return wrong results"
_IDS = "row ids are not unique; incremental readers confuse rows"

_CATALOG = (
    "cannot be repaired by deltactl: correct the table in the catalog, with an engine that uses it"
)

_ROWS = (
    CheckCode("LOG_GAP", _E, "the version cannot be rebuilt: every reader fails", _RESTORE_LOG),
    CheckCode(
        "HISTORY_GAP",
        _W,
        "time travel fails from this version to the next checkpoint",
        _RESTORE_LOG,
    ),
    CheckCode(
        "COMMIT_UNREADABLE",
        _E,
        "readers that need this commit fail. If the file is empty, some readers continue without "
        "the changes of this commit",
        _RESTORE,
    ),
    CheckCode(
        "COMMIT_AMBIGUOUS",
        _E,
        "different readers may use different actions of this commit",
        _RESTORE,
    ),
    CheckCode("COMMIT_TIME", _W, "time travel by timestamp returns wrong versions", _WRITER),
    CheckCode("LOG_ACTION_MISSING", _E, "every reader fails", _RESTORE_LOG),
    CheckCode("LOG_UNREADABLE", _E, "the version cannot be rebuilt", _RESTORE_LOG),
    CheckCode("PROTOCOL_INVALID", _E, "strict readers refuse the table", _WRITER),
    CheckCode("FEATURE_MISSING", _E, "readers that lack the feature misread the table", _WRITER),
    CheckCode("SCHEMA_INVALID", _E, "readers fail or read wrong columns", _WRITER),
    CheckCode(
        "SCHEMA_EMPTY",
        _E,
        "readers fail; data files written from this schema would have no columns",
        _WRITER,
    ),
    CheckCode(
        "SCHEMA_MISSING",
        _W,
        "delta-rs and DuckDB fail if they read this commit; Delta on Spark does not",
        "deltactl checkpoint {table} (after a later commit that has the schema)",
    ),
    CheckCode(
        "CHECKPOINT_UNREADABLE", _E, "readers that start from this checkpoint fail", _CHECKPOINT
    ),
    CheckCode(
        "CHECKPOINT_WRONG",
        _E,
        "readers that start from this checkpoint return wrong rows",
        _CHECKPOINT,
    ),
    CheckCode(
        "CHECKPOINT_DOUBTFUL",
        _E,
        "two checkpoints contradict each other: the rows that a reader returns depend on the "
        "checkpoint that it uses",
        "cannot be repaired by deltactl, because it is unknown which checkpoint is right. Find "
        "the wrong checkpoint, and restore it from a backup",
    ),
    CheckCode(
        "HINT_WRONG", _W, "most readers list the whole log instead; some readers fail", _CHECKPOINT
    ),
    CheckCode(
        "CHECKSUM_WRONG",
        _E,
        "Delta on Spark fails, or copies the error into the next checksum file",
        _CHECKPOINT,
    ),
    CheckCode(
        "COMPACTED_WRONG",
        _E,
        "readers that use this file instead of the commits return wrong rows",
        _CHECKPOINT,
    ),
    CheckCode("PATH_INVALID", _E, "readers refuse the path or read a different file", _WRITER),
    CheckCode("FILE_DUPLICATE", _E, "rows of the file are read more than once", _WRITER),
    CheckCode(
        "REMOVE_MISSED",
        _E,
        "the file is still live: its rows are read although they were removed or rewritten",
        _WRITER,
    ),
    CheckCode(
        "PATH_ENCODING",
        _E,
        "readers ignore a remove action whose path text differs from the add "
        "action: rows stay or are read twice",
        "deltactl check {table} --fix path-encoding",
    ),
    CheckCode(
        "PATH_ENCODING_DOUBTFUL",
        _E,
        "readers ignore a remove action whose path text differs from the add "
        "action: the rows of the file remain",
        "deltactl check {table} --fix path-encoding --path TEXT, if the rows of the "
        "file should be removed",
    ),
    CheckCode("FILE_MISSING", _E, "queries that need the file fail", _RESTORE),
    CheckCode(
        "FILE_SIZE",
        _E,
        "readers that rely on the size in the log fail or misread the file",
        _RESTORE,
    ),
    CheckCode("FILE_UNREADABLE", _E, "queries that need the file fail", _RESTORE),
    CheckCode("STATS_ROWS", _E, "row counts computed from the log are wrong", _REWRITE),
    CheckCode("STATS_NULLS", _E, _SKIPPING, _REWRITE),
    CheckCode("STATS_BOUNDS", _E, _SKIPPING, _REWRITE),
    CheckCode("STATS_LOOSE", _W, "MIN and MAX computed from the log are wrong", _REWRITE),
    CheckCode("STATS_UNREADABLE", _W, "no reader can skip the file", _REWRITE),
    CheckCode(
        "ROWS_CHANGED",
        _E,
        "the files that an optimize run wrote no longer have the rows of this run: queries "
        "return wrong rows",
        "restore {table} to the version before the commit {file}. If files of that version are "
        "missing, restore the files of this commit from a backup",
    ),
    CheckCode("PARTITION_VALUE", _E, "readers fail or read null", _WRITER),
    CheckCode("VECTOR_MISSING", _E, "queries that need the data file fail", _RESTORE),
    CheckCode("VECTOR_UNREADABLE", _E, "queries that need the data file fail", _RESTORE),
    CheckCode("VECTOR_CARDINALITY", _E, "readers fail or return wrong counts", _RESTORE),
    CheckCode(
        "VECTOR_ROWS", _E, "the vector belongs to another file: wrong rows are deleted", _RESTORE
    ),
    CheckCode("ROW_IDS_MISSING", _E, _IDS, _WRITER),
    CheckCode("ROW_IDS_OVERLAP", _E, _IDS, _WRITER),
    CheckCode("ROW_IDS_MARK", _E, "the next write assigns ids that are in use", _WRITER),
    CheckCode("IDENTITY_MARK", _E, "the next write assigns values that are in use", _WRITER),
    CheckCode(
        "CATALOG_LOCATION",
        _E,
        "queries that use the name of the table in the catalog fail",
        _CATALOG,
    ),
    CheckCode("CATALOG_ID", _E, "engines that use the catalog refuse the table", _CATALOG),
    CheckCode(
        "CATALOG_COLUMNS",
        _W,
        "engines that use the columns of the catalog fail, or lack columns",
        _CATALOG,
    ),
    CheckCode(
        "CATALOG_NAMES",
        _W,
        "a privilege on one name is one on the data of the other; if one table is dropped, the "
        "other may lose its files",
        _CATALOG,
    ),
)
CODES: Final[dict[str, CheckCode]] = {row.name: row for row in _ROWS}
