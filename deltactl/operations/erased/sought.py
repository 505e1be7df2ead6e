"""Resolve a predicate for each schema of a table, and find what to look for in texts and bounds.

A name is that of a column in any schema that the log still has. The column is then followed by its
physical name and field id, so that renamed and dropped columns are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, PredicateError
from deltactl.operations.predicate.bounds import columns_of, held_by
from deltactl.operations.predicate.literals import Constant, find_nearest
from deltactl.operations.predicate.parse import parse_term
from deltactl.operations.predicate.sql import spell_name
from deltactl.operations.predicate.terms import (
    Column,
    ColumnRows,
    Comparison,
    Junction,
    Membership,
    Term,
)
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.paths import hive_unescape
from deltactl.protocol.schema import PHYSICAL_NAME_KEY, Field, StructType
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_decoding import parse_stats, stats_type
from deltactl.suggest import with_suggestion

TRUNCATED: Final = 16
"""A bound of so many characters may be the first part of a longer value (Iceberg; Delta: 32)."""

_EDGE: Final = "[^0-9A-Za-z_]"
_SUFFIX: Final = "(?:BD|[DFLSY])?"  # the type of a number in Spark's SQL
_SPELLINGS_AT_ONCE: Final = 200
_STATS: Final = r"^\s*[^\s]"


@dataclass(frozen=True, slots=True)
class Variant:
    """The predicate over one schema; ``fields`` has the path to the field of each column."""

    metadata: Metadata
    term: Term
    columns: Mapping[str, Column]
    fields: Mapping[str, tuple[Field, ...]]

    @property
    def paths(self) -> Mapping[str, FieldPath]:
        """Return the physical paths of the columns."""
        return {name: tuple(f.physical_name for f in path) for name, path in self.fields.items()}

    @property
    def place(self) -> tuple[object, ...]:
        """Return what identifies the columns, whatever their types."""
        if self.metadata.column_mapping_mode != "id":
            return tuple(sorted(self.paths.values()))
        return tuple(sorted(str([f.field_id for f in path]) for path in self.fields.values()))

    @property
    def partition_names(self) -> frozenset[str]:
        """Return the columns that partition the table in this schema."""
        return frozenset(self.columns) & set(self.metadata.partition_columns)


def resolve(text: str, schemas: Iterable[Metadata], now_ms: int) -> tuple[Variant, ...]:
    """Return the predicate over each schema that has its columns, grouped by their places.

    ``schemas`` begin with the latest one, and so do the variants of a place.

    Raises:
        PredicateError: it cannot be parsed, or no schema has its columns.
    """
    schemas = list(schemas)
    known = dict.fromkeys(name for it in schemas for name, _ in _fields_of(it.schema))

    def explain(name: str) -> PredicateError:
        return PredicateError(
            with_suggestion(f"no schema in the log has the column {name!r}", name, known),
            hint=f"Use these columns: {', '.join(map(spell_name, known))}. Write strings in "
            "quotes, and a field of a struct as `struct.field` without quotes.",
        )

    found: dict[object, Variant] = {}
    errors: list[PredicateError] = []
    for metadata, fields in _each_fields(schemas):
        flat = (
            Field(name, path[-1].type, metadata={PHYSICAL_NAME_KEY: path[0].physical_name})
            for name, path in fields.items()
        )
        try:
            term, columns = parse_term(text, tuple(flat), now_ms, explain=explain)
        except PredicateError as error:
            errors.append(error)
            continue
        used = {name: fields[name] for name in columns}
        variant = Variant(metadata, term, columns, used)
        types = tuple(str(c.type) for c in columns.values())
        found.setdefault((variant.place, types, variant.partition_names), variant)
    if not found:
        raise next((it for it in errors if "no schema" not in it.message), errors[0])
    if not all(it.columns for it in found.values()):
        raise PredicateError(
            "the predicate uses no column", hint="Write a condition, such as user_id = 42."
        )
    return tuple(sorted(found.values(), key=lambda it: str(it.place)))


def _each_fields(
    schemas: Iterable[Metadata],
) -> Iterator[tuple[Metadata, dict[str, tuple[Field, ...]]]]:
    """Yield each schema, and its fields by name; twice if a name with a dot can mean two."""
    for metadata in schemas:
        pairs = list(_fields_of(metadata.schema))
        yield metadata, dict(pairs)
        if len(dict(pairs)) < len(pairs):
            yield metadata, dict(reversed(pairs))


def _fields_of(
    struct: StructType, above: tuple[Field, ...] = ()
) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Yield the columns, and the fields of structs as ``struct.field``."""
    for field in struct.fields:
        path = (*above, field)
        yield ".".join(it.name for it in path), path
        if isinstance(field.type, StructType):
            yield from _fields_of(field.type, path)


@dataclass(frozen=True, slots=True)
class SoughtTexts:
    """The spellings of the values that a predicate asks for by ``=`` and ``IN``.

    ``words`` are found anywhere; ``numbers``, of other types than strings, only where a text cannot
    mean anything else. ``names`` are those of the columns, ``field_ids`` their ids, if all have
    one. ``values`` are the values themselves.
    """

    words: tuple[str, ...]
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    field_ids: frozenset[int] = frozenset()
    values: tuple[pa.Scalar, ...] = ()

    def mask(self, texts: pa.Array, *, numbers: bool) -> pa.Array:
        """Return which texts have a value, as a word of its own."""
        patterns = [_bounded(it) for it in self.words]
        patterns += [_bounded(it, _SUFFIX) for it in self.numbers] if numbers else []
        return _search(texts, patterns)

    def mask_paths(self, names: pa.Array) -> pa.Array:
        """Return which paths have a value in the name of a directory."""
        directories = pc.replace_substring_regex(names, r"[^/]*$", "")
        words = [_bounded(it) for it in self.words]
        numbers = [f"={re.escape(it)}/" for it in self.numbers]
        found = _search(directories, [*words, *numbers])
        escaped = pc.fill_null(pc.match_substring(directories, "%"), False)
        texts = [hive_unescape(it) for it in directories.filter(escaped).to_pylist()]
        plain = _search(pa.array(texts, pa.string()), [*words, *numbers])
        either = pc.or_(found.filter(escaped), plain)
        return pc.replace_with_mask(found, escaped, either)

    def names_column(self, text: str) -> bool:
        """Return whether a text has the name of a column."""
        return any(name in text for name in self.names)

    def prefixes(self) -> pa.Array:
        """Return the texts that a truncated bound of a value may have."""
        ends = ((it, range(TRUNCATED, len(it))) for it in self.words)
        return pa.array(sorted({it[:end] for it, range_ in ends for end in range_}), pa.string())


def _bounded(text: str, suffix: str = "") -> str:
    before = f"(?:^|{_EDGE})" if re.match(r"[0-9A-Za-z_]", text) else ""
    after = f"(?:{_EDGE}|$)" if re.search(r"[0-9A-Za-z_]$", text) else ""
    return before + re.escape(text) + suffix + after


def _search(texts: pa.Array, patterns: Sequence[str]) -> pa.Array:
    found = pa.repeat(pa.scalar(False), len(texts))
    for start in range(0, len(patterns), _SPELLINGS_AT_ONCE):
        pattern = f"(?s){'|'.join(patterns[start : start + _SPELLINGS_AT_ONCE])}"
        found = pc.or_(found, pc.fill_null(pc.match_substring_regex(texts, pattern), False))
    return found


def find_texts(variants: Sequence[Variant]) -> SoughtTexts | None:
    """Return what to look for in texts; ``None`` if the predicate does not say it.

    Of columns joined by AND, those that partition the table are looked for only if there is no
    other: many rows have their values.
    """
    words: dict[str, None] = {}
    numbers: dict[str, None] = {}
    values: list[pa.Scalar] = []
    for variant in variants:
        sought = _sought(variant.term, variant.partition_names)
        if sought is None:
            return None
        for column, constant in sought:
            into = words if _is_text(column.type) else numbers
            into.update(dict.fromkeys(_spell(constant, column.type)))
            value = _value_of(constant, column.type)
            values += [] if value is None else [value]
    if not words and not numbers:
        return None
    paths = [path for it in variants for path in it.fields.values()]
    names = (name for path in paths for it in path for name in (it.name, it.physical_name))
    ids = [path[-1].field_id for path in paths]
    return SoughtTexts(
        tuple(words),
        tuple(numbers),
        tuple(dict.fromkeys(names)),
        frozenset() if None in ids else frozenset(filter(None, ids)),
        tuple(values),
    )


def _sought(term: Term, partition: frozenset[str]) -> list[tuple[Column, Constant]] | None:
    match term:
        case Comparison(Column() as column, "=" | "<=>", constant):
            return [(column, constant)] if constant.text else None
        case Membership(Column() as column, constants):
            return [(column, it) for it in constants if it.text] or None
        case Junction("OR", terms):
            parts = [_sought(it, partition) for it in terms]
            known = [it for it in parts if it is not None]
            return [pair for it in known for pair in it] if len(known) == len(parts) else None
        case Junction(_, terms):
            every = [it for part in terms if (it := _sought(part, partition)) is not None]
            if any(column.name not in partition for column in columns_of(term)):
                every = [it for it in every if any(c.name not in partition for c, _ in it)]
            return [pair for it in every for pair in it] or None
        case _:
            return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _value_of(constant: Constant, kind: pa.DataType) -> pa.Scalar | None:
    """Return a constant as a value of a type; ``None`` if no value of the type is equal."""
    with suppress(ValueError):
        value, side = find_nearest(constant, kind)
        return pa.array([value], kind)[0] if side == "at" else None
    return None


def _spell(constant: Constant, kind: pa.DataType) -> Iterator[str]:
    """Yield the forms in which programs write a value; none of a truth value."""
    text = constant.text or ""
    if _is_text(kind):
        yield from (text, text.replace("'", "''"), text.replace("'", "\\'"))
        yield text.replace("\\", "\\\\").replace('"', '\\"')
        return
    if pa.types.is_boolean(kind):
        return
    yield text.strip()
    value = _value_of(constant, kind)
    if value is None:
        return
    if pa.types.is_timestamp(kind):
        local = value.cast(pa.timestamp("us")) if kind.tz is None else value
        moment = local.as_py().replace(tzinfo=None)
        for separator in " T":
            yield moment.isoformat(separator, "seconds")
            yield from (moment.isoformat(separator, it) for it in ("milliseconds", "microseconds"))
        return
    found = value.as_py()
    yield str(found)
    if isinstance(found, Decimal):
        yield f"{found.normalize():f}"


def bounds_mask(
    variant: Variant, texts: SoughtTexts | None, stats: pa.Array, partition_values: pa.Array
) -> pa.Array:
    """Return for which files a minimum or maximum of a data column has a value by itself.

    Raises:
        CorruptLogError: the statistics or partition values of a file cannot be parsed.
    """
    partition = variant.partition_names
    data = {name: path for name, path in variant.paths.items() if name not in partition}
    found = pa.repeat(pa.scalar(False), len(stats))
    if not data or stats.null_count == len(stats):
        return found
    parsed = parse_stats(stats, bounds_type_of(variant))
    if pc.any(pc.and_(parsed.is_null(), pc.match_substring_regex(stats, _STATS))).as_py():
        raise CorruptLogError("statistics are no object in JSON")
    constants = partition_columns(variant, partition_values, partition)
    prefixes = pa.array([], pa.string()) if texts is None else texts.prefixes()
    for name, path in data.items():
        for side in ("minValues", "maxValues"):
            bound = pc.struct_field(parsed, [side, *path])
            rows = ColumnRows({**constants, name: bound}, len(stats))
            held = held_by(variant.term, name, rows, partition)
            found = pc.or_(found, pc.and_(held, bound.is_valid()))
            if texts is not None and pa.types.is_timestamp(bound.type):
                found = pc.or_(found, _in_same_millisecond(bound, texts.values))
            if pa.types.is_string(bound.type) and len(prefixes):
                # The last character of a truncated maximum is greater than that of the value.
                ends = bound if side == "minValues" else pc.utf8_slice_codeunits(bound, 0, -1)
                found = pc.or_(found, pc.fill_null(pc.is_in(ends, value_set=prefixes), False))
    return found


def _in_same_millisecond(bounds: pa.Array, values: Sequence[pa.Scalar]) -> pa.Array:
    """Return which bounds may be one of the values: writers leave out parts of a millisecond."""
    moments = [it for it in values if it.type == bounds.type]
    sought = pc.floor_temporal(pa.array(moments, bounds.type), unit="millisecond")
    return pc.is_in(pc.floor_temporal(bounds, unit="millisecond"), value_set=sought)


def bounds_type_of(variant: Variant) -> pa.StructType:
    """Return the type of the statistics of the data columns."""
    leaves = {
        path: arrow_type(variant.fields[name][-1].type, "physical")
        for name, path in variant.paths.items()
        if name not in variant.partition_names
    }
    return stats_type(leaves, ())


def partition_columns(
    variant: Variant, partition_values: pa.Array, names: Iterable[str]
) -> dict[str, pa.Array]:
    """Return the typed partition values of some columns; null where a file has none.

    Raises:
        CorruptLogError: a value does not parse as its column's type.
    """
    columns = [variant.columns[name] for name in names]
    return {
        column.name: parse_partition_column(
            lookup_map(partition_values, column.physical_name), column.type
        )
        for column in columns
    }


def partition_mask(variant: Variant, partition_values: pa.Array) -> pa.Array:
    """Return for which files the partition values alone match, whatever the other columns have."""
    names = variant.partition_names
    columns = partition_columns(variant, partition_values, names)
    rows = ColumnRows(columns, len(partition_values))
    masks = (pc.fill_null(it.evaluate(rows), False) for it in _terms_of(variant.term, names))
    return reduce(pc.or_, masks, pa.repeat(pa.scalar(False), len(partition_values)))


def _terms_of(term: Term, names: frozenset[str]) -> Iterator[Term]:
    """Yield the terms of which one is enough, if they use no other columns than ``names``."""
    if isinstance(term, Junction) and term.word == "OR":
        for part in term.terms:
            yield from _terms_of(part, names)
    elif names.issuperset(it.name for it in columns_of(term)) and any(columns_of(term)):
        yield term


def tags_mask(texts: SoughtTexts, tags: pa.MapArray) -> pa.Array:
    """Return for which files the value of a tag has a value."""
    found = texts.mask(tags.items, numbers=False).to_numpy(zero_copy_only=False)
    before, ends = np.concatenate(([0], np.cumsum(found))), tags.offsets.to_numpy()
    return pa.array(before[ends[1:]] > before[ends[:-1]])


def any_mask(masks: Iterable[pa.Array]) -> pa.Array:
    """Return which rows one of the masks has."""
    return reduce(pc.or_, masks)


def has_any(lines: pa.Array, texts: SoughtTexts, *, numbers: bool = False) -> bool:
    """Return whether a text, or a path, has a value."""
    found = pc.or_(texts.mask(lines, numbers=numbers), texts.mask_paths(lines))
    return bool(pc.any(found).as_py())
