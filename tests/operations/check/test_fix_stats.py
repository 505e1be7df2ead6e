"""``check --fix stats``: statistics that are missing, too short or wrong are computed again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltactl import ConflictError, Table, convert
from deltactl.errors import CommitOutcomeUnknownError, DeltactlError
from deltactl.log.writing.transaction import Transaction
from deltactl.operations.check.fixes import stats as fixes_stats
from deltactl.operations.check.fixes.stats import StatsReport
from deltactl.parquet.reader import DEFAULT_BATCH_ROWS
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.duckdb_delta import connect_duckdb
from tests.support.restores import bodies, ids, latest
from tests.support.stores import Crash, Fault, FaultyStore, States, fault_points, fresh_store
from tests.support.table_builder import Column, TableBuilder, array_of

ROWS: list[dict[str, Any]] = [{"id": 1, "x": 0.5, "s": "a"}, {"id": 3, "x": None, "s": "b" * 40}]
WANTED: dict[str, Any] = {
    "numRecords": 2,
    "minValues": {"id": 1, "x": 0.5, "s": "a"},
    "maxValues": {"id": 3, "x": 0.5, "s": "b" * 32 + "\x7f"},
    "nullCount": {"id": 0, "x": 1, "s": 0},
}
COLUMNS = (Column("id"), Column("x", "double"), Column("s", "string"))


def fix(store: Store, **options: Any) -> StatsReport:
    report = Table("x", store=store, warn=lambda _: None).fix(kind="stats", **options)
    assert isinstance(report, StatsReport)
    return report


def build(stats: str | None, store: Store | None = None, **options: Any) -> TableBuilder:
    builder = TableBuilder(store or fresh_store(), COLUMNS, **options)
    builder.append(ROWS, stats=stats)
    return builder


def stats_of(store: Store) -> list[dict[str, Any]]:
    texts = Table("x", store=store).snapshot().files["stats"].to_pylist()
    return [json.loads(text) for text in texts]


def without(member: str, column: str, value: Any = None) -> Mapping[str, Any]:
    """The right statistics with another value of a column."""
    changed = {k: v for k, v in WANTED[member].items() if k != column}
    return {**WANTED, member: changed if value is None else {**changed, column: value}}


@pytest.mark.parametrize(
    ("stats", "reason"),
    [
        (None, "missing"),
        ("{", "wrong"),
        ({}, "missing"),
        ({"numRecords": 2}, "too short"),
        ({**WANTED, "minValues": {}, "maxValues": {}}, "too short"),
        ({**WANTED, "numRecords": 3}, "wrong"),
        (without("maxValues", "id", 2), "wrong"),
        (without("minValues", "s", "ab"), "wrong"),
        (without("nullCount", "x", 0), "wrong"),
        (WANTED, None),
    ],
    ids=str,
)
def test_what_is_computed(stats: Any, reason: str | None) -> None:
    builder = build(stats if stats is None or isinstance(stats, str) else json.dumps(stats))
    store, before = builder.store, builder.version
    assert fix(store, dry_run=True).version_after is None
    report = fix(store)
    assert stats_of(store) == [WANTED]
    assert {name: n for name, n in report.counts.items() if n} == ({reason: 1} if reason else {})
    assert latest(store) == before + (reason is not None)
    assert Table("x", store=store).check(depth="footers").is_sound
    assert fix(store).is_empty
    Table("x", store=store).restore(version=before)


@pytest.mark.parametrize(
    ("values", "lowest", "highest"),
    [
        ([b"a\xe9", b"z"], None, "z"),
        ([b"a", b"z\xe9"], "a", None),
        ([b"a\xe9", b"z\xe9"], None, None),
    ],
)
def test_strings_that_are_not_utf8_are_no_bounds(
    tmp_path: Path, values: list[bytes], lowest: str | None, highest: str | None
) -> None:
    """Hive, Impala and Spark write text of other encodings into strings; all batches count."""
    texts = pa.array([*values, *[b"m"] * DEFAULT_BATCH_ROWS], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"s": texts}), tmp_path / "1.parquet")
    convert(str(tmp_path), statistics=False)
    table = Table(str(tmp_path))
    assert table.check(depth="data").is_sound
    assert table.fix(kind="stats").version_after == 1
    (stats,) = stats_of(LocalStore(str(tmp_path)))
    bounds = {"minValues": {"s": lowest}, "maxValues": {"s": highest}}
    known = {
        member: {name: text for name, text in found.items() if text}
        for member, found in bounds.items()
    }
    rows = len(texts)
    assert stats == {"numRecords": rows, **known, "nullCount": {"s": 0}}
    assert table.check(depth="data").is_sound
    assert table.fix(kind="stats").version_after is None


def test_the_properties_of_today_decide(tmp_path: Path) -> None:
    indexed = "delta.dataSkippingNumIndexedCols"
    builder = build(
        json.dumps({"numRecords": 2}), LocalStore(str(tmp_path)), properties={indexed: "0"}
    )
    assert fix(builder.store).is_empty
    builder.change_metadata(properties={indexed: "1"})
    assert fix(builder.store).version_after == 3
    (stats,) = stats_of(builder.store)
    assert stats == {
        "numRecords": 2,
        "minValues": {"id": 1},
        "maxValues": {"id": 3},
        "nullCount": {"id": 0},
    }
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert sorted(row["id"] for row in read(tmp_path)) == [1, 3]
    assert DeltaTable(str(tmp_path)).history(1)[0]["operation"] == "COMPUTE STATS"


FORM = "delta.checkpoint.writeStatsAs"
DOUBLE = Column("x", "double", metadata={"delta.typeChanges": [{"toType": "double"}]})


def count_equal(path: Path, value: float) -> int:
    with connect_duckdb() as connection:
        query = "SELECT count(*) FROM delta_scan(?) WHERE x = ?::DOUBLE"
        found = connection.execute(query, [str(path), value]).fetchall()
    return int(found[0][0])


@pytest.mark.parametrize("value", [1 / 3, 0.7, -1 / 3, -0.7, 0.5])
def test_bounds_of_floats_are_exact_after_the_column_became_a_double(
    tmp_path: Path, value: float
) -> None:
    """Delta on Spark wrote the shortest text of each float; readers parse it as a double."""
    stored, text = float(np.float32(value)), float(str(np.float32(value)))
    builder = TableBuilder(
        LocalStore(str(tmp_path)),
        [Column("x", "float"), Column("l", array_of("long"))],
        features=["typeWidening"],
    )
    bounds = {"minValues": {"x": text}, "maxValues": {"x": text}}
    said = {"numRecords": 1, **bounds, "nullCount": {"x": 0, "l": 0}}
    builder.append([{"x": value, "l": [1]}], stats=json.dumps(said))
    assert Table(str(tmp_path)).check(depth="data").notes == ()
    builder.change_metadata(columns=[DOUBLE, builder.columns[1]])
    table, is_rounded = Table(str(tmp_path)), stored != text
    assert count_equal(tmp_path, stored) == (not is_rounded)
    for depth in ("footers", "data"):
        report = table.check(depth=depth)
        assert report.is_sound
        assert [note.split("`")[1] for note in report.notes] == (
            [f"deltactl check {table.uri} --fix stats"] if is_rounded else []
        )
    assert fix(builder.store).counts == {"missing": 0, "too short": int(is_rounded), "wrong": 0}
    right = {"minValues": {"x": stored}, "maxValues": {"x": stored}}
    assert stats_of(builder.store) == [{**said, **right}]
    assert count_equal(tmp_path, stored) == 1
    assert table.check(depth="data", all_versions=True).notes == ()
    assert fix(builder.store).is_empty


def count_copied(table: Table) -> int:
    done = table.optimize(rewrite="copy").rewritten
    assert done is not None
    return done.groups_copied


@pytest.mark.parametrize("command", ["optimize first", "optimize later", "restore"])
def test_other_commands_write_exact_bounds_of_floats(tmp_path: Path, command: str) -> None:
    """Of columns that optimize copies or widens, and those that only a checkpoint has."""
    values = [float(np.float32(it)) for it in (1 / 3, 0.7)]
    builder = TableBuilder(
        tmp_path,
        [Column("id"), Column("x", "float")],
        features=["typeWidening"],
        properties={f"{FORM}Struct": "true", f"{FORM}Json": "false"},
    )
    table = Table(str(tmp_path))
    paths = builder.append(*([{"id": 1, "x": value}] for value in values * 2))
    if command == "optimize first":
        assert count_copied(table) == 4
        builder.note([])
    elif command == "restore":
        assert fix(builder.store).num_files == 4
        builder.note([])
        table.checkpoint()
        builder.remove(*paths)
        table.restore(version=2)
        builder.note([])
    builder.change_metadata(columns=[Column("id"), DOUBLE])
    if command == "optimize later":
        assert count_copied(table) == 4
    assert [count_equal(tmp_path, value) for value in values] == [2, 2]
    notes = table.check(depth="data").notes
    assert [note for note in notes if "dated" not in note] == []  # two clocks


def test_everything_else_of_an_add_is_kept() -> None:
    """A file with a vector: its bounds may be those of deleted rows."""
    features = ("deletionVectors", "rowTracking", "clustering")
    builder = TableBuilder(
        fresh_store(), (*COLUMNS, Column("p", "string")), partition_by=["p"], features=features
    )
    rows = [{**row, "p": "a b"} for row in ROWS]
    extra: dict[str, Any] = {"clusteringProvider": "liquid", "tags": {"key": "value"}}
    (path,) = builder.append(rows, stats=json.dumps({"numRecords": 2}), **extra)
    builder.delete_rows(path, [1])
    before = builder.find(path)
    report = fix(builder.store)
    assert report.versions == (3,)
    (add,) = bodies(builder.store, 3, "add")
    assert {k: v for k, v in add.items() if k not in ("stats", "dataChange")} == {
        k: v for k, v in before.items() if k not in ("stats", "dataChange")
    }
    assert add["dataChange"] is False
    assert json.loads(add["stats"]) == {**WANTED, "tightBounds": False}
    assert not bodies(builder.store, 3, "remove")
    (info,) = bodies(builder.store, 3, "commitInfo")
    assert (info["operation"], info["isolationLevel"]) == ("COMPUTE STATS", "SnapshotIsolation")
    assert ids(builder.store) == [1]


def test_a_column_that_a_file_does_not_have_has_no_statistics() -> None:
    builder = build(json.dumps(WANTED))
    builder.change_metadata(columns=[*COLUMNS, Column("new")])
    assert fix(builder.store).is_empty


def test_nan_has_no_bounds() -> None:
    builder = TableBuilder(fresh_store(), COLUMNS)
    builder.append([{"id": 1, "x": float("nan"), "s": "a"}, *ROWS], stats=None)
    fix(builder.store)
    (stats,) = stats_of(builder.store)
    assert (stats["minValues"], stats["nullCount"]["x"]) == ({"id": 1, "s": "a"}, 1)
    assert fix(builder.store).is_empty


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_columns_are_found_as_readers_find_them(mapping: str) -> None:
    builder = build(None, mapping=mapping)
    fix(builder.store)
    names = [column.physical for column in builder.columns]
    (stats,) = stats_of(builder.store)
    assert list(stats["maxValues"]) == names
    assert list(stats["maxValues"].values()) == list(WANTED["maxValues"].values())
    assert fix(builder.store).is_empty


def test_files_that_cannot_be_read_are_left() -> None:
    builder = build(None)
    (path,) = builder.append(ROWS, stats=None)
    builder.store.put(path, b"x" * builder.find(path)["size"])
    report = fix(builder.store)
    assert (report.num_files, report.num_left, report.version_after) == (1, 1, 3)


@pytest.mark.parametrize("what", ["vector", "delete", "add", "property"])
def test_what_another_writer_does_meanwhile(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several commits: what somebody changed before the first is left out of all of them."""
    monkeypatch.setattr(fixes_stats, "_FILES_A_COMMIT", 1)
    builder = TableBuilder(fresh_store(), COLUMNS, features=["deletionVectors"])
    paths = builder.append(ROWS, ROWS, ROWS, stats=json.dumps({"numRecords": 2}))

    def commit_first(report: object) -> bool:
        match what:
            case "vector":
                builder.delete_rows(paths[2], [0])
            case "delete":
                builder.remove(paths[2])
            case "add":
                add = builder.find(paths[2])
                builder.commit({"add": {**add, "tags": {"a": "b"}}})
            case _:
                builder.change_metadata(properties={"a": "b"})
        return True

    if what == "property":
        with pytest.raises(ConflictError, match="schema, properties or protocol"):
            fix(builder.store, confirm=commit_first)
        assert latest(builder.store) == 2
        return
    report = fix(builder.store, confirm=commit_first)
    assert (report.versions, report.num_dropped) == ((3, 4), 1)
    assert len(ids(builder.store)) == {"vector": 5, "delete": 4, "add": 6}[what]
    adds = {add["path"] for version in (3, 4) for add in bodies(builder.store, version, "add")}
    assert adds == set(paths[:2])


def test_an_unknown_outcome_of_a_later_commit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes_stats, "_FILES_A_COMMIT", 1)
    builder = TableBuilder(fresh_store(), COLUMNS)
    builder.append(ROWS, ROWS, stats=None)
    commit = Transaction.commit

    def lose_the_second(transaction: Transaction, draft: Any) -> Any:
        if latest(builder.store) == 2:
            raise CommitOutcomeUnknownError("unknown")
        return commit(transaction, draft)

    monkeypatch.setattr(Transaction, "commit", lose_the_second)
    with pytest.raises(CommitOutcomeUnknownError, match=r"unknown; .* version 2$") as raised:
        fix(builder.store)
    assert raised.value.hint == "Fix the cause, then rerun: what is left is then done."


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["crash", "error"])
def test_faults_at_every_call(action: Any, when: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes_stats, "_FILES_A_COMMIT", 1)
    builder = TableBuilder(fresh_store(), COLUMNS)
    builder.append(ROWS, ROWS, stats=None)
    store = builder.store
    before = store.contents()  # type: ignore[attr-defined]
    counted = FaultyStore(store)
    assert fix(counted).versions == (2, 3)
    seen, states = set(), States(store)  # type: ignore[arg-type]
    for at in fault_points(counted.calls, when):
        store.restore(before)  # type: ignore[attr-defined]
        error: BaseException | None = None
        try:
            fix(FaultyStore(store, Fault(at, action, when)))
        except (Crash, DeltactlError) as raised:
            error = raised
        done = latest(store) - 1
        if not isinstance(error, Crash | CommitOutcomeUnknownError):
            assert (done == 2) == (error is None), counted.calls[at - 1]
        assert set(before) <= set(store.contents())  # type: ignore[attr-defined]
        if states.is_new():
            assert fix(store).num_files == 2 - done
            assert stats_of(store) == [WANTED, WANTED]
            assert ids(store) == [1, 1, 3, 3]
        seen.add(done)
    assert seen == ({0, 1, 2} if when == "before" else {1, 2} if action == "crash" else {2})
