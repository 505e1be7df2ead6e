"""The sections of ``describe-history``: commits, one commit, one version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.sections import (
    Cell,
    Column,
    Kind,
    Section,
    Table,
    Tone,
    list_rows,
    list_single_versions,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import COLUMNS, as_text
from deltactl.operations.history.changes import Change
from deltactl.operations.history.run import CommitFiles, HistoryReport, VersionAt
from deltactl.protocol.paths import partition_directory
from deltactl.units import format_count, format_instant, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import FileCounts, PartitionChange
    from deltactl.operations.history.restorable import Restorable

Row = dict[str, Any]

_SHOWN_FIRST: Final = frozenset({"version", "timestamp", "operation", "problem", "reconstructible"})
_EMPTY: Final = (None, "", "[]", "{}", "false")
_CHANGES: Final = (
    Column("files", Kind.COUNTS_CHANGED),
    Column("size", Kind.BYTES_CHANGED, spare=1),
    Column("rows", Kind.COUNTS_CHANGED, spare=2),
)
_COLUMNS: Final = (
    Column(""),
    Column("ver", Kind.NUMBER),
    Column("time (UTC)", Kind.TIME, tone=Tone.FAINT),
    Column("age", Kind.AGE, spare=4),
    Column("operation", Kind.TEXT, least=12, tone=Tone.STRONG),
    Column("parameters", Kind.TEXT, wide=True, tone=Tone.FAINT),
    Column("by", Kind.TEXT, spare=3),
    *_CHANGES,
    Column("restorable"),
)


def describe_history(
    report: HistoryReport, now_ms: int, *, is_one: bool = False
) -> Iterator[Section]:
    """Return the commits, their problems, and how many more there are.

    If one version was requested (``is_one``), return everything that its commit says.
    """
    if not report.rows:
        yield Section("no commits match")
    elif is_one and len(report.rows) == 1:
        (row,) = report.rows
        change = report.changes.get(row["version"])
        yield from describe_commit(row, now_ms, change, report.restorable)
        yield from _describe_problems([row])
    else:
        yield from describe_commits(report.rows, report.changes, now_ms, report.restorable)
        yield describe_unread(report.num_unread, "use --limit N or --all")


def describe_columns(
    rows: Sequence[Row], columns: Sequence[str], num_unread: int
) -> Iterator[Section]:
    """Return some columns of the commits, which contain values for JSON."""
    table = [[as_text(row[name]) or "" for name in columns] for row in rows]
    yield Section(table=Table([Column(name, Kind.TEXT) for name in columns], table, most=None))
    yield describe_unread(num_unread, "use --limit N or --all")


def describe_unread(count: int, option: str) -> Section:
    """Return how many older versions there are."""
    older = f"{format_count(count, 'older version')} not shown: {option}"
    return Section(notes=[Tone.FAINT(older) if count else None])


def describe_commits(
    rows: Sequence[Row],
    changes: Mapping[int, Change],
    now_ms: int,
    restorable: Mapping[int, Restorable] | None = None,
) -> Iterator[Section]:
    """Return a line per commit, then their problems."""
    table = [
        (
            _mark(row),
            str(row["version"]),
            row["timestamp"],
            None if row["timestamp"] is None else now_ms - row["timestamp"],
            _name_operation(row),
            _list_parameters(row),
            _who(row),
            *_list_changes(changes.get(row["version"])),
            _count_left(row, restorable),
        )
        for row in rows
    ]
    yield Section(table=Table(_COLUMNS, table, most=None))
    yield from _describe_problems(rows)


def describe_commit(
    row: Row,
    now_ms: int,
    change: Change | None = None,
    restorable: Mapping[int, Restorable] | None = None,
) -> Iterator[Section]:
    """Return all that a commit says about itself, and what exists of its version."""
    when, shown = row["timestamp"], zip(_CHANGES, _list_changes(change), strict=True)
    values = {name: row.get(name) for name in COLUMNS if name not in _SHOWN_FIRST}
    yield Section(
        facts=[
            ("version", str(row["version"])),
            ("committed", None if when is None else format_instant(when, now_ms)),
            ("operation", _name_operation(row)),
            *((column.header, column.show(it).text) for column, it in shown),
            ("restorable", _count_left(row, restorable)),
            *((k, str(v)) for k, v in values.items() if v is not None and not isinstance(v, dict)),
        ]
    )
    for name, value in values.items():
        if isinstance(value, dict) and value:
            members = [(key, str(text)) for key, text in value.items() if text is not None]
            yield Section(Tone.STRONG(name), facts=members)


def _count_left(row: Row, restorable: Mapping[int, Restorable] | None) -> Cell:
    """Return how many files of a version exist; nothing if that was not asked."""
    if restorable is None:
        return ""
    if (left := restorable.get(row["version"])) is None:
        return "" if row["timestamp"] is None else Tone.CAUTION("?")
    if left.num_gone:
        share = f": {left.num_gone:,}/{left.num_files:,}" if left.state == "partly gone" else ""
        return Tone.CAUTION(f"{left.state}{share}")
    return Tone.GOOD(left.state) if left.state == "readable" else Tone.BAD(left.state)


def _mark(row: Row) -> Cell:
    if row["problem"] is not None:
        return Tone.BAD("!")
    return "" if row["reconstructible"] else Tone.CAUTION("x")


def _name_operation(row: Row) -> Cell:
    """Return the operation; ``restore --where`` has a predicate, other restores have none."""
    operation: str | None = row["operation"]
    if row["timestamp"] is None:
        return Tone.BAD("missing")
    if operation is None:
        return Tone.BAD("-" if row["problem"] is None else "unreadable")
    is_partial = operation == "RESTORE" and (row["operationParameters"] or {}).get("predicate")
    return f"{operation} part" if is_partial else operation


def _who(row: Row) -> str:
    """Return who committed: the user in the commit, else the program."""
    if person := row["userName"] or row["userId"]:
        return str(person)
    name, _, version = (row["engineInfo"] or "").partition(" ")[0].partition("/")
    return f"{name.removeprefix('Apache-')} {version}".rstrip()


def _list_parameters(row: Row) -> str:
    """Return the user metadata and the operation parameters that are not empty."""
    said = [] if row["userMetadata"] is None else [f'"{row["userMetadata"]}"']
    found = (row["operationParameters"] or {}).items()
    said += [f"{name}={_unwrap(value)}" for name, value in found if value not in _EMPTY]
    return "  ".join(said)


def _unwrap(value: str) -> str:
    """Return a parameter without the JSON syntax: ``["a","b"]`` is ``a, b``."""
    if not value.startswith("["):
        return value
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return ", ".join(it if isinstance(it, str) else json.dumps(it) for it in items)


def _list_changes(change: Change | None) -> tuple[Any, Any, Any]:
    """Return files, bytes and rows that were added and removed; nothing if unchanged."""
    if change is None:
        return None, None, None
    rows: Any = [("+", change.rows_added or 0), ("-", change.rows_removed or 0)]
    known = (change.rows_added, change.rows_removed, change.rows_updated) != (None, None, None)
    if not known and (change.files_added or change.files_removed):
        rows = "?"
    elif change.rows_added is not None and change.rows_removed is None and change.files_removed:
        rows[1] = ("-", None)
    if change.rows_updated:
        rows.append(("~", change.rows_updated))
    return (
        [("+", change.files_added or 0), ("-", change.files_removed or 0)],
        [("+", change.bytes_added or 0), ("-", change.bytes_removed or 0)],
        rows,
    )


def _name_commit(problem: str, name: str) -> str:
    return problem.replace(repr(name), "the commit").replace(name, "the commit")


def _describe_problems(rows: Sequence[Row]) -> Iterator[Section]:
    broken = [
        (
            f"version {row['version']}",
            _name_commit(row["problem"], DeltaLog.commit_file(row["version"])),
        )
        for row in rows
        if row["problem"] is not None
    ]
    columns = [Column("version"), Column("problem", Kind.DETAIL)]
    yield from list_rows("! Problems", Tone.BAD, columns, broken, most=10)
    lost = [row["version"] for row in rows if not row["reconstructible"]]
    if lost:
        ranges = list_single_versions(lost, "--all -o csv lists all")
        reason = "some commits since version 0 or the previous checkpoint are missing or invalid"
        yield Section(
            Tone.CAUTION("x Versions that cannot be rebuilt"),
            facts=[("which", ranges), ("reason", reason)],
        )


def describe_version_at(found: VersionAt, asked_ms: int, now_ms: int) -> Iterator[Section]:
    """Return which version was current at a time."""
    row, after = found.row, found.next_row
    or_lost = ""
    if after is None:
        until = "now: it is the latest version"
    elif after["timestamp"] is None:
        or_lost = ", or a missing one,"
        until = f"unknown: the commit of version {after['version']} is missing"
    else:
        until = f"{format_instant(after['timestamp'], now_ms)}, version {after['version']}"
    asked = format_timestamp(asked_ms)
    yield Section(
        (Tone.GOOD(f"version {row['version']}"), f"{or_lost} was current at {asked}"),
        facts=[("until", until)],
    )
    yield from describe_commit(row, now_ms)
    yield from _describe_problems([row])


def describe_commit_files(found: CommitFiles, now_ms: int) -> Iterator[Section]:
    """Return how a commit changed files: one line per partition, then one per file."""
    yield from describe_commit(found.row, now_ms)
    if not found.partitions:
        yield Section("no files added or removed")
        return
    yield describe_partitions(found.partitions, most=None)
    columns = [
        Column("action"),
        Column("size", Kind.BYTES, "size_bytes"),
        Column("rows", Kind.NUMBER, "num_rows", empty="?"),
        Column("file", Kind.DETAIL, "path"),
    ]
    yield Section(Tone.STRONG("Files"), table=Table(columns, found.actions))


def describe_partitions(parts: Sequence[PartitionChange], *, most: int | None) -> Section:
    """Return what was added to and removed from each partition."""
    sizes = [Column("size", Kind.BYTES), Column("rows", Kind.NUMBER)]
    columns = [
        Column("partition", Kind.PATH),
        *(Column("added", Kind.NUMBER), *sizes),
        *(Column("removed", Kind.NUMBER), *sizes),
        Column("DVs", Kind.COUNTS_CHANGED),
    ]
    rows = [
        (
            format_partition(part.partition_values),
            *_counts(part.added),
            *_counts(part.removed),
            [("+", part.added.num_deletion_vectors), ("-", part.removed.num_deletion_vectors)],
        )
        for part in parts
    ]
    table = Table(columns, rows, most=most, more="-o csv lists all")
    return Section(Tone.STRONG("Partitions"), table=table)


def format_partition(values: Mapping[str, str | None] | None) -> str:
    """Return the partition as a directory, as ``--blame`` takes it."""
    return partition_directory(list(values.items())) if values else "(whole table)"


def _counts(counts: FileCounts) -> tuple[Any, Any, Any]:
    if not counts.num_files:
        return None, None, None
    size, rows = ("?" if n is None else n for n in (counts.size_bytes, counts.num_rows))
    return counts.num_files, size, rows
