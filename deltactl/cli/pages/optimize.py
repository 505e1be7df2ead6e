"""Print the plan and the report of ``optimize`` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.pages.sizes import render_sizes_change
from deltactl.cli.pages.skipping import render_skipping
from deltactl.cli.parsing.argv import real_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.optimize.copy_groups import RewriteCounts
    from deltactl.operations.optimize.layout.plan import LayoutPlan
    from deltactl.operations.optimize.run import OptimizePlan, OptimizeReport

_SHOWN_PARTITIONS = 20
_SHOWN_CLUSTERS = 4


def render_report(page: Page, report: OptimizeReport, argv: Sequence[str]) -> None:
    """Render what would be done (dry run, check) or what was done; ``argv`` is the command."""
    plan = report.plan
    if report.skipped is not None:
        page.line(Styled("Not needed", Tone.GOOD), f": {report.skipped}")
        return
    if plan.is_empty:
        page.line(Styled("Nothing to do", Tone.GOOD), f" in version {plan.version}")
    elif report.dry_run:
        _render_plan(page, report)
    else:
        _render_result(page, report)
    _render_left_alone(page, plan)
    if report.dry_run and not plan.is_empty:
        page.line()
        page.line(Styled("Nothing was changed.", Tone.STRONG), " To do it: ")
        page.line(f"  {real_command(argv)}")


def _render_plan(page: Page, report: OptimizeReport) -> None:
    plan = report.plan
    files = format_count(plan.files.num_rows, "file", "files")
    page.line(
        Styled(f"Would rewrite {files}", Tone.STRONG),
        f" ({format_size(plan.bytes_to_rewrite)}) into {plan.num_outputs}, "
        f"target {format_size(plan.target_bytes)}, version {plan.version}",
    )
    page.line()
    _render_partitions(page, plan)
    page.line()
    if plan.layout is None:
        page.fields(list(_rewrite_fields(report.rewritten)))
    else:
        _render_layout(page, report, plan.layout)
    if report.skipping is not None:
        render_skipping(page, report.skipping)
    render_sizes_change(page, plan.sizes_before, plan.sizes_after)


def _render_layout(page: Page, report: OptimizeReport, layout: LayoutPlan) -> None:
    """Render the layout, and how many ranges of each column every cluster has."""
    fields = list(_layout_fields(layout))
    if layout.placed_bytes:
        fields.append(
            ("also rewritten", f"{format_size(layout.placed_bytes)} of unfinished clusters")
        )
    for cluster in report.clusters[:_SHOWN_CLUSTERS]:
        ranges = " x ".join(f"{count:g}" for count in cluster.slices)
        files = format_count(cluster.files, "file")
        pieces = f", ranges per column: {ranges}" if layout.request.layout == "tile" else ""
        fields.append((cluster.partition or "(whole table)", f"{files}{pieces}"))
    page.fields(fields)


def _layout_fields(layout: LayoutPlan) -> Iterator[tuple[str, str]]:
    yield "layout", f"{layout.request.layout} by {', '.join(layout.request.names)}"


def _render_partitions(page: Page, plan: OptimizePlan) -> None:
    columns = [
        Column("partition", elastic=True, is_path=True),
        Column("files", right=True),
        Column("after", right=True),
        Column("size", right=True),
        Column("to rewrite", right=True),
    ]
    rows = plan.partitions.slice(0, _SHOWN_PARTITIONS).to_pylist()
    page.table(
        columns,
        [
            [
                row["partition"] or "(whole table)",
                str(row["files_before"]),
                str(row["files_after"]),
                format_size(row["bytes_before"]),
                format_size(row["bytes_to_rewrite"]),
            ]
            for row in rows
        ],
    )
    more = plan.partitions.num_rows - len(rows)
    if more > 0:
        page.line(Styled(f"and {more} more partitions (-o csv lists all)", Tone.FAINT))


def _render_result(page: Page, report: OptimizeReport) -> None:
    if not report.versions:
        page.line(Styled("Nothing was committed", Tone.CAUTION))
        _render_races(page, report)
        return
    versions = ", ".join(map(str, report.versions))
    removed = format_count(report.files_removed, "file", "files")
    page.line(
        Styled(f"{removed} became {report.files_added}", Tone.GOOD),
        f" in version {versions}",
    )
    page.fields(
        [
            ("size", f"{format_size(report.bytes_removed)} -> {format_size(report.bytes_added)}"),
            ("rows", f"{report.rows_rewritten:,} rewritten: {describe_verified(report.verified)}"),
            *(
                _rewrite_fields(report.rewritten)
                if report.plan.layout is None
                else _layout_fields(report.plan.layout)
            ),
            ("engine", f"{report.engine} ({report.engine_reason})"),
            ("undo", describe_undo(report.version_before)),
        ]
    )
    _render_races(page, report)
    for stray in report.strays:
        page.line(Styled("not removed: ", Tone.CAUTION), stray)
    for stray in report.strays_removed:
        page.line(Styled("removed the output of a lost worker: ", Tone.FAINT), stray)


def describe_verified(kinds: Sequence[str]) -> str:
    """Return how rewritten rows were verified, as text; see ``OptimizeReport.verified``."""
    texts = {
        "rows": "every row compared, none changed",
        "bytes": "copied byte for byte",
        "counts": "row and null counts equal",
    }
    return ", or ".join(texts[kind] for kind in kinds)


def _rewrite_fields(counts: RewriteCounts | None) -> Iterator[tuple[str, str]]:
    if counts is None:
        return
    groups = counts.groups_copied + counts.groups_encoded
    size_bytes = counts.bytes_copied + counts.bytes_encoded
    yield (
        "copied",
        f"{counts.groups_copied:,} of {format_count(groups, 'row group')}, "
        f"{format_size(counts.bytes_copied)} of {format_size(size_bytes)}",
    )
    if counts.reasons:
        reasons = counts.reasons.most_common()
        yield "encoded", ", ".join(f"{reason} ({count:,})" for reason, count in reasons)
    if counts.estimated_from is not None:
        yield "estimated", describe_estimate(counts.estimated_from)


def describe_estimate(files: int) -> str:
    """Return from how many footers the row groups of a plan were estimated."""
    return f"from the footers of {format_count(files, 'file')}"


def describe_groups(groups: int, size_bytes: int) -> str:
    """Return the number and the size of row groups as text."""
    return f"{format_count(groups, 'row group')}, {format_size(size_bytes)}"


def _render_races(page: Page, report: OptimizeReport) -> None:
    """Render which bins other writers changed during the run, and how the run handled it."""
    if report.carried_bins:
        bins = format_count(report.carried_bins, "bin")
        page.line(
            f"other writers deleted {format_count(report.carried_rows, 'row')} of {bins} during "
            "the run: these rows are also deleted in the new files"
        )
    if report.dropped:
        left = format_count(len(report.conflicts), "bin is", "bins are")
        page.line(
            f"other writers changed files of {format_count(len(report.dropped), 'bin')}, which "
            f"deltactl planned again in {format_count(report.rounds - 1, 'round')}; {left} left"
        )


def describe_undo(version_before: int) -> str:
    """Return how to read the table as it was before."""
    return f"the old files stay until a vacuum; version {version_before} can still be read"


def _render_left_alone(page: Page, plan: OptimizePlan) -> None:
    if not plan.left_alone:
        return
    page.line()
    page.line(Styled("Not rewritten", Tone.STRONG))
    page.fields(
        [
            (f"  {format_count(count, 'file', 'files')}", reason)
            for reason, count in plan.left_alone.items()
        ]
    )
