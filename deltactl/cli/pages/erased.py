"""The sections of the report of ``check --erased``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone, list_rows
from deltactl.operations.erased.report import COUNTS
from deltactl.units import format_count, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.erased.report import ErasedReport

_SHOWN: Final = 10


def describe_erased(report: ErasedReport) -> Iterator[Section]:
    """Return where values are and what ends it, then what was searched and what was not."""
    sought = "the values" if report.predicate is None else report.predicate
    if report.is_found:
        count = format_count(len(report.places), "place")
        title = (Tone.BAD(f"Found in {count}"), f": {sought}")
    elif report.is_erased:
        title = (Tone.GOOD("Found nowhere"), f": {sought}")
    else:
        title = (Tone.CAUTION("Nothing found, but not everything was searched"), f": {sought}")
    columns = [
        Column("place", tone=Tone.STRONG),
        Column("files", Kind.NUMBER),
        Column("rows", Kind.NUMBER),
        Column("until", Kind.TIME),
        Column("table", Kind.PATH, spare=1),
        Column("kept by", Kind.DETAIL),
        Column("found in", Kind.DETAIL),
    ]
    is_one = len(report.tables) == 1
    rows = [
        (it.name, it.files, it.rows, it.until_ms, "" if is_one else it.table, it.kept_by)
        + (_join(it.parts),)
        for it in report.places
    ]
    yield Section(title, table=Table(columns, rows) if rows else None)
    if report.commands:
        yield Section("To end this, in this order:", code="\n".join(report.commands))
    unread = [(it.name, it.reason, it.place) for it in report.unread]
    names = [Column("file", Kind.PATH, tone=Tone.STRONG), Column("reason"), Column("place")]
    yield from list_rows("Could not be read", Tone.BAD, names, unread)
    if report.unsearchable:
        yield Section(
            Tone.CAUTION("This predicate cannot be searched for in texts:"),
            notes=[", ".join(report.unsearchable)],
        )
    yield _describe_scope(report)
    yield Section(Tone.STRONG("This search does not see"), notes=report.unseen)


def _join(parts: Sequence[str]) -> str:
    more = " and more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more


def _describe_scope(report: ErasedReport) -> Section:
    counts = ((label, report.counts.get(name)) for name, label in COUNTS.items())
    return Section(
        Tone.STRONG("Searched"),
        facts=[
            *(("table", f"{table}, version {version}") for table, version in report.tables),
            ("at", format_timestamp(report.searched_ms)),
            *((label, f"{count:,}" if count else None) for label, count in counts),
            ("digest", report.digest),
        ],
    )
