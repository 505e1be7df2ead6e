"""Print the report of ``check --fix path-encoding`` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deltactl.cli.output.page import Page, Styled, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.check.fix import PathRepairReport
    from deltactl.operations.check.path_encoding.pairs import PathPair

_SHOWN: Final = 20


def render_fix(page: Page, report: PathRepairReport) -> None:
    """Render which live paths are or were removed, and which pairs are left."""
    if report.is_empty:
        said = "No path can be removed safely" if report.left else "Nothing to fix"
        tone = Tone.CAUTION if report.left else Tone.GOOD
        page.line(Styled(said, tone), f" in version {report.version}")
    else:
        _render_pairs(page, _heading(report), report.chosen)
        page.line()
        page.line(f"files      {len(report.chosen):,} ({format_size(report.size_bytes)})")
        rows = "unknown" if report.num_rows is None else f"{report.num_rows:,}"
        page.line(f"live rows  {rows}: readers will no longer return them")
    if report.left:
        page.line()
        heading = (
            "Not removed, because --path does not select them, or because the table may need "
            "their rows:"
        )
        _render_pairs(page, heading, report.left)
        page.line(
            "  To remove one of these files, copy the quoted text after 'live as' and give it "
            "with --path."
        )


def _heading(report: PathRepairReport) -> str:
    count = format_count(len(report.chosen), "file")
    if report.version_after is not None:
        return f"Removed {count} in version {report.version_after}"
    verb = "Would remove" if report.dry_run else "To remove:"
    return f"{verb} {count} from version {report.version}"


def _render_pairs(page: Page, heading: str, pairs: tuple[PathPair, ...]) -> None:
    page.line(Styled(heading, Tone.STRONG))
    for pair in pairs[:_SHOWN]:
        page.line("  ", Styled(pair.path, Tone.STRONG))
        page.line("    ", pair.problem)
        if pair.exists is False:
            page.line("    ", "the file does not exist")
    if len(pairs) > _SHOWN:
        page.line(Styled(f"  and {len(pairs) - _SHOWN:,} more (-o json lists all)", Tone.FAINT))
