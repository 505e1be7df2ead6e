"""The sections of the reports of ``optimize``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import (
    Column,
    Fact,
    Kind,
    Listed,
    Section,
    Table,
    Tone,
    list_rows,
    list_single_versions,
)
from deltactl.cli.pages.detail import describe_sizes_change, describe_skipping
from deltactl.cli.pages.vacuum import list_files
from deltactl.errors import DataFileError
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.optimize.plan import OptimizePlan
    from deltactl.operations.optimize.report import BinFailure, OptimizeReport

_VERIFIED = {
    "rows": "every row compared, none changed",
    "bytes": "copied byte for byte",
    "counts": "row and null counts equal",
}


def describe_optimize(report: OptimizeReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if plan.is_empty:
        yield Section((Tone.GOOD("Nothing to do"), f" in version {plan.version}"))
    elif report.dry_run:
        yield _describe_totals(report)
    else:
        yield _describe_result(report)
        yield from _list_bins("Not rewritten", report.failures)
        yield from _list_bins("Not committed: changed by other writers", report.conflicts)
        yield from list_files("Written, but neither committed nor removed", report.strays)
        yield from list_files("Removed: output of lost workers", report.strays_removed, Tone.FAINT)
    if not plan.is_empty:
        yield _describe_partitions(plan, is_done=not report.dry_run)
        if report.skipping is not None:
            yield describe_skipping(report.skipping)
        after = plan.sizes_after if report.dry_run else report.sizes_after or plan.sizes_before
        yield describe_sizes_change(plan.sizes_before, after, is_done=not report.dry_run)
    columns = [Column("files", Kind.NUMBER), Column("reason", Kind.TEXT)]
    rows = [(count, reason) for reason, count in plan.left_alone.items()]
    yield from list_rows("Not rewritten", Tone.STRONG, columns, rows)


def _describe_totals(report: OptimizeReport) -> Section:
    plan = report.plan
    return Section(
        (
            Tone.STRONG(f"Would rewrite {format_count(plan.files.num_rows, 'file')}"),
            f" ({format_size(plan.bytes_to_rewrite)}) into {plan.num_outputs}, "
            f"target {format_size(plan.target_bytes)}, version {plan.version}",
        ),
        facts=list(_describe_way(report)),
    )


def _describe_way(report: OptimizeReport) -> Iterator[Fact]:
    """Return the layout, or what was copied."""
    layout, counts = report.plan.layout, report.rewritten
    if layout is not None:
        placed = layout.placed_bytes
        yield "layout", f"{layout.request.layout} by {', '.join(layout.request.names)}"
        yield "also rewritten", f"{format_size(placed)} of unfinished clusters" if placed else None
    elif counts is not None:
        groups = format_count(counts.groups_copied + counts.groups_encoded, "row group")
        size = format_size(counts.bytes_copied + counts.bytes_encoded)
        copied = format_size(counts.bytes_copied)
        yield "copied", f"{counts.groups_copied:,} of {groups}, {copied} of {size}"
        yield "copied because", _list_reasons(counts.copied_because)
        yield "encoded", _list_reasons(counts.reasons)
        if counts.estimated_from is not None:
            yield "estimated", f"from the footers of {format_count(counts.estimated_from, 'file')}"


def _list_reasons(counts: Counter[str]) -> Listed | None:
    reasons = [f"{reason} ({format_count(n, 'row group')})" for reason, n in counts.most_common()]
    return Listed(reasons) if reasons else None


def _describe_result(report: OptimizeReport) -> Section:
    notes = list(_describe_races(report))
    if not report.versions:
        return Section(Tone.CAUTION("Nothing was committed"), notes=notes)
    before, after = format_size(report.bytes_removed), format_size(report.bytes_added)
    verified = ", or ".join(_VERIFIED[kind] for kind in report.verified)
    vectors = report.deletion_vectors_removed
    undo = "the old files stay until a vacuum"
    others = {*range(report.version_before + 1, max(report.versions))} - {*report.versions}
    if others:
        undo += (
            f". Do not restore version {report.version_before}: this would also undo "
            f"{format_count(len(others), 'commit')} of other writers"
        )
    elif not any(isinstance(it.error, DataFileError) for it in report.failures):
        undo += f"; version {report.version_before} can still be read"
    became = f"{format_count(report.files_removed, 'file')} became {report.files_added:,}"
    versions = list_single_versions(report.versions).text(is_whole=True)
    return Section(
        (Tone.GOOD(became), f" in {versions}"),
        facts=[
            ("size", f"{before} -> {after}"),
            ("rows", f"{report.rows_rewritten:,} rewritten: {verified}"),
            ("target", format_size(report.plan.target_bytes)),
            *_describe_way(report),
            ("deletion vectors", f"{vectors:,} applied" if vectors else None),
            ("engine", f"{report.engine} ({report.engine_reason})"),
            ("undo", undo),
        ],
        notes=notes,
    )


def _describe_partitions(plan: OptimizePlan, *, is_done: bool) -> Section:
    columns = [
        Column("partition", Kind.PATH, empty="(whole table)"),
        Column("files", Kind.NUMBER, "files_before"),
        Column("after", Kind.NUMBER, "files_after"),
        Column("size", Kind.BYTES, "bytes_before", spare=1),
        Column("to rewrite", Kind.BYTES, "bytes_to_rewrite"),
    ]
    table = Table(columns, plan.partitions, more="-o csv lists all", largest="bytes_to_rewrite")
    title = Tone.STRONG("Partitions" if is_done else "Partitions to rewrite")
    return Section(title, table=table, is_aside=is_done)


def _describe_races(report: OptimizeReport) -> Iterator[str]:
    """Return which bins other writers changed during the run, and how the run handled it."""
    if report.carried_bins:
        bins = format_count(report.carried_bins, "bin")
        yield (
            f"other writers deleted {format_count(report.carried_rows, 'row')} of {bins} during "
            "the run: these rows are also deleted in the new files"
        )
    if report.dropped:
        said = f"other writers changed files of {format_count(len(report.dropped), 'bin')}"
        if report.rounds > 1:
            said += f", which deltactl planned again in {format_count(report.rounds - 1, 'round')}"
        if left := len(report.conflicts):
            said += f"; {format_count(left, 'bin is', 'bins are')} left"
        yield said


def _list_bins(title: str, bins: Sequence[BinFailure]) -> Iterator[Section]:
    columns = [
        Column("partition", Kind.PATH, empty="(whole table)"),
        Column("files", Kind.NUMBER),
        Column("size", Kind.BYTES, "bytes"),
        Column("reason", Kind.DETAIL),
    ]
    return list_rows(title, Tone.CAUTION, columns, bins)
