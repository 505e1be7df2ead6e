"""Faults of the reader, and files with columns that fit no schema, do not lose values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import SafetyError, VerificationError
from deltactl.library import convert
from deltactl.operations.optimize import input_columns
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.parquet.projection import FileFields, Matcher
from deltactl.parquet.reader import RowReader
from deltactl.protocol.schema import Field, PrimitiveType
from deltactl.table import Table
from tests.support.table_builder import Column, TableBuilder

ID, NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
MERGE = OptimizeOptions()
CLUSTER = OptimizeOptions(cluster_by="k")
NUM_FILES = 6

ROWS = {"k": [1, 2, None], "v": [10, None, None], "w": ["a", "b", "c"]}


class MappedTable:
    """A table of six equal files; names of files are `col-k` and so on if columns are mapped."""

    def __init__(self, root: Path, mode: str, *, upper: bool = False) -> None:
        self.root, self.mode = root, mode
        names = {name: self.physical(name) for name in ROWS}
        self.stored = {names[n]: n.upper() if upper else names[n] for n in ROWS}
        self.builder = TableBuilder(
            root,
            self._columns(["k", "v", "w"]),
            features=[] if mode == "none" else ["columnMapping"],
            properties=self._properties(3),
        )

    def physical(self, name: str) -> str:
        return name if self.mode == "none" else f"col-{name}"

    def define(self, names: list[str], *, max_id: int) -> None:
        self.builder.change_metadata(
            columns=self._columns(names), properties=self._properties(max_id)
        )

    def _columns(self, names: list[str]) -> list[Column]:
        types = {"w": "string", "x": "string"}
        ids = {name: place for place, name in enumerate(["k", "v", "w", "x"], 1)}
        return [
            Column(n, types.get(n, "long"), metadata={ID: ids[n], NAME: f"col-{n}"}) for n in names
        ]

    def _properties(self, max_id: int) -> dict[str, str]:
        mapping = {"mode": self.mode, "maxColumnId": str(max_id)}
        return {f"delta.columnMapping.{k}": v for k, v in mapping.items() if self.mode != "none"}

    def append(self, ids: dict[str, int] | None = None) -> None:
        ids = ids or {"k": 1, "v": 2, "w": 3}
        arrays = {n: pa.array(v, pa.string() if n == "w" else pa.int64()) for n, v in ROWS.items()}
        fields = [
            pa.field(self.stored[self.physical(n)], arrays[n].type, metadata=self._id(ids[n]))
            for n in ROWS
        ]
        for number in range(NUM_FILES):
            name = f"part-{number}.parquet"
            pq.write_table(
                pa.table(list(arrays.values()), schema=pa.schema(fields)), self.root / name
            )
            self.builder.commit(self.builder.adopt(name, stats='{"numRecords":3}'))

    def _id(self, number: int) -> dict[str, str] | None:
        return None if self.mode == "none" else {"PARQUET:field_id": str(number)}

    def optimize(self, options: OptimizeOptions) -> None:
        Table(str(self.root), warn=lambda message: None).optimize(options)

    def read(self) -> pa.Table:
        return Table(str(self.root), warn=lambda message: None).scan().read_all()

    def find_unknown(self, depth: Literal["footers", "data"]) -> set[str]:
        """The files with the finding COLUMN_UNKNOWN."""
        findings = Table(str(self.root), warn=lambda message: None).check(depth=depth).findings
        return {row["file"] for row in findings.to_pylist() if row["code"] == "COLUMN_UNKNOWN"}

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.root.glob("*.parquet")}

    def replace_in_schema(self, old: str, new: str) -> None:
        """Replace a text of the first commit, where quotes in the schema are escaped."""
        first = self.root / "_delta_log" / f"{0:020d}.json"
        text, old, new = first.read_text(), old.replace('"', '\\"'), new.replace('"', '\\"')
        assert old in text
        first.write_text(text.replace(old, new))

    @property
    def commits(self) -> int:
        return len(list((self.root / "_delta_log").glob("*.json")))


Find = Callable[[Matcher, Field, FileFields], int | None]
_FIND = Matcher.find


def find_neighbour(self: Matcher, wanted: Field, present: FileFields) -> int | None:
    """Two columns are swapped: both have the type long."""
    index = _FIND(self, wanted, present)
    return {0: 1, 1: 0}.get(index, index) if index is not None else None


def find_wrong_id(self: Matcher, wanted: Field, present: FileFields) -> int | None:
    return present.by_id.get(str((wanted.field_id or 0) % 2 + 1).encode())


def find_exact_case_only(self: Matcher, wanted: Field, present: FileFields) -> int | None:
    return present.by_name.get(wanted.name)


def find_nothing(self: Matcher, wanted: Field, present: FileFields) -> int | None:
    return None if wanted.name == "v" else _FIND(self, wanted, present)


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        ("none", find_neighbour),
        ("none", find_exact_case_only),
        ("none", find_nothing),
        ("name", find_neighbour),
        ("name", find_nothing),
        ("id", find_wrong_id),
        ("id", find_nothing),
    ],
)
def test_a_reader_that_finds_the_wrong_column_is_caught(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    fault: Find,
    options: OptimizeOptions,
) -> None:
    table = MappedTable(tmp_path, mode, upper=fault is find_exact_case_only)
    table.append()
    before = table.commits
    monkeypatch.setattr(Matcher, "find", fault)
    with pytest.raises(VerificationError, match="would be read"):
        table.optimize(options)
    assert table.commits == before


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
def test_a_reader_that_loses_values_is_caught_by_the_nulls_of_the_footers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptimizeOptions
) -> None:
    table = MappedTable(tmp_path, "name")
    table.append()
    column = RowReader._column

    def lose(self: RowReader, batch: Any, name: Any, index: int, matcher: Matcher) -> pa.Array:
        found = column(self, batch, name, index, matcher)
        return pa.nulls(len(found), found.type) if name == "col-v" else found

    monkeypatch.setattr(RowReader, "_column", lose)
    flat = RowReader.__post_init__

    def never_flat(self: RowReader) -> None:
        flat(self)
        object.__setattr__(self, "_is_flat", False)

    monkeypatch.setattr(RowReader, "__post_init__", never_flat)
    with pytest.raises(VerificationError, match=r"column 'col-v' has \d+ nulls"):
        table.optimize(options)


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
def test_wrong_null_counts_in_footers_do_not_stop_a_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptimizeOptions
) -> None:
    table = MappedTable(tmp_path, "none")
    table.append()
    monkeypatch.setattr(input_columns, "read_stored_nulls", lambda data: [[0, 0, 0]])
    table.optimize(options)
    assert table.read()["v"].null_count == 2 * NUM_FILES


def test_ids_and_names_of_a_file_that_disagree_are_refused(tmp_path: Path) -> None:
    table = MappedTable(tmp_path, "id")
    table.append({"k": 2, "v": 1, "w": 3})
    with pytest.raises(VerificationError, match="by its id 1, but 'col-k' by its physical name"):
        table.optimize(MERGE)
    assert table.find_unknown("footers") == table.names


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
def test_a_file_with_the_column_does_not_explain_another_file(
    tmp_path: Path, options: OptimizeOptions
) -> None:
    """A writer renamed a column by mistake, and continued: no bin may hide this."""
    table = MappedTable(tmp_path, "none")
    table.append()
    table.replace_in_schema('"name": "w"', '"name": "x"')
    newer = tmp_path / "part-0.parquet"
    table_of_newer = pq.read_table(newer).rename_columns(["k", "v", "x"])
    pq.write_table(table_of_newer, newer)
    commits = table.commits
    with pytest.raises(SafetyError, match="column 'w' with values.*lacks the column 'x'"):
        table.optimize(options)
    assert table.commits == commits
    for depth in ("footers", "data"):
        assert table.find_unknown(depth) == table.names - {"part-0.parquet"}


def test_a_column_that_is_added_under_the_name_in_the_files_keeps_their_values(
    tmp_path: Path,
) -> None:
    """The way out that `deltactl explain COLUMN_UNKNOWN` gives."""
    table = MappedTable(tmp_path, "none")
    table.append()
    table.replace_in_schema('"name": "w"', '"name": "x"')
    table.define(["k", "v", "x", "w"], max_id=4)
    assert table.find_unknown("data") == set()
    table.optimize(MERGE)
    assert table.read()["w"].to_pylist() == ["a", "b", "c"] * NUM_FILES


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_a_dropped_column_and_a_new_one_are_explained(tmp_path: Path, mode: str) -> None:
    table = MappedTable(tmp_path, mode)
    table.append()
    table.define(["k", "v", "x"], max_id=4)
    assert table.find_unknown("data") == set()
    table.optimize(MERGE)
    read = table.read()
    assert read["x"].null_count == 3 * NUM_FILES
    assert read["v"].null_count == 2 * NUM_FILES


def test_ids_of_a_file_that_is_older_than_the_mapping_are_ignored() -> None:
    """Its writer numbered the columns in another order; then one of them was renamed."""
    k = Field("k", PrimitiveType("long"), True, {ID: 1, NAME: "k"})
    renamed = Field("renamed", PrimitiveType("long"), True, {ID: 2, NAME: "v"})
    ids = [("v", 1), ("k", 2)]
    schema = pa.schema(
        [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(n)}) for name, n in ids]
    )
    present = input_columns.StoredColumns(schema)
    assert input_columns.has_own_ids([k, renamed], present, "name")
    found = [
        input_columns.find_column(f, present, "name", "f.parquet", own_ids=True)
        for f in (k, renamed)
    ]
    assert found == ["k", "v"]
    assert not input_columns.has_own_ids([renamed], present, "name")
    with pytest.raises(VerificationError, match="'k' by its id 2, but 'v'"):
        input_columns.find_column(renamed, present, "name", "f.parquet", own_ids=False)


def test_a_number_does_not_count_as_the_values_of_a_new_text_column(tmp_path: Path) -> None:
    table = MappedTable(tmp_path, "none")
    table.append()
    table.replace_in_schema('{"name": "v", "type": "long"', '{"name": "x", "type": "string"')
    table.optimize(MERGE)
    assert table.read()["x"].null_count == 3 * NUM_FILES


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
def test_a_column_without_a_type_has_no_values_that_could_be_lost(
    tmp_path: Path, options: OptimizeOptions
) -> None:
    for number in range(NUM_FILES):
        pq.write_table(pa.table({"k": [number], "x": [1.5]}), tmp_path / f"{number}.parquet")
    pq.write_table(pa.table({"k": [NUM_FILES], "n": pa.nulls(1)}), tmp_path / "n.parquet")
    convert(str(tmp_path), warn=lambda message: None)
    table = Table(str(tmp_path), warn=lambda message: None)
    table.optimize(options)
    read = table.scan().read_all()
    assert read.schema.names == ["k", "x"]
    assert read["x"].null_count == 1
    assert read.num_rows == NUM_FILES + 1


@pytest.mark.parametrize("options", [MERGE, CLUSTER], ids=["merge", "cluster"])
@pytest.mark.parametrize(
    ("name", "is_internal"),
    [
        ("__is_cdc", True),
        ("_change_type", True),
        ("_row-id-col-4ee0e7a5-3bd2-4a1c-8a27-6a0a5f0d3a1c", True),
        ("_change_types", False),
    ],
)
def test_columns_that_delta_adds_are_no_values_of_a_new_column(
    tmp_path: Path, name: str, options: OptimizeOptions, *, is_internal: bool
) -> None:
    builder = TableBuilder(tmp_path, [Column("k"), Column("x", "integer")])
    for number in range(NUM_FILES):
        columns = {"k": [number], name: pa.array([False])}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
        builder.commit(builder.adopt(f"{number}.parquet", stats='{"numRecords":1}'))
    table = Table(str(tmp_path), warn=lambda message: None)
    if not is_internal:
        with pytest.raises(SafetyError, match="the values would be lost"):
            table.optimize(options)
        return
    table.optimize(options)
    rows = table.scan().read_all().sort_by("k").to_pylist()
    assert rows == [{"k": number, "x": None} for number in range(NUM_FILES)]
    (rewritten,) = set(tmp_path.rglob("*.parquet")) - {
        tmp_path / f"{number}.parquet" for number in range(NUM_FILES)
    }
    assert name not in pq.read_schema(rewritten).names
