"""Decide from the fields of a catalog whether a table is a Delta table, and where it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from deltactl.catalog.base import Column, Partitions, TableAddress
from deltactl.errors import UnsupportedFeatureError
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import parse_scheme

_MARKS: Final = ("spark.sql.sources.provider", "table_type", "classification")
# Input format, output format and SerDe.
_SYMLINK: Final = (
    "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
# As Spark and the crawlers of Glue write them: engines ignore them for Delta tables.
_NATIVE: Final = (
    "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)

# By these, engines find the data of a table elsewhere than at its location and its partitions.
# Source: Athena, partition projection.
_ELSEWHERE: Final = re.compile(r"projection\..+|storage\.location\.template")
# Of Spark, and of the views of Spark and Trino; the location has its own field. An Iceberg table
# had its metadata there; UniForm tables have them too, so they are no difference.
_FOREIGN: Final = re.compile(r"spark\..+|view\..+|presto_view|path|(previous_)?metadata_location")
# Spark writes such a location if the real one is in the properties of the SerDe.
_PLACEHOLDER: Final = "-__placeholder__"


def is_delta(*marks: str | None) -> bool:
    """Return whether one of the marks says Delta, in any case."""
    return any(mark is not None and mark.strip().lower() == "delta" for mark in marks)


def choose_location(*fields: str | None) -> str:
    """Return the first field that is set; an empty string if none is."""
    return next((field.strip() for field in fields if field and field.strip()), "")


def points_elsewhere(key: str) -> bool:
    """Return whether engines find data by a property, not by location and partitions."""
    return _ELSEWHERE.fullmatch(key) is not None


def read_table(name: str, catalog: str, found: Mapping[str, Any]) -> TableAddress:
    """Return what Hive says of a table, with the names of fields that Glue has.

    The path of the SerDe comes before that of the table, and before the location.
    """
    storage: Mapping[str, Any] = found.get("StorageDescriptor") or {}
    properties = dict(found.get("Parameters") or {})
    serde = (storage.get("SerdeInfo") or {}).get("Parameters") or {}
    marks = [properties[mark] for mark in _MARKS if properties.get(mark)]
    reader, location = str(storage.get("InputFormat") or ""), storage.get("Location")
    table_type = str(found.get("TableType") or "")
    others = [table_type] if table_type.endswith("VIEW") else [*marks, reader.rpartition(".")[2]]
    kind = "DELTA" if is_delta(*marks) else others[0].upper()
    place = choose_location(serde.get("path"), properties.get("path"), location)
    is_symlink = reader == _SYMLINK[0] and place.rstrip("/").endswith("/" + MANIFEST_DIR)
    keys = found.get("PartitionKeys") or ()
    return TableAddress(
        name,
        catalog,
        None,
        table_type,
        "DELTA" if is_symlink else kind,
        place.rstrip("/").removesuffix("/" + MANIFEST_DIR) if is_symlink else place,
        found.get("Owner"),
        tuple(map(_read_column, (*(storage.get("Columns") or ()), *keys))),
        tuple(key["Name"] for key in keys),
        str(properties.get("comment") or ""),
        properties,
        is_symlink=is_symlink,
    )


def _read_column(found: Mapping[str, Any]) -> Column:
    return Column(found["Name"], found.get("Type") or "", found.get("Comment") or "")


def write_table(
    wanted: TableAddress, before: Mapping[str, Any], *, replace: bool
) -> dict[str, Any]:
    """Return fields for Hive or Glue: those that are there ``before``, with what is wanted.

    Without ``replace``, only columns and comments differ. Properties of Spark, and the marks of
    views and of other kinds of tables, do not outlive a replacement.
    """
    # Only a replacement changes the keys. The entry of a Delta table may have some, as of crawlers.
    kept_keys = {key["Name"] for key in before.get("PartitionKeys") or ()}
    keys = set(wanted.partition_columns) if replace else kept_keys
    columns, partition_keys = (
        [
            {"Name": each.name, "Type": each.type, "Comment": each.comment}
            for each in wanted.columns
            if (each.name in keys) is is_key
        ]
        for is_key in (False, True)
    )
    old: Mapping[str, Any] = before.get("StorageDescriptor") or {}
    kept = dict(before.get("Parameters") or {})
    if replace:
        before = {key: before[key] for key in before if not key.startswith("View")}
        kept = {
            key: kept[key]
            for key in kept
            if not (points_elsewhere(key) or _FOREIGN.fullmatch(key) or key in _MARKS)
        }
    storage = {**old, "Columns": columns, **(_write_storage(wanted) if replace else {})}
    parameters = {**kept, **(wanted.properties if replace else {}), "comment": wanted.comment}
    changed: dict[str, Any] = {"StorageDescriptor": storage, "Parameters": parameters}
    if replace:
        changed |= {"PartitionKeys": partition_keys, "TableType": wanted.table_type}
    return {**before, "Name": wanted.name.rpartition(".")[2].lower(), **changed}


def _write_storage(wanted: TableAddress) -> dict[str, Any]:
    reader, writer, serde = _SYMLINK if wanted.is_symlink else _NATIVE
    options = {"serialization.format": "1"}
    # Trino and Spark find a Delta table by this.
    options |= {} if wanted.is_symlink else {"path": wanted.location}
    return {
        "Location": wanted.place,
        "InputFormat": reader,
        "OutputFormat": writer,
        "SerdeInfo": {"SerializationLibrary": serde, "Parameters": options},
    }


def write_partitions(
    wanted: TableAddress, partitions: Partitions
) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the values of partitions, each with its storage as Hive or Glue describes it."""
    storage = write_table(wanted, {}, replace=True)["StorageDescriptor"]
    return [(values, {**storage, "Location": place}) for values, place in partitions.items()]


def ensure_usable(name: str, location: str) -> None:
    """Refuse a location that is not the address of a directory.

    Raises:
        UnsupportedFeatureError: it is empty or a placeholder, or has no scheme.
    """
    if not location:
        raise UnsupportedFeatureError(
            f"the catalog does not say where {name} is: it has no location",
            hint="Give the path of the table, or correct the entry of the catalog.",
        )
    if location.rstrip("/").lower().endswith(_PLACEHOLDER):
        raise UnsupportedFeatureError(
            f"the catalog does not say where {name} is: its location {location!r} is a placeholder"
            " that Spark writes",
            hint="Give the path of the table. Do not cut the placeholder off: the rest is another "
            "directory.",
        )
    if parse_scheme(location) is None and not location.startswith("/"):
        raise UnsupportedFeatureError(
            f"{name} is at {location!r}, which is not an address that deltactl can open",
            hint="Give the path of the table in its object store.",
        )
