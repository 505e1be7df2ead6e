"""Report the share of files that lookups skip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltactl.operations.short_repr import ShortRepr


@dataclass(frozen=True, slots=True)
class ColumnSkipping:
    """The expected shares of files that a lookup of one value skips; ``None`` if unknown.

    ``no_bounds`` counts the files that every lookup opens, because they have no statistics of the
    column.
    """

    column: str
    before: float | None
    after: float | None
    no_bounds: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: shares from 0 to 1, with four digits."""
        return {
            "column": self.column,
            "skipped_before": _rounded(self.before),
            "skipped_after": _rounded(self.after),
            "files_without_statistics": self.no_bounds,
        }


@dataclass(frozen=True, slots=True, repr=False)
class LayoutReport(ShortRepr):
    """The share that lookups skip in a table, and would skip in a layout by these columns."""

    layout: str
    files: int
    files_after: int
    columns: tuple[ColumnSkipping, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "layout": self.layout,
            "files_before": self.files,
            "files_after": self.files_after,
            "columns": [column.to_dict() for column in self.columns],
        }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(min(max(share, 0.0), 1.0), 4)
