"""What users of Delta on Spark and delta-rs rely on: the scenarios of their suites, in our words.

Both programs run on copies of one table where both can; rows and files are compared afterwards.
"""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import DeltactlError, Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.table_builder import multiset

Append = Mapping[str, list[Any]]
SMALL: Final[list[Append]] = [{"id": [1, 2]}, {"id": [3, 4, 5]}]
BY_P: Final[list[Append]] = [{"id": [n], "p": [p]} for n, p in enumerate("abcab")]
SPECIAL: Final = ["a b", "a%b", "a=b", "é/x", "it's", ":"]


@dataclass(frozen=True)
class Compaction:
    """Appends, options, and the number of live files of each partition afterwards."""

    appends: list[Append]
    files: dict[str, int] | None
    partition_by: tuple[str, ...] = ()
    ours: Mapping[str, Any] = field(default_factory=dict)
    theirs: Mapping[str, Any] | None = field(default_factory=dict)


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
        ours={"target_bytes": "64KiB"},
        theirs=None,
    ),
}


def write(path: Path, scene: Compaction) -> Path:
    for rows in scene.appends:
        columns = {
            name: pa.array(values, pa.int64() if name == "id" else pa.string())
            for name, values in rows.items()
        }
        write_deltalake(
            str(path), pa.table(columns), mode="append", partition_by=list(scene.partition_by)
        )
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
    path = write(tmp_path / "a %table=é", scene)
    rows, before = multiset(rows_with_delta_rs(path)), files_of(path)
    theirs = copy_of(path, "theirs")
    version = Table(path).snapshot().version
    report = Table(path).optimize(**scene.ours)
    after = files_of(path)
    assert multiset(rows_with_delta_rs(path)) == rows
    if scene.files is None:
        assert (report.versions, after) == ((), before)
    else:
        assert report.versions == (version + 1,)
        assert sorted(after.values()) == sorted(scene.files.values())
        if name != "special characters":
            assert after == scene.files
        # The version before can still be read, and a second run has nothing to do.
        assert multiset(Table(path).scan(version=version).read_all().to_pylist()) == rows
        assert Table(path).optimize(**scene.ours).versions == ()
    if scene.theirs is not None:
        DeltaTable(str(theirs)).optimize.compact(**scene.theirs)
        assert sorted(files_of(theirs).values()) == sorted(after.values())
        assert multiset(rows_with_delta_rs(theirs)) == rows


def test_what_arrives_after_a_compaction_joins_its_output(tmp_path: Path) -> None:
    path = write(tmp_path / "t", Compaction(SMALL, None))
    for number in range(3):
        assert len(Table(path).optimize().versions) == 1
        assert files_of(path) == {"": 1}
        write(path, Compaction([{"id": [10 + number]}], None))


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
    path = write(tmp_path / "t", Compaction(BY_P, None, ("p",)))
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


def test_a_retention_that_is_too_short_is_refused_by_both(tmp_path: Path) -> None:
    path = write(tmp_path / "t", Compaction(SMALL, None))
    before = parquet_files(path)
    with pytest.raises(DeltactlError):
        Table(path).vacuum(retain="1h")
    with pytest.raises(Exception, match="retention"):
        DeltaTable(str(path)).vacuum(1, dry_run=False)
    assert parquet_files(path) == before
