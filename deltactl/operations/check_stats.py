"""What ``add.stats`` says against what a file holds: pure, a file at a time.

Only what can mislead a reader is a contradiction. Bounds may be wide: strings are cut short,
moments to milliseconds, and after deletes they belong to rows that are gone.
Source: PROTOCOL.md, "Per-file Statistics"; how writers really write: see each rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from math import isclose
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.protocol.partition_texts import text_parser
from deltactl.protocol.stats import LeafStats, Path, Value, whole_number
from deltactl.protocol.stats_columns import StatsLeaf

Contradiction: TypeAlias = tuple[str, Path, str]
"""Code, leaf (empty: the whole file), what is wrong in words."""

_FLOATS: Final = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
_ZONED: Final = re.compile(r":[0-9]{2}(?:\.[0-9]+)? ?(?:Z|UTC|GMT|[+-][0-9]{1,2}(?::?[0-9]{2})?)$")
# Less than a second says nothing: writers cut moments to milliseconds, and round, in many ways.
_CUT_US: Final = 1_000_000
# A text without a zone may be of any zone.
_ANY_ZONE_US: Final = 14 * 3600 * 1_000_000
# Older moments mean other days in the calendar that old writers used: no bound to judge by.
_FIRST_DAY: Final = -141_427  # 1582-10-15
_FIRST_MOMENT_US: Final = -2_208_988_800 * 1_000_000  # 1900-01-01
# delta-rs takes decimals through a float and divides: that rounds twice.
_FLOAT_ROUNDING: Final = 2.0**-50
_EXACT_KINDS: Final = frozenset({"integer", "date"})
_DAY_US: Final = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a file: rows, deleted ones included, and leaves.

    ``leaves`` are those of live rows; out of a footer they are those of all. ``stored_nulls``
    count deleted rows too. ``has_deletes``: some rows are not live. ``narrow`` are leaves that
    the file stores as floats of 32 bits.
    """

    num_rows: int
    num_live: int
    leaves: Mapping[Path, LeafStats]
    stored_nulls: Mapping[Path, int | None]
    has_deletes: bool = False
    narrow: Set[Path] = frozenset()


class Statistics:
    """Parsed ``add.stats``."""

    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            ValueError: it is not a JSON object.
        """
        try:
            node = json.loads(text, parse_float=Decimal)
        except RecursionError as error:
            raise ValueError("it is nested beyond measure") from error
        except ArithmeticError as error:
            raise ValueError("it holds a number beyond all decimals") from error
        if not isinstance(node, dict):
            raise ValueError("it is not an object")
        self._node = node

    @property
    def num_records(self) -> int | None:
        """Rows of the file, deleted ones included."""
        rows = self._node.get("numRecords")
        return rows if isinstance(rows, int) and not isinstance(rows, bool) else None

    @property
    def is_wide(self) -> bool:
        """Whether it says itself that counts and bounds are not exact."""
        return self._node.get("tightBounds") is False

    @property
    def is_tight(self) -> bool:
        """Whether it promises that a minimum and maximum are values of the file."""
        return self._node.get("tightBounds") is True

    def find(self, member: str, path: Path) -> Any:
        """The value of a leaf under ``minValues``, ``maxValues`` or ``nullCount``, if any."""
        node = self._node.get(member)
        for name in path:
            if not isinstance(node, dict):
                return None
            node = node.get(name)
        return node

    def speaks_of(self, leaf: StatsLeaf) -> bool:
        """Whether it says anything about a leaf."""
        members = ("nullCount", "minValues", "maxValues")
        return any(self.find(member, leaf.path) is not None for member in members)


def find_contradictions(
    said: Statistics, facts: FileFacts, leaves: Sequence[StatsLeaf]
) -> Iterator[Contradiction]:
    """Everything in the statistics that the facts disprove, leaf by leaf."""
    rows = said.num_records
    if rows is not None and rows != facts.num_rows:
        yield "STATS_ROWS", (), f"numRecords is {rows}, the file has {facts.num_rows} rows"
    for leaf in leaves:
        known = facts.leaves.get(leaf.path)
        if known is None:
            continue
        name = ".".join(leaf.path)
        if (problem := _check_nulls(said, facts, leaf, known)) is not None:
            yield "STATS_NULLS", leaf.path, f"column {name!r}: {problem}"
        if leaf.has_bounds:
            for code, problem in _check_bounds(said, facts, leaf, known):
                yield code, leaf.path, f"column {name!r}: {problem}"


def _check_nulls(
    said: Statistics, facts: FileFacts, leaf: StatsLeaf, known: LeafStats
) -> str | None:
    count, nulls = said.find("nullCount", leaf.path), known.null_count
    if not isinstance(count, int) or isinstance(count, bool) or nulls is None:
        return None
    problem = f"nullCount is {count}, the file has {nulls} nulls in {facts.num_live} live rows"
    # Of a struct's members, and where bounds are wide, only "none" and "all" carry a meaning.
    # For lists and maps some writers count elements: then not even "all" does.
    if leaf.kind == "nested":
        return problem if count == 0 and nulls > 0 else None
    if said.is_wide or len(leaf.path) > 1:
        wrong = (count == 0 and nulls > 0) or (count == said.num_records and nulls < facts.num_live)
        return problem if wrong else None
    right = {nulls, facts.stored_nulls.get(leaf.path)} if facts.has_deletes else {nulls}
    return None if count in right else problem


def _check_bounds(
    said: Statistics, facts: FileFacts, leaf: StatsLeaf, known: LeafStats
) -> Iterator[tuple[str, str]]:
    for member, actual in (("minValues", known.minimum), ("maxValues", known.maximum)):
        text = said.find(member, leaf.path)
        bound = None if text is None else _parse(text, leaf.kind)
        if bound is None or actual is None or not _is_comparable(actual, leaf.kind):
            continue
        code = _judge_bound(_Bound(bound, text, member == "maxValues"), actual, said, facts, leaf)
        if code is not None:
            which = "maximum" if member == "maxValues" else "minimum"
            yield code, f"the {which} is {_show(text)}, {_WHY[code]}"


_WHY: Final = {
    "STATS_BOUNDS": "but a live row lies beyond it",
    "STATS_LOOSE": "said to be exact, but no live row has it",
}


@dataclass(frozen=True, slots=True)
class _Bound:
    value: Any
    text: Any
    is_upper: bool


def _judge_bound(
    bound: _Bound, actual: Value, said: Statistics, facts: FileFacts, leaf: StatsLeaf
) -> str | None:
    """The code of what is wrong with a bound; ``None`` where nothing is."""
    value, found = bound.value, actual
    if leaf.path in facts.narrow:
        # Written with the digits of 32 bits, also where the column is wider by now.
        value, found = _narrow(value), _narrow(actual)
    slack = _slack_us(bound.text) if leaf.kind == "timestamp" else _CUT_US
    if _excludes(value, found, leaf.kind, slack, upper=bound.is_upper):
        return "STATS_BOUNDS"
    is_exact = said.is_tight and not facts.has_deletes and leaf.kind in _EXACT_KINDS
    return "STATS_LOOSE" if is_exact and value != found else None


def _narrow(value: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.float32(value)


def _excludes(bound: Any, actual: Any, kind: str, slack_us: int, *, upper: bool) -> bool:
    """Whether a bound leaves an actual value out."""
    if kind == "string":
        bound, actual = bound.encode("utf-8", "surrogatepass"), actual.encode()
    elif kind == "decimal" and isclose(bound, actual, rel_tol=_FLOAT_ROUNDING):
        return False
    elif kind.startswith("timestamp"):
        bound += slack_us - 1 if upper else 1 - slack_us
    return bool(bound < actual if upper else bound > actual)


def _parse(value: Any, kind: str) -> Any:  # noqa: PLR0911 - a table of kinds
    """A bound as :class:`LeafStats` has values; ``None`` where it says nothing."""
    try:
        match kind:
            case "string":
                return value if isinstance(value, str) else None
            case "integer":
                return whole_number(value) if _is_number(value) else None
            case "decimal" if _is_number(value) or isinstance(value, str):
                exact = Decimal(value)
                return None if exact.is_nan() else exact
            case "float":
                number = _FLOATS.get(value) if isinstance(value, str) else float(value)
                return None if number is None or np.isnan(number) else number
            case "date":
                return _parse_moment(value, pa.date32())
            case "timestamp" | "timestamp_ntz":
                zone = "UTC" if kind == "timestamp" else None
                return _parse_moment(value, pa.timestamp("us", zone))
    except (ValueError, ArithmeticError, TypeError):
        pass
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _parse_moment(value: Any, type_: pa.DataType) -> Any:
    parse = text_parser(type_)
    assert parse is not None
    return parse(value) if isinstance(value, str) else None


def _slack_us(text: str) -> int:
    return _CUT_US if _ZONED.search(text) else _ANY_ZONE_US


def _is_comparable(actual: Value, kind: str) -> bool:
    if kind == "date":
        return isinstance(actual, int) and actual >= _FIRST_DAY
    if kind.startswith("timestamp"):
        return isinstance(actual, int) and actual >= _FIRST_MOMENT_US
    return True


def _show(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."


def widen_dates(stats: LeafStats) -> LeafStats:
    """Bounds in days as bounds in microseconds: of a date column that became a timestamp."""
    low, high = (
        None if value is None else int(value) * _DAY_US for value in (stats.minimum, stats.maximum)
    )
    return LeafStats(stats.null_count, low, high)
