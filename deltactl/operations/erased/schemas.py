"""Resolve a predicate for each schema of a table.

A name is that of a column in any schema that the log still has. The column is then followed by its
physical name and field id, so that renamed and dropped columns are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deltactl.errors import PredicateError
from deltactl.operations.predicate.parse import parse_term
from deltactl.operations.predicate.sql import spell_name
from deltactl.operations.predicate.terms import Column, Term
from deltactl.protocol.actions import Metadata
from deltactl.protocol.column_names import quote_column
from deltactl.protocol.schema import PHYSICAL_NAME_KEY, Field, StructType
from deltactl.protocol.stats import FieldPath
from deltactl.suggest import with_suggestion


@dataclass(frozen=True, slots=True)
class Variant:
    """The predicate over one schema; ``fields`` has the path to the field of each column.

    ``present``: the predicate with the names of the latest schema; ``None`` if it lacks a column.
    """

    metadata: Metadata
    term: Term
    columns: Mapping[str, Column]
    fields: Mapping[str, tuple[Field, ...]]
    present: str | None

    @property
    def paths(self) -> Mapping[str, FieldPath]:
        """Return the physical paths of the columns."""
        return {name: _physical_path(path) for name, path in self.fields.items()}

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
    known = {name: _spell_path(path) for it in schemas for name, path in _fields_of(it.schema)}
    latest = {_physical_path(path): path for _, path in _fields_of(schemas[0].schema)}

    def explain(name: str) -> PredicateError:
        return PredicateError(
            with_suggestion(f"no schema in the log has the column {name!r}", name, known),
            hint=f"Use these columns: {', '.join(dict.fromkeys(known.values()))}. Write strings in "
            "quotes, and each name with other characters in backticks: struct.`a field`.",
        )

    found: dict[object, Variant] = {}
    errors: list[PredicateError] = []
    for metadata in schemas:
        fields = dict(_fields_of(metadata.schema))
        flat = (
            Field(name, path[-1].type, metadata={PHYSICAL_NAME_KEY: path[0].physical_name})
            for name, path in fields.items()
        )
        try:
            spell = partial(_spell_now, latest, fields)
            term, columns = parse_term(text, tuple(flat), now_ms, explain=explain, spell=spell)
        except PredicateError as error:
            errors.append(error)
            continue
        used = {name: fields[name] for name in columns}
        variant = Variant(metadata, term, columns, used, _find_present(text, term, used, latest))
        types = tuple(str(c.type) for c in columns.values())
        found.setdefault((variant.place, types, variant.partition_names), variant)
    if not found:
        raise next((it for it in errors if "no schema" not in it.message), errors[0])
    if not all(it.columns for it in found.values()):
        raise PredicateError(
            "the predicate uses no column", hint="Write a condition, such as user_id = 42."
        )
    return tuple(sorted(found.values(), key=lambda it: str(it.place)))


def _find_present(
    text: str,
    term: Term,
    used: Mapping[str, tuple[Field, ...]],
    latest: Mapping[FieldPath, tuple[Field, ...]],
) -> str | None:
    paths = {name: latest.get(_physical_path(path)) for name, path in used.items()}
    if None in paths.values():
        return None
    is_same = all(_names(paths[name] or ()) == _names(path) for name, path in used.items())
    return text if is_same else term.sql


def _spell_now(
    latest: Mapping[FieldPath, tuple[Field, ...]],
    fields: Mapping[str, tuple[Field, ...]],
    name: str,
) -> str:
    """Return the name of a column in SQL, as the latest schema has it."""
    path = fields[name]
    return _spell_path(latest.get(_physical_path(path), path))


def _spell_path(path: Sequence[Field]) -> str:
    return ".".join(map(spell_name, _names(path)))


def _names(path: Sequence[Field]) -> list[str]:
    return [field.name for field in path]


def _physical_path(path: Sequence[Field]) -> FieldPath:
    return tuple(field.physical_name for field in path)


def _fields_of(
    struct: StructType, above: tuple[Field, ...] = ()
) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Yield the columns by name, and the fields of structs by names with all backticks."""
    for field in struct.fields:
        path = (*above, field)
        yield quote_column([it.name for it in path]) if above else field.name, path
        if isinstance(field.type, StructType):
            yield from _fields_of(field.type, path)
