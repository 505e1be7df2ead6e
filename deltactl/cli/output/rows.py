"""Print rows of a result as ndjson and csv."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO, Union

from deltactl.cli.output.envelope import dump_json, to_jsonable

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Union["pa.Table", Iterable[Mapping[str, Any]]]
"""The rows that ndjson and csv print."""

# Rows converted from Arrow at a time: enough for speed, few enough to bound memory.
ROWS_AT_ONCE: Final = 4096
# Excel, LibreOffice and others evaluate cells that start with one of these.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def write_csv(stream: TextIO, rows: Rows, escape: Callable[[str], str]) -> None:
    """Write a header line and one line per row; ``escape`` is applied to every cell.

    A list without rows has no columns: then nothing is written.
    """
    import csv

    if not hasattr(rows, "schema"):
        rows = list(rows)
    names = column_names(rows)
    writer = csv.writer(stream, lineterminator="\n")
    if names:
        writer.writerow([escape(name) for name in names])
    for row in iterate_rows(rows):
        writer.writerow([escape(_csv_cell(row.get(name))) for name in names])


def iterate_rows(rows: pa.Table | Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Return the rows of an Arrow table or of a list, one by one."""
    if hasattr(rows, "to_batches"):
        for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield from batch.to_pylist()
    else:
        yield from rows


def column_names(rows: pa.Table | list[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns: those of the table, or all keys in order of appearance."""
    if hasattr(rows, "schema"):
        return list(rows.schema.names)
    return list(dict.fromkeys(key for row in rows for key in row))


def _csv_cell(value: Any) -> str:
    plain = to_jsonable(value)
    if plain is None:
        return ""
    return _as_text(plain) if isinstance(plain, str) else dump_json(plain)


def _as_text(text: str) -> str:
    """Put an apostrophe before text that spreadsheets would evaluate as a formula.

    Any writer of the table can choose such text, and a formula can send other cells to a server.
    """
    if not text.startswith(_FORMULAS) or len(text) == 1:
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
