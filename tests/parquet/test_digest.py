"""The digest of rows: what it does not depend on, and what it notices."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deltactl.parquet.digest import RowDigest, RowDigester
from deltactl.parquet.hashes import hash_values

_SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("number", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(20, 2)),
        ("text", pa.string()),
        ("other", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
        ("words", pa.list_(pa.string())),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("pair", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.integers(-128, 127),
    "number": st.integers(-(2**63), 2**63 - 1),
    "single": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "money": st.integers(-(10**18), 10**18).map(lambda n: Decimal(n).scaleb(-2)),
    "text": _TEXT,
    "other": _TEXT,
    "bytes": st.binary(max_size=6),
    "day": st.dates(),
    "time": st.datetimes(min_value=dt.datetime(1901, 1, 1), timezones=st.just(dt.UTC)),
    "words": st.lists(_or_null(_TEXT), max_size=3),
    "pairs": st.dictionaries(_TEXT, _or_null(st.integers(-9, 9)), max_size=3).map(
        lambda pairs: list(pairs.items())
    ),
    "pair": st.fixed_dictionaries({"x": _or_null(st.integers(-9, 9)), "y": _or_null(_TEXT)}),
}
_ROWS = st.lists(
    st.fixed_dictionaries({name: _or_null(values) for name, values in _VALUES.items()}), max_size=12
)


def digest_of(rows: list[dict[str, Any]], schema: pa.Schema = _SCHEMA) -> RowDigest:
    return RowDigester(schema).digest(pa.RecordBatch.from_pylist(rows, schema))


@settings(max_examples=50)
@given(_ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_order_and_batches_do_not_matter(rows: list[dict[str, Any]], random: Any, at: int) -> None:
    whole = digest_of(rows)
    moved = list(rows)
    random.shuffle(moved)
    batch = pa.RecordBatch.from_pylist(moved, _SCHEMA)
    digester = RowDigester(_SCHEMA)
    parts = [batch.slice(0, at), batch.slice(min(at, len(rows)))]
    assert digester.digest(parts[0]) + digester.digest(parts[1]) == whole + RowDigest()
    assert whole.rows == len(rows)


@settings(max_examples=50)
@given(_ROWS, st.data())
def test_a_changed_value_is_noticed(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    assume(rows)
    row = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(sorted(_VALUES)))
    value = data.draw(_or_null(_VALUES[name]))
    changed = [*rows[:row], {**rows[row], name: value}, *rows[row + 1 :]]
    before = pa.RecordBatch.from_pylist(rows, _SCHEMA)
    after = pa.RecordBatch.from_pylist(changed, _SCHEMA)
    found = digest_of(rows).find_difference(digest_of(changed))
    if before.equals(after) or (name in ("single", "double") and rows[row][name] == value):
        assume(False)
    assert found == f"values of {name!r} differ"


def test_a_column_permuted_among_rows_is_noticed() -> None:
    rows = [{"number": n, "text": str(n)} for n in range(5)]
    moved = [{"number": n, "text": str((n + 1) % 5)} for n in range(5)]
    found = digest_of(rows).find_difference(digest_of(moved))
    assert found == "values are in other rows than before"


def test_a_pair_swapped_across_columns_is_noticed() -> None:
    found = digest_of([{"text": "a", "other": "b"}]).find_difference(
        digest_of([{"text": "b", "other": "a"}])
    )
    assert found == "values of 'other', 'text' differ"


def test_equal_rows_do_not_cancel() -> None:
    row = {"number": 1}
    assert digest_of([row, row]).total not in (0, digest_of([row]).total)


def test_partition_values_count() -> None:
    digester = RowDigester(pa.schema([("number", pa.int64())]))
    batch = pa.record_batch({"number": pa.array([1, 2])})
    first, second, null = (
        digester.digest(batch, {"p": pa.scalar(value, pa.string())}) for value in ("a", "b", None)
    )
    assert len({first.total, second.total, null.total, digester.digest(batch).total}) == 4


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")])
def test_partition_values_that_python_does_not_have(kind: pa.DataType) -> None:
    """Years before 1 and after 9999."""
    digester = RowDigester(pa.schema([("number", pa.int64())]))
    batch = pa.record_batch({"number": pa.array([1, 2])})
    days = pa.array([-719_529, -735_160, 2_932_897], pa.int32()).view(pa.date32())
    found = {digester.digest(batch, {"p": value}).total for value in days.cast(kind)}
    assert len(found) == 3


def test_widened_types_keep_the_digest() -> None:
    def of(kind: pa.DataType) -> RowDigest:
        schema = pa.schema([("n", kind)])
        return digest_of([{"n": -3}, {"n": 7}, {"n": None}], schema)

    assert of(pa.int8()) == of(pa.int16()) == of(pa.int32()) == of(pa.int64())
    assert of(pa.float32()) == of(pa.float64())


def test_every_layout_of_the_same_values() -> None:
    rows = [{"text": str(n), "words": [str(n)] * (n % 3), "pairs": [(str(n), n)]} for n in range(9)]
    batch = pa.RecordBatch.from_pylist(rows, _SCHEMA)
    twice = pa.concat_batches([batch, batch]).slice(9)
    assert RowDigester(_SCHEMA).digest(twice) == RowDigester(_SCHEMA).digest(batch)
    text = batch.column("text")
    for array in (
        text.dictionary_encode(),
        text.cast(pa.large_string()),
        text.cast(pa.string_view()),
    ):
        assert hash_values(array).tolist() == hash_values(text).tolist()


def test_a_type_without_a_digest() -> None:
    with pytest.raises(TypeError, match="month_interval|interval"):
        hash_values(pa.array([(1, 2, 3)], pa.month_day_nano_interval()))
