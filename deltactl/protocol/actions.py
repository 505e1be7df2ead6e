"""Define non-file actions (protocol, metaData, txn, domainMetadata, ...) as objects.

File actions are rows of tables with the schemas of ``protocol/arrow_schemas.py``. Source:
PROTOCOL.md, "Actions".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deltactl.errors import CorruptLogError
from deltactl.lazy import cached_property
from deltactl.protocol.schema import Field, StructType, parse_schema


@dataclass(frozen=True, slots=True)
class Protocol:
    """The ``protocol`` action. A feature list is ``None`` if the action has no such list."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


@dataclass(frozen=True)
class Metadata:
    """The ``metaData`` action; the schema is parsed when it is first used.

    ``schema_string`` is ``None`` if the action has none, as in version 0 of some tables. ``None``
    and an empty string both mean a schema without columns.
    """

    id: str
    schema_string: str | None
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    created_time_ms: int | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def schema(self) -> StructType:
        """The table's columns, partition columns included, in order."""
        if not self.schema_string:
            return StructType(())
        return parse_schema(self.schema_string, is_mapped=self.column_mapping_mode != "none")

    @cached_property
    def column_mapping_mode(self) -> str:
        """``none``, ``name`` or ``id``; else the table has a mode that no release knows."""
        return self.configuration.get("delta.columnMapping.mode", "none").lower()

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        """The fields of the partition columns, in partition order."""
        for name in self.missing_partition_columns:
            raise CorruptLogError(f"partition column {name!r} is not in the table's schema")
        return self.known_partition_fields

    @cached_property
    def known_partition_fields(self) -> tuple[Field, ...]:
        """The fields of those partition columns that are in the schema, in partition order."""
        found = map(self._partition_field, self.partition_columns)
        return tuple(field for field in found if field is not None)

    def _partition_field(self, name: str) -> Field | None:
        """Return the field of exactly this name: no reader accepts another case."""
        found = self.schema.find(name)
        return found if found is not None and found.name == name else None

    @cached_property
    def partition_names(self) -> Mapping[str, str]:
        """Names of partition columns by physical name.

        For a partition column without a field in the schema, both names are equal.
        """
        fields = [(name, self._partition_field(name)) for name in self.partition_columns]
        return {f.physical_name if f else name: f.name if f else name for name, f in fields}

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Physical names of the partition columns: the keys of ``partitionValues``."""
        return tuple(self.partition_names)

    @cached_property
    def missing_partition_columns(self) -> tuple[str, ...]:
        """Partition columns that are not in the schema."""
        return tuple(n for n in self.partition_columns if self._partition_field(n) is None)

    @cached_property
    def data_schema(self) -> StructType:
        """The schema without partition columns."""
        partition_names = {f.name for f in self.known_partition_fields}
        return StructType(tuple(f for f in self.schema.fields if f.name not in partition_names))


def is_same_metadata(one: Metadata, other: Metadata) -> bool:
    """Return whether two ``metaData`` actions are equal.

    Schemas are compared after parsing: the format of their JSON does not matter.
    """
    if replace(one, schema_string="") != replace(other, schema_string=""):
        return False
    mine, others = one.schema_string or "", other.schema_string or ""
    try:
        return mine == others or bool(json.loads(mine) == json.loads(others))
    except (ValueError, RecursionError):
        return False


CONVERTED: Final = "deltactl.converted"
"""The table property that marks a table as converted from a directory of Parquet files."""


@dataclass(frozen=True, slots=True)
class Txn:
    """The ``txn`` action: the latest version that an application has written."""

    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """The ``domainMetadata`` action. If ``removed`` is true, the action deletes the domain."""

    domain: str
    configuration: str
    removed: bool = False


# As delta-rs and Delta on Spark do, a number or boolean is read where a string is expected, and a
# string of digits where a number is expected.


def to_text(value: Any) -> str:
    """Return a string; raise ``TypeError`` for null, a list or an object."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r} is not a string")
    return json.dumps(value)


def to_integer(value: Any) -> int:
    """Return a whole number of 64 bits; raise an error of ``MALFORMED`` for any other value."""
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(f"{value!r} is not a whole number")
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{value!r} has more than 64 bits")
    return number


def to_flag(value: Any) -> bool:
    """Return a boolean; raise ``TypeError`` for any other value."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not a boolean")
    return value


def parse_protocol(node: Mapping[str, Any]) -> Protocol:
    """Parse a ``protocol`` object of the log."""
    reader, writer = node.get("readerFeatures"), node.get("writerFeatures")
    return Protocol(
        min_reader_version=to_integer(node["minReaderVersion"]),
        min_writer_version=to_integer(node["minWriterVersion"]),
        reader_features=None if reader is None else frozenset(_texts(reader)),
        writer_features=None if writer is None else frozenset(_texts(writer)),
    )


def parse_metadata(node: Mapping[str, Any]) -> Metadata:
    """Parse a ``metaData`` object of the log."""
    created = node.get("createdTime")
    form = node.get("format")
    if form is None:
        form = {}
    return Metadata(
        id=_optional_text(node.get("id")) or "",
        schema_string=_optional_text(node.get("schemaString")),
        partition_columns=_texts(node.get("partitionColumns") or []),
        configuration=_string_map(node.get("configuration")),
        name=_optional_text(node.get("name")),
        description=_optional_text(node.get("description")),
        format_provider=_optional_text(form.get("provider")) or "parquet",
        created_time_ms=None if created is None else to_integer(created),
        format_options=_string_map(form.get("options")),
    )


def _optional_text(value: Any) -> str | None:
    return None if value is None else to_text(value)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r} is not a list of strings")
    return tuple(values)


def _string_map(node: Any) -> dict[str, str]:
    items = () if node is None else node.items()
    return {key: to_text(it) for key, it in items if it is not None}


def parse_txn(node: Mapping[str, Any]) -> Txn:
    """Parse a ``txn`` object of the log."""
    updated = node.get("lastUpdated")
    return Txn(
        to_text(node["appId"]),
        to_integer(node["version"]),
        None if updated is None else to_integer(updated),
    )


def parse_domain_metadata(node: Mapping[str, Any]) -> DomainMetadata:
    """Parse a ``domainMetadata`` object of the log."""
    return DomainMetadata(
        domain=to_text(node["domain"]),
        configuration=_optional_text(node.get("configuration")) or "",
        removed=to_flag(node.get("removed", False)),
    )


def parse_sidecar(node: Mapping[str, Any]) -> tuple[str, int]:
    """Return the path and the size in bytes of a ``sidecar`` object of a checkpoint."""
    size_bytes = to_integer(node["sizeInBytes"])
    to_integer(node["modificationTime"])
    _string_map(node.get("tags"))
    if size_bytes < 0:
        raise ValueError(f"{size_bytes} is not a size")
    return to_text(node["path"]), size_bytes
