"""Check identity columns: no value may be beyond the high-water mark.

Source: PROTOCOL.md, "Identity Columns". Values come from the statistics in the log, which deeper
checks compare with the files.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.check.findings import Findings
from deltactl.protocol.actions import Metadata
from deltactl.protocol.schema import Field
from deltactl.protocol.stats_decoding import parse_stats

_MARK = "delta.identity.highWaterMark"
_STEP = "delta.identity.step"
_EXPLICIT = "delta.identity.allowExplicitInsert"


@dataclass(slots=True)
class _Column:
    name: str
    physical: str
    mark: int | None
    ascends: bool
    farthest: int | None = None

    @property
    def is_covered(self) -> bool:
        """Return whether the mark is at or beyond every value."""
        return self.mark is not None and _farther(self, self.mark) == self.mark


class IdentityChecker:
    """Check files in batches with ``stats``.

    Columns that also accept explicit values are skipped, because they may have any value.
    """

    def __init__(self, metadata: Metadata, findings: Findings) -> None:
        self._findings = findings
        self._columns = [
            column
            for member in metadata.data_schema.fields
            if (column := _to_column(member)) is not None
        ]
        values = pa.struct([(column.physical, pa.int64()) for column in self._columns])
        self._type = pa.struct([("minValues", values), ("maxValues", values)])
        self._unknown = False

    def take(self, batch: pa.Table) -> None:
        """Add the statistics of more files."""
        if not self._columns:
            return
        stats = batch["stats"]
        self._unknown |= stats.null_count > 0
        for chunk in stats.chunks:
            parsed = parse_stats(chunk, self._type)
            for column in self._columns:
                member, choose = ("maxValues", pc.max) if column.ascends else ("minValues", pc.min)
                found = choose(pc.struct_field(parsed, [member, column.physical])).as_py()
                column.farthest = _farther(column, found)

    def finish(self, version: int) -> None:
        """Compare the values with the high-water marks."""
        if self._unknown:
            self._findings.note("identity columns of files without statistics were not checked")
        for column in self._columns:
            if column.farthest is None or column.is_covered:
                continue
            mark = "missing" if column.mark is None else column.mark
            self._findings.add(
                "IDENTITY_MARK",
                f"the high-water mark of {column.name!r} is {mark}, but a file has the value "
                f"{column.farthest}",
                version=version,
            )


def _to_column(member: Field) -> _Column | None:
    step = member.metadata.get(_STEP)
    if not isinstance(step, int) or member.metadata.get(_EXPLICIT) is not False:
        return None
    mark = member.metadata.get(_MARK)
    known = int(mark) if isinstance(mark, int) else None
    return _Column(member.name, member.physical_name, known, step > 0)


def _farther(column: _Column, value: int | None) -> int | None:
    """Return the farthest of a value and those seen so far, in the column's direction."""
    known = [v for v in (column.farthest, value) if v is not None]
    if not known:
        return None
    return max(known) if column.ascends else min(known)
