"""The sections of ``describe-detail --storage``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.operations.storage.report import Reason
from deltactl.units import DAY_MS, format_count, format_duration, format_size

if TYPE_CHECKING:
    from deltactl.operations.storage.report import StorageReport, Use

_LABELS: Final[Mapping[Reason, str]] = {
    Reason.LIVE: "live",
    Reason.TIME_TRAVEL: "kept for time travel",
    Reason.NEEDED_ELSEWHERE: "needed by clones or Iceberg",
    Reason.REMOVABLE: "removable now",
    Reason.UNREFERENCED: "never referenced",
    Reason.KEPT: "removed before, kept for another reason",
    Reason.DELTACTL: "records of deltactl",
}
_IN_USE: Final = (Reason.LIVE, Reason.CHANGE_DATA, Reason.DELETION_VECTORS)


def describe_storage(report: StorageReport) -> Iterator[Section]:
    """Return the totals, and the files by reason, by day and by version."""
    yield _describe_totals(report)
    yield _describe_reasons(report)
    if report.removable:
        rows = [(row["reason"], row["files"], row["bytes"]) for row in report.removable]
        columns = [Column("reason"), Column("files", Kind.NUMBER), Column("size", Kind.BYTES)]
        yield Section(Tone.STRONG("Removable now"), table=Table(columns, rows))
    if report.days:
        yield _describe_days(report)
    if report.versions:
        yield _describe_versions(report)


def _describe_totals(report: StorageReport) -> Section:
    def show(size_bytes: int) -> str:
        return f"{format_size(size_bytes)}{_suffix(report, size_bytes)}"

    total, cleanup = report.total, report.cleanup
    facts = [
        ("after vacuum", show(report.bytes_after_vacuum)),
        (
            "and after checkpoint --cleanup",
            None if cleanup is None else show(report.bytes_after_cleanup),
        ),
        ("to halve it", _describe_half(report)),
        ("not included", report.not_counted),
    ]
    files = f" in {format_count(total.files, 'file')}, version {report.version}"
    return Section((Tone.STRONG(show(total.bytes)), files), facts=facts)


def _suffix(report: StorageReport, size_bytes: int) -> str:
    cost = report.cost(size_bytes)
    return "" if cost is None else f", {_format_cost(cost)} a month"


def _format_cost(cost: float) -> str:
    return "less than 0.01" if 0 < cost < 0.005 else f"{cost:,.2f}"


def _describe_half(report: StorageReport) -> str:
    now = format_duration(report.retention_ms)
    if report.halving_ms is None:
        return "not possible with a retention of an hour or more"
    if report.halving_ms >= report.retention_ms:
        return f"a vacuum, with the present retention of {now}"
    return f"a vacuum, with a retention of {format_duration(report.halving_ms)} instead of {now}"


def _describe_reasons(report: StorageReport) -> Section:
    largest = max(use.bytes for use in report.reasons.values()) or 1
    rows = []
    for reason, use in report.reasons.items():
        cost = report.cost(use.bytes)
        label = _LABELS.get(reason, reason.replace("_", " "))
        tone = Tone.GOOD if reason in _IN_USE else Tone.CAUTION
        shown = None if cost is None else _format_cost(cost)
        rows.append((label, use.files, use.bytes, shown, (use.bytes / largest, tone)))
    columns = [
        Column("files", Kind.TEXT, least=20),
        Column("number", Kind.NUMBER),
        Column("size", Kind.BYTES),
        Column("a month", Kind.NUMBER),
        Column("", Kind.BAR, spare=1),
    ]
    return Section(Tone.STRONG("What the files are for"), table=Table(columns, rows))


def _describe_days(report: StorageReport) -> Section:
    rows = [(day * DAY_MS, use) for day, use in report.days]
    return _list_uses("Removable later", [Column("from", Kind.DAY)], rows)


def _list_uses(
    title: str, columns: list[Column], rows: Sequence[tuple[*tuple[Any, ...], Use]]
) -> Section:
    largest = max(use.bytes for *_, use in rows) or 1
    shown = [
        (*keys, use.files, use.bytes, (use.bytes / largest, Tone.CAUTION)) for *keys, use in rows
    ]
    uses = [
        Column("files", Kind.NUMBER),
        Column("size", Kind.BYTES),
        Column("", Kind.BAR, spare=1),
    ]
    return Section(Tone.STRONG(title), table=Table([*columns, *uses], shown))


def _describe_versions(report: StorageReport) -> Section:
    columns = [
        Column("removed by", Kind.NUMBER),
        Column("at", Kind.TIME),
        Column("removable from", Kind.DAY),
    ]
    rows = [
        (
            "an older version" if it.version is None else it.version,
            it.removed_ms,
            it.removable_ms,
            it.use,
        )
        for it in report.versions
    ]
    largest = sorted(rows, key=lambda row: -row[-1].bytes)
    return _list_uses("Versions that removed files, the most bytes first", columns, largest)
