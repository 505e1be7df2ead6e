"""Print the report of ``generate-manifest`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command
from deltactl.units import format_count, format_duration

if TYPE_CHECKING:
    from deltactl.operations.manifest.run import ManifestReport

_SHOWN: int = 20
_WORDS = {"new": "missing", "changed": "differs", "stale": "partition does not exist"}


def render_report(page: Page, report: ManifestReport, check: bool, argv: Sequence[str]) -> None:
    """Render the requested DDL statements, or else what differs or what was done."""
    if report.ddl:
        for statement in report.ddl:
            for text in statement.split("\n"):
                page.line(text)
            page.line()
        return
    plan = report.plan
    manifests = format_count(plan.count("unchanged"), "manifest", "manifests")
    if plan.is_empty:
        page.line(
            Styled("Up to date", Tone.GOOD),
            f": {manifests} of version {plan.version} under {report.root}",
        )
        return
    if report.dry_run:
        _render_differences(page, report)
        if not check:
            page.line()
            page.line(Styled("Nothing was changed.", Tone.STRONG), " To do it: ")
            page.line(f"  {real_command(argv)}")
        return
    _render_result(page, report)


def summarise(report: ManifestReport) -> str:
    """Return one line for stderr, because stdout contains only the DDL statements."""
    plan = report.plan
    verb = "would be written" if report.dry_run else "written"
    written = plan.count("new") + plan.count("changed")
    return (
        f"{format_count(written, 'manifest')} {verb} for version {plan.version}, "
        f"{plan.count('unchanged')} unchanged, {plan.count('stale')} of removed partitions"
    )


def _render_differences(page: Page, report: ManifestReport) -> None:
    plan = report.plan
    differing = [p for p in plan.partitions if p.state in _WORDS]
    count = format_count(len(differing), "manifest differs", "manifests differ")
    page.line(
        Styled(f"{count} from version {plan.version}", Tone.CAUTION),
        f" ({plan.count('unchanged')} unchanged), under {report.root}",
    )
    page.line()
    rows = [
        (p.folder or "(whole table)", str(p.num_files), _WORDS[p.state]) for p in differing[:_SHOWN]
    ]
    page.table(
        [
            Column("partition", elastic=True, is_path=True),
            Column("files", right=True),
            Column("manifest"),
        ],
        rows,
    )
    if len(differing) > _SHOWN:
        page.line(Styled(f"and {len(differing) - _SHOWN} more (-o csv lists all)", Tone.FAINT))


def _render_result(page: Page, report: ManifestReport) -> None:
    plan = report.plan
    written = plan.count("new") + plan.count("changed")
    page.line(
        Styled(f"{format_count(written, 'manifest', 'manifests')} written", Tone.GOOD),
        f" for version {plan.version}, {plan.count('unchanged')} unchanged, "
        f"{plan.count('stale')} deleted",
    )
    pairs = [("root", report.root)]
    if report.purged_from is not None:
        pairs.append(("purge", f"version {report.purged_from} had files with deleted rows"))
    if report.window_ms is not None:
        window = format_duration(report.window_ms)
        pairs.append(
            ("window", f"for {window}, manifests of different versions existed side by side")
        )
    page.fields(pairs)
