"""The sections of the report of ``register``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table, Tone
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.register.run import RegisterReport


def describe_registration(report: RegisterReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    where = f" in {report.catalog}"
    if report.is_done:
        yield Section((Styled(f"{report.name} is up to date", Tone.GOOD), where))
        return
    verb = ("would be " if report.dry_run else "was ") + (
        "changed" if report.existed else "created"
    )
    tone = Tone.STRONG if report.dry_run else Tone.GOOD
    facts = [("location", report.location)]
    counts = (("partitions added", len(report.new)), ("partitions removed", len(report.gone)))
    facts += [(key, format_count(count, "partition")) for key, count in counts if count]
    yield Section((Styled(f"{report.name} {verb}", tone), where), facts=facts)
    if report.differences:
        columns = [Column("what"), Column("catalog", Kind.TEXT), Column("table", Kind.TEXT)]
        rows = [(it.what, it.catalog, it.table) for it in report.differences]
        yield Section(Styled("Differences", Tone.STRONG), table=Table(columns, rows))
