"""Print the report of ``check`` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltactl.cli.output.page import Page, Styled, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.check.report import CheckReport

_SHOWN_A_CODE = 5
_SHOWN_IN_A_LINE = 3
_NO_COMMAND = "cannot be repaired"
_TONES = {"error": Tone.BAD, "warning": Tone.CAUTION}


def render_check(page: Page, report: CheckReport) -> None:
    """Render the findings by code, then what was checked and what was not."""
    where = "the log" if report.version is None else f"version {report.version}"
    if report.is_sound:
        page.line(Styled("No problems found", Tone.GOOD), f" in {where}")
    else:
        found = format_count(report.findings.num_rows, "finding")
        page.line(Styled(f"{found} in {where}", Tone.BAD))
        _render_findings(page, report)
    page.line()
    _render_scope(page, report)
    for note in report.notes:
        page.line(Styled("note: ", Tone.FAINT), note)


def summarise(report: CheckReport) -> str:
    """Return one line with the number of findings and the first of them."""
    where = "the log" if report.version is None else f"version {report.version}"
    count = report.findings.num_rows
    shown = report.findings.slice(0, _SHOWN_IN_A_LINE).to_pylist()
    named = [f"{row['code']} {row['file'] or 'version ' + str(row['version'])}" for row in shown]
    named += [f"and {count - len(shown):,} more"] if count > len(shown) else []
    return f"{format_count(count, 'finding')} in {where}: {', '.join(named)}"


def _render_findings(page: Page, report: CheckReport) -> None:
    shown: dict[str, int] = {}
    totals = report.count_codes()
    for row in _first_of_each_code(report, totals):
        code = row["code"]
        if code not in shown:
            page.line()
            page.line(Styled(code, _TONES[row["severity"]]), f" ({totals[code]}): {row['meaning']}")
        shown[code] = shown.get(code, 0) + 1
        place = row["file"] or f"version {row['version']}"
        page.line("  ", Styled(place, Tone.STRONG))
        page.line("    ", row["problem"])
        page.line(
            "    ", "" if row["repair"].startswith(_NO_COMMAND) else "repair: ", row["repair"]
        )
        left = totals[code] - _SHOWN_A_CODE
        if shown[code] == _SHOWN_A_CODE and left > 0:
            page.line(Styled(f"  and {left} more (-o json lists all)", Tone.FAINT))


def _first_of_each_code(report: CheckReport, totals: dict[str, int]) -> list[dict[str, Any]]:
    """Return the first findings of each code; findings are sorted by code."""
    rows: list[dict[str, Any]] = []
    codes = report.findings["code"]
    for code in dict.fromkeys(codes.to_pylist()):
        first = codes.index(code).as_py()
        count = min(totals[code], _SHOWN_A_CODE)
        rows += report.findings.slice(first, count).to_pylist()
    return rows


def _render_scope(page: Page, report: CheckReport) -> None:
    counts = report.counts
    part = (
        "" if report.options.sample >= 1 else f" (a sample of {report.options.sample * 100:.4g}%)"
    )
    log = [format_count(counts.num_commits, "commit")]
    log += [format_count(counts.num_checkpoints, "checkpoint")] if counts.num_checkpoints else []
    log += [format_count(counts.num_checksums, "checksum")] if counts.num_checksums else []
    log += [format_count(counts.num_compacted, "compacted file")] if counts.num_compacted else []
    pairs = [
        ("log", ", ".join(log)),
        ("table", f"{format_count(counts.num_files, 'file')}, {format_size(counts.size_bytes)}"),
        (
            "checked",
            f"{format_count(counts.num_checked, 'file')}{part}: "
            f"{report.options.depth.name.lower()}",
        ),
    ]
    if counts.num_rows:
        pairs.append(("rows", f"{counts.num_rows:,}"))
    if counts.num_vectors:
        pairs.append(("deletion vectors", f"{counts.num_vectors:,}"))
    if report.options.proofs:
        pairs.append(
            (
                "digests",
                f"{counts.num_digests:,} compared, which optimize stored when it moved rows",
            )
        )
    page.fields(pairs)
