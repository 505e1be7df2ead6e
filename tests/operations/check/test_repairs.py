"""Do what the repairs of findings say: newer rows stay, and the finding ends."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import convert
from deltactl.cli.reference.code_rows import describe_codes
from deltactl.codes import load_codes, load_findings
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_duckdb
from tests.operations.check.damages import DAMAGES, SECOND, Damage, add_it_again, edit_vector
from tests.operations.check.damages import remove_by_path_alone as remove_by_path
from tests.operations.check.test_row_ids import tracked
from tests.operations.check.test_schemas import _protocol
from tests.support.checkpoints import fail, new_table
from tests.support.damage import DEEP, codes, edit_action, table
from tests.support.restores import ids_of
from tests.support.table_builder import Column, TableBuilder, commit_path

Steps = list[dict[str, Any]]
KEEP_TIMES = "with their modification times (`cp -p`)"
ROW_IDS: Steps = [
    {"drop_feature": "rowTracking"},
    {"properties": {"delta.enableRowTracking": "true"}},
]
PROTOCOL: Steps = [{"add_feature": ["changeDataFeed"]}]
VECTORS: Steps = [{"add_feature": ["deletionVectors"]}]


def _edited(kind: str, **changes: Any) -> TableBuilder:
    builder = tracked()
    edit_action(builder, 2, kind, **changes)
    return builder


def _with_protocol(protocol: dict[str, Any]) -> TableBuilder:
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    edit_action(builder, 0, "protocol", **protocol)
    builder.append([{"id": 2}])
    return builder


def _damaged(code: str) -> TableBuilder:
    builder = table()
    next(damage for name, _, damage in DAMAGES if name == code)(builder)
    return builder


@contextmanager
def _aside(root: Path, name: str) -> Iterator[None]:
    """Move a file out of the table, and back."""
    moved = (root / name).rename(root.parent / "moved")
    yield
    moved.rename(root / name)


@pytest.mark.parametrize(
    ("code", "make", "steps"),
    [
        ("ROW_IDS_MISSING", partial(_edited, "add", baseRowId=None), ROW_IDS),
        ("ROW_IDS_OVERLAP", partial(_edited, "add", baseRowId=1), ROW_IDS),
        (
            "ROW_IDS_MARK",
            partial(_edited, "domainMetadata", configuration='{"rowIdHighWaterMark":2}'),
            ROW_IDS,
        ),
        *(
            ("PROTOCOL_INVALID", partial(_with_protocol, protocol), PROTOCOL)
            for protocol in (
                _protocol(1, 7),
                _protocol(1, 2, writerFeatures=["appendOnly"]),
                _protocol(3, 7, readerFeatures=["typeWidening"], writerFeatures=[]),
                _protocol(1, 7, writerFeatures=["deletionVectors"]),
            )
        ),
        ("FEATURE_MISSING", partial(_damaged, "FEATURE_MISSING"), VECTORS),
    ],
)
def test_alter_repairs_the_table_and_keeps_its_rows(
    code: str, make: Callable[[], TableBuilder], steps: Steps
) -> None:
    builder = make()
    found = Table("x", store=builder.store)
    assert codes(found.check()) == [code]
    before = ids_of(found)
    assert load_findings()[code].repair.startswith("run `deltactl alter {table} --")
    for step in steps:
        found.alter(**step)
    assert (codes(found.check()), ids_of(found)) == ([], before)


@pytest.mark.parametrize(
    ("code", "damage", "name", "left"),
    [
        ("REMOVE_MISSED", remove_by_path, "p=0/f00001.parquet", [*range(10, 18), *range(20, 28)]),
        ("FILE_DUPLICATE", add_it_again, SECOND, [0, *range(3, 8), *range(20, 28)]),
        (
            "PARTITION_VALUE",
            lambda builder: edit_action(builder, 2, "add", partitionValues={"p": "one"}),
            SECOND,
            [0, *range(3, 8), *range(20, 28)],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_moved_out_and_back_leaves_only_the_latest_version(
    tmp_path: Path, code: str, damage: Damage, name: str, left: Any
) -> None:
    root = tmp_path / "t"
    builder = table()
    damage(builder)
    builder.append([{"id": 99, "name": "newer", "p": 2}])
    builder.copy_to(LocalStore(str(root)))
    found = Table(str(root))
    assert codes(found.check()) == [code]
    number = 2 if code == "FILE_DUPLICATE" else 1
    with _aside(root, name):
        found.fix(kind="missing-files", expect_files=number)
    if code == "PARTITION_VALUE":  # as the explanation says
        found.checkpoint()
    assert codes(found.check(CheckOptions(**DEEP, all_versions=code != "PARTITION_VALUE"))) == []
    assert ids_of(found) == sorted([*left, 99])


@pytest.mark.parametrize("lost", [[5], [4, 5], range(6)])
def test_a_commit_after_the_newest_commits_were_lost(lost: Sequence[int]) -> None:
    """It needs no lost commit. With the originals, the finding ends."""
    properties = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    features = ["deletionVectors", "rowTracking", "inCommitTimestamp"]
    builder = table(features=features, properties=properties)
    builder.commit({"txn": {"appId": "a", "version": 1}})
    found = Table("x", store=builder.store)
    found.checkpoint()
    before, originals = ids_of(found), {it: builder.store.read(commit_path(it)) for it in lost}
    builder.store.delete_many([commit_path(version) for version in lost])
    report = found.check()
    assert codes(report) == ["HISTORY_GAP"]
    (advice,) = report.findings["repair"].to_pylist()
    command = f"deltactl alter {builder.store.uri} --set deltactl.versionAfter=5"
    assert f"restore the newest commits from a backup, {KEEP_TIMES}" in advice
    assert f"If they are lost for good, run `{command}`: " in advice
    found.alter(properties={"deltactl.versionAfter": "5"})
    assert (DeltaLog(builder.store, fail).latest_version, ids_of(found)) == (6, before)
    report = found.check(CheckOptions(**DEEP))
    assert "alter" not in str([report.findings.to_pylist(), report.notes])
    for version, data in originals.items():
        builder.store.put(commit_path(version), data)
    assert (codes(found.check(CheckOptions(**DEEP))), ids_of(found)) == ([], before)


@pytest.mark.parametrize("keeps", ["old", "new", "both"])
def test_a_file_that_another_program_wrote_again(tmp_path: Path, keeps: str) -> None:
    """In a converted table: the old rows, the new ones or both can be kept."""
    root, backup, moved = tmp_path / "t", tmp_path / "backup", tmp_path / "moved"
    root.mkdir()
    for number in range(30):
        pq.write_table(pa.table({"id": [number]}), root / f"data_{number}.parquet")
    convert(str(root))
    found = Table(str(root))
    (root / "data_3.parquet").rename(backup)
    pq.write_table(pa.table({"id": list(range(100, 140))}), root / "data_3.parquet")
    report = found.check(CheckOptions(depth=Depth.FOOTERS))
    assert codes(report) == ["FILE_SIZE", "STATS_BOUNDS", "STATS_ROWS"]
    size, *others = report.findings["repair"].to_pylist()
    assert "`deltactl explain FILE_SIZE`" in size
    assert all(text.startswith("first that of FILE_SIZE") for text in others)
    (root / "data_3.parquet").rename(moved)
    if keeps == "new":
        found.fix(kind="missing-files")
    else:
        backup.rename(root / "data_3.parquet")
    if keeps != "old":
        write_deltalake(DeltaTable(str(root)), pq.read_table(moved), mode="append")
    assert codes(found.check(CheckOptions(depth=Depth.DATA))) == []
    old = set(range(30)) - ({3} if keeps == "new" else set())
    expected = sorted(old | (set() if keeps == "old" else set(range(100, 140))))
    assert ids_of(found) == sorted(row["id"] for row in rows_with_duckdb(root)) == expected


@pytest.mark.parametrize("harm", ["truncated", "flipped", "miscounted"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_file_of_vectors_that_cannot_be_used(tmp_path: Path, harm: str, keeps: bool) -> None:
    """The file has the vector of another data file, which stays."""
    builder = table()
    other = "p=2/f00003.parquet"
    builder.delete_rows(other, [0])
    if harm == "miscounted":
        edit_vector(builder, cardinality=3)
    root = tmp_path / "t"
    builder.copy_to(LocalStore(str(root)))
    vector = _vector_of(root, "p=0/f00001.parquet")
    data = (root / vector).read_bytes()
    if harm == "truncated":
        (root / vector).write_bytes(data[:-6])
    elif harm == "flipped":
        (root / vector).write_bytes(data[:-6] + bytes([data[-6] ^ 1]) + data[-5:])
    warned: list[str] = []
    found = Table(str(root), warn=warned.append)
    (code,) = codes(found.check(CheckOptions(vectors=True)))
    assert any("--fix missing-vectors" in text for text in load_findings()[code].remedies)
    assert found.fix(kind="missing-vectors").is_empty
    told = f"left, because a file has the name: {vector!r} (it has {len(data) - 6} bytes, but"
    assert [text.startswith(told) for text in warned] == ([True] if harm == "truncated" else [])
    choice: dict[str, Any] = {"keep_deleted_rows": True} if keeps else {"drop_files": True}
    with _aside(root, vector):
        found.fix(kind="missing-vectors", texts=["p=0/f00001.parquet"], expect_files=1, **choice)
    assert codes(found.check(CheckOptions(depth=Depth.DATA))) == []
    assert ids_of(found) == [*(range(8) if keeps else ()), *range(10, 18), *range(21, 28)]


@pytest.mark.parametrize("code", ["DATA_FILE", "FILE_MISSING", "FILE_SIZE", "FILE_UNREADABLE"])
def test_rows_of_a_damaged_output_of_optimize_come_back(tmp_path: Path, code: str) -> None:
    remedies = load_codes()[code].remedies
    (restore,) = (n for n, text in enumerate(remedies) if "such as an optimize" in text)
    (fix,) = (n for n, text in enumerate(remedies) if "--fix missing-files" in text)
    assert restore < fix == len(remedies) - 1
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    found = Table(str(tmp_path))
    found.optimize()
    (name,) = found.snapshot().files["path"].to_pylist()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-100])
    assert codes(found.check()) == ["FILE_SIZE"]
    (tmp_path / name).rename(tmp_path.parent / "moved")
    found.restore(version=found.snapshot().version - 1)
    assert codes(found.check()) == []
    assert ids_of(found) == [0, 1, 2, 3]


def _vector_of(root: Path, path: str) -> str:
    files = Table(str(root)).snapshot().files.to_pylist()
    (row,) = (row for row in files if row["path"] == path)
    name = DeletionVector(**row["deletion_vector"]).file_name
    assert name is not None
    return name


@pytest.mark.parametrize("code", sorted(load_findings()))
def test_a_restore_is_advised_only_with_what_it_undoes(code: str) -> None:
    row = load_findings()[code]
    for text in (row.repair, *row.remedies):
        if "deltactl restore" in text or "restore {table}" in text:
            assert "must be written again" in text


@pytest.mark.parametrize("waits_for_log", [False, True])
def test_commands_in_repairs_stand_in_backticks(waits_for_log: bool) -> None:
    """A repair without a backtick that begins with a command is this command."""
    findings = Findings(waits_for_log=waits_for_log)
    for code in load_findings():
        findings.add(code, "a problem", file="a.parquet")
    rows = findings.finish(new_table().store, {}).to_pylist()
    explained = [(row["code"], text) for row in describe_codes() for text in row["remedies"]]
    for code, text in [*((row["code"], row["repair"]) for row in rows), *explained]:
        parts = text.split("`")
        assert len(parts) % 2 == 1, (code, text)
        for command in parts[1::2]:
            assert re.fullmatch(r"[\w.][^,(]*\S", command), (code, text)
        if text.startswith("deltactl "):
            assert len(parts) == 1 and re.fullmatch(r"[^,(]*", text), (code, text)
            assert not waits_for_log, (code, text)
