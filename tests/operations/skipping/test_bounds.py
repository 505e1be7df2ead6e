import json
from typing import Any

import pyarrow as pa

from deltactl.operations.skipping.lookups import FileBounds, select_bounds
from deltactl.protocol.actions import Metadata
from deltactl.protocol.stats_decoding import bounds_type, parse_stats
from tests.support.table_builder import Column, struct_of

SCHEMA = json.dumps(struct_of(Column("a"), Column("s", struct_of(Column("x", "double")))))


def bounds(path: tuple[str, ...], *stats: Any) -> FileBounds:
    metadata = Metadata(id="t", schema_string=SCHEMA, partition_columns=(), configuration={})
    kind = bounds_type(metadata, [("a",), ("s", "x")])
    texts = [None if s is None else s if isinstance(s, str) else json.dumps(s) for s in stats]
    return select_bounds(parse_stats(pa.chunked_array([pa.array(texts, pa.string())]), kind), path)


def stats_of(low: Any, high: Any, rows: int | None = 10, nulls: int | None = 0) -> dict[str, Any]:
    return {
        "numRecords": rows,
        "minValues": {"a": low},
        "maxValues": {"a": high},
        "nullCount": {"a": nulls},
    }


def test_rows_with_values() -> None:
    found = bounds(("a",), stats_of(1, 2, 10, 4), stats_of(1, 2, 20, None), stats_of(1, 2, None))
    assert found.rows.tolist() == [6.0, 20.0, 15.0]
    assert found.is_known.all()


def test_files_without_a_value() -> None:
    found = bounds(("a",), stats_of(None, None, 10, 10), stats_of(None, None, 0, 0))
    assert found.has_values.tolist() == [False, False]
    assert found.is_known.tolist() == [False, False]


def test_statistics_that_say_nothing() -> None:
    odd = [None, "{}", "no", '{"numRecords": 3}', stats_of("x", 2), stats_of(3, 2)]
    found = bounds(("a",), *odd)
    assert found.has_values.all()
    assert not found.is_known.any()


def test_members_of_structs_and_floats() -> None:
    def nested(low: Any, high: Any) -> dict[str, Any]:
        return {"numRecords": 1, "minValues": {"s": {"x": low}}, "maxValues": {"s": {"x": high}}}

    found = bounds(("s", "x"), nested(-0.0, 0.5), nested("NaN", "NaN"), nested(1, "Infinity"))
    assert found.is_known.tolist() == [True, False, True]
    assert str(found.lower[0].as_py()) == "0.0"
    assert found.upper[2].as_py() == float("inf")
