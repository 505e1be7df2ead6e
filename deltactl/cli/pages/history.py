"""The sections of ``describe-history``: commits, one commit, one version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.sections import (
    Cell,
    Column,
    Fact,
    Kind,
    Listed,
    Section,
    Styled,
    Table,
    Tone,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import COLUMNS
from deltactl.operations.history.changes import Change
from deltactl.operations.history.run import CommitFiles, HistoryReport, VersionAt
from deltactl.units import format_age, format_count, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import FileCounts, PartitionChange

Row = dict[str, Any]

_SHOWN_FIRST: Final = frozenset({"version", "timestamp", "operation", "problem", "reconstructible"})
_EMPTY: Final = (None, "", "[]", "{}", "false")
_COLUMNS: Final = (
    Column("", key="mark"),
    Column("ver", Kind.NUMBER, "version"),
    Column("time (UTC)", Kind.TIME, tone=Tone.FAINT),
    Column("age", Kind.AGE, spare=4),
    Column("operation", Kind.TEXT, least=12, tone=Tone.STRONG),
    Column("parameters", Kind.TEXT, wide=True, tone=Tone.FAINT),
    Column("by", Kind.TEXT, spare=3),
    Column("files", Kind.COUNTS_CHANGED),
    Column("size", Kind.BYTES_CHANGED, spare=1),
    Column("rows", Kind.COUNTS_CHANGED, spare=2),
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
        yield from describe_commit(row, now_ms, report.changes.get(row["version"]))
        yield from _describe_problems([row])
    else:
        yield from describe_commits(
            report.rows, report.changes, now_ms, lambda row: _left(row, report)
        )
        yield from describe_unread(report.num_unread, "use --limit N or --all")


def describe_unread(count: int, option: str) -> Iterator[Section]:
    """Return how many older versions there are."""
    if count:
        older = format_count(count, "older version")
        yield Section(notes=[Styled(f"{older} not shown: {option}", Tone.FAINT)])


def describe_commits(
    rows: Sequence[Row],
    changes: Mapping[int, Change],
    now_ms: int,
    left: Callable[[Row], Cell] = lambda _row: "",
) -> Iterator[Section]:
    """Return a line per commit, then their problems; ``left`` returns how many files exist."""
    table = [
        {
            "mark": _mark(row),
            "version": str(row["version"]),
            "time (UTC)": row["timestamp"],
            "age": None if row["timestamp"] is None else now_ms - row["timestamp"],
            "operation": _name_operation(row),
            "parameters": _list_parameters(row),
            "by": _who(row),
            **_list_changes(changes.get(row["version"]) or Change()),
            "restorable": left(row),
        }
        for row in rows
    ]
    yield Section(table=Table(_COLUMNS, table, most=None))
    yield from _describe_problems(rows)


def describe_commit(row: Row, now_ms: int, change: Change | None = None) -> Iterator[Section]:
    """Return all that a commit says about itself."""
    facts: list[Fact] = [("version", str(row["version"]))]
    if row["timestamp"] is not None:
        facts.append(("committed", _with_age(row["timestamp"], now_ms)))
    facts.append(("operation", _name_operation(row)))
    if change is not None:
        shown = {
            c.header: c.show(v).text for c in _COLUMNS if (v := _list_changes(change).get(c.header))
        }
        facts += shown.items()
    values = {name: row.get(name) for name in COLUMNS if name not in _SHOWN_FIRST}
    facts += [
        (name, str(value))
        for name, value in values.items()
        if value not in (None, "") and not isinstance(value, dict)
    ]
    yield Section(facts=facts)
    for name, value in values.items():
        if isinstance(value, dict) and value:
            members = [(key, str(text)) for key, text in value.items() if text is not None]
            yield Section(Styled(name, Tone.STRONG), facts=members)


def _left(row: Row, report: HistoryReport) -> Cell:
    """Return how many files of a version exist, if --restorable was given."""
    if report.restorable is None or row["timestamp"] is None:
        return ""
    left = report.restorable.get(row["version"])
    if left is None:
        return Styled("?", Tone.CAUTION)
    if not left.num_gone:
        return Styled(left.state, Tone.GOOD if left.state == "readable" else Tone.BAD)
    return Styled(f"{left.state}: {left.num_gone:,}/{left.num_files:,}", Tone.CAUTION)


def _mark(row: Row) -> Cell:
    if row["problem"] is not None:
        return Styled("!", Tone.BAD)
    return "" if row["reconstructible"] else Styled("x", Tone.CAUTION)


def _name_operation(row: Row) -> Cell:
    """Return the operation; ``restore --where`` has a predicate, other restores have none."""
    operation: str | None = row["operation"]
    if row["timestamp"] is None:
        return Styled("missing", Tone.BAD)
    if operation is None:
        return Styled("-" if row["problem"] is None else "unreadable", Tone.BAD)
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


def _list_changes(change: Change) -> dict[str, Any]:
    """Return files, bytes and rows that were added and removed; nothing if unchanged."""
    rows: Any = [("+", change.rows_added or 0), ("-", change.rows_removed or 0)]
    known = (change.rows_added, change.rows_removed, change.rows_updated) != (None, None, None)
    if not known and (change.files_added or change.files_removed):
        rows = "?"
    elif change.rows_added is not None and change.rows_removed is None and change.files_removed:
        rows[1] = ("-", None)
    if change.rows_updated:
        rows.append(("~", change.rows_updated))
    return {
        "files": [("+", change.files_added or 0), ("-", change.files_removed or 0)],
        "size": [("+", change.bytes_added or 0), ("-", change.bytes_removed or 0)],
        "rows": rows,
    }


def _describe_problems(rows: Sequence[Row]) -> Iterator[Section]:
    broken = [row for row in rows if row["problem"] is not None]
    if broken:
        table = [
            (
                f"version {row['version']}",
                str(row["problem"]).replace(DeltaLog.commit_file(row["version"]), "the commit"),
            )
            for row in broken
        ]
        columns = [Column("version"), Column("problem", Kind.DETAIL)]
        yield Section(Styled("! Problems", Tone.BAD), table=Table(columns, table, most=10))
    lost = [row["version"] for row in rows if not row["reconstructible"]]
    if lost:
        yield Section(
            Styled("x Versions that cannot be rebuilt", Tone.CAUTION),
            facts=[
                ("versions", Listed(_format_versions(lost), more="--all -o csv lists all")),
                (
                    "reason",
                    "some commits since version 0 or the previous checkpoint are missing or "
                    "invalid",
                ),
            ],
        )


def _format_versions(versions: Sequence[int]) -> list[str]:
    """Return ranges such as ``3-5`` and ``8``; ``versions`` are sorted newest first."""
    runs: list[list[int]] = []
    for version in reversed(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]


def describe_version_at(found: VersionAt, asked_ms: int, now_ms: int) -> Iterator[Section]:
    """Return which version was current at a time."""
    row, after = found.row, found.next_row
    if after is None:
        until = "now: it is the latest version"
    elif after["timestamp"] is None:
        until = f"unknown: the commit of version {after['version']} is missing"
    else:
        until = f"{_with_age(after['timestamp'], now_ms)}, version {after['version']}"
    asked = format_timestamp(asked_ms)
    yield Section(
        (Styled(f"version {row['version']}", Tone.GOOD), f" was current at {asked}"),
        facts=[("until", until)],
    )
    yield from describe_commit(row, now_ms)
    yield from _describe_problems([row])


def _with_age(timestamp_ms: int, now_ms: int) -> str:
    return f"{format_timestamp(timestamp_ms)} ({format_age(now_ms - timestamp_ms)})"


def describe_commit_files(found: CommitFiles, now_ms: int) -> Iterator[Section]:
    """Return how a commit changed files, one line per partition."""
    yield from describe_commit(found.row, now_ms)
    if found.partitions:
        yield describe_partitions(found.partitions, most=None)
    else:
        yield Section("no files added or removed")


def describe_partitions(parts: Sequence[PartitionChange], *, most: int | None) -> Section:
    """Return what was added to and removed from each partition."""
    sides = [
        column
        for side in ("added", "removed")
        for column in (
            Column(side, Kind.NUMBER),
            Column("size", Kind.BYTES),
            Column("rows", Kind.NUMBER),
        )
    ]
    columns = [Column("partition", Kind.PATH), *sides, Column("DVs", Kind.COUNTS_CHANGED)]
    rows = [
        [
            format_partition(part.partition_values),
            *_counts(part.added),
            *_counts(part.removed),
            [("+", part.added.num_deletion_vectors), ("-", part.removed.num_deletion_vectors)],
        ]
        for part in parts
    ]
    table = Table(columns, rows, most=most, more="-o csv lists all")
    return Section(Styled("Partitions", Tone.STRONG), table=table)


def format_partition(values: Mapping[str, str | None] | None) -> str:
    """Return ``a=1/b=x``; a null value is ``null``."""
    if not values:
        return "(whole table)"
    return "/".join(f"{k}={'null' if v is None else v}" for k, v in values.items())


def _counts(counts: FileCounts) -> tuple[Any, Any, Any]:
    if not counts.num_files:
        return None, None, None
    size, rows = ("?" if n is None else n for n in (counts.size_bytes, counts.num_rows))
    return counts.num_files, size, rows
