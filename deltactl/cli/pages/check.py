"""The sections of the reports of ``check`` and ``check --fix``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    import pyarrow as pa

    from deltactl.operations.check.fix import PathRepairReport
    from deltactl.operations.check.path_encoding.pairs import PathPair
    from deltactl.operations.check.report import CheckReport

_SHOWN_A_CODE = 5
_TONES = {"error": Tone.BAD, "warning": Tone.CAUTION}
_LOG_FILES = {
    "num_commits": "commit",
    "num_checkpoints": "checkpoint",
    "num_checksums": "checksum",
    "num_compacted": "compacted file",
}


def describe_check(report: CheckReport) -> Iterator[Section]:
    """Return the findings by code, then what was checked and what was not."""
    where = "the log" if report.version is None else f"version {report.version}"
    if report.is_sound:
        yield Section((Tone.GOOD("No problems found"), f" in {where}"))
    else:
        yield Section(Tone.BAD(f"{format_count(report.findings.num_rows, 'finding')} in {where}"))
    columns = [
        Column("place", tone=Tone.STRONG),
        Column("problem", Kind.DETAIL),
        Column("repair", Kind.DETAIL),
    ]
    codes = report.findings["code"]
    for code, total in report.count_codes().items():
        rows = report.findings.slice(codes.index(code).as_py(), total)  # they are sorted by code
        first = rows.slice(0, 1).to_pylist()[0]
        yield Section(
            (_TONES[first["severity"]](code), f" ({total:,}): {first['meaning']}"),
            table=Table(columns, _with_places(rows), most=_SHOWN_A_CODE),
            finding=code,
        )
    yield _describe_scope(report)


def _with_places(findings: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    versions = pc.cast(findings["version"], pa.string())
    places = pc.coalesce(findings["file"], pc.binary_join_element_wise("version", versions, " "))
    return findings.append_column("place", places)


def _describe_scope(report: CheckReport) -> Section:
    counts, options = report.counts, report.options
    part = "" if options.sample >= 1 else f" (a sample of {options.sample * 100:.4g}%)"
    depth = f"{format_count(counts.num_checked, 'file')}{part}: {options.depth.name.lower()}"
    log = [
        format_count(n, noun) for name, noun in _LOG_FILES.items() if (n := getattr(counts, name))
    ]
    size = f"{format_count(counts.num_files, 'file')}, {format_size(counts.size_bytes)}"
    digests = f"{counts.num_digests:,} compared, which optimize stored when it moved rows"
    return Section(
        facts=[
            ("log", ", ".join(log) or "no commits"),
            ("table", size),
            ("checked", depth),
            ("rows", f"{counts.num_rows:,}" if counts.num_rows else None),
            ("deletion vectors", f"{counts.num_vectors:,}" if counts.num_vectors else None),
            ("digests", digests if options.proofs else None),
            *(("note", note) for note in report.notes),
        ]
    )


def describe_fix(report: PathRepairReport) -> Iterator[Section]:
    """Return which live paths are or were removed, and which pairs are left."""
    if report.is_empty:
        said = "No path can be removed safely" if report.left else "Nothing to fix"
        tone = Tone.CAUTION if report.left else Tone.GOOD
        yield Section((tone(said), f" in version {report.version}"))
    else:
        count = format_count(len(report.chosen), "file")
        done = f"{'Would remove' if report.dry_run else 'To remove:'} {count} from"
        if report.version_after is not None:
            done = f"Removed {count} in"
        rows = "unknown" if report.num_rows is None else f"{report.num_rows:,}"
        yield Section(
            Tone.STRONG(f"{done} version {report.version_after or report.version}"),
            facts=[
                ("files", f"{len(report.chosen):,} ({format_size(report.size_bytes)})"),
                ("live rows", f"{rows}: readers will no longer return them"),
            ],
            table=_list_pairs(report.chosen),
        )
    if report.left:
        yield Section(
            "Not removed: --path does not select them, or the table may need their rows",
            table=_list_pairs(report.left),
            notes=["To remove one of them, give the quoted text after 'live as' with --path"],
        )


def _list_pairs(pairs: tuple[PathPair, ...]) -> Table:
    gone = "; the file does not exist"
    rows = [(it.path, it.problem + (gone if it.exists is False else "")) for it in pairs]
    columns = [Column("file", Kind.PATH, tone=Tone.STRONG), Column("problem", Kind.DETAIL)]
    return Table(columns, rows)
