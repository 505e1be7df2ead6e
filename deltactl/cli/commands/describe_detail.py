"""``deltactl describe-detail``: schema, size, properties and features of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltactl.cli.options.common import TableArgument
from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.cli.pages.sizes import render_sizes
from deltactl.cli.pages.skipping import render_skipping
from deltactl.cli.session import Session
from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.option_fields import layout_option, selection_option
from deltactl.units import TimestampMs, format_age, format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.detail import DetailReport, Survey

_INSTANTS = ("createdAt", "lastModified")
_SHOWN_COLUMNS = 40
_CUT = 400


@dataclass(frozen=True, slots=True)
class DetailFlags:
    """Options that only the command line has."""

    version: int | None = selection_option(
        None,
        "Show version N",
        least=0,
        is_basic=True,
    )
    at_ms: TimestampMs | None = selection_option(
        None,
        'Show the version that was the latest at this time: "2024-01-31 12:00", or "2h" for two '
        "hours ago",
        metavar="TIME",
        is_basic=True,
    )
    layout: bool = layout_option(
        False,
        "For each clustering column, also show which share of the files a query for one value "
        "skips, now and after clustering",
        is_basic=True,
    )


def command(session: Session, table: TableArgument, flags: DetailFlags) -> None:
    """Show sizes, columns, properties, protocol and features of a table.

    The command reads only the log. So it also works for tables with features and types that
    deltactl does not support. Times are in UTC.

    \b
    Examples:
      deltactl describe-detail /data/events
      deltactl describe-detail s3://lake/events --at 2d -o json
      deltactl describe-detail /data/events --layout
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.operations.detail import load_detail

    if flags.version is not None and flags.at_ms is not None:
        raise UsageError("--version and --at cannot be combined", hint="Give one of them.")
    now_ms = SystemClock().now_ms()
    log = session.open_log(table, may_be_behind=True)
    version = flags.version
    if flags.at_ms is not None:
        from deltactl.operations.history.run import version_at

        version = version_at(log, flags.at_ms).row["version"]
    report = load_detail(log, version, survey=_load_survey() if flags.layout else None)
    row = {**_json_row(report.row), "fileSizes": report.sizes.to_dict()}
    if report.entry is not None:
        row["catalog"] = report.entry.to_dict()
    if report.layout is not None:
        row["layout"] = report.layout.to_dict()
    session.present(
        lambda page: render_detail(page, report, now_ms),
        rows=[row],
        version_before=report.version,
        version_after=report.version,
        result=row,
    )


def _load_survey() -> Survey:
    from deltactl.operations.optimize.layout.survey import survey_layout

    return survey_layout


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: None if row[name] is None else format_timestamp(row[name]) for name in _INSTANTS}
    return {**row, **times}


def render_detail(page: Page, report: DetailReport, now_ms: int) -> None:
    """Fill a page with the properties, columns and features of a table."""
    row = report.row

    def instant(timestamp_ms: int | None) -> str:
        if timestamp_ms is None:
            return "-"
        return f"{format_timestamp(timestamp_ms)} ({format_age(now_ms - timestamp_ms)})"

    pairs: list[tuple[str, Cell]] = [
        ("location", Styled(row["location"], Tone.STRONG)),
        *_catalog_fields(report),
        ("version", f"{report.version}, committed {instant(report.timestamp_ms)}"),
        ("size", f"{format_count(row['numFiles'], 'file')}, {format_size(row['sizeInBytes'])}"),
        ("id", row["id"]),
        ("name", row["name"] or ""),
        ("description", row["description"] or ""),
        ("created", instant(row["createdAt"])),
        ("last modified", instant(row["lastModified"])),
        ("partitioned by", ", ".join(row["partitionColumns"])),
        ("clustered by", ", ".join(row["clusteringColumns"])),
        ("protocol", f"reader {row['minReaderVersion']}, writer {row['minWriterVersion']}"),
    ]
    page.fields([(label, value) for label, value in pairs if value != ""])
    render_sizes(page, report.sizes)
    if report.layout is not None:
        render_skipping(page, report.layout)
    _render_columns(page, report)
    if row["properties"]:
        page.line()
        page.line(Styled("properties", Tone.STRONG))
        for key, value in sorted(row["properties"].items()):
            page.line("  ", key, Styled(" = ", Tone.FAINT), value)
    _render_features(page, report)


def _catalog_fields(report: DetailReport) -> list[tuple[str, Cell]]:
    if report.entry is None:
        return []
    found = report.entry.to_dict()
    return [
        ("catalog", found.pop("catalog") or ""),
        *((f"{key} in catalog", value or "") for key, value in found.items()),
    ]


def _render_columns(page: Page, report: DetailReport) -> None:
    page.line()
    if report.columns is None:
        page.line(Styled("the schema cannot be read", Tone.BAD))
        return
    partitions = set(report.row["partitionColumns"])
    rows: list[tuple[Cell, ...]] = []
    for name, kind, nullable in report.columns[:_SHOWN_COLUMNS]:
        notes = [] if nullable else ["not null"]
        notes += ["partition"] if name in partitions else []
        rows.append((f"  {name}", kind[:_CUT], Styled(", ".join(notes), Tone.FAINT)))
    columns = [Column("columns", elastic=True), Column("type", elastic=True), Column("")]
    page.table(columns, rows)
    if len(report.columns) > _SHOWN_COLUMNS:
        page.line(f"  and {len(report.columns) - _SHOWN_COLUMNS} more")


def _render_features(page: Page, report: DetailReport) -> None:
    from deltactl.protocol.features import Operation

    page.line()
    page.line(Styled("features", Tone.STRONG))
    for name in report.row["tableFeatures"] or ["none"]:
        page.line("  ", name)
    page.line()
    for verb, operation in (("read", Operation.READ), ("optimize", Operation.REWRITE)):
        refusal = report.refusals.get(operation)
        if refusal is None:
            page.line(Styled("yes", Tone.GOOD), f"  deltactl can {verb} this table")
        else:
            page.line(Styled("no ", Tone.BAD), f"  {refusal}")
