"""A column is followed through renames, drops and changes of its type; rows are read in batches."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltactl.errors import PredicateError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.erased.report import ErasedReport
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.local.store import LocalStore
from tests.operations.erased.test_places import search
from tests.support.checkpoints import new_table
from tests.support.table_builder import Column, TableBuilder, struct_of


def rows_by_place(report: ErasedReport) -> dict[str, int | None]:
    assert not report.unread
    return {str(it.name): it.rows for it in report.places}


def renamed(mapping: str) -> TableBuilder:
    builder = new_table(Column("id"), Column("email", "string"), mapping=mapping)
    builder.append([{"id": 1, "email": "jane"}, {"id": 2, "email": "otto"}])
    first, email = builder.columns
    builder.change_metadata(columns=[first, replace(email, name="mail")])
    return builder


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_both_names_of_a_renamed_column_are_known(mapping: str) -> None:
    builder = renamed(mapping)
    for name in ("email", "mail"):
        assert rows_by_place(search(builder.store, f"{name} = 'jane'")) == {"live rows": 1}
    assert search(builder.store, "mail = 'anna'").is_erased
    builder.change_metadata(columns=[builder.columns[0], Column("email", "string")])
    builder.append([{"id": 3, "email": "jane"}])
    assert rows_by_place(search(builder.store, "email = 'jane'")) == {"live rows": 2}
    assert rows_by_place(search(builder.store, "mail = 'jane'")) == {"live rows": 1}


def test_a_dropped_column_is_searched_as_long_as_files_have_it() -> None:
    builder = renamed("name")
    builder.change_metadata(columns=[builder.columns[0]])
    assert rows_by_place(search(builder.store, "mail = 'jane'")) == {"live rows": 1}
    with pytest.raises(PredicateError, match="Did you mean 'mail'"):
        search(builder.store, "mall = 'jane'")


def deletes(report: ErasedReport) -> list[str]:
    return [it.partition(" WHERE ")[2] for it in report.commands if it.startswith("DELETE")]


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_delete_has_the_names_of_the_latest_schema(mapping: str) -> None:
    builder = renamed(mapping)
    for name in ("email", "mail", "MAIL"):
        report = search(builder.store, f"{name} = 'jane' and id=1")
        expected = "mail = 'jane' AND id = 1" if name == "email" else f"{name} = 'jane' and id=1"
        assert deletes(report) == [expected]
        assert expected in " ".join(report.places[0].to_dict()["commands"])
    assert deletes(search(builder.store, "email = 'jane'", redact=True)) == ["PREDICATE"]
    builder.change_metadata(columns=[*builder.columns, Column("email", "string")])
    builder.append([{"id": 3, "mail": "otto", "email": "jane"}])
    assert sorted(deletes(search(builder.store, "email = 'jane'"))) == [
        "email = 'jane'",
        "mail = 'jane'",
    ]


def test_a_delete_has_the_names_of_renamed_structs_and_functions() -> None:
    who = Column("who", struct_of(Column("name", "string")))
    builder = new_table(Column("id"), who, mapping="name")
    builder.append([{"id": 1, "who": {"name": "jane"}}])
    builder.change_metadata(columns=[builder.columns[0], replace(builder.columns[1], name="a b")])
    assert deletes(search(builder.store, "lower(who.name) = 'jane'")) == [
        "LOWER(`a b`.name) = 'jane'"
    ]


def test_a_dropped_column_has_no_delete() -> None:
    """A purge rewrites the files without it."""
    builder = renamed("name")
    builder.change_metadata(columns=[builder.columns[0]])
    for redact in (False, True):
        report = search(builder.store, "mail = 'jane' OR id = 7", redact=redact)
        assert [it.split()[1] for it in report.commands] == ["optimize", "vacuum"]


def test_a_column_with_another_type_in_old_files() -> None:
    builder = new_table(Column("id", "integer"))
    builder.append([{"id": 7}])
    builder.change_metadata(columns=[Column("id", "long")])
    builder.append([{"id": 7}], [{"id": 1 << 40}])
    assert rows_by_place(search(builder.store, "id = 7")) == {"live rows": 2}
    builder.change_metadata(columns=[Column("id", "string")])
    builder.append([{"id": "7"}])
    assert rows_by_place(search(builder.store, "id = '7'")) == {"live rows": 3}


def test_a_missing_bound_is_no_null() -> None:
    builder = new_table(Column("id"), Column("name", "string"))
    builder.append([{"id": 1, "name": "a"}], stats='{"numRecords": 1, "minValues": {"id": 1}}')
    report = search(builder.store, "name IS NULL")
    assert (report.places, bool(report.unsearchable), report.is_erased) == ((), True, False)


def test_a_float_literal_is_found_where_no_row_is_equal() -> None:
    """Spark compares a FLOAT as a DOUBLE, and the log has it with few digits."""
    builder = new_table(Column("f", "float"))
    builder.append([{"f": 1.1}], stats='{"numRecords": 1, "minValues": {"f": 1.1}}')
    builder.commit(userMetadata="without f = 1.10")
    assert rows_by_place(search(builder.store, "f = 1.1")) == {
        "commits": None,
        "latest commit": None,
    }
    found = rows_by_place(search(builder.store, "f = 1.100000023841858"))
    assert found == {"commits": None, "latest commit": None, "live rows": 1}
    assert search(builder.store, "f = 1.2").is_erased


def test_fields_of_structs() -> None:
    who = struct_of(Column("name", "string"), Column("age", "integer"))
    builder = new_table(Column("id"), Column("who", who), mapping="name")
    builder.append([{"id": 1, "who": {"name": "jane", "age": 30}}, {"id": 2, "who": None}])
    assert rows_by_place(search(builder.store, "who.name = 'jane'")) == {"live rows": 1}
    assert search(builder.store, "who.name = 'jane' AND who.age = 31").is_erased


def test_names_in_a_struct_are_quoted_one_by_one() -> None:
    names = ("c d", "x.y", "q`r", "select")
    columns = [Column("a", struct_of(*(Column(name) for name in names))), Column("p.q")]
    builder = new_table(*columns, mapping="name")
    builder.append([{"a": dict.fromkeys(names, 7), "p.q": 7}])
    for name in ("a.`c d`", "`a`.`x.y`", "a.`q``r`", "A.`SELECT`", "p.q", "`p.q`"):
        assert rows_by_place(search(builder.store, f"{name} = 7")) == {"live rows": 1}
    with pytest.raises(PredicateError, match="no schema") as caught:
        search(builder.store, "`a.c d` = 7")
    assert "a.`c d`, a.`x.y`, a.`q``r`, a.`select`, `p.q`" in str(caught.value.hint)


def test_a_name_with_a_dot_is_a_column_before_it_is_a_field() -> None:
    struct = Column("a", struct_of(Column("b", "string")))
    builder = new_table(struct, mapping="name")
    builder.append([{"a": {"b": "anna"}}])
    builder.change_metadata(columns=[*builder.columns, Column("a.b", "string")])
    builder.append([{"a": {"b": "jane"}, "a.b": "otto"}])
    assert rows_by_place(search(builder.store, "a.b = 'otto'")) == {"live rows": 1}
    assert search(builder.store, "a.`b` = 'otto'").is_erased
    # The first schema has the field only.
    for name in ("anna", "jane"):
        for column in ("a.b", "A.`B`"):
            found = rows_by_place(search(builder.store, f"{column} = '{name}'"))
            assert found == {"live rows": 1}
    builder.checkpoint()
    builder.forget_commits(builder.version)
    assert search(builder.store, "a.b = 'jane'").is_erased
    assert rows_by_place(search(builder.store, "a.`b` = 'jane'")) == {"live rows": 1}


def test_bounds_of_a_column_that_partitions_the_table_since() -> None:
    builder = new_table(Column("id"), Column("p", "string"))
    (path,) = builder.append([{"id": 1, "p": "x"}], stats='{"minValues": {"p": "jane"}}')
    builder.remove(path)
    builder.change_metadata(partition_by=["p"])
    builder.commit()
    assert rows_by_place(search(builder.store, "p = 'jane'")) == {"commits": None}


def test_a_truncated_bound_of_a_partition_column() -> None:
    """Some writers have bounds of these columns too."""
    builder = new_table(Column("id"), Column("p", "string"), partition_by=["p"])
    name = "jane" * 10
    builder.append([{"id": 1, "p": "y"}], stats=json.dumps({"maxValues": {"p": name[:32]}}))
    assert rows_by_place(search(builder.store, f"p = '{name}'")) == {"latest commit": None}
    assert search(builder.store, f"p = '{name}' AND id = 1").is_erased


def test_a_file_of_unknown_origin_needs_the_column() -> None:
    builder = new_table(Column("id"), Column("email", "string"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"mail_address": ["jane"]}), sink)
    builder.store.put("jane/export.parquet", sink.getvalue())
    (unread,) = search(builder.store, "email = 'jane'").unread
    assert (unread.name, unread.code) == ("jane/export.parquet", "DATA_FILE")
    assert "lacks a column of the predicate" in unread.reason
    redacted = search(builder.store, "email = 'jane'", redact=True)
    assert "jane" not in json.dumps(redacted.to_dict())


def test_only_row_groups_that_may_have_the_value_are_read() -> None:
    builder = new_table(Column("id"))
    rows: list[dict[str, Any]] = [{"id": number} for number in range(100_000)]
    builder.append(rows, row_group_rows=10_000)
    report = search(builder.store, "id IN (15, 15001, 999999)")
    assert rows_by_place(report) == {"live rows": 2}
    assert report.counts["rows"] == 100_000  # the bounds of a list are those of its ends
    report = search(builder.store, "id = 15 OR id = 15001")
    assert rows_by_place(report) == {"live rows": 2}
    assert (report.counts["rows"], report.counts["groups_skipped"]) == (20_000, 8)


def test_memory_does_not_grow_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of many row groups is decoded a part at a time."""
    builder = new_table(Column("id"), Column("name", "string"))
    rows = [{"id": number, "name": f"{number:0>100}"} for number in range(40_000)]
    builder.append(rows, row_group_rows=1_000)
    monkeypatch.setattr("deltactl.parquet.reader._GROUPS_BYTES", 1)
    before = pa.default_memory_pool().bytes_allocated()
    peaks = []
    original = pq.ParquetFile.iter_batches

    def iter_batches(*args: Any, **options: Any) -> Any:
        for batch in original(*args, **options):
            peaks.append(pa.default_memory_pool().bytes_allocated() - before)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    assert search(builder.store, f"name LIKE '%{'9' * 5}%'").counts["rows"] == 40_000
    assert len(peaks) >= 40
    assert max(peaks) < 3 << 20  # the rows have more than 4 MiB


def literal_of(value: pa.Scalar) -> str | None:
    """A value in SQL, of the types that make up most columns."""
    if pa.types.is_integer(value.type) or pa.types.is_decimal(value.type):
        return str(value.as_py())
    if pa.types.is_string(value.type) and value.as_py():
        return "'" + str(value.as_py()).replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"DATE '{value.as_py()}'" if pa.types.is_date(value.type) else None


@pytest.mark.corpus
def test_tables_of_other_writers_have_as_many_rows_as_a_scan_says(corpus: Path) -> None:
    """With deletion vectors, column mapping, type widening: as other programs wrote them."""
    searched = 0
    for table in json.loads((corpus / "manifest.json").read_text("utf-8")):
        facts = table["features"]
        is_special = facts.get("live_dvs") or facts.get("column_mapping_mode", "none") != "none"
        is_special |= "typeWidening" in facts.get("reader_features", ())
        if table["expect"]["outcome"] != "ok" or table["bytes"] > 500_000 or not is_special:
            continue
        store = LocalStore(str(corpus / table["path"]))
        rows = scan_snapshot(DeltaLog(store, ignore_warning).snapshot()).read_all()
        values = ((name, rows[name].drop_null()[:1]) for name in rows.column_names)
        known = ((name, literal_of(it[0])) for name, it in values if len(it))
        name, literal = next(((n, it) for n, it in known if it is not None), (None, ""))
        if name is None:
            continue
        found = {str(it.name): it.rows for it in search(store, f"`{name}` = {literal}").places}
        equal = pc.equal(rows[name], rows[name].drop_null()[0])
        assert found.get("live rows") == pc.sum(equal).as_py(), table["name"]
        searched += 1
    assert searched >= 10
