import json
import pickle
from typing import Any

import pytest

from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.column_names import parse_column_list
from deltactl.protocol.stats_columns import choose_stats_columns

PLAIN = Protocol(1, 2)


def field(name: str, type_: Any, physical: str | None = None) -> dict[str, Any]:
    mapping = {"delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "type": type_, "nullable": True, "metadata": mapping}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
# The table of the transcript.
TABLE = struct(
    field("a", "integer"),
    field(
        "st",
        struct(
            field("x", "integer"), field("arr", ARRAY), field("y", struct(field("z", "integer")))
        ),
    ),
    field("m", MAP),
    field("b", "string"),
    field("c", "integer"),
)
ALL = ["a", "st.x", "st.arr", "st.y.z", "m", "b", "c"]


def choose(
    schema: dict[str, Any] = TABLE,
    partition: tuple[str, ...] = (),
    clustering: tuple[tuple[str, ...], ...] = (),
    **properties: str,
) -> list[str]:
    configuration = {f"delta.{key}": value for key, value in properties.items()}
    metadata = Metadata("id", json.dumps(schema), partition, configuration)
    columns = choose_stats_columns(metadata, PLAIN, clustering=clustering)
    assert pickle.loads(pickle.dumps(columns)) == columns
    return [".".join(leaf.path) for leaf in columns.leaves]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("4", ["a", "st.x", "st.arr", "st.y.z"]),
        ("2", ["a", "st.x"]),
        ("0", []),
        ("-1", ALL),
        ("32", ALL),
        ("many", ALL),
    ],
)
def test_the_first_leaves_count(count: str, expected: list[str]) -> None:
    assert choose(dataSkippingNumIndexedCols=count) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("c,st.y", ["st.y.z", "c"]),
        ("ST", ["st.x", "st.arr", "st.y.z"]),
        (" `b` , st.`X`", ["st.x", "b"]),
        ("s", []),
        ("", []),
        ("nothing,a", ["a"]),
    ],
)
def test_named_columns_override(names: str, expected: list[str]) -> None:
    assert choose(dataSkippingStatsColumns=names, dataSkippingNumIndexedCols="0") == expected


def test_by_default_the_first_32_columns_have_statistics() -> None:
    wide = struct(*(field(f"c{i}", "integer") for i in range(40)))
    assert choose(wide) == [f"c{i}" for i in range(32)]


def test_partition_columns_neither_have_statistics_nor_count() -> None:
    assert choose(partition=("a",), dataSkippingNumIndexedCols="1") == ["st.x"]
    assert choose(partition=("a",), dataSkippingStatsColumns="a,b") == ["b"]


def test_clustering_columns_always_have_statistics() -> None:
    clustering = (("c",), ("st", "y", "z"))
    assert choose(clustering=clustering, dataSkippingNumIndexedCols="1") == ["a", "st.y.z", "c"]
    assert choose(clustering=clustering, dataSkippingStatsColumns="b") == ["st.y.z", "b", "c"]


def test_paths_are_physical_and_properties_logical() -> None:
    mapped = struct(field("a", struct(field("b", "integer", "col-2")), "col-1"))
    mode: dict[str, Any] = {"columnMapping.mode": "id"}
    assert choose(mapped, dataSkippingStatsColumns="A.B", **mode) == ["col-1.col-2"]
    assert choose(mapped, dataSkippingStatsColumns="`col-1`", **mode) == []
    assert choose(mapped, dataSkippingStatsColumns="A.B") == ["a.b"]


def test_void_columns_count_as_others_do() -> None:
    assert choose(struct(field("v", "void"), field("a", "integer"))) == ["v", "a"]


def test_kinds_and_bounds() -> None:
    types = [
        ("byte", "integer", True),
        ("short", "integer", True),
        ("integer", "integer", True),
        ("long", "integer", True),
        ("float", "float", True),
        ("double", "float", True),
        ("decimal(10,2)", "decimal", True),
        ("string", "string", True),
        ("date", "date", True),
        ("timestamp", "timestamp", True),
        ("timestamp_ntz", "timestamp_ntz", True),
        ("boolean", "boolean", True),
        ("binary", "other", False),
        ("variant", "variant", False),
        (ARRAY, "nested", False),
        (MAP, "nested", False),
    ]
    schema = struct(*(field(f"c{i}", kind) for i, (kind, _, _) in enumerate(types)))
    columns = choose_stats_columns(Metadata("id", json.dumps(schema)), PLAIN)
    found = [(leaf.kind, leaf.has_bounds) for leaf in columns.leaves]
    assert found == [(kind, bounds) for _, kind, bounds in types]


def test_deletion_vectors_ask_for_tight_bounds() -> None:
    metadata = Metadata("id", json.dumps(TABLE))
    names = frozenset({"deletionVectors"})
    assert choose_stats_columns(metadata, Protocol(3, 7, names, names)).tight_bounds
    assert not choose_stats_columns(metadata, PLAIN).tight_bounds


def test_prefix_length_is_the_tables() -> None:
    metadata = Metadata(
        "id", json.dumps(TABLE), configuration={"delta.dataSkippingStringPrefixLength": "7"}
    )
    assert choose_stats_columns(metadata, PLAIN).string_prefix == 7


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a", [("a",)]),
        ("a.b,c", [("a", "b"), ("c",)]),
        ("`a.b`.c", [("a.b", "c")]),
        ("`a``b`,` c`", [("a`b",), (" c",)]),
        ("`a,b", [("a,b",)]),
        (",,", []),
    ],
)
def test_column_lists_are_parsed_to_paths(text: str, paths: list[tuple[str, ...]]) -> None:
    assert parse_column_list(text) == paths


def test_spaces_in_a_column_list_are_dropped() -> None:
    text = " Super Name , b . c,` d`"
    assert parse_column_list(text) == [("SuperName",), ("b", "c"), (" d",)]
