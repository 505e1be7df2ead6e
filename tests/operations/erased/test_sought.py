"""The spellings of values in texts, and what looks like them."""

import json
import re
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pytest

from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.erased.schemas import resolve
from deltactl.operations.erased.sought import find_sought
from deltactl.protocol.paths import hive_escape
from tests.support.checkpoints import new_table
from tests.support.table_builder import Column

ODD = 'O\'Brien "Zoë"\\ 😀:=/%\n'
TYPES = {
    "s": "string",
    "i": "long",
    "f": "double",
    "m": "decimal(12,3)",
    "d": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "b": "binary",
}


def has(predicate: str, text: str, form: str = "numbers") -> bool:
    columns = [Column(name, kind) for name, kind in TYPES.items()]
    metadata = DeltaLog(new_table(*columns).store, ignore_warning).snapshot().metadata
    sought = find_sought(resolve(predicate, [metadata], 0))
    assert sought.is_known
    texts = pa.array([text])
    if form == "numbers":
        return bool(sought.in_texts(texts, True)[0].as_py())
    return bool((sought.in_paths if form == "path" else sought.in_stats)(texts)[0].as_py())


SQL = "s = '" + ODD.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


@pytest.mark.parametrize(
    "text",
    [
        ODD,
        ODD.replace("'", "''"),
        json.dumps({"a": ODD}),
        json.dumps(json.dumps([ODD], ensure_ascii=False)),
        json.dumps(ODD).replace("/", "\\/").replace("'", "\\u0027"),
        f"s={hive_escape(ODD)}/x",
        f"s={quote(hive_escape(ODD), safe='')}/x",
        f"?s={quote_plus(ODD)}",
        "%7Bx%3D" + re.sub("%..", lambda it: it[0].lower(), quote(ODD, safe="")),
        SQL,
    ],
)
def test_escaped_forms_of_a_string(text: str) -> None:
    assert has(SQL, text)
    assert not has(SQL.replace("Brien", "Brian"), text)


@pytest.mark.parametrize(
    ("predicate", "found", "others"),
    [
        ("s = 'jane'", ["a\\njane", "s=jane_1", "p%3Djane%26q"], ["jane_1", "janet", "x_jane"]),
        ("i = 42", ["42", "42L", "042=42.00", "[42]", "i=42."], ["142", "4.42", "42.5", "0x42a"]),
        ("i = 42.0", ["42"], ["420"]),
        ("i = -42", ["-42", "(-42)"], ["42", "-421"]),
        ("f = 1e10", ["1.0E10", "10000000000", "1e+10"], ["1.0E100", "11.0E10"]),
        ("f = 0.5", ["0.50", "5.0E-1", "5E-1D"], ["0.55", "10.5"]),
        ("m = 1.5", ["1.500", "1.5BD"], ["1.51", "21.5"]),
        ("d = '2024-01-31'", ["2024-01-31", "DATE '2024-01-31'"], ["2024-01-30", "12024-01-31"]),
        (
            "t = '2024-01-31 13:00:00.120+01:00'",
            ["2024-01-31T12:00:00.120Z", "2024-01-31 12:00:00.12", "2024-01-31%2012%3A00%3A00.12"],
            ["2024-01-31T12:00:00.121Z", "2024-01-31T12:00:00Z"],
        ),
        ("n = '2024-01-31 12:00:00'", ["2024-01-31T12:00:00"], ["2024-01-31T12:00:01"]),
        ("b = 'a'", ["a", "0x61"], ["61", "YQ=="]),
        ("b = 'jane'", ["jane", "X'6A616E65'", "0x6a616e65", "amFuZQ=="], ["X'6A616E6566'"]),
    ],
)
def test_forms_of_values_of_each_type(predicate: str, found: list[str], others: list[str]) -> None:
    assert [it for it in found if not has(predicate, it)] == []
    assert [it for it in others if has(predicate, it)] == []


@pytest.mark.parametrize(
    ("predicate", "form", "found", "others"),
    [
        ("s = 'part'", "path", ["part/x", "s=part/x", "s=part_1", "a-part/x"], ["a/part-1.c000"]),
        ("s = 'a'", "path", ["s=a/x", "i=1/s=a/x", "f=a%23b/x", "s=a_1"], ["s=a%23b/s=b a/x"]),
        ("s = 'a b@c'", "path", ["x/a b@c.txt", "a%20b@c/x", "to_a b@c_1"], ["x/a b@cd"]),
        ("i = 7", "path", ["p=7/x", "x/i=7_1", "x/i=7.parquet"], ["x/part-7-1", "p=7.5/x", "7/x"]),
        (
            "i = 7",
            "stats",
            ['{"minValues":{"i": "7"}}', '{"a":{"i":[7]}}', '{"i":7.0}'],
            ['{"nullCount":{"x":{"i":7}},"maxValues":{"i":71}}', '{"numRecords":7}'],
        ),
        ("s = '7'", "stats", ['{"minValues":{"s":"7"}}'], ['{"nullCount":{"s":7}}']),
    ],
)
def test_forms_in_names_and_statistics(
    predicate: str, form: str, found: list[str], others: list[str]
) -> None:
    assert [it for it in found if not has(predicate, it, form)] == []
    assert [it for it in others if has(predicate, it, form)] == []
