"""Parse predicates (Spark SQL), mostly over partition columns, and evaluate them with Arrow.

Timestamps without a zone, and the current date, are in UTC; rows for which the result is unknown
(NULL) do not match.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import PredicateError, quote_word
from deltactl.operations.predicate.terms import Column, PartitionRows, Term, sought_constants
from deltactl.protocol.schema import Field, StructType

MAX_PREDICATE_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True)
class PartitionPredicate:
    """A condition on partition columns.

    Attributes:
        sql: its normalised text, in Spark's SQL.
        columns: the columns that it uses, as the table spells them.
    """

    sql: str
    columns: tuple[str, ...]
    _term: Term = field(repr=False, compare=False)

    def evaluate(self, partition_values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return a mask of matching rows: booleans without nulls, chunked like the argument.

        ``partition_values`` are ``map<string, string>`` of each file, keyed by physical names.

        Raises:
            CorruptLogError: a partition value does not parse as its column's type.
        """
        if isinstance(partition_values, pa.ChunkedArray):
            answers = [self.evaluate(chunk) for chunk in partition_values.chunks]
            return pa.chunked_array(answers, pa.bool_())
        return pc.fill_null(self._term.evaluate(PartitionRows(partition_values)), False)

    def sought_values(self) -> Mapping[str, Sequence[str]]:
        """Return the literals that columns are compared with by ``=`` or ``IN``, as strings."""
        found: dict[str, list[str]] = {}
        for column, constants in sought_constants(self._term):
            texts = [c.text for c in constants if c.text is not None]
            found.setdefault(column.name, []).extend(texts)
        return found

    def no_match(self, uri: str, *versions: int) -> str:
        """Return the warning that no file of these versions of a table matches: perhaps a typo."""
        names = " or ".join(dict.fromkeys(map(str, versions)))
        blame = f"describe-history {shlex.quote(uri)} --blame {quote_word(self.sql)}"
        return (
            f"no file of version {names} is in a partition with {self.sql}; `deltactl {blame}` "
            "shows the nearest values"
        )


def parse_predicate(
    text: str, partition_fields: tuple[Field, ...], now_ms: int | None = None
) -> PartitionPredicate:
    """Parse a predicate. Without ``now_ms``, it may not contain the current time.

    Raises:
        PredicateError: it cannot be parsed, or uses something other than partition columns.
    """
    term, columns = parse_term(text, partition_fields, now_ms)
    return PartitionPredicate(term.sql, tuple(columns), term)


def parse_term(
    text: str,
    fields: tuple[Field, ...],
    now_ms: int | None = None,
    *,
    explain: Callable[[str], PredicateError] | None = None,
    spell: Callable[[str], str] | None = None,
) -> tuple[Term, Mapping[str, Column]]:
    """Parse a predicate over any columns; return it, and the columns that it uses, by name.

    ``explain`` gives the error for a name that is none of the fields; by default, they are the
    partition columns of a table. ``spell`` gives the SQL of the name of a field.

    Raises:
        PredicateError: it cannot be parsed, or uses something other than these columns.
    """
    _ensure_readable(text)
    # Imported here, because the parser is slow to import and most runs do not need it.
    from deltactl.operations.predicate.reader import PredicateReader
    from deltactl.operations.predicate.sql import parse_condition, too_deep

    reader = PredicateReader(StructType(fields), now_ms, explain, spell)
    try:
        return reader.read(parse_condition(text)), reader.columns
    except RecursionError:
        raise too_deep() from None


def _ensure_readable(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PredicateError("the predicate is not valid Unicode") from None
    if size > MAX_PREDICATE_BYTES:
        raise PredicateError(
            f"the predicate has {size} bytes; at most {MAX_PREDICATE_BYTES} are accepted",
            hint="Shorten the predicate with ranges of values, or split it over several runs.",
        )
