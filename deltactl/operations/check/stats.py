"""Compare ``add.stats`` with the contents of a file. No I/O, one file at a time.

Only statistics that can mislead a reader are a contradiction. Bounds may be wide: strings are
truncated, timestamps are truncated to milliseconds, and after deletes bounds may belong to deleted
rows. Source: PROTOCOL.md, "Per-file Statistics"; the behaviour of writers: see each rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from operator import gt, lt
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.protocol.partition_texts import text_parser
from deltactl.protocol.stats import FieldPath, LeafStats, Value, row_count, whole_number
from deltactl.protocol.stats_columns import StatsLeaf

Contradiction: TypeAlias = tuple[str, FieldPath, str]
"""Code, leaf (empty: the whole file), problem."""

_MEMBERS: Final = ("nullCount", "minValues", "maxValues")
_ZONED: Final = re.compile(r":[0-9]{2}(?:\.[0-9]+)? ?(?:Z|UTC|GMT|[+-][0-9]{1,2}(?::?[0-9]{2})?)$")
# Differences below a second are ignored: writers truncate and round timestamps in several ways.
_TRUNCATION_US: Final = 1_000_000
# A timestamp string without a zone may be in any zone.
_ANY_ZONE_US: Final = 14 * 3600 * 1_000_000
# Legacy writers used another calendar for older values: their bounds are not compared.
_FIRST_DAY: Final = -141_427  # 1582-10-15
_FIRST_TIMESTAMP_US: Final = -2_208_988_800 * 1_000_000  # 1900-01-01
_EXACT_KINDS: Final = frozenset({"integer", "date"})
_DAY_US: Final = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of a file: the number of rows, including deleted ones, and its leaves.

    ``leaves`` are statistics of live rows; read from a footer, of all rows. ``stored_nulls``
    includes deleted rows. ``has_deletes``: some rows are deleted. ``narrow`` are leaves that
    the file stores as 32-bit floats.
    """

    num_rows: int
    num_live: int
    leaves: Mapping[FieldPath, LeafStats]
    stored_nulls: Mapping[FieldPath, int | None]
    has_deletes: bool = False
    narrow: Set[FieldPath] = frozenset()


class Statistics:
    """Parsed ``add.stats``."""

    def __init__(self, text: str) -> None:
        """Parse a JSON string.

        Raises:
            ValueError: it is not a JSON object.
        """
        try:
            node = json.loads(text, parse_float=Decimal)
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error
        except ArithmeticError as error:
            raise ValueError("the JSON has a number that is out of range") from error
        if not isinstance(node, dict):
            raise ValueError("the JSON is not an object")
        self.node = node

    @property
    def num_records(self) -> int | None:
        """Return the number of rows of the file, including deleted ones."""
        return row_count(self.node.get("numRecords"))

    @property
    def counts_rows(self) -> bool:
        """Return whether ``numRecords`` is present, valid or not."""
        return self.node.get("numRecords") is not None

    @property
    def is_wide(self) -> bool:
        """Return whether ``tightBounds`` is false: counts and bounds are not exact."""
        return self.node.get("tightBounds") is False

    @property
    def is_tight(self) -> bool:
        """Return whether ``tightBounds`` is true: minimum and maximum are values of the file."""
        return self.node.get("tightBounds") is True

    def find(self, member: str, path: FieldPath) -> Any:
        """Return the value of a leaf in ``minValues``, ``maxValues`` or ``nullCount``, if any."""
        node = self.node.get(member)
        for name in path:
            if not isinstance(node, dict):
                return None
            node = node.get(name)
        return node

    def mentions(self, leaf: StatsLeaf) -> bool:
        """Return whether it has statistics of a leaf."""
        return any(self.find(member, leaf.path) is not None for member in _MEMBERS)

    def is_all_null(self, leaf: StatsLeaf) -> bool:
        """Return whether all that it says of a leaf is that every value is null."""
        count, low, high = (self.find(member, leaf.path) for member in _MEMBERS)
        rows = self.num_records
        return rows is not None and row_count(count) == rows and low is None and high is None

    def find_malformed(self) -> Iterator[str]:
        """Yield members whose JSON type is wrong."""
        if self.counts_rows and self.num_records is None:
            yield f"numRecords is {show(self.node['numRecords'])}, which is not an integer"
        for member in _MEMBERS:
            node = self.node.get(member)
            if node is not None and not isinstance(node, dict):
                yield f"{member} is {show(node)}, which is not an object"
        if not isinstance(tight := self.node.get("tightBounds"), bool | None):
            yield f"tightBounds is {show(tight)}, which is neither true nor false"


def find_contradictions(
    stats: Statistics, facts: FileFacts, leaves: Sequence[StatsLeaf]
) -> Iterator[Contradiction]:
    """Yield each statistic that contradicts the facts, leaf by leaf."""
    for problem in stats.find_malformed():
        yield "STATS_UNREADABLE", (), problem
    rows = stats.num_records
    if rows is not None and rows != facts.num_rows:
        yield "STATS_ROWS", (), f"numRecords is {rows}, the file has {facts.num_rows} rows"
    for leaf in leaves:
        known = facts.leaves.get(leaf.path, LeafStats())
        found = [*_check_nulls(stats, facts, leaf, known)]
        if leaf.has_bounds:
            found += _check_bounds(stats, facts, leaf, known)
        for code, problem in found:
            yield code, leaf.path, f"column {'.'.join(leaf.path)!r}: {problem}"


def _check_nulls(
    stats: Statistics, facts: FileFacts, leaf: StatsLeaf, known: LeafStats
) -> Iterator[tuple[str, str]]:
    # For lists and maps some writers count elements: then only a count of 0 can be compared.
    is_list = leaf.kind == "nested"
    text, nulls = stats.find("nullCount", leaf.path), known.null_count
    count = whole_number(text) if _is_number(text) else None
    if count is None:
        if text is not None and not is_list:
            yield "STATS_UNREADABLE", f"nullCount is {show(text)}, which is not an integer"
        return
    if count < 0 or (count > facts.num_rows and not is_list):
        yield "STATS_NULLS", f"nullCount is {count}, the file has {facts.num_rows} rows"
        return
    if nulls is None:
        return
    real = f"the file has {nulls} nulls in {facts.num_live} live rows"
    if not is_list and count == stats.num_records and nulls < facts.num_live:
        said_null = f"nullCount and numRecords are both {count}, so all values are null"
        yield "STATS_NULLS", f"{said_null}; {real}"
    elif (count == 0 and nulls > 0) or not (
        is_list or stats.is_wide or _is_null_count(count, nulls, facts, leaf.path)
    ):
        yield "STATS_NULLS", f"nullCount is {count}, {real}"


def _is_null_count(count: int, nulls: int, facts: FileFacts, path: FieldPath) -> bool:
    """Return whether a null count fits the live rows or all rows.

    The members of a null struct are null too, and not all writers count those.
    """
    parent = path[:-1]
    live, stored = facts.leaves.get(parent), facts.stored_nulls.get(parent)
    ranges = [(nulls, live.null_count if live else 0)]
    if facts.has_deletes:
        ranges.append((facts.stored_nulls.get(path) or nulls, stored))
    return any(most - (above or 0) <= count <= most for most, above in ranges)


def _check_bounds(
    stats: Statistics, facts: FileFacts, leaf: StatsLeaf, known: LeafStats
) -> Iterator[tuple[str, str]]:
    for member, actual in (("minValues", known.minimum), ("maxValues", known.maximum)):
        text = stats.find(member, leaf.path)
        if text is None:
            continue
        why = _judge_bound(text, actual, stats, facts, leaf, upper=member == "maxValues")
        if why is not None:
            which = "maximum" if member == "maxValues" else "minimum"
            yield why[0], f"the {which} is {show(text)}, {why[1]}"


def find_rounded(stats: Statistics, doubles: Sequence[StatsLeaf]) -> StatsLeaf | None:
    """Return a leaf with a bound that excludes its value if a reader parses it as a double.

    Delta on Spark writes the shortest text of a float: 0.33333334 for 0.3333333432674408.
    ``doubles`` are leaves of type double that the file stores as 32-bit floats.
    """
    for leaf in doubles:
        for member, is_beyond in (("minValues", gt), ("maxValues", lt)):
            bound = _parse_bound(stats.find(member, leaf.path), leaf.kind)
            if bound is not None and is_beyond(bound, float(_narrow(bound))):
                return leaf
    return None


_BEYOND: Final = ("STATS_BOUNDS", "but a live row has a value beyond this bound")
_LOOSE: Final = ("STATS_LOOSE", "stated as exact, but no live row has it")
_MALFORMED: Final = ("STATS_UNREADABLE", "which is not a value of the column's type")


def _judge_bound(
    text: Any,
    actual: Value | None,
    stats: Statistics,
    facts: FileFacts,
    leaf: StatsLeaf,
    *,
    upper: bool,
) -> tuple[str, str] | None:
    """Return the problem of a bound as a code and a message; ``None`` if it is valid."""
    malformed = None if _is_bound(text, leaf.kind) else _MALFORMED
    value, found = _parse_bound(text, leaf.kind), actual
    if value is None or found is None or not _is_comparable(found, leaf.kind):
        return malformed
    if leaf.path in facts.narrow:
        # Written with 32-bit precision, even if the column has become wider.
        value, found = _narrow(value), _narrow(found)
    has_zone = leaf.kind != "timestamp" or _ZONED.search(text)
    slack = _TRUNCATION_US if has_zone else _ANY_ZONE_US
    if _excludes(value, found, leaf.kind, slack, upper=upper):
        return _BEYOND
    is_exact = stats.is_tight and leaf.kind in _EXACT_KINDS
    return _LOOSE if is_exact and value != found and malformed is None else malformed


def _narrow(value: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.float32(value)


def _excludes(bound: Any, actual: Any, kind: str, slack_us: int, *, upper: bool) -> bool:
    """Return whether a bound excludes an actual value."""
    if kind == "string":
        bound, actual = bound.encode("utf-8", "surrogatepass"), actual.encode()
    elif kind.startswith("timestamp"):
        bound += slack_us - 1 if upper else 1 - slack_us
    return bool(bound < actual if upper else bound > actual)


def _is_comparable(actual: Value, kind: str) -> bool:
    if kind == "date":
        return isinstance(actual, int) and actual >= _FIRST_DAY
    if kind.startswith("timestamp"):
        return isinstance(actual, int) and actual >= _FIRST_TIMESTAMP_US
    return True


def widen_dates(stats: LeafStats) -> LeafStats:
    """Convert bounds in days to microseconds, for a date column that became a timestamp."""
    low, high = (
        None if value is None else int(value) * _DAY_US for value in (stats.minimum, stats.maximum)
    )
    return LeafStats(stats.null_count, low, high)


_FLOATS: Final = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
# Lenient: other calendars have other leap years, and years may have more digits.
_STARTS_WITH_DATE: Final = re.compile(
    r"[+-]?[0-9]{4,}-(?:0?[1-9]|1[0-2])-(?:3[01]|[0-2]?[0-9])(?![0-9])"
)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_bound(value: Any, kind: str) -> bool:
    """Return whether a value has the JSON form of a bound of this kind of column."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_number(value) and whole_number(value) is not None
        case "decimal" | "float":
            return _is_number(value) or isinstance(value, float) or _is_numeric(value)
        case _:
            return isinstance(value, str) and _STARTS_WITH_DATE.match(value) is not None


def _is_numeric(value: Any) -> bool:
    """Return whether a value is a numeric string: some readers accept those."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _parse_bound(value: Any, kind: str) -> Any:  # noqa: PLR0911 - a table of kinds
    """Return a bound as a value of ``LeafStats``; ``None`` if it cannot be compared.

    The bound of an integer may have a fraction.
    """
    try:
        match kind:
            case "string":
                return value if isinstance(value, str) else None
            case "boolean":
                return value if isinstance(value, bool) else None
            case "integer":
                return value if _is_number(value) else None
            case "decimal" if _is_number(value) or isinstance(value, str):
                exact = Decimal(value)
                return None if exact.is_nan() else exact
            case "float" if not isinstance(value, bool):
                number = _FLOATS.get(value) if isinstance(value, str) else float(value)
                return None if number is None or np.isnan(number) else number
            case "date":
                return _parse_time(value, pa.date32())
            case "timestamp" | "timestamp_ntz":
                zone = "UTC" if kind == "timestamp" else None
                return _parse_time(value, pa.timestamp("us", zone))
    except (ValueError, ArithmeticError, TypeError):
        pass
    return None


def _parse_time(value: Any, type_: pa.DataType) -> Any:
    parse = text_parser(type_)
    assert parse is not None
    return parse(value) if isinstance(value, str) else None


def show(value: Any) -> str:
    """Return a JSON value as text for a message, truncated."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."
