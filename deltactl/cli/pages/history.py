"""Print a history as text: one line per commit; missing versions are marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import COLUMNS
from deltactl.operations.history.changes import Change
from deltactl.operations.history.run import CommitFiles, HistoryReport, VersionAt
from deltactl.units import format_age, format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import PartitionChange

Row = dict[str, Any]

# Pages of this width also show seconds, full numbers and operation parameters.
_WIDE: Final = 110
_RESTORE: Final = "RESTORE"
_IN_THE_LINE: Final = frozenset({"version", "timestamp", "operation", "reconstructible", "problem"})
_MAX_NOTES: Final = 10
_UNITS: Final = "KMGTPE"
CHANGE_COLUMNS: Final = tuple(
    Column(header, right=True)
    for header in ("added", "size", "rows", "removed", "size", "rows", "DVs")
)
_CUT: Final = 400
"""Longer strings are cut before their width is measured; no line is longer than this."""


def render_history(page: Page, report: HistoryReport, now_ms: int, *, is_one: bool = False) -> None:
    """Render the commits, their problems, and how many more there are.

    If one version was requested (``is_one``), render everything that its commit says.
    """
    if not report.rows:
        page.line("no commits match")
        return
    render_commits(page, report.rows, report.changes, now_ms, lambda row: _left(row, report))
    if is_one and len(report.rows) == 1:
        _render_commit(page, report.rows[0])
    if report.num_unread:
        page.line()
        page.line(
            Styled(
                f"{format_count(report.num_unread, 'older version')} not shown: "
                "use --limit N or --all",
                Tone.FAINT,
            )
        )


def _render_commit(page: Page, row: Row) -> None:
    """Render all that a commit says about itself, wrapped."""
    for name in COLUMNS:
        value = row.get(name)
        if name in _IN_THE_LINE or value in (None, "", {}):
            continue
        texts = value if isinstance(value, dict) else {"": value}
        page.line()
        page.line(Styled(name, Tone.STRONG))
        for key, text in texts.items():
            page.wrapped(f"{key}: {text}" if key else str(text), indent="  ")


def render_commits(
    page: Page,
    rows: Sequence[Row],
    changes: Mapping[int, Change],
    now_ms: int,
    left: Callable[[Row], Cell] = lambda _row: "",
) -> None:
    """Add a line per commit, then their problems; ``left`` returns how many files still exist."""
    wide = page.width >= _WIDE or page.is_whole
    lines = [
        [
            _mark(row) or "",
            *_cells(row, changes.get(row["version"]), now_ms, wide),
            left(row),
        ]
        for row in rows
    ]
    page.table(*drop_empty_columns([Column(""), *_columns(wide), Column("restorable")], lines))
    _render_problems(page, rows)


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


def _columns(wide: bool) -> list[Column]:
    return [
        Column("version" if wide else "ver", right=True),
        Column("time (UTC)"),
        Column("age", right=True, spare=4),
        Column("operation", elastic=True),
        *([Column("parameters", elastic=True)] if wide else []),
        Column("by", elastic=True, spare=3),
        Column("files"),
        Column("size", spare=1),
        Column("rows", spare=2),
    ]


def drop_empty_columns(
    columns: Sequence[Column], lines: Sequence[Sequence[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """Omit columns in which every cell is empty."""
    kept = [i for i in range(len(columns)) if any(_text(line[i]) for line in lines)]
    return [columns[i] for i in kept], [[line[i] for i in kept] for line in lines]


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Styled) else cell


def _mark(row: Row) -> Cell | None:
    if row["problem"] is not None:
        return Styled("!", Tone.BAD)
    return None if row["reconstructible"] else Styled("x", Tone.CAUTION)


def _cells(row: Row, change: Change | None, now_ms: int, wide: bool) -> list[Cell]:
    when = row["timestamp"]
    files, size, rows = _change_texts(change or Change(), wide)
    if when is None:
        operation: Cell = Styled("missing", Tone.BAD)
    elif row["operation"] is None:
        broken = row["problem"] is not None
        operation = Styled("unreadable" if broken else "-", Tone.BAD if broken else Tone.FAINT)
    else:
        operation = Styled(_name_operation(row)[:_CUT], Tone.STRONG)
    return [
        str(row["version"]),
        "" if when is None else Styled(_format_time(when, wide), Tone.FAINT),
        "" if when is None else format_age(now_ms - when).removesuffix(" ago"),
        operation,
        *([Styled(_describe_parameters(row), Tone.FAINT)] if wide else []),
        _who(row, wide),
        files,
        size,
        rows,
    ]


def _name_operation(row: Row) -> str:
    """Return the operation; ``restore --where`` has a predicate, other restores have none."""
    operation: str = row["operation"]
    is_partial = operation == _RESTORE and (row["operationParameters"] or {}).get("predicate")
    return f"{operation} part" if is_partial else operation


def _format_time(timestamp_ms: int, wide: bool) -> str:
    text = format_timestamp(timestamp_ms).replace("T", " ")
    return text[: -len(".000Z")] if wide else text[: -len(":00.000Z")]


def _who(row: Row, wide: bool = True) -> str:
    """Return who committed: the user in the commit, else the program."""
    person = row["userName"] or row["userId"]
    if person:
        return str(person if wide else person.partition("@")[0] or person)[:_CUT]
    engine = (row["engineInfo"] or "")[:_CUT].partition(" ")[0]
    name, _, version = engine.removeprefix("Apache-").partition("/")
    return f"{name} {version}".rstrip()


def _describe_parameters(row: Row) -> str:
    """Return the user metadata and the operation parameters that are not empty."""
    said = [] if row["userMetadata"] is None else [f'"{row["userMetadata"][:_CUT]}"']
    for name, value in (row["operationParameters"] or {}).items():
        if value not in (None, "", "[]", "{}", "false"):
            said.append(f"{name}={_unwrap(value)}")
    return "  ".join(said)[:_CUT]


def _unwrap(value: str) -> str:
    """Return a parameter without the JSON syntax: ``["a","b"]`` is ``a, b``."""
    if not value.startswith("[") or len(value) > _CUT:
        return value
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return ", ".join(it if isinstance(it, str) else json.dumps(it) for it in items)


def _change_texts(change: Change, wide: bool) -> tuple[str, str, str]:
    """Return files, bytes and rows as ``+2 -1``; empty if unchanged, ``?`` if rows are unknown."""

    def number(n: int) -> str:
        return f"{n:,}" if wide else _short(n, 1000)

    def size(n: int) -> str:
        return format_size(n) if wide else _short(n, 1024)

    known = (change.rows_added, change.rows_removed, change.rows_updated) != (None, None, None)
    if not known and (change.files_added or change.files_removed):
        rows = "?"
    else:
        rows = _signed(change.rows_added, change.rows_removed, number)
    if change.rows_added is not None and change.rows_removed is None and change.files_removed:
        rows += " -?"
    if change.rows_updated:
        rows = f"{rows} ~{number(change.rows_updated)}".lstrip()
    return (
        _signed(change.files_added, change.files_removed, number),
        _signed(change.bytes_added, change.bytes_removed, size),
        rows,
    )


def _signed(added: int | None, removed: int | None, write: Any) -> str:
    parts = [f"{sign}{write(n)}" for sign, n in (("+", added), ("-", removed)) if n]
    return " ".join(parts)


def _short(n: int, base: int) -> str:
    """Return a number in a few characters: ``999``, ``1.2K``, ``34M``."""
    if n < base:
        return f"{n}B" if base == 1024 else str(n)
    power = 0
    value = float(n)
    while value >= base * 0.9995 and power < len(_UNITS):
        value /= base
        power += 1
    digits = f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
    return digits.removesuffix(".0") + _UNITS[power - 1]


def _render_problems(page: Page, rows: Sequence[Row]) -> None:
    problems = [row for row in rows if row["problem"] is not None]
    lost = [row["version"] for row in rows if not row["reconstructible"]]
    if problems or lost:
        page.line()
    for row in problems[:_MAX_NOTES]:
        page.line(Styled(f"! version {row['version']}: ", Tone.BAD), _shorten(row))
    if len(problems) > _MAX_NOTES:
        page.line(f"! and {format_count(len(problems) - _MAX_NOTES, 'more version')} like these")
    if lost:
        page.line(
            Styled(f"x {_format_versions(lost)} cannot be rebuilt: ", Tone.CAUTION),
            "some commits since version 0 or the previous checkpoint are missing or invalid",
        )


def _shorten(row: Row) -> str:
    return str(row["problem"]).replace(DeltaLog.commit_file(row["version"]), "the commit")


def _format_versions(versions: Sequence[int]) -> str:
    """Return ``version 3`` or ``versions 3-5, 8``; ``versions`` are sorted newest first."""
    runs: list[list[int]] = []
    for version in reversed(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MAX_NOTES]]
    if len(runs) > _MAX_NOTES:
        shown.append("...")
    return f"version{'' if len(versions) == 1 else 's'} {', '.join(shown)}"


def render_version_at(page: Page, found: VersionAt, asked_ms: int, now_ms: int) -> None:
    """Render which version was current at a time."""
    row, after = found.row, found.next_row
    asked = format_timestamp(asked_ms)
    page.line(Styled(f"version {row['version']}", Tone.GOOD), f" was current at {asked}")
    page.line()
    pairs: list[tuple[str, Cell]] = [("committed", _with_age(row["timestamp"], now_ms))]
    if after is None:
        pairs.append(("until", "now: it is the latest version"))
    elif after["timestamp"] is None:
        pairs.append(("until", f"unknown: the commit of version {after['version']} is missing"))
    else:
        ended = _with_age(after["timestamp"], now_ms)
        pairs.append(("until", f"{ended}, version {after['version']}"))
    pairs += [("operation", row["operation"] or "-"), ("by", _who(row) or "-")]
    page.fields(pairs)
    _render_problems(page, [row])


def _with_age(timestamp_ms: int, now_ms: int) -> str:
    return f"{format_timestamp(timestamp_ms)} ({format_age(now_ms - timestamp_ms)})"


def render_commit_files(page: Page, found: CommitFiles, now_ms: int) -> None:
    """Render how a commit changed files, one line per partition."""
    row = found.row
    page.fields(
        [
            ("version", str(row["version"])),
            ("committed", _with_age(row["timestamp"], now_ms)),
            ("operation", row["operation"] or "-"),
            ("by", _who(row) or "-"),
        ]
    )
    page.line()
    if not found.partitions:
        page.line("no files added or removed")
        return
    columns = [Column("partition", elastic=True, is_path=True), *CHANGE_COLUMNS]
    lines: list[list[Cell]] = [
        [format_partition(part.partition_values), *change_cells(part)] for part in found.partitions
    ]
    page.table(*drop_empty_columns(columns, lines))


def change_cells(part: PartitionChange) -> list[Cell]:
    """Return the cells of ``CHANGE_COLUMNS``: what was added to and removed from a partition."""
    vectors = (part.added.num_deletion_vectors, part.removed.num_deletion_vectors)
    return [
        *_counts(part.added.num_files, part.added.size_bytes, part.added.num_rows),
        *_counts(part.removed.num_files, part.removed.size_bytes, part.removed.num_rows),
        _signed(*vectors, str),
    ]


def format_partition(values: Any) -> str:
    """Return ``a=1/b=x``; a null value is ``null``."""
    if not values:
        return "(whole table)"
    return "/".join(f"{k}={'null' if v is None else v[:_CUT]}" for k, v in values.items())


def _counts(files: int, size: int | None, rows: int | None) -> tuple[str, str, str]:
    if not files:
        return "", "", ""
    return (
        f"{files:,}",
        "?" if size is None else format_size(size),
        "?" if rows is None else f"{rows:,}",
    )
