"""Decide from the fields of a catalog whether a table is a Delta table, and where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltactl.catalog.base import TableAddress
from deltactl.errors import UnsupportedFeatureError
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import parse_scheme

_MARKS: Final = ("spark.sql.sources.provider", "table_type", "classification")
_SYMLINK: Final = "SymlinkTextInputFormat"

# Spark writes such a location if the real one is in the properties of the SerDe.
_PLACEHOLDER: Final = "-__placeholder__"


def is_delta(*marks: str | None) -> bool:
    """Return whether one of the marks says Delta, in any case."""
    return any(mark is not None and mark.strip().lower() == "delta" for mark in marks)


def choose_location(*fields: str | None) -> str:
    """Return the first field that is set; an empty string if none is."""
    return next((field.strip() for field in fields if field and field.strip()), "")


def read_table(
    name: str,
    catalog: str,
    found: Mapping[str, Any],
    columns: Sequence[tuple[str, str]],
) -> TableAddress:
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
    is_symlink = reader.endswith(_SYMLINK) and place.rstrip("/").endswith("/" + MANIFEST_DIR)
    return TableAddress(
        name,
        catalog,
        None,
        table_type,
        "DELTA" if is_symlink else kind,
        place.rstrip("/").removesuffix("/" + MANIFEST_DIR) if is_symlink else place,
        found.get("Owner"),
        tuple(columns),
        properties,
        is_symlink=is_symlink,
    )


def ensure_usable(name: str, location: str) -> None:
    """Refuse a location that is not the address of a directory.

    Raises:
        UnsupportedFeatureError: it is a placeholder, or has no scheme.
    """
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
