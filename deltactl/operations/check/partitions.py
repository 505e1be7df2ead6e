"""Check that partition values of files are valid for the column's type.

Source: PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.operations.check.findings import Findings
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partition_texts import find_malformed
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.schema import TYPE_CHANGES_KEY, Field
from deltactl.protocol.schema_rules import can_partition

PARTITION_COLUMNS: Final = ("path", "deletion_vector", "partition_values")
"""Columns that identify files, and the column that is checked."""


def check_partitions(
    batch: pa.Table, metadata: Metadata, version: int | None, findings: Findings
) -> None:
    """Check files that were written with a metaData action."""
    for column in dict.fromkeys(metadata.known_partition_fields):
        if not can_partition(column):
            continue  # a finding of the schema
        texts = lookup_map(batch["partition_values"], column.physical_name)
        bad = _bad_values(texts, column, findings)
        if not bad:
            continue
        is_bad = pc.is_in(texts, value_set=pa.array(bad, pa.string()))
        paths, values = batch["path"].filter(is_bad), texts.filter(is_bad)
        for path, value in zip(paths.to_pylist(), values.to_pylist(), strict=True):
            problem = f"partition value {value!r} of column {column.name!r} is invalid"
            findings.add("PARTITION_VALUE", problem, version=version, file=path)


def _bad_values(texts: pa.ChunkedArray, column: Field, findings: Findings) -> list[str]:
    distinct = pc.unique(texts).drop_null()
    bad: list[str] = []
    try:
        type_ = arrow_type(column.type)
        parse_partition_column(distinct, type_)
    except UnsupportedFeatureError as error:
        findings.note(f"values of {column.name!r} were not checked: {error.message}")
        return []
    except CorruptLogError:
        bad = [text for text in distinct.to_pylist() if not _parses(text, type_)]
    if TYPE_CHANGES_KEY in column.metadata:
        return bad  # older files keep the form of the type that the column had
    return bad + [text for text in find_malformed(distinct, type_) if text not in bad]


def _parses(text: str, type_: pa.DataType) -> bool:
    try:
        parse_partition_column(pa.array([text], pa.string()), type_)
    except CorruptLogError:
        return False
    return True
