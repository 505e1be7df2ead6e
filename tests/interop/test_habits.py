"""What users of Delta on Spark and delta-rs rely on: the scenarios of their suites, in our words.

Both programs run on copies of one table where both can; rows and files are compared afterwards.
"""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import CloneOptions, OptimizeOptions, RestoreOptions, Table, convert
from tests.interop.judges import rows_with_delta_rs
from tests.support.table_builder import multiset

Append = Mapping[str, list[Any]]
SMALL: Final[list[Append]] = [{"id": [1, 2]}, {"id": [3, 4, 5]}]
BY_P: Final[list[Append]] = [{"id": [n], "p": [p]} for n, p in enumerate("abcab")]
SPECIAL: Final = ["a b", "a%b", "a=b", "é/x", "it's", ":"]


@dataclass(frozen=True)
class Compaction:
    """Appends, and the number of live files of each partition after they were compacted."""

    appends: list[Append]
    files: dict[str, int]
    partition_by: tuple[str, ...] = ()
    target_bytes: int | None = None


COMPACTIONS: Final = {
    "two appends of different sizes": Compaction(SMALL, {"": 1}),
    "every partition": Compaction(BY_P, {"p=a": 1, "p=b": 1, "p=c": 1}, ("p",)),
    "the null partition": Compaction(
        [{"id": [n], "p": [p]} for n, p in enumerate([None, None, "a"])],
        {"p=__HIVE_DEFAULT_PARTITION__": 1, "p=a": 1},
        ("p",),
    ),
    "special characters": Compaction(
        [{"id": [n], "p": [p]} for n, p in enumerate(SPECIAL * 2)],
        dict.fromkeys(map(str, range(len(SPECIAL))), 1),
        ("p",),
    ),
    "a small target makes several files": Compaction(
        [{"id": [*range(start, start + 3000)]} for start in range(0, 24_000, 3000)],
        {"": 2},
        target_bytes=64 << 10,
    ),
}


def write(path: Path, appends: list[Append], partition_by: tuple[str, ...] = ()) -> Path:
    for rows in appends:
        columns = {
            name: pa.array(values, pa.int64() if name == "id" else pa.string())
            for name, values in rows.items()
        }
        write_deltalake(str(path), pa.table(columns), mode="append", partition_by=[*partition_by])
    return path


def files_of(path: Path) -> Counter[str]:
    """The number of live files in each partition's directory."""
    uris = pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist()
    return Counter(uri.rpartition("/")[0] for uri in uris)


def copy_of(path: Path, name: str) -> Path:
    return Path(shutil.copytree(path, path.parent / name))


@pytest.mark.parametrize("name", COMPACTIONS)
def test_compaction(tmp_path: Path, name: str) -> None:
    scene = COMPACTIONS[name]
    path = write(tmp_path / "a %table=é", scene.appends, scene.partition_by)
    rows = multiset(rows_with_delta_rs(path))
    theirs = copy_of(path, "theirs")
    version = Table(path).snapshot().version
    options = OptimizeOptions(target_bytes=scene.target_bytes)
    assert Table(path).optimize(options).versions == (version + 1,)
    after = files_of(path)
    assert multiset(rows_with_delta_rs(path)) == rows
    assert sorted(after.values()) == sorted(scene.files.values())
    if name != "special characters":
        assert after == scene.files
    # The version before can still be read, and a second run has nothing to do.
    assert multiset(Table(path).scan(version=version).read_all().to_pylist()) == rows
    assert Table(path).optimize(options).versions == ()
    if scene.target_bytes is None:
        DeltaTable(str(theirs)).optimize.compact()
        assert sorted(files_of(theirs).values()) == sorted(after.values())
        assert multiset(rows_with_delta_rs(theirs)) == rows


def test_what_arrives_after_a_compaction_joins_its_output(tmp_path: Path) -> None:
    path = write(tmp_path / "t", SMALL)
    for number in range(3):
        assert len(Table(path).optimize().versions) == 1
        assert files_of(path) == {"": 1}
        write(path, [{"id": [10 + number]}])


def parquet_files(path: Path) -> set[str]:
    return {
        str(it.relative_to(path))
        for it in path.rglob("*.parquet")
        if not {"_delta_log", "_deltactl"} & {*it.parts}
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"mode": "full"}, {"full": True}),
        ({"mode": "lite"}, {}),
        ({"mode": "full", "keep_versions": (1,)}, {"full": True, "keep_versions": [1]}),
    ],
    ids=["full", "lite", "a kept version"],
)
def test_vacuum_removes_the_same_files(
    tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    path = write(tmp_path / "t", BY_P, ("p",))
    DeltaTable(str(path)).optimize.compact()
    rows, live = rows_with_delta_rs(path), parquet_files(path)
    other = copy_of(path, "theirs")
    planned = Table(path).vacuum(retain="0h", force_retention=True, dry_run=True, **ours)
    assert (parquet_files(path), planned.dry_run) == (live, True)
    Table(path).vacuum(retain="0h", force_retention=True, **ours)
    DeltaTable(str(other)).vacuum(0, dry_run=False, enforce_retention_duration=False, **theirs)
    assert parquet_files(path) == parquet_files(other) < live
    assert multiset(rows_with_delta_rs(path)) == multiset(rows)
    if "keep_versions" in ours:
        assert Table(path).scan(version=1).read_all().num_rows == 2


def test_delta_rs_reads_the_history_of_new_tables(tmp_path: Path) -> None:
    source, deep, shallow = (tmp_path / name for name in ("source", "deep", "shallow"))
    source.mkdir()
    pq.write_table(pa.table({"id": [1]}), source / "a.parquet")
    convert(source)
    table = Table(source, warn=lambda _: None)
    for path, is_deep in ((deep, True), (shallow, False)):
        table.clone(path, CloneOptions(deep=is_deep))
    for path, operation in ((source, "CONVERT"), (deep, "CLONE"), (shallow, "CLONE")):
        write_deltalake(str(path), pa.table({"id": [2]}), mode="append")
        Table(path).restore(RestoreOptions(version=0))
        operations = [info["operation"] for info in DeltaTable(str(path)).history()]
        assert operations == ["RESTORE", "WRITE", operation]
