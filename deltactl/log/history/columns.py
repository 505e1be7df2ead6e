"""Define the columns of ``describe-history``: those of Delta on Spark, then three of deltactl.

Each writer decides what its ``commitInfo`` contains. Values of unexpected types become strings in
string columns, and null in other columns. So reading never fails because of the content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltactl.log.commits.contents import RawFloat
from deltactl.units import MAX_LONG, format_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

HistoryRow = dict[str, Any]
"""Value of each column; ``timestamp`` in ms since 1970 UTC, maps and structs as dictionaries."""

# The values of so many rows are Python objects at the same time.
_ROWS_AT_ONCE = 10_000
_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_NOTEBOOK = ("notebookId",)


def as_text(value: Any) -> str | None:
    """Return a JSON value as a string: a string unchanged, every other value as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, RawFloat):
        return value.text
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # the value is nested too deep, or too long
        return None


def as_long(value: Any) -> int | None:
    """Return a JSON value as a 64-bit integer; ``None`` if it is not one."""
    # For int(), true is 1; in JSON it is no number.
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(value, float) and value != number:
        return None
    return number if -MAX_LONG - 1 <= number <= MAX_LONG else None


def _as_flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _as_text_map(value: Any) -> dict[str, str | None] | None:
    if not isinstance(value, dict):
        return None
    return {key: it if isinstance(it, str) else as_text(it) for key, it in value.items()}


def _struct_of(members: Sequence[str]) -> Callable[[Any], dict[str, str | None] | None]:
    def convert(value: Any) -> dict[str, str | None] | None:
        if not isinstance(value, dict):
            return None
        return {member: as_text(value.get(member)) for member in members}

    return convert


_CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "userId": as_text,
    "userName": as_text,
    "operation": as_text,
    "operationParameters": _as_text_map,
    "job": _struct_of(_JOB),
    "notebook": _struct_of(_NOTEBOOK),
    "clusterId": as_text,
    "readVersion": as_long,
    "isolationLevel": as_text,
    "isBlindAppend": _as_flag,
    "operationMetrics": _as_text_map,
    "userMetadata": as_text,
    "engineInfo": as_text,
}
_OWN = frozenset({"version", "timestamp", *_CONVERT})
COLUMNS = ("version", "timestamp", *_CONVERT, "otherInfo", "reconstructible", "problem")


def history_row(
    version: int,
    info: Mapping[str, Any] | None,
    *,
    timestamp_ms: int | None = None,
    reconstructible: bool = False,
    problem: str | None = None,
) -> HistoryRow:
    """Return one row from a commit's ``commitInfo``; if it has none, the row is as in Delta."""
    row: HistoryRow = {"version": version, "timestamp": timestamp_ms}
    if info is None:
        row |= dict.fromkeys(_CONVERT)
        # For a commit without commitInfo, Delta returns this row. For a missing commit, it returns
        # none.
        row["operationParameters"] = {} if timestamp_ms is not None else None
        row["otherInfo"] = None
    else:
        for name, convert in _CONVERT.items():
            value = info.get(name)
            is_done = value is None or (convert is as_text and type(value) is str)
            row[name] = value if is_done else convert(value)
        row["otherInfo"] = _as_text_map({key: info[key] for key in info if key not in _OWN})
    row["reconstructible"] = reconstructible
    row["problem"] = problem
    return row


def json_row(row: HistoryRow) -> HistoryRow:
    """Return a row for JSON, with its timestamp as RFC 3339."""
    when = row["timestamp"]
    return {**row, "timestamp": None if when is None else format_timestamp(when)}


def history_table(rows: Sequence[HistoryRow]) -> pa.Table:
    """Return the rows as Arrow columns."""
    import pyarrow as pa

    schema = _schema()
    starts = range(0, len(rows), _ROWS_AT_ONCE)
    batches = [_to_batch(list(rows[start : start + _ROWS_AT_ONCE]), schema) for start in starts]
    return pa.Table.from_batches(batches, schema)


def _to_batch(rows: Sequence[HistoryRow], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_map(field.type):
            values = [None if it is None else list(it.items()) for it in values]
        try:
            arrays.append(pa.array(values, field.type))
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON text can contain
            arrays.append(pa.array(_whole(values), field.type))
    return pa.record_batch(arrays, schema=schema)


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, text_map = pa.string(), pa.map_(pa.string(), pa.string())
    types: dict[str, pa.DataType] = {
        "version": pa.int64(),
        # Milliseconds can represent any number in a log. Microseconds end in the year 294246.
        "timestamp": pa.timestamp("ms", "UTC"),
        "operationParameters": text_map,
        "job": pa.struct([(member, text) for member in _JOB]),
        "notebook": pa.struct([(member, text) for member in _NOTEBOOK]),
        "readVersion": pa.int64(),
        "isBlindAppend": pa.bool_(),
        "operationMetrics": text_map,
        "otherInfo": text_map,
        "reconstructible": pa.bool_(),
    }
    return pa.schema([(name, types.get(name, text)) for name in COLUMNS])


def _whole(value: Any) -> Any:
    """Replace each part of a string that cannot be encoded by the replacement character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _whole(it) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_whole(it) for it in value)
    return value
