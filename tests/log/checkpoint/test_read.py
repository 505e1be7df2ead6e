"""Statistics of checkpoints: as text, as structs, or both by halves."""

import datetime as dt
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import CorruptLogError
from deltactl.log.checkpoint.single_actions import ensure_no_shared_rows, ensure_single_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import list_log
from deltactl.log.rebuildable import find_problem, is_readable, is_valid
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import (
    CHECKPOINT_SCHEMA,
    LOG,
    Action,
    Column,
    TableBuilder,
    checkpoint_parquet,
    encode_lines,
)

BOUNDS = pa.struct(
    [
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("m", pa.decimal128(20, 3)),
        ("b", pa.bool_()),
        ("o", pa.struct([("p", pa.int64())])),
    ]
)
NULLS = pa.struct([("i", pa.int64()), ("o", pa.struct([("p", pa.int64())]))])
PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", BOUNDS),
        ("maxValues", BOUNDS),
        ("nullCount", NULLS),
        ("tightBounds", pa.bool_()),
    ]
)
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
FULL = {
    "numRecords": 7,
    "minValues": {
        "i": -1,
        "x": 0.5,
        "s": 'a"\n',
        "d": dt.date(1969, 12, 31),
        "t": MOMENT.replace(tzinfo=dt.UTC),
        "n": MOMENT,
        "m": Decimal("12345678901234567.891"),
        "b": True,
        "o": {"p": 3},
    },
    "maxValues": {"i": 9, "o": {"p": None}},
    "nullCount": {"i": 0, "o": {"p": 2}},
    "tightBounds": False,
}


def write(
    adds: list[dict[str, Any]],
    *,
    int96: bool = False,
    text: bool = True,
    parsed: pa.DataType = PARSED,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> TableBuilder:
    """A table that is nothing but a checkpoint with these adds."""
    store = fresh_store()
    named = [Column(name, kind) for name, kind in columns.items()]
    builder = TableBuilder(store, [Column("i", "integer"), *named])
    members = [("path", pa.string()), ("size", pa.int64()), ("stats_parsed", parsed)]
    members += [("stats", pa.string())] if text else []
    metadata = {**(builder.state.metadata or {}), "configuration": []}
    metadata["format"] = {"provider": "parquet", "options": []}
    schema = pa.schema(
        [
            CHECKPOINT_SCHEMA.field("protocol"),
            CHECKPOINT_SCHEMA.field("metaData"),
            ("add", pa.struct(members)),
        ]
    )
    rows = [{"protocol": builder.state.protocol}, {"metaData": metadata}]
    rows += [{"add": {"size": 1, **add}} for add in adds]
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, sink, use_deprecated_int96_timestamps=int96)
    store.put(f"{LOG}/{0:020d}.checkpoint.parquet", sink.getvalue())
    builder.forget_commits(1)
    return builder


def stats_of(builder: TableBuilder) -> list[Any]:
    files = DeltaLog(builder.store, pytest.fail).snapshot().files
    return [None if text is None else json.loads(text) for text in files["stats"].to_pylist()]


@pytest.mark.parametrize("int96", [False, True], ids=["int64", "INT96"])
@pytest.mark.parametrize("text", [False, True], ids=["structs alone", "texts too"])
def test_statistics_from_structs(int96: bool, text: bool) -> None:
    builder = write([{"path": "a", "stats_parsed": FULL}, {"path": "b"}], int96=int96, text=text)
    full, none = stats_of(builder)
    assert none is None
    assert full["numRecords"] == 7
    assert full["tightBounds"] is False
    assert full["maxValues"] == {"i": 9, "o": {}} or full["maxValues"] == {"i": 9}
    assert full["nullCount"] == {"i": 0, "o": {"p": 2}}
    low = full["minValues"]
    assert (low["i"], low["x"], low["s"], low["o"]) == (-1, 0.5, 'a"\n', {"p": 3})
    assert low["d"] == "1969-12-31"
    for name in ("t", "n"):
        moment = dt.datetime.fromisoformat(low[name].replace("Z", "+00:00"))
        assert abs(moment.replace(tzinfo=None) - MOMENT) < dt.timedelta(milliseconds=1)
    text_of = DeltaLog(builder.store, pytest.fail).snapshot().files["stats"][0].as_py()
    assert "12345678901234567.891" in text_of, "decimals keep all their digits"


@pytest.mark.parametrize("int96", [False, True], ids=["int64", "INT96"])
@pytest.mark.parametrize("columns", [{"t": "timestamp", "n": "timestamp_ntz"}, {}])
def test_times_of_structs_are_those_of_the_schema(int96: bool, columns: dict[str, str]) -> None:
    """INT96, which Spark writes, knows no zone; and nanoseconds end in 2262."""
    late = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    bounds = {"t": late.replace(tzinfo=dt.UTC), "n": late, "o": {"p": 1}}
    adds = [{"path": "a", "stats_parsed": {"numRecords": 1, "maxValues": bounds}}]
    builder = write(adds, int96=int96, text=False, columns=columns)
    (found,) = stats_of(builder)
    zone = "" if int96 and not columns else "Z"
    assert found["maxValues"] == {
        "t": f"9999-12-31T23:59:59.999999{zone}",
        "n": "9999-12-31T23:59:59.999999",
        "o": {"p": 1},
    }


def test_a_text_is_preferred_to_a_struct() -> None:
    builder = write(
        [
            {"path": "a", "stats": '{"numRecords":1}', "stats_parsed": FULL},
            {"path": "b", "stats": None, "stats_parsed": {"numRecords": 2}},
        ]
    )
    assert [found["numRecords"] for found in stats_of(builder)] == [1, 2]


def test_statistics_that_are_counts_alone() -> None:
    counts = pa.struct([("numRecords", pa.int64())])
    adds: list[dict[str, Any]] = [
        {"path": "a", "stats_parsed": {"numRecords": 41}},
        {"path": "b"},
    ]
    assert stats_of(write(adds, text=False, parsed=counts)) == [{"numRecords": 41}, None]


def test_values_that_json_has_not() -> None:
    strange = {"minValues": {"x": float("nan")}, "maxValues": {"x": float("inf")}}
    (found,) = stats_of(write([{"path": "a", "stats_parsed": strange}]))
    assert found.get("minValues", {}).get("x") in (None, "NaN")
    assert found.get("maxValues", {}).get("x") in (None, "Infinity")


def test_statistics_are_not_read_where_they_are_not_needed() -> None:
    builder = write([{"path": "a", "stats_parsed": FULL}])
    snapshot = DeltaLog(builder.store, pytest.fail).snapshot()
    (batch,) = snapshot.file_batches(["path"])
    assert batch.column_names == ["path"]


def test_one_look_at_a_checkpoint_shows_whether_it_can_be_read() -> None:
    builder = write([{"path": "a"}])
    counting = CountingStore(builder.store)
    (checkpoint,) = list_log(counting).checkpoints
    assert is_readable(counting, checkpoint)
    builder.store.put(checkpoint.names[0], b"PAR1")
    assert not is_readable(counting, checkpoint)
    builder.store.delete_many(checkpoint.names)
    assert not is_readable(counting, checkpoint)


@pytest.mark.parametrize("kind", ["classic", "v2-parquet", "v2-json", "v2-inline", "v2-classic"])
def test_tombstones_of_a_checkpoint(kind: str) -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")])
    paths = builder.append([{"id": 1}], [{"id": 2}])
    builder.remove(paths[0])
    builder.checkpoint(kind=kind)
    builder.forget_commits(3)
    snapshot = DeltaLog(store, pytest.fail).snapshot()
    found = pa.concat_tables(snapshot.tombstone_batches(["path", "deletion_timestamp_ms"]))
    assert found["path"].to_pylist() == [paths[0]]
    assert found["deletion_timestamp_ms"].null_count == 0


ADD: Action = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1}
REMOVE: Action = {"path": "y", "deletionTimestamp": 1, "dataChange": False}
TXN: Action = {"appId": "a", "version": 1}
SHARED: list[Action] = [
    {"add": ADD, "remove": REMOVE},
    {"txn": TXN, "add": ADD},
    {"txn": TXN, "domainMetadata": {"domain": "d", "configuration": "", "removed": False}},
]


def checkpoint_of(kind: str, *extra: Action, columns: tuple[str, ...] = ()) -> TableBuilder:
    """A table that is nothing but a checkpoint, with rows after those that belong there."""
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], features=["v2Checkpoint"])
    builder.append([{"id": 1}])
    files: list[Action] = [{"add": add} for add in builder.state.files.values()]
    heads: list[Action] = [
        {"protocol": builder.state.protocol},
        {"metaData": builder.state.metadata},
    ]
    marker = {"checkpointMetadata": {"version": 1, "tags": {}}}
    base = f"{LOG}/{1:020d}.checkpoint"
    if kind == "classic":
        store.put(f"{base}.parquet", checkpoint_parquet([*heads, *files, *extra], columns))
    elif kind == "json":
        store.put(f"{base}.{'0' * 32}.json", encode_lines([marker, *heads, *files, *extra]))
    else:
        data = checkpoint_parquet([*files, *extra], ("add", "remove"))
        store.put(f"{LOG}/_sidecars/s.parquet", data)
        sidecar = {"path": "s.parquet", "sizeInBytes": len(data), "modificationTime": 1}
        top = [marker, *heads, {"sidecar": {**sidecar, "tags": {}}}]
        store.put(f"{base}.{'0' * 32}.parquet", checkpoint_parquet(top))
    builder.forget_commits(2)
    return builder


@pytest.mark.parametrize(
    ("kind", "shared"),
    [
        *(("classic", line) for line in SHARED),
        *(("json", line) for line in SHARED),
        ("sidecar", SHARED[0]),
    ],
)
def test_a_row_with_two_actions_is_refused(kind: str, shared: Action) -> None:
    builder = checkpoint_of(kind, shared)
    with pytest.raises(CorruptLogError, match="has several actions: ") as caught:
        _ = DeltaLog(builder.store, lambda _: None).snapshot().files
    assert all(name in caught.value.message for name in shared)
    assert ("line 5" if kind == "json" else "row 2" if kind == "sidecar" else "row 4") in str(
        caught.value
    )
    assert caught.value.code == "LOG_CORRUPT"


@pytest.mark.parametrize("kind", ["classic", "json", "sidecar"])
def test_rows_without_an_action_are_passed_over(kind: str) -> None:
    builder = checkpoint_of(kind, {}, {})
    assert DeltaLog(builder.store, pytest.fail).snapshot().num_files == 1


@pytest.mark.parametrize("kind", ["classic", "sidecar"])
def test_a_row_with_two_actions_that_counts_do_not_show(kind: str) -> None:
    """A row without any action makes up for it; whoever looks at every row finds it."""
    builder = checkpoint_of(kind, {}, SHARED[0])
    (checkpoint,) = list_log(builder.store).checkpoints
    assert find_problem(builder.store, checkpoint) is None
    problem = find_problem(builder.store, checkpoint, all_rows=True)
    assert problem is not None
    assert problem.endswith("has several actions: add, remove")
    assert not is_valid(builder.store, checkpoint)


class Recorder(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_counting_actions_reads_no_columns() -> None:
    """Where each row has one action, the footer is enough."""
    builder = checkpoint_of("classic")
    (checkpoint,) = list_log(builder.store).checkpoints
    source = Recorder(builder.store.read(checkpoint.names[0]))
    parquet = pq.ParquetFile(source)
    before = source.reads
    ensure_single_actions(parquet, 2)
    assert source.reads == before
    ensure_no_shared_rows(parquet)
    assert source.reads > before
