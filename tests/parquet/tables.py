"""Tables of random values, nested and null at every level, and what statistics they have."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import arrow_schema
from deltactl.protocol.stats_columns import StatsColumns, choose_stats_columns

# The years 1 to 9999, for which Python has values.
MICROS = st.integers(-62135596800000000, 253402300799999999)
LEAVES = {
    "byte": st.integers(-128, 127),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats() | st.sampled_from([0.0, -0.0]),
    "decimal(4,2)": st.decimals(-99, 99, places=2),
    "decimal(18,0)": st.decimals(-(10**17), 10**17, places=0),
    "decimal(38,18)": st.decimals(-(10**19), 10**19, places=18),
    "boolean": st.booleans(),
    "string": st.text(max_size=6) | st.sampled_from(["x" * 40, "\U0001f600" * 20, "\uffff" * 33]),
    "binary": st.binary(max_size=4),
    "date": st.dates(),
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
}


def _nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["string", "integer", "date"])
    return (
        st.builds(lambda e: {"type": "array", "elementType": e, "containsNull": True}, inner)
        | st.builds(
            lambda k, v: {"type": "map", "keyType": k, "valueType": v, "valueContainsNull": True},
            keys,
            inner,
        )
        | structs(inner, 3)
    )


def structs(inner: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c.d", "é", 'q"', "element"])
    fields = st.lists(st.tuples(names, inner), min_size=1, max_size=size, unique_by=lambda f: f[0])
    return fields.map(
        lambda pairs: {
            "type": "struct",
            "fields": [
                {"name": name, "type": type_, "nullable": True, "metadata": {}}
                for name, type_ in pairs
            ],
        }
    )


SCHEMAS = structs(st.recursive(st.sampled_from(sorted(LEAVES)), _nest, max_leaves=4), 4)


def values(node: Any) -> st.SearchStrategy[Any]:
    """Values of a type as ``pa.array`` takes them, null included."""
    if isinstance(node, str):
        return st.none() | LEAVES[node]
    if node["type"] == "array":
        return st.none() | st.lists(values(node["elementType"]), max_size=3)
    if node["type"] == "map":
        key = LEAVES[node["keyType"]]
        pairs = st.tuples(key, values(node["valueType"]))
        return st.none() | st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    return st.none() | rows(node)


def rows(node: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in node["fields"]})


@st.composite
def tables(draw: st.DrawFn) -> tuple[Metadata, pa.Table]:
    node = draw(SCHEMAS)
    metadata = Metadata("id", json.dumps(node))
    schema = arrow_schema(metadata.schema, "physical")
    return metadata, pa.Table.from_pylist(draw(st.lists(rows(node), max_size=12)), schema)


def all_columns(metadata: Metadata) -> StatsColumns:
    return choose_stats_columns(metadata, Protocol(1, 2))


def leaf_values(table: pa.Table, path: tuple[str, ...]) -> list[Any]:
    """A leaf's value in each row, ``None`` below a null struct, by plain Python."""
    found: list[Any] = table.column(path[0]).to_pylist()
    for name in path[1:]:
        found = [None if value is None else value[name] for value in found]
    return found


def physical(values: list[Any], type_: pa.DataType) -> Iterator[Any]:
    """The values that are there, as statistics count them: integers for dates and times."""
    present = pa.array([value for value in values if value is not None], type_)
    if pa.types.is_date(type_):
        present = present.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        present = present.cast(pa.int64())
    yield from present.to_pylist()


def has_nan(values: list[Any]) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in values)


def leaf_type(table: pa.Table, path: tuple[str, ...]) -> pa.DataType:
    type_ = table.schema.field(path[0]).type
    for name in path[1:]:
        type_ = type_.field(name).type
    return type_


def null_slots(value: Any, type_: pa.DataType) -> int:
    """What ``count_nulls`` counts, one value at a time."""
    if pa.types.is_struct(type_):
        return sum(null_slots(None if value is None else value[f.name], f.type) for f in type_)
    if pa.types.is_map(type_):
        entry = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
        pairs: list[Any] = [{"key": k, "value": v} for k, v in value or ()] or [None]
        return sum(null_slots(pair, entry) for pair in pairs)
    if pa.types.is_list(type_):
        return sum(null_slots(element, type_.value_type) for element in value or [None])
    return int(value is None)
