"""Vacuums of UniForm tables: Iceberg clients still read what the newest Iceberg metadata name."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltactl.errors import SafetyError
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.report import VacuumReport
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder

catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")

pytestmark = pytest.mark.usefixtures("trusted_clock")

UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}


class Uniform:
    """A Delta table that was converted to Iceberg at each number of files in ``conversions``."""

    def __init__(self, folder: Path, *conversions: int) -> None:
        self.path = folder / "a table"
        self.said: list[str] = []
        self.store = LocalStore(str(self.path))
        self.builder = TableBuilder(self.store, [Column("id")], properties=UNIFORM)
        self.files = self.builder.append(*[[{"id": number}] for number in range(4)])
        catalog = catalogs.SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
        catalog.create_namespace("n")
        schema = pq.read_schema(self.path / self.files[0])
        self.iceberg = catalog.create_table("n.t", schema, location=f"file://{self.path}")
        done = 0
        for number in conversions:
            self.iceberg.add_files([str(self.path / name) for name in self.files[done:number]])
            done = number
        catalog.engine.dispose()

    def ids(self) -> list[int]:
        return sorted(self.iceberg.scan().to_arrow()["id"].to_pylist())

    def vacuum(self) -> VacuumReport:
        options = VacuumOptions(retain_ms=0, force_retention=True, mode="full")
        return run_on(self.store, vacuum_table, options, warn=self.said.append)

    def left(self) -> set[str]:
        return {name for name in self.files if (self.path / name).exists()}


def _compress(table: Uniform, ending: str) -> None:
    newest = max((table.path / "metadata").glob("*.metadata.json"))
    name = newest.name.replace(".metadata.json", ending)
    newest.with_name(name).write_bytes(gzip.compress(newest.read_bytes()))
    newest.unlink()


@pytest.mark.parametrize("ending", [None, ".gz.metadata.json"])
def test_files_of_the_newest_iceberg_metadata_are_kept(tmp_path: Path, ending: str | None) -> None:
    table = Uniform(tmp_path, 2, 3)
    if ending is not None:
        _compress(table, ending)
    table.builder.remove(*table.files)
    table.vacuum()
    assert table.left() == set(table.files[:3])
    if ending is None:
        assert table.ids() == [0, 1, 2]
    assert not table.said


@pytest.mark.parametrize(
    ("lacks", "said"),
    [("metadata", "no Iceberg metadata"), ("pyiceberg", "install deltactl[iceberg]")],
)
def test_without_iceberg_metadata_or_their_reader_the_retention_alone_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str, said: str
) -> None:
    table = Uniform(tmp_path, 2)
    if lacks == "metadata":
        shutil.rmtree(table.path / "metadata")
    else:
        monkeypatch.setattr("deltactl.operations.vacuum.kept_files.find_spec", lambda _: None)
    table.builder.remove(*table.files)
    table.vacuum()
    assert not table.left()
    assert said in table.said[0]


def _cut(table: Uniform) -> None:
    newest = max((table.path / "metadata").glob("*.metadata.json"))
    newest.write_bytes(newest.read_bytes()[:100])


def _renamed(table: Uniform) -> None:
    _compress(table, ".metadata.json.gz")  # a name that pyiceberg does not take for gzip


def _without_manifests(table: Uniform) -> None:
    for file in (table.path / "metadata").glob("*.avro"):
        file.unlink()


def _moved(table: Uniform) -> None:
    table.path.rename(table.path.with_name("moved"))
    table.path = table.path.with_name("moved")
    table.store = LocalStore(str(table.path))


@pytest.mark.parametrize("damage", [_cut, _renamed, _without_manifests, _moved])
def test_nothing_is_removed_if_iceberg_metadata_cannot_be_read(
    tmp_path: Path, damage: Callable[[Uniform], None]
) -> None:
    table = Uniform(tmp_path, 2)
    table.builder.remove(*table.files)
    damage(table)
    with pytest.raises(SafetyError, match="Iceberg metadata of this table refer to"):
        table.vacuum()
    assert table.left() == set(table.files)
