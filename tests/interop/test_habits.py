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
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, convert_to_deltalake, write_deltalake
from deltalake.schema import Field, PrimitiveType, Schema

from deltactl import CommitOptions, DeltactlError, PredicateError, SafetyError, Table, convert
from tests.interop.judges import rows_with_delta_rs
from tests.support.table_builder import multiset

Append = Mapping[str, list[Any]]
SMALL: Final[list[Append]] = [{"id": [1, 2]}, {"id": [3, 4, 5]}]
BY_P: Final[list[Append]] = [{"id": [n], "p": [p]} for n, p in enumerate("abcab")]
BY_TWO: Final[list[Append]] = [
    {"id": [n], "p": [it[0]], "q": [it[1]]} for n, it in enumerate(["ax", "ax", "ay", "bx", "bx"])
]
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
    "a large append after a small one": Compaction([{"id": [1]}, {"id": [*range(9999)]}], {"": 1}),
    "an empty table": Compaction([{"id": []}], None),
    "one file": Compaction(SMALL[:1], None),
    "every partition": Compaction(BY_P, {"p=a": 1, "p=b": 1, "p=c": 1}, ("p",)),
    "one partition": Compaction(
        BY_P,
        {"p=a": 1, "p=b": 2, "p=c": 1},
        ("p",),
        {"where": "p = 'a'"},
        {"partition_filters": [("p", "=", "a")]},
    ),
    "a list of partitions": Compaction(
        BY_P,
        {"p=a": 1, "p=b": 1, "p=c": 1},
        ("p",),
        {"where": "P IN ('a', 'b')"},
        {"partition_filters": [("p", "in", ["a", "b"])]},
    ),
    "a part of the partition columns": Compaction(
        BY_TWO,
        {"p=a/q=x": 1, "p=a/q=y": 1, "p=b/q=x": 2},
        ("p", "q"),
        {"where": "p = 'a'"},
        {"partition_filters": [("p", "=", "a")]},
    ),
    "all partition columns": Compaction(
        BY_TWO,
        {"p=a/q=x": 2, "p=a/q=y": 1, "p=b/q=x": 1},
        ("p", "q"),
        {"where": "p = 'b' AND q = 'x'"},
        {"partition_filters": [("p", "=", "b"), ("q", "=", "x")]},
    ),
    "a partition that does not exist": Compaction(
        BY_P, None, ("p",), {"where": "p = 'zz'"}, {"partition_filters": [("p", "=", "zz")]}
    ),
    "the null partition": Compaction(
        [{"id": [n], "p": [p]} for n, p in enumerate([None, None, "a"])],
        {"p=__HIVE_DEFAULT_PARTITION__": 1, "p=a": 1},
        ("p",),
    ),
    "the null partition only": Compaction(
        [{"id": [n], "p": [p]} for n, p in enumerate([None, None, "a", "a"])],
        {"p=__HIVE_DEFAULT_PARTITION__": 1, "p=a": 2},
        ("p",),
        {"where": "p IS NULL"},
        None,
    ),
    "special characters": Compaction(
        [{"id": [n], "p": [p]} for n, p in enumerate(SPECIAL * 2)],
        dict.fromkeys(map(str, range(len(SPECIAL))), 1),
        ("p",),
    ),
    "files above the minimum are left": Compaction(
        [{"id": [*range(20_000)]}, {"id": [1]}, {"id": [2]}],
        {"": 2},
        ours={"target_bytes": "8MiB", "min_file_bytes": "16KiB"},
        theirs=None,
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


@pytest.mark.parametrize("where", ["id = 1", "p = 'a' AND id = 1", "nothing = 1", "p ="])
def test_only_partition_columns_select(tmp_path: Path, where: str) -> None:
    path = write(tmp_path / "t", Compaction(BY_P, None, ("p",)))
    before = sorted(path.rglob("*"))
    with pytest.raises(PredicateError):
        Table(path).optimize(where=where)
    assert sorted(path.rglob("*")) == before


def test_commit_properties_are_those_of_delta_rs(tmp_path: Path) -> None:
    path = write(tmp_path / "t", Compaction(SMALL, None))
    theirs = copy_of(path, "theirs")
    Table(path, commit=CommitOptions(user_name="ann", commit_info={"team": "etl"})).optimize()
    DeltaTable(str(theirs)).optimize.compact(
        commit_properties=CommitProperties(custom_metadata={"userName": "ann", "team": "etl"})
    )
    for table in (path, theirs):
        newest = DeltaTable(str(table)).history(1)[0]
        assert (newest["operation"], newest["userName"], newest["team"]) == (
            "OPTIMIZE",
            "ann",
            "etl",
        )


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


@pytest.mark.parametrize("target", [0, 1, 2, 4])
def test_restore_gives_the_same_table(tmp_path: Path, target: int) -> None:
    path = write(tmp_path / "t", Compaction(BY_P, None, ("p",)))
    write_deltalake(str(path), pa.table({"id": [9], "p": ["a"]}), mode="overwrite")
    other = copy_of(path, "theirs")
    Table(path).restore(version=target)
    DeltaTable(str(other)).restore(target)
    assert files_of(path) == files_of(other)
    assert multiset(rows_with_delta_rs(path)) == multiset(rows_with_delta_rs(other))


@pytest.mark.parametrize("is_older", [False, True], ids=["repair", "restore"])
def test_missing_files_leave_the_table_on_request(tmp_path: Path, is_older: bool) -> None:
    """`check --fix missing-files` is the `repair` of delta-rs, `FSCK REPAIR` of Databricks."""
    path = write(tmp_path / "t", Compaction(SMALL, None))
    first = pa.table(DeltaTable(str(path)).get_add_actions())["path"][0].as_py()
    if is_older:
        write_deltalake(str(path), pa.table({"id": [9]}), mode="overwrite")
    (path / first).unlink()
    other = copy_of(path, "theirs")
    with pytest.raises(SafetyError):
        Table(path).restore(version=1)
    if is_older:
        Table(path).restore(version=1, ignore_missing=True, expect_files=1)
    else:
        Table(path).fix(kind="missing-files", expect_files=1)
    assert files_of(path) == {"": 1}
    if not is_older:  # in an older version, delta-rs adds a missing file again
        DeltaTable(str(other)).repair()
        assert files_of(other) == files_of(path)
        assert multiset(rows_with_delta_rs(path)) == multiset(rows_with_delta_rs(other))


@pytest.mark.parametrize("partitioned", [False, True])
def test_convert_makes_the_same_table(tmp_path: Path, partitioned: bool) -> None:
    path = tmp_path / "t"
    for number in range(3):
        folder = path / f"n={number}/s=a b" if partitioned else path
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number], "v": ["x"]}), folder / f"{number}.parquet")
    other = copy_of(path, "theirs")
    columns = [Field("n", PrimitiveType("long")), Field("s", PrimitiveType("string"))]
    convert(
        path,
        name="events",
        description="what happened",
        partition_by="n int64, s string" if partitioned else None,
        properties={"delta.logRetentionDuration": "interval 9 days"},
    )
    convert_to_deltalake(
        other,
        partition_by=Schema(columns) if partitioned else None,
        partition_strategy="hive" if partitioned else None,
        name="events",
        description="what happened",
        configuration={"delta.logRetentionDuration": "interval 9 days"},
    )
    first, second = DeltaTable(str(path)), DeltaTable(str(other))
    assert first.schema() == second.schema()
    for table in (first, second):
        meta = table.metadata()
        assert (meta.name, meta.description) == ("events", "what happened")
        assert meta.partition_columns == (["n", "s"] if partitioned else [])
        assert meta.configuration["delta.logRetentionDuration"] == "interval 9 days"
    assert multiset(rows_with_delta_rs(path)) == multiset(rows_with_delta_rs(other))
