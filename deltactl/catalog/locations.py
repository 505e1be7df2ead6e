"""Decide from the fields of a catalog whether a table is a Delta table, and where it is."""

from __future__ import annotations

from typing import Final

from deltactl.errors import UnsupportedFeatureError
from deltactl.storage.names import parse_scheme

# Spark writes such a location if the real one is in the properties of the SerDe.
_PLACEHOLDER: Final = "-__placeholder__"


def is_delta(*marks: str | None) -> bool:
    """Return whether one of the marks says Delta, in any case."""
    return any(mark is not None and mark.strip().lower() == "delta" for mark in marks)


def choose_location(*fields: str | None) -> str:
    """Return the first field that is set; an empty string if none is.

    For Glue and Hive the order is the ``path`` of the SerDe, the ``path`` of the table, and the
    location of its storage descriptor.
    """
    return next((field.strip() for field in fields if field and field.strip()), "")


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
