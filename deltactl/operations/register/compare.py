"""Compare what a catalog says of a table with what it should say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.catalog.base import Column, TableAddress
from deltactl.catalog.kinds import KINDS, CatalogKind
from deltactl.catalog.locations import points_elsewhere
from deltactl.catalog.names import parse_name
from deltactl.operations.manifest.engine_types import normal_type

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """What a catalog says, and what it should say; ``is_small`` if ``sync`` changes it."""

    what: str
    catalog: str
    table: str
    is_small: bool = False


def compare(wanted: TableAddress, found: TableAddress) -> Iterator[Difference]:
    """Yield what a catalog says otherwise than it should."""
    if normal_place(wanted.location) != normal_place(found.location):
        yield Difference("location", found.location or "none", wanted.location)
    kinds = [
        "manifests" if each.is_symlink else each.table_format or each.table_type
        for each in (found, wanted)
    ]
    if kinds[0] != kinds[1]:
        yield Difference("format", kinds[0], kinds[1])
    if wanted.partition_columns != found.partition_columns and wanted.is_symlink:
        keys = [", ".join(each.partition_columns) or "none" for each in (found, wanted)]
        yield Difference("partition columns", keys[0], keys[1])
    yield from _compare_properties(wanted.properties, found.properties)
    if wanted.comment != found.comment:
        yield Difference("comment", repr(found.comment), repr(wanted.comment), is_small=True)
    yield from _compare_columns(wanted, found)


def _compare_columns(wanted: TableAddress, found: TableAddress) -> Iterator[Difference]:
    for name in found.repeated_columns:
        yield Difference(f"column {name}", "there more than once", "once", is_small=True)
    before, after = (
        {column.name.lower(): column for column in each.columns} for each in (found, wanted)
    )
    kind = KINDS[parse_name(wanted.name).scheme]
    for name in {**after, **before}:
        texts = [_say_column(columns.get(name), kind) for columns in (before, after)]
        if texts[0] != texts[1]:
            yield Difference(f"column {name}", texts[0], texts[1], is_small=True)


def _compare_properties(
    wanted: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[Difference]:
    for key, value in wanted.items():
        if found.get(key, "").lower() != value.lower():
            yield Difference(f"property {key}", found.get(key, "none"), value)
    for key in filter(points_elsewhere, found):
        yield Difference(f"property {key}", found[key], "none")


def _say_column(found: Column | None, kind: CatalogKind) -> str:
    if found is None:
        return "none"
    # Other programs write longer comments where the catalog keeps them.
    comment = kind.cut_comment(found.comment)
    return normal_type(found.type) + (f" {comment!r}" if comment else "")


def normal_place(location: str) -> str:
    """Return a location in one spelling."""
    place = re.sub(r"^s3[an]://", "s3://", location.rstrip("/"))
    return re.sub(r"^file:/+", "/", place)


def say(differences: Sequence[Difference]) -> str:
    """Return the first differences as text."""
    texts = [f"{it.what} is {it.catalog}, not {it.table}" for it in differences[:_SHOWN]]
    more = len(differences) - len(texts)
    return "; ".join(texts) + (f"; and {more:,} more" if more else "")
