"""Options of ``convert``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from deltactl.operations.convert.partition_by import PartitionColumn, to_partition_columns

SchemaMode: TypeAlias = Literal["strict", "widen"]


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Parsed options of ``convert``. ``partition_by`` ``None``: from the directory names."""

    partition_by: Annotated[tuple[PartitionColumn, ...], to_partition_columns] | None = None
    statistics: bool = True
    schema_mode: SchemaMode = "strict"
    column_mapping: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
