"""The sections of the report of ``generate-manifest``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Fact, Kind, Section, Styled, Table, Tone
from deltactl.units import format_count, format_duration

if TYPE_CHECKING:
    from deltactl.operations.manifest.run import ManifestReport

_WORDS = {"new": "missing", "changed": "differs", "stale": "partition does not exist"}


def describe_manifests(report: ManifestReport) -> Iterator[Section]:
    """Return the requested DDL statements, or else what differs or what was done."""
    plan = report.plan
    unchanged = plan.count("unchanged")
    if report.ddl:
        yield from (Section(code=statement) for statement in report.ddl)
    elif plan.is_empty:
        manifests = format_count(unchanged, "manifest")
        said = f": {manifests} of version {plan.version} under {report.root}"
        yield Section((Styled("Up to date", Tone.GOOD), said))
    elif report.dry_run:
        differing = [p for p in plan.partitions if p.state in _WORDS]
        columns = [
            Column("partition", Kind.PATH),
            Column("files", Kind.NUMBER),
            Column("manifest"),
        ]
        rows = [(p.folder or "(whole table)", p.num_files, _WORDS[p.state]) for p in differing]
        count = format_count(len(differing), "manifest differs", "manifests differ")
        yield Section(
            (
                Styled(f"{count} from version {plan.version}", Tone.CAUTION),
                f" ({unchanged} unchanged), under {report.root}",
            ),
            table=Table(columns, rows, more="-o csv lists all"),
        )
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
    plan = report.plan
    written = format_count(plan.count("new") + plan.count("changed"), "manifest")
    facts: list[Fact] = [("root", report.root)]
    if report.purged_from is not None:
        facts.append(("purge", f"version {report.purged_from} had files with deleted rows"))
    if report.window_ms is not None:
        window = format_duration(report.window_ms)
        facts.append(
            ("window", f"for {window}, manifests of different versions existed side by side")
        )
    return Section(
        (
            Styled(f"{written} written", Tone.GOOD),
            f" for version {plan.version}, {plan.count('unchanged')} unchanged, "
            f"{plan.count('stale')} deleted",
        ),
        facts=facts,
    )
