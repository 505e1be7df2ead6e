"""Options of ``convert``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from deltactl.operations.convert.partition_by import PartitionColumn, to_partition_columns
from deltactl.option_fields import Pairs, execution_option, selection_option

SchemaMode: TypeAlias = Literal["strict", "widen"]


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Parsed options of ``convert``."""

    partition_by: Annotated[tuple[PartitionColumn, ...], to_partition_columns] | None = (
        selection_option(
            None,
            'Partition columns in order, with types: "date date, country string"',
            metavar="COLUMNS",
            default="the columns in the directory names; deltactl guesses their types from the "
            "values",
            is_basic=True,
        )
    )
    statistics: bool = execution_option(True, "Do not write column statistics to the log")
    schema_mode: SchemaMode = execution_option(
        "strict",
        "What to do if a column has different types in different files. strict: fail. widen: use a "
        "common type",
        is_settable=True,
        is_basic=True,
    )
    column_mapping: bool = execution_option(
        False,
        "Enable column mapping by name. Then columns can have any name, and can be renamed and "
        "dropped",
    )
    properties: Pairs = selection_option(
        {},
        "Set this property of the table; may be repeated",
        flag="property",
        metavar="PROPERTY=VALUE",
        is_repeated=True,
    )
    name: str | None = selection_option(
        None,
        "Name of the table",
        metavar="TEXT",
        is_basic=True,
    )
