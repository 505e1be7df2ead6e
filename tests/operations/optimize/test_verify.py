"""Mutations of the path from inputs to outputs: what would be silent loss has to be caught.

Each mutation is injected at one place, and the test says which verification catches it there.
`full` catches all of them: it shares no conversion of values with the reader.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from deltactl.engine.local import LocalEngine
from deltactl.errors import CorruptLogError, DataFileError, VerificationError
from deltactl.operations.optimize import tasks as optimize_tasks
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.optimize.verify import keep_row_ids
from deltactl.parquet import projection, reader, writer
from deltactl.parquet.reader import LiveBatch
from deltactl.parquet.splice.writer import SpliceWriter
from deltactl.protocol import deletion_vectors
from deltactl.protocol.schema import parse_schema
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.damage import edit_action
from tests.support.run import run_on
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import Column, Row, TableBuilder, array_of, multiset, struct_of

_NUMBERS = itertools.count()
Patch = pytest.MonkeyPatch
Mode = Literal["counts", "full"]

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
COLUMNS = (
    Column("a", "long"),
    Column("b", "long"),
    Column("x", "double"),
    Column("t", "timestamp"),
    Column("w", "integer"),
    Column("s", struct_of(Column("m", "long"), Column("n", "long"))),
    Column("l", array_of("string")),
)


def row(number: int) -> Row:
    return {
        "a": number,
        "b": None if number % 3 == 0 else -number,
        "x": 0.1 * number,
        "t": None if number % 5 == 0 else START + dt.timedelta(microseconds=number),
        "w": number,
        "s": None if number == 4 else {"m": number, "n": None if number % 2 else number},
        "l": None if number % 4 == 0 else ["x"] * (number % 3),
    }


def build(*features: str) -> TableBuilder:
    """Three files of several row groups, rows deleted from one; `w` has been widened since."""
    store = fresh_store()
    features = ("deletionVectors", "typeWidening", *features)
    builder = TableBuilder(store, COLUMNS, features=features)
    files = [[row(10 * i + j) for j in range(10)] for i in range(3)]
    paths = builder.append(*files, row_group_rows=4)
    builder.delete_rows(paths[1], [2, 5])
    change = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    columns = [
        replace(c, type="long", metadata={**c.metadata, **change}) if c.name == "w" else c
        for c in builder.columns
    ]
    builder.change_metadata(columns=columns)
    return builder


def run(builder: TableBuilder, verify: Mode) -> OptimizeReport:
    return run_on(
        builder.store, optimize_table, OptimizeOptions(verify=verify), engine=LocalEngine(workers=1)
    )


def assert_caught(builder: TableBuilder, verify: Mode) -> None:
    """Nothing is committed, and the output is gone."""
    before = {name for batch in builder.store.walk() for name in batch}
    with pytest.raises((VerificationError, DataFileError)):
        run(builder, verify)
    assert {name for batch in builder.store.walk() for name in batch} == before


def shift_deletion_vector(patch: Patch) -> None:
    real = deletion_vectors.live_mask

    def shifted(bitmap: BitMap64, first_row: int, num_rows: int) -> pa.BooleanArray:
        return real(BitMap64([place + 1 for place in bitmap]), first_row, num_rows)

    patch.setattr(reader, "live_mask", shifted)


def forget_deletion_vector(patch: Patch) -> None:
    patch.setattr(reader, "live_mask", lambda bitmap, first, rows: pa.array([True] * rows))


def swap_when_reading(patch: Patch) -> None:
    real = projection.Matcher.find

    def find(self: projection.Matcher, wanted: Any, present: Any) -> int | None:
        return {0: 1, 1: 0}.get(found := real(self, wanted, present), found)  # type: ignore[arg-type]

    patch.setattr(projection.Matcher, "find", find)


def _mutate_writes(patch: Patch, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    _change_writes(patch, lambda batch: [change(batch)])


def _change_writes(patch: Patch, change: Callable[[pa.RecordBatch], list[pa.RecordBatch]]) -> None:
    for kind in (writer.DataFileWriter, SpliceWriter):
        patch.setattr(kind, "write", _write_changed(kind.write, change))


def _write_changed(
    write: Callable[[Any, pa.RecordBatch], None],
    change: Callable[[pa.RecordBatch], list[pa.RecordBatch]],
) -> Callable[[Any, pa.RecordBatch], None]:
    def changed(target: Any, batch: pa.RecordBatch) -> None:
        for each in change(batch):
            write(target, each)

    return changed


def _replace_column(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    index = next(i for i, known in enumerate(batch.schema.names) if known == name)
    return batch.set_column(index, batch.schema.field(index), array)


def swap_when_writing(patch: Patch) -> None:
    def swapped(batch: pa.RecordBatch) -> pa.RecordBatch:
        a, b = batch.column("a"), batch.column("b")
        return _replace_column(_replace_column(batch, "a", b), "b", a)

    _mutate_writes(patch, swapped)


def swap_members_when_writing(patch: Patch) -> None:
    def swapped(batch: pa.RecordBatch) -> pa.RecordBatch:
        array = batch.column("s")
        fields = list(array.type)
        members = [array.field(1), array.field(0)]
        mask = array.is_null()
        return _replace_column(
            batch, "s", pa.StructArray.from_arrays(members, fields=fields, mask=mask)
        )

    _mutate_writes(patch, swapped)


def swap_members_when_reading(patch: Patch) -> None:
    real = projection._convert_struct

    def swapped(array: Any, *rest: Any) -> pa.Array:
        found = real(array, *rest)
        members = [found.field(1), found.field(0)]
        return pa.StructArray.from_arrays(members, fields=list(found.type), mask=found.is_null())

    patch.setattr(projection, "_convert_struct", swapped)


def lose_row_group_when_reading(patch: Patch) -> None:
    """Arrow itself skips one: the footer tells how many rows there should be."""

    class Lossy(pq.ParquetFile):  # type: ignore[misc]
        def iter_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
            yield from super().iter_batches(*args, **{**options, "row_groups": [0, 2]})

    patch.setattr(reader, "pq", SimpleNamespace(ParquetFile=Lossy))


def lose_batch_when_reading(patch: Patch) -> None:
    """A batch is lost where its rows were counted already: nothing but the rows can tell."""
    real = reader.RowReader.read_groups

    def lossy(self: reader.RowReader, *args: Any, **options: Any) -> Iterator[LiveBatch]:
        yield from itertools.islice(real(self, *args, batch_rows=4), 1, None)

    patch.setattr(reader.RowReader, "read_groups", lossy)


def lose_batch_when_writing(patch: Patch) -> None:
    calls = itertools.count()
    _change_writes(patch, lambda batch: [batch] if next(calls) != 1 else [])


def repeat_batch_when_writing(patch: Patch) -> None:
    _change_writes(patch, lambda batch: [batch, batch.slice(0, 1)])


def reorder_when_writing(patch: Patch) -> None:
    def reversed_(batch: pa.RecordBatch) -> pa.RecordBatch:
        index = pa.array(range(batch.num_rows - 1, -1, -1))
        return _replace_column(batch, "a", batch.column("a").take(index))

    _mutate_writes(patch, reversed_)


def cast_wrongly_when_reading(patch: Patch) -> None:
    """A widening that goes through a narrower type: numbers wrap around."""
    real = projection.cast_leaf

    def wrong(array: pa.Array, target: pa.DataType) -> pa.Array:
        if pa.types.is_integer(target):
            array = array.cast(pa.int8(), safe=False).cast(pa.int16()).cast(target)
            return pc.bit_wise_and(array, pa.scalar(7, target))
        return real(array, target)

    patch.setattr(projection, "cast_leaf", wrong)


def cast_wrongly_when_writing(patch: Patch) -> None:
    _mutate_writes(
        patch,
        lambda batch: _replace_column(
            batch, "x", batch.column("x").cast(pa.float32()).cast(pa.float64())
        ),
    )


def shift_time_when_reading(patch: Patch) -> None:
    real = projection.cast_leaf

    def wrong(array: pa.Array, target: pa.DataType) -> pa.Array:
        found = real(array, target)
        if pa.types.is_timestamp(target):
            return pc.add(found, pa.scalar(3_600_000_000, pa.duration("us")))
        return found

    patch.setattr(projection, "cast_leaf", wrong)


def fill_nulls_when_reading(patch: Patch) -> None:
    real = projection.cast_leaf

    def wrong(array: pa.Array, target: pa.DataType) -> pa.Array:
        found = real(array, target)
        return pc.fill_null(found, 0) if pa.types.is_integer(target) else found

    patch.setattr(projection, "cast_leaf", wrong)


def fill_nulls_when_writing(patch: Patch) -> None:
    _mutate_writes(
        patch, lambda batch: _replace_column(batch, "b", pc.fill_null(batch.column("b"), 0))
    )


def empty_lists_when_writing(patch: Patch) -> None:
    """A null list becomes an empty one: both are one empty slot in Parquet's eyes."""

    def emptied(batch: pa.RecordBatch) -> pa.RecordBatch:
        array = batch.column("l")
        filled = pa.array([[] if v is None else v for v in array.to_pylist()], array.type)
        return _replace_column(batch, "l", filled)

    _mutate_writes(patch, emptied)


BOTH: tuple[Mode, ...] = ("counts", "full")
FULL: tuple[Mode, ...] = ("full",)

MUTATIONS: dict[Callable[[Patch], None], tuple[Mode, ...]] = {
    shift_deletion_vector: FULL,
    forget_deletion_vector: BOTH,
    swap_when_reading: BOTH,
    swap_when_writing: BOTH,
    swap_members_when_reading: FULL,
    swap_members_when_writing: FULL,
    lose_row_group_when_reading: BOTH,
    lose_batch_when_reading: BOTH,
    lose_batch_when_writing: BOTH,
    repeat_batch_when_writing: BOTH,
    reorder_when_writing: FULL,
    cast_wrongly_when_reading: FULL,
    cast_wrongly_when_writing: FULL,
    shift_time_when_reading: FULL,
    fill_nulls_when_reading: BOTH,
    fill_nulls_when_writing: BOTH,
    empty_lists_when_writing: FULL,
}


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_caught(
    mutate: Callable[[Patch], None], cores: int, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(optimize_tasks, "_LEAST_CHUNK_BYTES", 0)
    monkeypatch.setattr(optimize_tasks, "may_get_cores", lambda: cores > 1)
    monkeypatch.setattr(optimize_tasks, "count_own_cores", lambda: cores)
    caught_by = MUTATIONS[mutate]
    for verify in caught_by:
        builder = build()
        with monkeypatch.context() as patch:
            mutate(patch)
            assert_caught(builder, verify)
    if "counts" not in caught_by:
        builder = build()
        with monkeypatch.context() as patch:
            mutate(patch)
            run(builder, "counts")
        rows = Table(builder.store.uri, store=builder.store).scan().read_all().to_pylist()
        assert multiset(rows) != multiset(builder.rows()), "this mutation harms nothing"


def test_names_that_no_reader_looks_for_are_caught_by_full(monkeypatch: Patch) -> None:
    """A mapping is off, and its names are written all the same."""
    builder = build()
    key = "delta.columnMapping.physicalName"
    mapped = [replace(c, metadata={key: f"col-{c.name}"}) for c in builder.columns]
    builder.change_metadata(columns=mapped)
    monkeypatch.setattr(
        "deltactl.protocol.actions.parse_schema", lambda text, **_: parse_schema(text)
    )
    with pytest.raises(VerificationError, match="readers of the table do not find column 'col-a'"):
        run(builder, "full")


def test_wrong_row_ids_are_caught_by_full(monkeypatch: Patch) -> None:
    real = keep_row_ids

    def count_live_rows_only(live: LiveBatch, *rest: Any) -> pa.RecordBatch:
        return real(replace(live, mask=None, num_physical_rows=live.columns.num_rows), *rest)

    builder = build("rowTracking")
    monkeypatch.setattr(optimize_tasks, "keep_row_ids", count_live_rows_only)
    assert_caught(builder, "full")


def test_a_difference_beside_strings_that_are_not_utf8_is_named(monkeypatch: Patch) -> None:
    builder = TableBuilder(fresh_store(), [Column("a", "string")])
    texts = pa.array([b"caf\xe9", b"ok"], pa.binary()).view(pa.string())
    for name in ("1.parquet", "2.parquet"):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": texts}), sink)
        builder.store.put(name, sink.getvalue().to_pybytes())
        builder.commit(builder.adopt(name))
    reorder_when_writing(monkeypatch)
    with pytest.raises(VerificationError, match="column 'a' differs from the input in row 0"):
        run(builder, "full")


def test_files_with_string_views_are_verified() -> None:
    """As delta-rs writes them when it deletes rows; Arrow cannot take rows of such columns."""
    store = MemoryStore(f"memory://views-{next(_NUMBERS)}/t")
    builder = TableBuilder(store, [Column("id"), Column("v", "string"), Column("b", "binary")])
    paths = builder.append(*[[{"id": i, "v": f"v{i}", "b": b"b"}] * 3 for i in range(2)])
    views = pa.schema([("id", pa.int64()), ("v", pa.string_view()), ("b", pa.binary_view())])
    for path in paths:
        sink = pa.BufferOutputStream()
        pq.write_table(pq.read_table(pa.BufferReader(store.read(path))).cast(views), sink)
        store.put(path, sink.getvalue().to_pybytes())
    report = Table(store.uri, store=store).optimize(OptimizeOptions(verify="full"))
    assert (report.files_removed, report.files_added) == (2, 1)
    rows = Table(store.uri, store=store).scan().read_all().to_pylist()
    assert multiset(rows) == multiset(builder.rows())


def test_a_file_without_row_ids_has_a_way_out(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")], features=["rowTracking"])
    for number in (1, 2):
        builder.append([{"id": number}])
    edit_action(builder, 2, "add", baseRowId=None)
    table = Table(tmp_path)
    with pytest.raises(CorruptLogError, match="has no baseRowId") as caught:
        table.optimize(rewrite="encode")
    assert "`deltactl alter TABLE --drop-feature rowTracking`" in str(caught.value.hint)
    table.alter(drop_feature="rowTracking")
    table.alter(properties={"delta.enableRowTracking": "true"})
    assert table.optimize().versions
    assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == [1, 2]
