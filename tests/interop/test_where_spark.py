"""``--where`` selects the partitions that WHERE of Spark selects, or is refused by name.

`make explore-slow` asks Spark for 500 predicates one by one; `make test` for some, in one query.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from deltactl import PredicateError, Table
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.protocol.partitions import lookup_map
from tests.support.delta_spark import SHARED_SESSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_REFUSED: Final = 0.02
pytestmark = SHARED_SESSION

TYPES: Final = {
    "b": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10,2)",
    "s": "STRING",
    "u": "STRING",  # dates
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "tn": "TIMESTAMP_NTZ",
    "bo": "BOOLEAN",
    "bi": "BINARY",
}
VALUES: Final = {
    "b": ["-128", "0", "7", "127"],
    "i": ["-2147483648", "-1", "0", "1", "2", "2147483647"],
    "l": ["-9223372036854775808", "0", "5", "9007199254740993", "9223372036854775807"],
    "f": ["-1.5", "0", "0.1", "1.1", "'NaN'", "'Infinity'", "16777217"],
    "d": ["-0.0", "0.1", "1.1", "2.5", "'NaN'", "'-Infinity'", "1e300"],
    "m": ["-0.01", "0", "1.50", "99999999.99"],
    "s": ["'a'", "'A'", "'it''s'", "'ß'", "'x%y'", "'a.c'", "'Zebra 12'", "'line\\nend\\n'"],
    "u": ["'2024-01-31'", "'1969-12-31'", "'2024-02-29'"],
    "dt": ["'2024-01-31'", "'2024-02-29'", "'1969-12-31'", "current_date()", "'0001-01-01'"],
    "ts": ["'2024-01-31 12:00:00'", "'1969-12-31 23:59:59.999999'", "'2024-03-01'", "now()"],
    "tn": ["'2024-01-31 12:00:00.5'", "'1969-12-31 23:59:59.999999'", "'2024-03-31'"],
    "bo": ["true", "false"],
    "bi": ["'xy'", "'abc'"],
}
NUMBERS: Final = ["0", "1", "-1", "2", "5", "7", "1.5", "-0.5", "0.1", "1.1", "128", "3000000000"]
NUMBERS_LIKE: Final = {
    "b": [*NUMBERS, "'7'", "7Y", "127.5", "-128.5", "1e0"],
    "i": [*NUMBERS, "'1'", "' 2 '", "2147483646.5", "1.5e0", "9223372036854775807", "-2147483649"],
    "l": [*NUMBERS, "5L", "9007199254740992.5", "9223372036854775808", "9007199254740993"],
    "f": [*NUMBERS, "'1.1'", "1.1f", "CAST('NaN' AS FLOAT)", "CAST(0.1 AS FLOAT)", "1e39", "1.1D"],
    "d": [*NUMBERS, "'1.1'", "1.1D", "CAST('-Infinity' AS DOUBLE)", "1e300", "CAST(0.1 AS FLOAT)"],
    "m": [*NUMBERS, "1.50", "1.499", "'1.5'", "1.5e0", "99999999.995", "-0.015", "1.5BD"],
}
TEXTS: Final = [
    "'a'",
    "'A'",
    "'it''s'",
    '"it\'s"',
    "'it\\'s'",
    "'ß'",
    "'SS'",
    "''",
    "'b' 'c'",
    "'x%y'",
]
DATES: Final = [
    "'2024-01-31'", "DATE '2024-01-31'", "TIMESTAMP '2024-01-31 12:00:00'", "'2024-2-29'",
    "'2024-01-31 10:00:00'", "current_date()", "current_date() - interval 7 days", "'1969-12-31'",
    "date_sub(current_date(), 1)", "date_add('2024-01-30', 1)", "current_date() - 3", "now()",
    "DATE '2024-03-31' - INTERVAL '1' MONTH", "CAST('2024-02-29' AS DATE)", "current_timestamp()",
    "CAST(TIMESTAMP '2024-01-31 23:00:00' AS DATE)", "TIMESTAMP_NTZ '2024-02-29 00:00:00'",
]  # fmt: skip
MOMENTS: Final = [
    *DATES,
    "'2024-01-31 12:00:00'",
    "TIMESTAMP '2024-01-31 12:00:00.5'",
    "now() - interval 36 hours",
    "TIMESTAMP '2024-03-31 12:00:00' - INTERVAL 2 MONTHS",
    "'2024-01-31T14:00:00+02:00'",
]
PATTERNS: Final = [
    "'a'", "'^a'", "'c$'", "'[a-z]+'", "'^.t'", "'[0-9]{2}$'", "'2024-0[12]'", "'\\\\d+'", "'d$'",
    "'^(a|A)$'", "'\\\\s'", "'e.e'", "'\\\\.'", "r'^\\w+$'", "'[^a-z]'",
]  # fmt: skip
LIKES: Final = ["'a%'", "'%s'", "'_'", "'%\\\\%%'", "'2024-%'", "'%1%'", "'A'", "'%it''s'"]
OPERATORS: Final = ["=", "!=", "<>", "<", "<=", ">", ">=", "<=>", "=="]


class Generator:
    """Random conditions over the columns, in the forms that people write."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def condition(self, depth: int = 2) -> str:
        pick = self._random.random()
        if depth and pick < 0.4:
            word = self._random.choice(["AND", "OR"])
            return f"({self.condition(depth - 1)}) {word} ({self.condition(depth - 1)})"
        if depth and pick < 0.5:
            return f"NOT ({self.condition(depth - 1)})"
        return self._leaf(self._random.choice(list(TYPES)))

    def _leaf(self, name: str) -> str:
        choose = self._random.choice
        if name == "bo":
            forms = ["bo", "NOT bo", "bo = 'true'", "bo IS NOT TRUE", "coalesce(bo, false)"]
            return choose([*forms, "bo <=> NULL", "bo IN (true, NULL)", "bo > false"])
        if name == "bi":
            return choose(["bi = 'xy'", "bi IS NULL", "bi IN ('abc', 'q')", "bi > 'b'"])
        operand, literals = self._operand(name)
        form = self._random.randrange(9)
        if form == 0:
            return f"{operand} IS {choose(['', 'NOT '])}NULL"
        if form == 1:
            listed = ", ".join(
                self._random.choices([*literals, "NULL"], k=self._random.randint(1, 3))
            )
            return f"{operand} {choose(['', 'NOT '])}IN ({listed})"
        if form == 2:
            return (
                f"{operand} {choose(['', 'NOT '])}BETWEEN {choose(literals)} AND {choose(literals)}"
            )
        if form in (3, 4) and name in ("s", "u", "dt", "i"):
            word, patterns = choose([("LIKE", LIKES), ("RLIKE", PATTERNS)])
            return f"{operand if name in ('s', 'u') else name} {word} {choose(patterns)}"
        if form == 5:
            return f"{choose(literals)} {choose(OPERATORS)} {operand}"
        return f"{operand} {choose(OPERATORS)} {choose(literals)}"

    def _operand(self, name: str) -> tuple[str, Sequence[str]]:
        """A column or a function of it, and literals to compare it with."""
        choose, days = self._random.choice, self._random.randint(0, 400)
        if name in NUMBERS_LIKE:
            calls = [f"coalesce({name}, 5)"] if name in ("b", "i", "l", "m") else []
            return choose([name, name, name, *calls]), NUMBERS_LIKE[name]
        if name == "s":
            return choose(["s", "s", "upper(s)", "lower(s)", "coalesce(s, 'a')"]), TEXTS
        part = choose(["year", "month", "day"])
        if self._random.random() < 0.25:
            return f"{part}({name})", ["2024", "1969", "1", "2", "31", "'2024'", "2023.5"]
        if name == "u":
            return choose([f"date_sub(u, {days})", "cast(u AS date)", "to_date(u)"]), DATES
        if name == "dt":
            calls = [f"date_add(dt, {days})", f"dt - {days}", f"dt + interval {days} days"]
            calls += ["dt + interval 1 month", "add_months(dt, -11)", "dt - interval 1 year"]
            calls += ["coalesce(dt, DATE '2024-01-31')", "cast(dt AS timestamp)"]
            return choose(["dt", "dt", "dt", *calls]), DATES
        calls = [f"cast({name} AS date)", f"date({name})", f"{name} - interval {days} hours"]
        calls += [f"{name} + interval '1' month", f"date_sub({name}, {days})"]
        return choose([name, name, *calls]), MOMENTS


def make_table(spark: SparkSession, path: Path) -> None:
    """A table partitioned by a number and a column of each type."""
    depth = max(map(len, VALUES.values())) + 1
    columns = {name: [*values, "NULL"] for name, values in VALUES.items()}
    rows = (
        ", ".join(f"CAST({it[n % len(it)]} AS {TYPES[name]})" for name, it in columns.items())
        for n in range(3 * depth)
    )
    listed = ", ".join(f"({n}, {n}, {row})" for n, row in enumerate(rows))
    names = ", ".join(["x", "n", *TYPES])
    spark.sql(f"SELECT * FROM VALUES {listed} AS t({names})").write.format("delta").partitionBy(
        "n", *TYPES
    ).save(str(path))


@pytest.fixture(scope="module")
def partitions(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("where") / "t"
    make_table(delta_spark, path)
    return path


def parse_all(path: Path, predicates: Sequence[str]) -> Iterator[tuple[str, set[int] | str]]:
    """The partitions that each predicate selects, or why it is refused."""
    snapshot = Table(str(path)).snapshot()
    values = snapshot.files["partition_values"].combine_chunks()
    numbers = lookup_map(values, "n").to_pylist()
    now_ms = time.time_ns() // 1_000_000
    for text in predicates:
        try:
            found: PartitionPredicate = parse_predicate(
                text, snapshot.metadata.partition_fields, now_ms
            )
            hits = found.evaluate(values)
        except PredicateError as error:
            yield text, error.message
            continue
        again = parse_predicate(found.sql, snapshot.metadata.partition_fields)
        assert again.evaluate(values) == hits, found.sql
        yield text, {int(n) for n, hit in zip(numbers, hits.to_pylist(), strict=True) if hit}


def test_spark_selects_the_same_partitions(delta_spark: SparkSession, partitions: Path) -> None:
    generator = Generator(51)
    found = dict(parse_all(partitions, [generator.condition() for _ in range(25)]))
    accepted = [text for text, hits in found.items() if not isinstance(hits, str)]
    assert len(accepted) >= len(found) * (1 - MOST_REFUSED)
    tests = ", ".join(f"({text}) IS TRUE AS c{n}" for n, text in enumerate(accepted))
    rows = delta_spark.sql(f"SELECT n, {tests} FROM delta.`{partitions}`").collect()
    for n, text in enumerate(accepted):
        assert {row["n"] for row in rows if row[f"c{n}"]} == found[text], text


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spark_selects_the_same_partitions_for_500_predicates(
    delta_spark: SparkSession, partitions: Path
) -> None:
    generator = Generator(500)
    found = dict(parse_all(partitions, [generator.condition() for _ in range(500)]))
    refused = {text: why for text, why in found.items() if isinstance(why, str)}
    assert len(refused) <= len(found) * MOST_REFUSED, refused
    different = {}
    for text in found.keys() - refused.keys():
        rows = delta_spark.sql(f"SELECT n FROM delta.`{partitions}` WHERE {text}").collect()
        if {row["n"] for row in rows} != found[text]:
            different[text] = rows, found[text]
    assert different == {}
