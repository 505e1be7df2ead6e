"""What a check can find: one row a code, with what it means for readers and what to do about it.

Adding a check is adding a row. Codes are stable and for machines; the wording is for people.
``repair`` is a command, or says that there is none: ``{table}`` and ``{file}`` stand for what the
finding is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """``error``: some reader fails, or gets other rows. ``warning``: something was lost or lies."""

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
    "cannot be repaired here: restore {table} to a version without it, "
    "or correct it with a commit of the writer that made it"
)
_REWRITE = (
    "cannot be repaired in place: restore {file} from a backup if the file is wrong; "
    "if only its statistics are, overwrite its rows with the writer of the table"
)
_SKIPPING = "readers that skip files by statistics leave out rows, or answer wrongly"
_IDS = "rows cannot be told apart by their ids; incremental readers mix them up"

_ROWS = (
    CheckCode("LOG_GAP", _E, "the version cannot be rebuilt: every reader fails", _RESTORE_LOG),
    CheckCode("HISTORY_GAP", _W, "time travel fails from it to the next checkpoint", _RESTORE_LOG),
    CheckCode(
        "COMMIT_UNREADABLE",
        _E,
        "readers fail where they need this commit; if it is empty, they go on without its changes",
        _RESTORE,
    ),
    CheckCode("COMMIT_AMBIGUOUS", _E, "readers may choose different actions", _RESTORE),
    CheckCode("COMMIT_TIME", _W, "time travel by timestamp finds other versions", _WRITER),
    CheckCode("LOG_ACTION_MISSING", _E, "every reader fails", _RESTORE_LOG),
    CheckCode("LOG_UNREADABLE", _E, "the version cannot be rebuilt", _RESTORE_LOG),
    CheckCode("PROTOCOL_INVALID", _E, "strict readers refuse the table", _WRITER),
    CheckCode("FEATURE_MISSING", _E, "readers that lack the feature misread the table", _WRITER),
    CheckCode("SCHEMA_INVALID", _E, "readers fail, or read wrong columns", _WRITER),
    CheckCode(
        "SCHEMA_EMPTY",
        _E,
        "readers fail; data files written from this schema would have no columns",
        _WRITER,
    ),
    CheckCode(
        "SCHEMA_MISSING",
        _W,
        "delta-rs and DuckDB fail where they read this commit; Delta on Spark does not",
        "deltactl checkpoint {table} (after a later commit that has the schema)",
    ),
    CheckCode("CHECKPOINT_UNREADABLE", _E, "readers that start from it fail", _CHECKPOINT),
    CheckCode("CHECKPOINT_WRONG", _E, "readers that start from it see other rows", _CHECKPOINT),
    CheckCode(
        "CHECKPOINT_DOUBTFUL",
        _E,
        "two checkpoints contradict each other: readers see one state or the other",
        "cannot be repaired: nothing tells which is right; restore the wrong one from a backup",
    ),
    CheckCode("HINT_WRONG", _W, "readers list the whole log; some fail", _CHECKPOINT),
    CheckCode(
        "CHECKSUM_WRONG",
        _E,
        "Delta on Spark fails on it, or builds the next one on it",
        _CHECKPOINT,
    ),
    CheckCode(
        "COMPACTED_WRONG",
        _E,
        "readers that take it instead of the commits see other rows",
        _CHECKPOINT,
    ),
    CheckCode("PATH_INVALID", _E, "readers refuse the path, or read a file elsewhere", _WRITER),
    CheckCode("FILE_DUPLICATE", _E, "rows of the file are read more than once", _WRITER),
    CheckCode(
        "PATH_ENCODING",
        _E,
        "no reader applies a remove with another text than the add: rows stay, or come twice",
        "deltactl check {table} --fix path-encoding",
    ),
    CheckCode(
        "PATH_ENCODING_DOUBTFUL",
        _E,
        "no reader applies a remove with another text than the add: rows stay, wanted or not",
        "deltactl check {table} --fix path-encoding --path TEXT, if the rows of TEXT are to go",
    ),
    CheckCode("FILE_MISSING", _E, "queries that need the file fail", _RESTORE),
    CheckCode("FILE_SIZE", _E, "readers that trust the log's size fail or misread", _RESTORE),
    CheckCode("FILE_UNREADABLE", _E, "queries that need the file fail", _RESTORE),
    CheckCode("STATS_ROWS", _E, "counts that are answered by the log are wrong", _REWRITE),
    CheckCode("STATS_NULLS", _E, _SKIPPING, _REWRITE),
    CheckCode("STATS_BOUNDS", _E, _SKIPPING, _REWRITE),
    CheckCode("STATS_LOOSE", _W, "MIN and MAX that are answered by the log are wrong", _REWRITE),
    CheckCode("STATS_UNREADABLE", _W, "no reader can skip the file", _REWRITE),
    CheckCode("PARTITION_VALUE", _E, "readers fail, or read null", _WRITER),
    CheckCode("VECTOR_MISSING", _E, "queries that need the data file fail", _RESTORE),
    CheckCode("VECTOR_UNREADABLE", _E, "queries that need the data file fail", _RESTORE),
    CheckCode("VECTOR_CARDINALITY", _E, "readers fail, or counts are wrong", _RESTORE),
    CheckCode("VECTOR_ROWS", _E, "the vector is another file's: wrong rows are hidden", _RESTORE),
    CheckCode("ROW_IDS_MISSING", _E, _IDS, _WRITER),
    CheckCode("ROW_IDS_OVERLAP", _E, _IDS, _WRITER),
    CheckCode("ROW_IDS_MARK", _E, "the next write gives out ids that rows have", _WRITER),
    CheckCode("IDENTITY_MARK", _E, "the next write gives out values that rows have", _WRITER),
)
CODES: Final[dict[str, CheckCode]] = {row.name: row for row in _ROWS}
