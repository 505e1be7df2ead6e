"""The sections of the report of ``generate-manifest``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.operations.manifest.plan import NEW, STALE
from deltactl.units import format_count, format_duration

if TYPE_CHECKING:
    from deltactl.operations.manifest.run import ManifestReport

_WORDS = {"new": "missing", "changed": "differs", "stale": "partition does not exist"}


def describe_manifests(report: ManifestReport) -> Iterator[Section]:
    """Return the requested DDL statements, or else what differs or what was done."""
    plan, unchanged = report.plan, report.plan.count("unchanged")
    if report.ddl:
        yield from (Section(code=statement) for statement in report.ddl)
    elif plan.is_empty:
        manifests = format_count(unchanged, "manifest") if plan.partitions else "nothing to compare"
        said = f": {manifests} of version {plan.version} under {report.root}"
        yield Section((Tone.GOOD("Up to date"), said))
    elif report.dry_run:
        columns = [Column("partition", Kind.PATH), Column("files", Kind.NUMBER), Column("manifest")]
        live = {p.folder for p in plan.partitions if p.state != STALE}
        rows = [
            (
                p.folder or "(whole table)",
                p.num_files,
                "other file" if p.state == STALE and p.folder in live else _WORDS[p.state],
            )
            for p in plan.partitions
            if p.state in _WORDS
        ]
        count = format_count(len(rows), "manifest differs", "manifests differ")
        said = f"{count} from version {plan.version}"
        if plan.vectors and not rows:
            files = format_count(plan.vectors, "file has", "files have")
            said = f"{files} deletion vectors in version {plan.version}"
        title = Tone.CAUTION(said)
        left = f" ({unchanged} unchanged), under {report.root}"
        yield Section((title, left), table=Table(columns, rows, more="-o csv lists all"))
    else:
        yield _describe_result(report)


def summarise(report: ManifestReport) -> str:
    """Return one line for stderr, because stdout contains only the DDL statements."""
    plan = report.plan
    verb = "would be written" if report.dry_run else "written"
    written = plan.count("new") + plan.count("changed")
    return (
        f"{format_count(written, 'manifest')} {verb} for version {plan.version}, "
        f"{plan.count('unchanged')} unchanged, {plan.count('stale')} of removed partitions"
    )


def _describe_result(report: ManifestReport) -> Section:
    plan, purged, window = report.plan, report.purged_from, report.window_ms
    written = format_count(plan.count("new") + plan.count("changed"), "manifest")
    unchanged, deleted = plan.count("unchanged"), plan.count("stale")
    counts = f" for version {plan.version}, {unchanged} unchanged, {deleted} deleted"
    purge = f"version {purged} had files with deleted rows"
    span = format_duration(window or 0)
    were_there = any(row.state != NEW for row in plan.partitions)
    is_mixed = window is not None and were_there and len(plan.partitions) - unchanged > 1
    mixed = f"for {span}, manifests of different versions existed side by side"
    return Section(
        (Tone.GOOD(f"{written} written"), counts),
        facts=[
            ("root", report.root),
            ("purge", None if purged is None else purge),
            ("window", mixed if is_mixed else None),
        ],
    )
