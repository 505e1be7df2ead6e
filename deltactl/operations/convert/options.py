"""Options of ``convert``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from deltactl.errors import UsageError

if TYPE_CHECKING:
    from deltactl.operations.convert.partition_by import PartitionColumn

SchemaMode: TypeAlias = Literal["strict", "widen"]


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Parsed options of ``convert``.

    ``partition_by`` ``None`` means: from the directory names. ``margin_ms``: in a sync, files count
    as new if they are at most this much older than the watermark of the last listing.
    """

    partition_by: tuple[PartitionColumn, ...] | None = None
    statistics: bool = True
    schema_mode: SchemaMode = "strict"
    column_mapping: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    sync: bool = False
    margin_ms: int = 10 * 60 * 1000

    def __post_init__(self) -> None:
        """Refuse options that cannot be combined.

        Raises:
            UsageError: naming them.
        """
        for_new_tables = (
            ("--partition-by", self.partition_by is not None),
            ("--column-mapping", self.column_mapping),
            ("--property", bool(self.properties)),
            ("--name", self.name is not None),
        )
        if self.sync and (given := [name for name, is_given in for_new_tables if is_given]):
            raise UsageError(
                f"--sync and {given[0]} cannot be combined",
                hint=f"Omit {given[0]}: --sync only adds files to an existing table.",
            )
