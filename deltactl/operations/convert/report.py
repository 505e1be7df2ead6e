"""The result of a convert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltactl.operations.convert.plan import ConvertPlan
from deltactl.operations.short_repr import ShortRepr
from deltactl.protocol.schema import render_type


@dataclass(frozen=True, slots=True, repr=False)
class ConvertReport(ShortRepr):
    """The result of a convert.

    ``plan`` is ``None`` if the directory already is a table. Then ``unnamed_files`` is the number
    of Parquet files in it that no action of the log names, and ``vacuum_keeps_them`` is true if
    the table was made by a conversion. ``version_before`` is ``None`` if there was no table.
    """

    _SHOWN = ("files_added",)

    plan: ConvertPlan | None
    engine: str
    version_before: int | None = None
    version_after: int | None = None
    dry_run: bool = False
    unnamed_files: int = 0
    vacuum_keeps_them: bool = False

    @property
    def files_added(self) -> int:
        """Return the number of files added to the log, or to be added in a dry run."""
        return 0 if self.plan is None else len(self.plan.files)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        plan = self.plan
        if plan is None:
            return {"already_a_table": True, "files_added": 0, "unnamed_files": self.unnamed_files}
        return {
            "already_a_table": False,
            "files_added": len(plan.files),
            "bytes_added": plan.size_bytes,
            "rows_added": plan.num_rows,
            "schema": [
                {"name": f.name, "type": render_type(f.type)} for f in plan.metadata.schema.fields
            ],
            "partition_columns": [
                {
                    "name": f.name,
                    "type": render_type(f.type),
                    "guessed": f.name in plan.partitioning.guessed,
                }
                for f in plan.partitioning.fields
            ],
            "widened_columns": list(plan.widened),
            "left_out": [{"path": e.path, "reason": e.reason} for e in plan.left_out],
            "notes": list(plan.notes),
        }
