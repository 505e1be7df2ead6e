"""Each change that a rewrite could make to rows changes their digest: a table of mutations."""

import copy
import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltactl.parquet.digest import RowDigest, RowDigester
from deltactl.parquet.hashes import hash_values

Rows = list[dict[str, Any]]
Mutation = Callable[[Rows], object]

_INNER = pa.struct(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("other", pa.string()),
        ("deep", pa.struct([("text", pa.string()), ("double", pa.float64())])),
    ]
)
_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("other", pa.string()),
        ("double", pa.float64()),
        ("money", pa.decimal128(20, 2)),
        ("time", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("bytes", pa.binary()),
        ("flag", pa.bool_()),
        ("s", _INNER),
        ("words", pa.list_(pa.string())),
        ("structs", pa.list_(_INNER)),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("maps", pa.map_(pa.string(), _INNER)),
    ]
)


def inner(n: int) -> dict[str, Any]:
    deep = {"text": f"deep {n}", "double": n / 3}
    return {"number": n, "text": f"inner {n}", "other": f"beside {n}", "deep": deep}


def make_rows() -> Rows:
    return [
        {
            "number": n,
            "text": f"text {n}",
            "other": f"other {n}",
            "double": n / 7,
            "money": Decimal(n).scaleb(-2),
            "time": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n),
            "day": dt.date(2024, 1, 1 + n),
            "bytes": bytes([n, 0]),
            "flag": n % 2 == 0,
            "s": inner(n),
            "words": [f"word {n}", "", None],
            "structs": [inner(n), None, inner(n + 1)],
            "map": [("a", n), ("b", None)],
            "maps": [("a", inner(n)), ("b", None)],
        }
        for n in range(6)
    ]


def digest_of(rows: Rows) -> RowDigest:
    return RowDigester(_SCHEMA).digest(pa.RecordBatch.from_pylist(rows, _SCHEMA))


PLACES: dict[str, tuple[Any, ...]] = {
    "top": (),
    "struct": ("s",),
    "deep": ("s", "deep"),
    "in a list": ("structs", 2),
    "in a map": ("maps", 0, 1),
}
"""Where a column with ``text`` is, in each row."""


def at(row: dict[str, Any], place: tuple[Any, ...]) -> Any:
    found: Any = row
    for step in place:
        found = found[step]
    return found


def set_value(name: str, value: Any, row: int = 1) -> Callable[[tuple[Any, ...]], Mutation]:
    def of(place: tuple[Any, ...]) -> Mutation:
        return lambda rows: at(rows[row], place).__setitem__(name, value)

    return of


def rotate(name: str) -> Callable[[tuple[Any, ...]], Mutation]:
    """Move the values of one column to other rows."""

    def of(place: tuple[Any, ...]) -> Mutation:
        def change(rows: Rows) -> None:
            values = [at(row, place)[name] for row in rows]
            for row, value in zip(rows, [*values[1:], values[0]], strict=True):
                at(row, place)[name] = value

        return change

    return of


def swap_rows(name: str) -> Callable[[tuple[Any, ...]], Mutation]:
    def of(place: tuple[Any, ...]) -> Mutation:
        def change(rows: Rows) -> None:
            left, right = at(rows[0], place), at(rows[3], place)
            left[name], right[name] = right[name], left[name]

        return change

    return of


EVERYWHERE = {
    "a changed value": set_value("text", "text X"),
    "a null for a value": set_value("text", None),
    "an empty string for a value": set_value("text", ""),
    "a longer value": set_value("text", "text 1\0"),
    "a column permuted among rows": rotate("text"),
    "two rows that swap a value": swap_rows("text"),
}

TOP: dict[str, Mutation] = {
    "a lost row": lambda rows: rows.pop(2),
    "a doubled row": lambda rows: rows.append(rows[2]),
    "a row lost and another doubled": lambda rows: rows.__setitem__(2, rows[3]),
    "a pair swapped across columns": lambda rows: rows[1].update(
        text=rows[1]["other"], other=rows[1]["text"]
    ),
    "columns swapped in all rows": lambda rows: [
        row.update(text=row["other"], other=row["text"]) for row in rows
    ],
    "a pair swapped across members": lambda rows: rows[1]["s"].update(
        text=rows[1]["s"]["other"], other=rows[1]["s"]["text"]
    ),
    "a value moved into a member": lambda rows: rows[1].update(
        text=rows[1]["s"]["text"], s={**rows[1]["s"], "text": rows[1]["text"]}
    ),
    "NaN for a number": lambda rows: rows[1].update(double=math.nan),
    "NaN for null": lambda rows: rows[1].update(double=math.nan),
    "-0.0 for 0.0": lambda rows: rows[0].update(double=-0.0),
    "infinity for NaN": lambda rows: rows[2].update(double=math.inf),
    "the last bit of a double": lambda rows: rows[1].update(double=math.nextafter(1 / 7, 1)),
    "the last digit of a decimal": lambda rows: rows[1].update(money=Decimal("0.02")),
    "the sign of a decimal": lambda rows: rows[1].update(money=Decimal("-0.01")),
    "a microsecond": lambda rows: rows[1].update(
        time=rows[1]["time"] + dt.timedelta(microseconds=1)
    ),
    "a day": lambda rows: rows[1].update(day=dt.date(2024, 2, 1)),
    "null for zero": lambda rows: rows[0].update(number=None),
    "a letter in the next word": lambda rows: rows[1].update(words=["word ", "1", None]),
    "a flag": lambda rows: rows[1].update(flag=True),
    "null for a flag": lambda rows: rows[1].update(flag=None),
    "a trailing zero byte": lambda rows: rows[1].update(bytes=bytes([1, 0, 0])),
    "a struct of nulls for a null struct": lambda rows: rows[1].update(
        s={"number": None, "text": None, "other": None, "deep": None}
    ),
    "a null struct for one inside": lambda rows: rows[1]["s"].update(deep=None),
    "a struct of nulls inside": lambda rows: rows[1]["s"].update(
        deep={"text": None, "double": None}
    ),
    "an empty list for null": lambda rows: rows[1].update(words=[]),
    "a list of null": lambda rows: rows[1].update(words=[None]),
    "a list without its last null": lambda rows: rows[1]["words"].pop(),
    "a list in another order": lambda rows: rows[1].update(words=["", "word 1", None]),
    "other borders of words": lambda rows: rows[1].update(words=["word 1", None]),
    "members of a list of structs swapped": lambda rows: rows[1]["structs"].reverse(),
    "a map without an entry": lambda rows: rows[1].update(map=[("a", 1)]),
    "an empty map": lambda rows: rows[1].update(map=[]),
    "another key": lambda rows: rows[1].update(map=[("c", 1), ("b", None)]),
    "values of a map swapped": lambda rows: rows[1].update(map=[("a", None), ("b", 1)]),
    "a null value for a struct in a map": lambda rows: rows[1].update(
        maps=[("a", None), ("b", None)]
    ),
}

BEFORE: dict[str, Mutation] = {
    "NaN for null": lambda rows: rows[1].update(double=None),
    "infinity for NaN": lambda rows: rows[2].update(double=math.nan),
    "a struct of nulls for a null struct": lambda rows: rows[1].update(s=None),
    "a struct of nulls inside": lambda rows: rows[1]["s"].update(deep=None),
    "an empty list for null": lambda rows: rows[1].update(words=None),
    "a list of null": lambda rows: rows[1].update(words=[]),
    "an empty map": lambda rows: rows[1].update(map=None),
}
"""What rows are before some of these mutations."""


@pytest.mark.parametrize("name", TOP)
def test_a_mutation_is_noticed(name: str) -> None:
    before = make_rows()
    if name in BEFORE:
        BEFORE[name](before)
    after = copy.deepcopy(before)
    TOP[name](after)
    assert digest_of(before).find_difference(digest_of(after)) is not None
    assert digest_of(before) == digest_of(before[::-1])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_mutation_is_noticed_at_every_depth(name: str, place: str) -> None:
    before = make_rows()
    after = copy.deepcopy(before)
    EVERYWHERE[name](PLACES[place])(after)
    assert digest_of(before).find_difference(digest_of(after)) is not None


@pytest.mark.parametrize("place", PLACES)
def test_an_empty_string_for_null_is_noticed_at_every_depth(place: str) -> None:
    before, after = make_rows(), make_rows()
    at(before[1], PLACES[place])["text"] = None
    at(after[1], PLACES[place])["text"] = ""
    assert digest_of(before).find_difference(digest_of(after)) is not None


def test_a_null_parent_hides_what_is_below() -> None:
    """A null struct is null whatever its members hold in memory."""
    members = [pa.array([1, 2]), pa.array(["a", "b"])]
    others = [pa.array([1, 7]), pa.array(["a", None])]
    mask = pa.array([False, True])
    hidden, same = (
        hash_values(pa.StructArray.from_arrays(arrays, ["x", "y"], mask=mask)).tolist()
        for arrays in (members, others)
    )
    assert hidden == same
    assert hidden[1] == hash_values(pa.nulls(1))[0]


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_a_time_has_one_hash_in_all_units(unit: str, factor: int) -> None:
    seconds = [0, 1, -1, 1_700_000_000, None]
    array = pa.array([s if s is None else s * factor for s in seconds], pa.timestamp(unit))
    assert hash_values(array).tolist() == hash_values(pa.array(seconds, pa.timestamp("s"))).tolist()
    other = pa.array([1, 2, 3, 4, 5], pa.timestamp(unit))
    assert (unit == "us") == (
        hash_values(other).tolist() == hash_values(pa.array([1, 2, 3, 4, 5])).tolist()
    )


def test_timestamps_that_differ_by_nanoseconds_have_other_hashes() -> None:
    array = pa.array([1000, 1001, 2000, -1], pa.timestamp("ns"))
    assert len(set(hash_values(array).tolist())) == 4


def test_all_nans_are_one_value() -> None:
    bits = pa.array([0x7FF8000000000000, 0x7FF8000000000001, -1], pa.int64())
    assert len(set(hash_values(bits.view(pa.float64())).tolist())) == 1


def test_dictionaries_hide_nothing() -> None:
    """The same codes with another dictionary are other values."""
    codes = pa.array([0, 1, 0, None])
    left = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]))
    right = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "c"]))
    plain = hash_values(pa.array(["a", "b", "a", None])).tolist()
    assert hash_values(left).tolist() == plain
    assert hash_values(right).tolist() != plain
    nested = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    assert hash_values(nested).tolist() == hash_values(pa.array(["a", None])).tolist()
