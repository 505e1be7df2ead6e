"""A partition column that data files store too is searched with the values of both.

The judge is a search of the rows of all Parquet files with pyarrow.
"""

import io
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import Table, TableWarning, convert
from tests.operations.erased.test_places import RUN, search
from tests.support.checkpoints import new_table
from tests.support.metered_store import MeteredStore
from tests.support.table_builder import Column, TableBuilder

TEXTS = ("1", "3", "5", "7", "10", "12")
DAYS = tuple(f"2024-01-{day:02d}" for day in (1, 2, 3, 30, 31))
STORED: Mapping[str, tuple[Any, ...]] = {
    "string": (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.int64()),
    "long": (pa.int64(), pa.int32(), pa.string(), pa.float64()),
    "date": (pa.date32(), pa.string(), pa.timestamp("us")),
}
PLACES = {
    "live": "live rows",
    "hidden": "rows that deletion vectors hide",
    "removed": "files of older versions",
    "removed without values": "files of older versions",
    "stray": "unknown files",
    "quarantine": "quarantine without a journal",
    "change": "change data",
}


def typed(value: Any, kind: str) -> Any:
    """A value of a file or of the log in the type of the column."""
    if value is None or kind == "string":
        return None if value is None else str(value)
    return int(value) if kind == "long" else date.fromisoformat(str(value)[:10])


@dataclass(frozen=True)
class Stored:
    """A file of a random table, with what the judge needs to know."""

    name: str
    where: str
    logged: Mapping[str, str | None]
    hidden: frozenset[int] = frozenset()


@dataclass
class RandomTable:
    """Files that store partition columns or not, with values that are those of the log or not."""

    random: random.Random
    builder: TableBuilder
    kinds: Mapping[str, str]
    files: list[Stored]

    @classmethod
    def make(cls, seed: int) -> "RandomTable":
        it = random.Random(seed)
        kinds = {"p": it.choice([*STORED]), "q": "string"}
        columns = [Column("id"), *(Column(name, kind) for name, kind in kinds.items())]
        mapping = it.choice(["none", "none", "name", "id"])
        builder = new_table(
            *columns, partition_by=[*kinds], mapping=mapping, features=["deletionVectors"]
        )
        table = cls(it, builder, kinds, [])
        for number in range(it.randint(2, 6)):
            table.add(number, it.choice([*PLACES]))
        return table

    def value(self, kind: str) -> str | None:
        return self.random.choice([*(DAYS if kind == "date" else TEXTS), None])

    def content(self, logged: Mapping[str, str | None]) -> bytes:
        """Rows in several row groups."""
        it, count = self.random, self.random.randint(1, 6)
        columns = {"id": pa.array([it.randint(0, 3) for _ in range(count)])}
        for name, kind in self.kinds.items():
            how = it.choice(["missing", "agree", "differ", "mixed", "null"])
            if how != "missing":
                one = {"agree": logged[name], "null": None}.get(how, self.value(kind))
                texts = [self.value(kind) if how == "mixed" else one for _ in range(count)]
                values = pa.array([typed(text, kind) for text in texts])
                stored = it.choice(STORED[kind])
                is_text = pa.types.is_integer(stored) and kind == "string"
                values = values.cast(pa.string()) if "str" in str(stored) else values
                values = values.cast(pa.int64()) if is_text else values
                columns[name] = values.cast(stored)
        by_name = {column.name: column for column in self.builder.columns}
        fields = []
        for name, values in columns.items():
            column, physical = by_name[name], by_name[name].physical
            if self.builder.mapping != "id":
                physical = it.choice([physical, physical.upper()])
            number = {} if column.field_id is None else {"PARQUET:field_id": str(column.field_id)}
            fields.append(pa.field(physical, values.type, metadata=number))
        sink = io.BytesIO()
        rows = pa.Table.from_arrays([*columns.values()], schema=pa.schema(fields))
        pq.write_table(rows, sink, row_group_size=it.choice([1, 2, 100]))
        return sink.getvalue()

    def add(self, number: int, where: str) -> None:
        """One more file, in a directory by its values, or in the root."""
        it, builder = self.random, self.builder
        logged = {name: self.value(kind) for name, kind in self.kinds.items()}
        case = it.choice([str.lower, str.upper])
        hive = "".join(
            f"{case(name)}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}/"
            for name, value in logged.items()
        )
        folder = it.choice([hive, ""])
        start = {"change": "_change_data/", "quarantine": f"_deltactl/quarantine/{RUN}/"}
        name = f"{start.get(where, '')}{folder}{number}.parquet"
        content = self.content(logged)
        builder.store.put(name, content)
        values = {it.physical: logged[it.name] for it in builder.columns if it.name in logged}
        hidden: frozenset[int] = frozenset()
        if where == "change":
            facts = {"path": name, "partitionValues": values, "size": 1, "dataChange": False}
            builder.commit({"cdc": facts})
        elif where in ("stray", "quarantine"):
            logged = logged if folder else {}
        else:
            builder.commit(builder.adopt(name, partitionValues=values))
            if where == "hidden":
                hidden = frozenset({0})
                builder.delete_rows(name, hidden, it.choice("ui"))
            elif where != "live":
                removed = builder.remove_action(name)
                if where == "removed without values":
                    removed["remove"].pop("partitionValues")
                builder.commit(removed)
        self.files.append(Stored(name, where, logged, hidden))

    def judge(self, file: Stored, sought: Mapping[str, Any]) -> Iterator[str]:
        """Yield the place of each row that has the values: in the log, or in the file."""
        (content,) = self.builder.store.read_many([file.name])
        rows = pq.read_table(io.BytesIO(content)).to_pylist()
        names = {it.physical.lower(): it.name for it in self.builder.columns}
        is_named = file.where not in ("stray", "quarantine")
        for index, cells in enumerate(rows):
            row = {names[name.lower()]: value for name, value in cells.items()}
            choices = []
            for name, value in sought.items():
                logged = [file.logged[name]] if name in file.logged else []
                stored = [row[name]] if name in row else []
                values = [*logged, *stored] if is_named or not stored else stored
                choices.append([typed(it, self.kinds.get(name, "long")) == value for it in values])
            if all(map(any, choices)):
                is_live = file.where in ("live", "hidden") and index not in file.hidden
                by_log = all(has[:1] == [True] for has in choices)
                live = "live rows" if by_log else "stored partition columns"
                yield live if is_live else PLACES[file.where]


def literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def check_random_table(seed: int) -> tuple[int, int]:
    """Search a table for some values; return how many rows were found, and files not read."""
    table = RandomTable.make(seed)
    found_rows = unread = 0
    for _ in range(4):
        names = table.random.sample(["id", "p", "q"], table.random.randint(1, 3))
        sought = {
            name: typed(table.value(k) or (DAYS if k == "date" else TEXTS)[0], k)
            for name in names
            if (k := table.kinds.get(name, "long"))
        }
        if "id" in sought:
            sought["id"] = table.random.randint(0, 3)
        predicate = " AND ".join(f"{name} = {literal(value)}" for name, value in sought.items())
        report = search(table.builder.store, predicate)
        skipped = {it.name.rpartition("/")[2] for it in report.unread}
        expected: Counter[str] = Counter()
        for file in table.files:
            if file.name.rpartition("/")[2] not in skipped:
                expected.update(table.judge(file, sought))
        found = {str(it.name): it.rows for it in report.places if it.rows}
        assert found == dict(expected), (seed, predicate, report.to_dict())
        found_rows, unread = found_rows + expected.total(), unread + len(skipped)
    return found_rows, unread


def test_the_rows_of_random_tables_are_found() -> None:
    rows, unread = zip(*map(check_random_table, range(12)), strict=True)
    assert sum(rows) > sum(unread) > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(12, 412, 100))
def test_the_rows_of_many_random_tables_are_found(first: int) -> None:
    for seed in range(first, first + 100):
        check_random_table(seed)


def test_a_converted_directory_with_other_values_than_its_names(tmp_path: Path) -> None:
    (tmp_path / "p=a").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "p": ["a", "b"]}), tmp_path / "p=a" / "x.parquet")
    with pytest.warns(TableWarning):
        convert(str(tmp_path), partition_by="p string")
    for value, rows in (("a", {"live rows": 2}), ("b", {"stored partition columns": 1})):
        report = Table(str(tmp_path)).check_erased(f"p = '{value}'")
        found = {str(it.name): it.rows for it in report.places if it.rows}
        assert found == rows
    assert Table(str(tmp_path)).check_erased("p = 'c'").is_erased
    command = "optimize {} --zorder-by COLUMN --full"
    assert command.format(report.tables[0][0]) in report.commands[0]
    Table(str(tmp_path)).optimize(zorder_by="id", full=True)
    report = Table(str(tmp_path)).check_erased("p = 'b'")
    assert [it.name for it in report.places] == ["files of older versions"]


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        ("s = 'ok'", 1),
        ("s LIKE '%Ray%'", 1),
        ("s LIKE 'Ren_ Ray'", 1),
        ("s RLIKE '^R.*y$'", 1),
        ("UPPER(s) = 'OK'", 1),
        ("LOWER(s) LIKE '%ray'", 1),
        ("s = 'zz'", 0),
    ],
)
def test_rows_beside_strings_that_are_not_utf8_are_found(
    tmp_path: Path, predicate: str, rows: int
) -> None:
    """Hive, Impala and Spark write text of other encodings into strings."""
    texts = pa.array([b"Ren\xe9 Ray", b"ok", b"", None], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"s": texts}), tmp_path / "1.parquet", row_group_size=1)
    convert(str(tmp_path), statistics=False)
    report = Table(str(tmp_path)).check_erased(predicate)
    assert not report.unread
    assert [it.rows for it in report.places] == [rows][:rows]


@pytest.mark.parametrize("stored", [True, False])
def test_the_footer_of_each_file_is_read_and_no_rows(stored: bool) -> None:
    """One request a file, as for a data column, if the values are excluded."""
    builder = new_table(Column("id"), Column("p", "string"), partition_by=["p"])
    columns = {"id": [1, 2], "p": ["a", "b"]}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns if stored else {"id": [1, 2]}), sink)
    for number in range(20):
        builder.store.put(f"{number}.parquet", sink.getvalue())
        builder.commit(builder.adopt(f"{number}.parquet", partitionValues={"p": "a"}))
    store = MeteredStore(builder.store)
    report = search(store, "p = 'c'")
    assert report.is_erased
    assert (store.usage.opens, report.counts["files_skipped"], report.counts["rows"]) == (20, 20, 0)
