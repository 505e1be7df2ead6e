"""Path texts that readers take for different files: vacuum keeps each of these files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.storage.local.store import LocalStore
from tests.operations.vacuum.test_local import age
from tests.support.duckdb_delta import connect_duckdb
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder

pytestmark = pytest.mark.usefixtures("trusted_clock")


def read_with_arrow(root: Path) -> str:
    return str(DeltaTable(str(root)).to_pyarrow_table()["x"][0])


def read_with_kernel(root: Path) -> str:
    query = QueryBuilder().register("t", DeltaTable(str(root))).execute("select * from t")
    return str(pa.table(query.read_all())["x"][0])


def read_with_duckdb(root: Path) -> str:
    [(value,)] = connect_duckdb().sql(f"SELECT x FROM delta_scan('{root}')").fetchall()
    return str(value)


READERS: list[Callable[[Path], str]] = [read_with_arrow, read_with_kernel, read_with_duckdb]


def read_all(root: Path) -> list[str | None]:
    """What each reader returns; `None` if it finds no file."""
    found: list[str | None] = []
    for read in READERS:
        try:
            found.append(read(root))
        except (DeltaError, duckdb.Error, OSError):
            found.append(None)
    return found


def write_files(root: Path, names: list[str]) -> None:
    """Each of the files says its place in the list."""
    for place, name in enumerate(names):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [str(place)]}), file)


def write_table(root: Path, path: str, names: list[str]) -> None:
    """One add with this path."""
    builder = TableBuilder(root, [Column("x", "string")])
    write_files(root, names)
    builder.commit(builder.adopt(names[0], path=path))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("d\\f.parquet", ["d\\f.parquet", "d/f.parquet"]),
        ("d%5Cf.parquet", ["d\\f.parquet"]),
        ("d/e\\f.parquet", ["d/e\\f.parquet", "d/e/f.parquet"]),
        ("d\\..\\f.parquet", ["d\\..\\f.parquet", "f.parquet"]),
        ("f.parquet?v=1", ["f.parquet?v=1", "f.parquet"]),
        ("f.parquet#1", ["f.parquet#1", "f.parquet"]),
        (" f.parquet", [" f.parquet", "f.parquet"]),
        ("f\tg.parquet", ["f\tg.parquet", "fg.parquet", "f%09g.parquet"]),
    ],
)
def test_vacuum_keeps_each_file_that_a_reader_takes_for_the_live_one(
    tmp_path: Path, path: str, names: list[str]
) -> None:
    root = tmp_path / "t"
    write_table(root, path, names)
    before = read_all(root)
    assert {int(value) for value in before if value is not None} == set(range(len(names)))
    vacuum(root)
    assert read_all(root) == before


@pytest.mark.parametrize("path", ["d\\f.parquet", "f.parquet?v=1"])
def test_vacuum_keeps_each_file_that_a_reader_takes_for_that_of_a_clone(
    tmp_path: Path, path: str
) -> None:
    root, clone = tmp_path / "t", tmp_path / "c"
    write_table(root, "live.parquet", ["live.parquet"])
    names = [path, path.replace("\\", "/").partition("?")[0]]
    write_files(root, names)
    facts = {"partitionValues": {}, "size": (root / path).stat().st_size, "modificationTime": 0}
    add = {"path": f"{root}/{path}", **facts, "dataChange": True}
    TableBuilder(clone, [Column("x", "string")]).commit({"add": add})
    before = read_all(clone)
    assert {"0", "1"} <= set(before)
    vacuum(root, also_keep_for=(str(clone),))
    assert read_all(clone) == before


def vacuum(root: Path, **options: Any) -> None:
    orphan = root / "orphan.parquet"
    orphan.write_bytes(b"PAR1")
    age(root)
    chosen = VacuumOptions(
        mode="full", retain_ms=0, max_orphan_fraction=1.0, force_retention=True, **options
    )
    run_on(LocalStore(str(root)), partial(vacuum_table, orphans="all"), chosen)
    assert not orphan.exists()
