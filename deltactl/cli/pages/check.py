"""The sections of the report of ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    import pyarrow as pa

    from deltactl.operations.check.report import CheckReport

_SHOWN_A_CODE = 5
_LONG_REPAIR = 80
_TONES = {"error": Tone.BAD, "warning": Tone.CAUTION}
_UNCOMPARED = " (content checked only with --checkpoints)"
_LOG_FILES = {
    "num_commits": "commit",
    "num_checkpoints": "checkpoint",
    "num_checksums": "checksum",
    "num_compacted": "compacted file",
}


def describe_check(report: CheckReport) -> Iterator[Section]:
    """Return the findings by code, then what was checked and what was not."""
    versions = "all versions up to" if report.options.all_versions else "version"
    where = "the log" if report.version is None else f"{versions} {report.version}"
    if report.is_sound:
        yield Section((Tone.GOOD("No problems found"), f" in {where}"))
    else:
        yield Section(Tone.BAD(f"{format_count(report.findings.num_rows, 'finding')} in {where}"))
    columns = [
        Column("place", tone=Tone.STRONG),
        Column("problem", Kind.DETAIL),
        Column("repair", Kind.DETAIL),
    ]
    codes, shown = report.findings["code"], _ShownRepairs()
    for code, total in report.count_codes().items():
        rows = report.findings.slice(codes.index(code).as_py(), total)  # they are sorted by code
        first = rows.slice(0, 1).to_pylist()[0]
        yield Section(
            (_TONES[first["severity"]](code), f" ({total:,}): {first['meaning']}"),
            table=Table(columns, shown.refer(_with_places(rows), code), most=_SHOWN_A_CODE),
            finding=code,
        )
    yield _describe_scope(report)


class _ShownRepairs:
    """Long repairs, and the code that each was shown for first."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}

    def refer(self, findings: pa.Table, code: str) -> pa.Table:
        """Replace repairs that were shown for another code by a reference to that code."""
        import pyarrow as pa
        import pyarrow.compute as pc

        repairs = findings["repair"]
        texts = pa.array(self._codes, pa.string())
        references = pa.array([f"as for {it}" for it in self._codes.values()], pa.string())
        where = pc.index_in(repairs, value_set=texts)
        is_long = pc.greater(pc.utf8_length(repairs), _LONG_REPAIR)
        first = repairs.slice(0, _SHOWN_A_CODE).unique().to_pylist()
        if len(first) == 1 and is_long[0].as_py():  # else it would not be known which is meant
            self._codes.setdefault(first[0], code)
        index = findings.column_names.index("repair")
        return findings.set_column(index, "repair", pc.coalesce(references.take(where), repairs))


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
    remarks = {} if options.checkpoints else {"num_checkpoints": _UNCOMPARED}
    log = [
        format_count(n, noun) + remarks.get(name, "")
        for name, noun in _LOG_FILES.items()
        if (n := getattr(counts, name))
    ]
    size = f"{format_count(counts.num_files, 'file')}, {format_size(counts.size_bytes)}"
    deleted = ", with deleted ones" if counts.num_vectors else ""
    digests = f"{counts.num_digests:,} compared, which optimize stored when it moved rows"
    return Section(
        facts=[
            ("log", ", ".join(log) or "no commits"),
            ("table", None if report.version is None else size),
            ("checked", depth),
            ("rows", f"{counts.num_rows:,}{deleted}" if counts.num_rows else None),
            ("deletion vectors", f"{counts.num_vectors:,}" if counts.num_vectors else None),
            ("digests", digests if options.proofs else None),
            *(("note", note) for note in report.notes),
        ]
    )
