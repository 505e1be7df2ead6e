# ruff: noqa: E501 - statements are compared whole
"""Manifests say what the snapshot says: read as Hive reads them, they give the table's rows."""

import datetime as dt
import itertools
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from deltactl.cli.output.text import safe_text
from deltactl.errors import (
    CorruptLogError,
    DeltactlError,
    InterruptedRunError,
    PredicateError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
    VersionNotFoundError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.alter.run import AlterOptions, alter_table
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.manifest import run as manifest_run
from deltactl.operations.manifest.run import ManifestOptions, ManifestReport, generate_manifests
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.purge_first import generate_after_purge
from deltactl.operations.restore.run import RestoreOptions, restore_table
from deltactl.operations.run_context import RunContext
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.local.store import LocalStore
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.folding_store import FoldingStore
from tests.support.forwarding import ForwardingStore
from tests.support.restores import bodies
from tests.support.run import run_on
from tests.support.stores import (
    CountingStore,
    Crash,
    Fault,
    FaultyStore,
    MemoryStore,
    States,
    fault_points,
    fresh_store,
)
from tests.support.symlink_reader import list_manifests, read_manifests
from tests.support.table_builder import Column, TableBuilder, commit_path, encode_lines, multiset

_NUMBERS = itertools.count()
COLUMNS = (Column("id"), Column("p", "string"))
REFRESHED = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}


def generate(store: Store, options: ManifestOptions | None = None, **more: Any) -> ManifestReport:
    call = {name: more.pop(name) for name in ("dry_run", "output") if name in more}
    context = RunContext(
        **{"warn": ignore_warning, "clock": FixedClock(), "sleep": lambda seconds: None, **more}
    )
    log = DeltaLog(store, context.warn)
    return generate_after_purge(log, options or ManifestOptions(), context, **call)


def local(tmp_path: Path, **options: Any) -> TableBuilder:
    return TableBuilder(tmp_path / "t x", COLUMNS, partition_by=["p"], **options)


def row(number: int, p: str | None = "a") -> dict[str, Any]:
    return {"id": number, "p": p}


def manifests(tmp_path: Path) -> dict[str, list[str]]:
    return list_manifests(tmp_path / "t x" / MANIFEST_DIR)


def assert_reads_alike(tmp_path: Path, builder: TableBuilder) -> None:
    assert multiset(read_manifests(tmp_path / "t x")) == multiset(builder.rows())


def states(report: ManifestReport) -> dict[str, str]:
    return {partition.folder: partition.state for partition in report.plan.partitions}


# -- contents ----------------------------------------------------------------------------------


def test_partitions_of_all_kinds_read_as_hive_reads_them(tmp_path: Path) -> None:
    builder = local(tmp_path)
    values = ["a b", 'x:y/%"é', None, "a+b}", "a=b", "c'd", "%41"]
    builder.append(*([row(n, p)] for n, p in enumerate(values)))
    report = generate(builder.store)
    assert_reads_alike(tmp_path, builder)
    assert set(states(report)) == {
        "p=a b",
        "p=x%3Ay%2F%25%22é",
        "p=__HIVE_DEFAULT_PARTITION__",
        "p=a+b}",
        "p=a%3Db",
        "p=c%27d",
        "p=%2541",
    }
    assert all(line.startswith(f"file:{tmp_path}/t x/p=") for line in manifests(tmp_path)["p=a b"])


def test_folders_come_from_the_log_and_not_from_where_files_lie(tmp_path: Path) -> None:
    builder = local(tmp_path)
    add = builder.write_file([row(1, "a")])
    moved = {**add["add"], "partitionValues": {"p": "b"}}
    builder.commit({"add": moved})
    generate(builder.store)
    ((folder, (line,)),) = manifests(tmp_path).items()
    assert folder == "p=b" and "/p=a/" in line


def test_all_that_stands_for_null_shares_a_manifest(tmp_path: Path) -> None:
    builder = local(tmp_path)
    null = "__HIVE_DEFAULT_PARTITION__"
    nulls: list[dict[str, str | None]] = [{"p": None}, {"p": ""}, {}, {"p": null}]
    adds = [builder.write_file([row(n, None)])["add"] for n in range(len(nulls))]
    builder.commit(
        *({"add": {**add, "partitionValues": it}} for add, it in zip(adds, nulls, strict=True))
    )
    report = generate(builder.store)
    assert {folder: len(lines) for folder, lines in manifests(tmp_path).items()} == {f"p={null}": 4}
    assert [(it.folder, it.num_files) for it in report.plan.partitions] == [(f"p={null}", 4)]


def test_times_are_named_as_the_protocol_writes_them(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "t x"))
    builder = TableBuilder(store, [Column("id"), Column("t", "timestamp")], partition_by=["t"])
    add = builder.write_file([{"id": 1, "t": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}])
    add["add"]["partitionValues"] = {"t": "2024-01-01T00:00:00.000000Z"}
    builder.commit(add)
    assert set(states(generate(store))) == {"t=2024-01-01T00%3A00%3A00.000000Z"}


def test_absolute_paths_are_kept(tmp_path: Path) -> None:
    builder = local(tmp_path)
    other = LocalStore(str(tmp_path / "elsewhere"))
    path = TableBuilder(other, COLUMNS).append([row(1)])[0]
    spellings = [f"{tmp_path}/elsewhere/{path}", f"file://{tmp_path}/elsewhere/{path}"]
    for number, spelled in enumerate(spellings):
        add = {"path": spelled, "partitionValues": {"p": str(number)}, "size": 1}
        builder.commit({"add": {**add, "modificationTime": 1, "dataChange": True}})
    generate(builder.store)
    lines = [line for found in manifests(tmp_path).values() for line in found]
    assert lines == [f"file:{tmp_path}/elsewhere/{path}"] * 2


def test_a_line_break_in_a_path_cannot_be_named() -> None:
    store = fresh_store()
    builder = TableBuilder(store, COLUMNS)
    add = {"path": "a%0Ab", "partitionValues": {}, "size": 1, "modificationTime": 1}
    builder.commit({"add": {**add, "dataChange": True}})
    with pytest.raises(UnsupportedFeatureError, match=r"'a\\nb' contains a line break"):
        generate(store)


def test_a_line_break_in_the_path_of_the_table_cannot_be_named(tmp_path: Path) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path / "a\nb")), COLUMNS)
    builder.append([row(1)])
    with pytest.raises(UnsupportedFeatureError, match="a%0Ab contains a line break") as caught:
        generate(builder.store)
    assert caught.value.hint == "Move the table to a path without line breaks."
    assert not (tmp_path / "a\nb" / MANIFEST_DIR).exists()


@pytest.mark.parametrize("root", ["/a%0Ab", "file:///a%0Db"])
def test_a_line_break_in_an_absolute_path_cannot_be_named(tmp_path: Path, root: str) -> None:
    builder = TableBuilder(tmp_path / "t x", COLUMNS)
    add = {"path": f"{root}/x", "partitionValues": {}, "size": 1, "modificationTime": 1}
    builder.commit({"add": {**add, "dataChange": True}})
    with pytest.raises(UnsupportedFeatureError, match="contains a line break"):
        generate(builder.store)


def test_unpartitioned_tables_have_one_manifest_be_it_empty(tmp_path: Path) -> None:
    """An emptied table gets an empty manifest: the old one would give back the deleted rows."""
    builder = TableBuilder(tmp_path / "t x", [Column("id")])
    paths = builder.append([{"id": 1}], [{"id": 2}])
    generate(builder.store)
    assert_reads_alike(tmp_path, builder)
    builder.remove(*paths)
    assert states(generate(builder.store)) == {"": "changed"}
    assert manifests(tmp_path) == {"": []}
    assert (tmp_path / "t x" / MANIFEST_DIR / "manifest").read_bytes() == b""


def test_vanished_partitions_lose_their_manifests(tmp_path: Path) -> None:
    """Else engines go on returning rows that were removed."""
    builder = local(tmp_path)
    paths = builder.append([row(1, "a")], [row(2, "b")])
    generate(builder.store)
    builder.remove(paths[0])
    assert states(generate(builder.store)) == {"p=b": "unchanged", "p=a": "stale"}
    assert_reads_alike(tmp_path, builder)
    builder.remove(paths[1])
    generate(builder.store)
    assert manifests(tmp_path) == {}
    # The name of a directory may have a value that must be erased.
    assert [*(tmp_path / "t x" / MANIFEST_DIR).iterdir()] == []


def test_what_else_engines_would_read_there_goes_too(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1, "a b")])
    generate(builder.store)
    root = tmp_path / "t x" / MANIFEST_DIR
    foreign = ["manifest", "p=a%20b/manifest", "p=a b/manifest.old", "q=1/p=2/x"]
    for name in (*foreign, "_SUCCESS", "p=a b/.manifest.crc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("file:/nowhere\n")
    report = generate(builder.store)
    assert sorted(report.plan.stale) == sorted(f"{MANIFEST_DIR}/{name}" for name in foreign)
    assert_reads_alike(tmp_path, builder)
    assert (root / "_SUCCESS").exists()  # hidden: nobody reads it


# -- what is written, and in which order -------------------------------------------------------


def memory(*values: str, **options: Any) -> TableBuilder:
    store = fresh_store()
    builder = TableBuilder(store, COLUMNS, partition_by=["p"], **options)
    if values:
        builder.append(*([row(n, p)] for n, p in enumerate(values)))
    return builder


def written(store: Store) -> dict[str, bytes]:
    """The manifests in memory; a trial of names leaves nothing behind."""
    contents = store.contents()  # type: ignore[attr-defined]
    assert not any(name.startswith(f"{OWN_DIR}/p=") for name in contents)
    return {name: data for name, data in contents.items() if name.startswith(MANIFEST_DIR)}


def test_unchanged_manifests_are_not_written_whatever_the_order_of_their_lines() -> None:
    builder = memory("a", "a", "b")
    generate(builder.store)
    name = f"{MANIFEST_DIR}/p=a/manifest"
    lines = builder.store.read(name).splitlines(keepends=True)
    builder.store.put(name, b"".join(reversed(lines)))
    builder.append([row(5, "b")])
    store = CountingStore(builder.store)
    assert states(generate(store)) == {"p=a": "unchanged", "p=b": "changed"}
    assert store.names["put"] == [f"{MANIFEST_DIR}/p=b/manifest"]
    again = CountingStore(builder.store)
    report = generate(again)
    assert report.plan.is_empty and report.window_ms is None
    assert again.calls["put"] == again.calls["delete_many"] == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["crash", "error"])
def test_what_fails_at_any_call_leaves_each_manifest_old_or_new(action: Any, when: Any) -> None:
    builder = memory("a", "b", "c")
    generate(builder.store)
    assert isinstance(builder.store, MemoryStore)
    paths = {add["partitionValues"]["p"]: add["path"] for add in builder.state.files.values()}
    builder.commit(
        builder.remove_action(paths["a"]),
        builder.write_file([row(8, "b")]),
        builder.write_file([row(9, "d")]),
    )
    before = builder.store.contents()
    faulty = FaultyStore(builder.store)
    assert generate(faulty).window_ms is not None
    after = builder.store.contents()
    states = States(builder.store)
    for at in fault_points(faulty.calls, when, action):
        builder.store.restore(before)
        try:
            generate(FaultyStore(builder.store, Fault(at, action, when)))
        except (Crash, DeltactlError):
            now = builder.store.contents()
            for name in now.keys() | before.keys() | after.keys():
                assert now.get(name) in (before.get(name), after.get(name))
            stale = f"{MANIFEST_DIR}/p=a/manifest"
            if stale not in now:  # deleted last, and only once the store took all others
                assert now == after
        else:
            assert builder.store.contents() == after
        if states.is_new():
            generate(builder.store)
            assert builder.store.contents() == after


class Interrupting(ForwardingStore):
    """Sets an event once it was given a first manifest."""

    def __init__(self, inner: Store, cancel: threading.Event) -> None:
        super().__init__(inner)
        self._cancel = cancel

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        def interrupted() -> Iterator[tuple[str, bytes]]:
            for file in files:
                yield file
                self._cancel.set()

        return super().put_many(interrupted())


def test_an_interrupted_run_leaves_each_manifest_old_or_new() -> None:
    builder = memory("a", "b")
    cancel = threading.Event()
    with pytest.raises(
        InterruptedRunError, match="each manifest is either new or unchanged"
    ) as caught:
        generate(Interrupting(builder.store, cancel), cancel=cancel)
    assert caught.value.is_part_done
    assert states(generate(builder.store)) == {"p=a": "unchanged", "p=b": "new"}


def test_an_interrupted_run_on_a_disk_changed_nothing(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1)], [row(2, "b")])
    cancel = threading.Event()
    with pytest.raises(InterruptedRunError) as caught:
        generate(Interrupting(builder.store, cancel), cancel=cancel)
    assert not caught.value.is_part_done
    assert not [name for batch in builder.store.walk(MANIFEST_DIR) for name in batch]


def test_hidden_files_of_killed_runs_go_once_they_are_a_day_old(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1)])
    generate(builder.store)
    folder = tmp_path / "t x" / MANIFEST_DIR / "p=a"
    now = FixedClock().now_ms() // 1000
    for name, age in (("0" * 32, 90_000), ("1" * 32, 80_000), ("other", 90_000)):
        path = folder / f".deltactl-{name}.tmp"
        path.write_bytes(b"half")
        os.utime(path, (now - age, now - age))
    generate(builder.store, dry_run=True)
    assert len(list(folder.iterdir())) == 4
    generate(builder.store)
    left = [f".deltactl-{'1' * 32}.tmp", ".deltactl-other.tmp", "manifest"]
    assert sorted(path.name for path in folder.iterdir()) == left


def test_hidden_files_that_cannot_be_removed_are_reported(tmp_path: Path) -> None:
    class Refusing(ForwardingStore):
        def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
            return {name: StorageError("no") for name in names}

    builder = local(tmp_path)
    name = f"{MANIFEST_DIR}/p=a/.deltactl-{'0' * 32}.tmp"
    builder.store.put(name, b"half")
    os.utime(tmp_path / "t x" / name, (0, 0))
    warned: list[str] = []
    generate(Refusing(builder.store), warn=warned.append)
    assert warned == [f"1 hidden file of killed runs could not be deleted, such as {name!r}"]


# -- selection ---------------------------------------------------------------------------------


def test_where_touches_matching_partitions_alone() -> None:
    builder = memory("a", "b")
    assert generate(builder.store).is_up_to_date
    paths = {add["partitionValues"]["p"]: add["path"] for add in builder.state.files.values()}
    builder.remove(paths["a"], paths["b"])
    builder.append([row(5, "c")], [row(6, "d")])
    report = generate(builder.store, ManifestOptions(where="p IN ('a', 'c')"))
    assert states(report) == {"p=c": "new", "p=a": "stale"}
    assert states(generate(builder.store)) == {"p=c": "unchanged", "p=d": "new", "p=b": "stale"}
    with pytest.raises(PredicateError):
        generate(builder.store, ManifestOptions(where="id = 1"))


@pytest.mark.parametrize("check", [False, True])
def test_a_condition_that_matches_no_partition_is_a_warning(check: bool) -> None:
    builder = memory("a", "b")
    generate(builder.store)
    warnings: list[str] = []
    options = ManifestOptions(where="p = 'c'", check=check)
    report = run_on(builder.store, generate_manifests, options, warn=warnings.append)
    assert report.plan.is_empty
    assert [text.partition(";")[0] for text in warnings] == [
        "no file of version 1 is in a partition with p = 'c'"
    ]
    builder.remove(next(path for path, _ in builder.state.files))  # its manifest is left
    options = ManifestOptions(where="p = 'a'", check=check)
    report = run_on(builder.store, generate_manifests, options, warn=pytest.fail)
    assert states(report) == {"p=a": "stale"}


@pytest.mark.parametrize("where", ["n >= 2", "p = 'a'"])
def test_manifests_of_other_partition_columns_are_deleted_whatever_is_chosen(where: str) -> None:
    store = fresh_store()
    columns = [*COLUMNS, Column("n", "integer")]
    builder = TableBuilder(store, columns, partition_by=["n", "p"])
    builder.append([{**row(1, "b"), "n": 1}])
    builder.append([{**row(2, "a"), "n": 2}])
    foreign = ("", "n=2", "n=x/p=b", "p=a/n=2", "n=2/p=a/x=1", "n=2/p", "n=2/p=\udcff")
    kept = ("n=__HIVE_DEFAULT_PARTITION__/p=b", "n=0/p=c")
    for folder in (*foreign, *kept):
        store.put("/".join(filter(None, (MANIFEST_DIR, folder, "manifest"))), b"")
    told: list[str] = []
    options = ManifestOptions(where=where)
    wanted = {"n=2/p=a": "new", **dict.fromkeys(foreign, "stale")}
    check = generate(store, replace(options, check=True), warn=told.append)
    assert states(check) == wanted and not check.is_up_to_date
    assert len(told) == 1 and "_symlink_format_manifest/manifest' is not of a partition" in told[0]
    assert states(generate(store, options)) == wanted
    assert states(generate(store, options, warn=pytest.fail)) == {"n=2/p=a": "unchanged"}
    assert set(written(store)) == {f"{MANIFEST_DIR}/{it}/manifest" for it in ("n=2/p=a", *kept)}


def test_a_condition_on_a_repartitioned_table_leaves_no_manifest_of_the_old_layout(
    tmp_path: Path,
) -> None:
    columns = [*COLUMNS, Column("q", "string")]
    builder = TableBuilder(tmp_path / "t x", columns, partition_by=["p"])
    builder.append([{**row(1), "q": "x"}], [{**row(2, "b"), "q": "y"}])
    generate(builder.store)
    builder.remove(*(path for path, _ in builder.state.files))
    builder.change_metadata(partitionColumns=["q"])
    builder.partition_by = ("q",)
    builder.append([{**row(3), "q": "x"}])
    report = generate(builder.store, ManifestOptions(where="q = 'x'"))
    assert states(report) == {"q=x": "new", "p=a": "stale", "p=b": "stale"}
    assert_reads_alike(tmp_path, builder)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_since_the_version_of_a_repartition_writes_all_manifests(
    tmp_path: Path, is_recorded: bool
) -> None:
    """Also if the manifests of the old layout were put back behind the record."""
    columns = [*COLUMNS, Column("q", "string")]
    builder = TableBuilder(tmp_path / "t x", columns, partition_by=["p"])
    builder.append([{**row(1), "q": "x"}], [{**row(2, "b"), "q": "y"}])
    generate(builder.store)
    shutil.copytree(tmp_path / "t x" / MANIFEST_DIR, tmp_path / "old")
    builder.partition_by = ("q",)
    builder.commit(
        builder.metadata_action(partitionColumns=["q"]),
        *(builder.remove_action(path) for path, _ in builder.state.files),
        *(builder.write_file([{**row(3), "q": q}]) for q in "xy"),
    )
    since = ManifestOptions(since=builder.version)
    if is_recorded:
        generate(builder.store, since)
        shutil.rmtree(tmp_path / "t x" / MANIFEST_DIR)
        shutil.copytree(tmp_path / "old", tmp_path / "t x" / MANIFEST_DIR)
    report = generate(builder.store, since)
    assert states(report) == {"q=x": "new", "q=y": "new", "p=a": "stale", "p=b": "stale"}
    assert_reads_alike(tmp_path, builder)


def test_since_begins_at_the_recorded_version_and_without_one_compares_all() -> None:
    """Without the property too: a version that is not recorded may be after that of a manifest."""
    builder = memory("a")
    generate(builder.store)
    builder.append([row(5, "b")])
    told: list[str] = []
    since = ManifestOptions(since=2)
    report = generate(builder.store, replace(since, check=True), warn=told.append)
    assert states(report) == {"p=a": "unchanged", "p=b": "new"}
    assert states(generate(builder.store, since, warn=told.append)) == states(report)
    assert [it.partition(":")[0] for it in told] == [
        "no version of the manifests up to 2 is recorded"
    ] * 2
    builder.append([row(6, "c")])
    generate(builder.store)  # recorded, as a later run needs it
    builder.append([row(7, "c")])
    builder.append([row(8, "d")])
    for options in (replace(since, since=5, check=True), replace(since, since=5)):
        report = generate(builder.store, options)
        assert states(report) == {"p=c": "changed", "p=d": "new"}
    generate(builder.store, ManifestOptions(version=1))
    report = generate(builder.store, replace(since, since=5))
    assert states(report) == {"p=b": "new", "p=c": "new", "p=d": "new"}


def test_a_run_without_since_records_no_version() -> None:
    """It would cost six requests that no later run needs."""
    store = memory("a").store
    for _ in range(2):
        generate(store)
    assert not any(name.startswith(OWN_DIR) for name in store.contents())  # type: ignore[attr-defined]


def test_since_in_another_directory() -> None:
    builder, output = memory("a"), fresh_store()
    generate(builder.store, output=output)
    builder.append([row(5, "b")])
    generate(builder.store, ManifestOptions(where="p = 'b'"), output=output)
    builder.append([row(5, "a")])
    since = ManifestOptions(since=3)
    assert states(generate(builder.store, since, output=output)) == {
        "p=a": "changed",
        "p=b": "unchanged",
    }
    builder.append([row(6, "b")])
    assert states(generate(builder.store, since, output=output)) == {"p=b": "changed"}
    first, other = ManifestOptions(since=0), fresh_store()
    generate(builder.store, first, output=other)
    builder.append([row(6, "c")])
    told: list[str] = []
    generate(builder.store, ManifestOptions(since=4), output=other, warn=told.append)
    assert told == []  # the first run recorded its version


def test_since_touches_what_later_versions_touched() -> None:
    builder = memory("a", "b", None)  # type: ignore[arg-type]
    first = builder.version
    generate(builder.store, ManifestOptions(since=first))
    builder.store.delete_many(list(written(builder.store)))
    paths = {add["partitionValues"]["p"]: add["path"] for add in builder.state.files.values()}
    builder.append([row(5, "c")])
    builder.remove(paths["b"], paths[None])
    report = generate(builder.store, ManifestOptions(since=first))
    assert states(report) == {"p=c": "new"}
    builder.store.put(f"{MANIFEST_DIR}/p=b/manifest", b"")
    builder.store.put(f"{MANIFEST_DIR}/p=__HIVE_DEFAULT_PARTITION__/manifest", b"")
    builder.store.put(f"{MANIFEST_DIR}/p=zzz/manifest", b"")
    report = generate(builder.store, ManifestOptions(since=first))
    assert {folder for folder, state in states(report).items() if state == "stale"} == {
        "p=b",
        "p=__HIVE_DEFAULT_PARTITION__",
    }


@pytest.mark.parametrize("since", [0, 9])
def test_since_a_version_whose_commits_are_unknown_compares_all(since: int) -> None:
    builder = memory("a")
    builder.append([row(5, "c")])
    if since == 0:
        generate(builder.store, ManifestOptions(since=0))
    why = "is recorded" if since else "deleted from the log"
    builder.checkpoint()
    builder.store.delete_many([f"_delta_log/{1:020d}.json"])
    told: list[str] = []
    report = generate(builder.store, ManifestOptions(since=since), warn=told.append)
    assert set(states(report)) == {"p=a", "p=c"}
    assert any(why in message for message in told)


def test_only_chosen_partitions_are_purged_and_checked_for_vectors() -> None:
    where = "p = 'a'"
    builder = memory("c")
    (path,) = builder.append([row(8, "b"), row(9, "b")])
    builder.delete_rows(path, [0])
    assert builder.version == 3
    (path,) = builder.append([row(5, "a"), row(6, "a")])
    assert states(generate(builder.store, ManifestOptions(where=where))) == {"p=a": "new"}
    builder.delete_rows(path, [0])
    with pytest.raises(UnsupportedFeatureError, match="1 live file of .* has deletion") as caught:
        generate(builder.store, ManifestOptions(where=where))
    command = f"`deltactl generate-manifest {builder.store.uri} "
    command += "--where 'p = '\"'\"'a'\"'\"'' --purge-first`"
    assert command in (caught.value.hint or "")
    before = builder.version
    report = generate(builder.store, ManifestOptions(where=where, purge_first=True))
    assert (states(report), report.purged_from) == ({"p=a": "changed"}, before)
    assert {remove["path"] for remove in bodies(builder.store, before + 1, "remove")} == {path}
    rest = ManifestOptions(where="p = 'c'", purge_first=True)
    report = generate(builder.store, rest, warn=pytest.fail)
    assert (states(report), report.purged_from) == ({"p=c": "new"}, None)
    with pytest.raises(UnsupportedFeatureError, match="1 live file"):
        generate(builder.store)


def test_since_purges_all_partitions_that_it_considers() -> None:
    """Without a recorded version, all."""
    builder = memory("c")
    for p in "ab":
        (path,) = builder.append([row(8, p), row(9, p)])
        builder.delete_rows(path, [0])
    options = ManifestOptions(since=builder.version - 1, purge_first=True)
    assert set(states(generate(builder.store, options))) == {"p=a", "p=b", "p=c"}


def test_a_condition_for_removed_partitions_purges_nothing() -> None:
    builder = memory("a")
    generate(builder.store)
    [(removed, _)] = builder.state.files
    builder.remove(removed)
    (path,) = builder.append([row(8, "b"), row(9, "b")])
    builder.delete_rows(path, [0])
    options = ManifestOptions(where="p = 'a'", purge_first=True)
    report = generate(builder.store, options, warn=pytest.fail)
    assert (states(report), report.purged_from) == ({"p=a": "stale"}, None)


def test_an_older_version_can_be_named() -> None:
    builder = memory("a")
    builder.append([row(5, "c")])
    assert set(states(generate(builder.store, ManifestOptions(version=1)))) == {"p=a"}
    with pytest.raises(VersionNotFoundError):
        generate(builder.store, ManifestOptions(version=9))


@pytest.mark.parametrize("more", [{}, {"check": True}, {"where": "p = 'a'"}, {"since": 0}])
def test_an_older_version_without_all_its_files_is_refused(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Also if the files of only some partitions are gone; others can be written."""
    builder = local(tmp_path)
    gone, _ = builder.append([row(1)], [row(2, "b")])
    builder.remove(gone)
    generate(builder.store)
    before = manifests(tmp_path)
    builder.store.delete_many([gone])
    options = ManifestOptions(version=1, **more)
    with pytest.raises(SafetyError, match="1 file of version 1 cannot be read: 'p=a/") as caught:
        generate(builder.store, options)
    assert "--restorable` to see" in (caught.value.hint or "")
    assert manifests(tmp_path) == before
    report = generate(builder.store, ManifestOptions(version=1, where="p = 'b'"))
    assert states(report) == {"p=b": "unchanged"}
    assert generate(builder.store, ManifestOptions(version=2)).plan.is_empty


def test_the_files_of_the_latest_version_are_not_looked_for(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.store.delete_many(builder.append([row(1)]))
    for options in (ManifestOptions(), ManifestOptions(version=1)):
        generate(builder.store, options)
    assert manifests(tmp_path)


def test_schemes_and_roots_elsewhere() -> None:
    builder = memory("a")
    output = fresh_store()
    options = ManifestOptions(schemes={"memory": "s3"})
    report = generate(builder.store, options, output=output)
    assert report.root == f"{output.uri}/{MANIFEST_DIR}"
    (name,) = (it for it in output.contents() if it.startswith(MANIFEST_DIR))
    rest = builder.store.uri.removeprefix("memory://")
    assert output.read(name).decode().startswith(f"s3://{rest}/p=a/")
    assert not any(
        MANIFEST_DIR in batch_name for batch in builder.store.walk() for batch_name in batch
    )


@pytest.mark.parametrize("has_record", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_manifests_of_another_table_stay(has_record: bool, dry_run: bool) -> None:
    one, other = memory("a"), memory("b")
    output = fresh_store()
    generate(one.store, ManifestOptions(schemes={"memory": "s3"}), output=output)
    if not has_record:
        output.delete_many([name for name in output.contents() if MANIFEST_DIR not in name])
    before = output.contents()
    with pytest.raises(SafetyError, match="of another table"):
        generate(other.store, output=output, dry_run=dry_run)
    assert output.contents() == before
    one.append([row(5, "c")])
    assert generate(one.store, output=output, dry_run=dry_run).plan.count("new") == 1
    output.delete_many([name for name in output.contents() if MANIFEST_DIR in name])
    generate(other.store, output=output)
    assert generate(other.store, output=output).plan.is_empty


@pytest.mark.parametrize("place", ["other", "other/_delta_log", "t x/_delta_log/a"])
def test_manifests_are_not_put_in_a_log_or_another_table(tmp_path: Path, place: str) -> None:
    builder = local(tmp_path)
    TableBuilder(LocalStore(str(tmp_path / "other")), COLUMNS)
    with pytest.raises(SafetyError, match="no manifest was written"):
        generate(builder.store, output=LocalStore(str(tmp_path / place)))


def test_the_directory_of_the_table_is_the_default_output(tmp_path: Path) -> None:
    builder = local(tmp_path)
    generate(builder.store, output=LocalStore(str(tmp_path / "t x")))
    assert generate(builder.store).plan.is_empty


@pytest.mark.parametrize("look", ["check", "dry_run"])
def test_a_look_changes_nothing_and_sees_everything(look: str) -> None:
    builder = memory("a", "b")
    generate(builder.store)
    paths = {add["partitionValues"]["p"]: add["path"] for add in builder.state.files.values()}
    builder.remove(paths["a"])
    builder.append([row(5, "b")], [row(6, "c")])
    store = refuse_changes(builder.store)
    options = ManifestOptions(check=look == "check")
    report = generate(store, options, dry_run=look == "dry_run")
    assert states(report) == {"p=b": "changed", "p=c": "new", "p=a": "stale"}
    assert not report.is_up_to_date and report.dry_run


@pytest.mark.parametrize(
    "options",
    [
        {"since": 3, "version": 2},
        {"schemes": {"s3a://": "s3"}},
        {"purge_first": True, "version": 1},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ManifestOptions(**options)


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_column_mapping_is_refused(mapping: str) -> None:
    builder = memory("a", mapping=mapping)
    with pytest.raises(UnsupportedFeatureError, match="uses column mapping") as caught:
        generate(builder.store)
    assert "--drop-feature columnMapping`" in (caught.value.hint or "")


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
def test_older_types_of_columns_are_a_warning(feature: str) -> None:
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    columns = (Column("id", metadata=changes), Column("p", "string"))
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"], features=[feature])
    builder.append([row(1)])
    warnings: list[str] = []
    generate(builder.store, warn=warnings.append)
    [warning] = warnings
    assert warning.startswith("older files may have other types of the columns id: ")
    assert f"--drop-feature {feature} --dry-run` shows whether" in warning
    generate(builder.store, warn=warnings.append)
    assert warnings == [warning]  # the second run changes nothing
    builder.append([row(2)])
    generate(builder.store, warn=warnings.append, dry_run=True)
    assert warnings == [warning] * 2


@pytest.mark.parametrize("values", [("DE", "de"), ("\u00e9", "e\u0301"), ("a", "DE", "dE", "de")])
def test_partitions_that_a_file_system_puts_into_one_directory_are_refused(
    values: tuple[str, ...],
) -> None:
    store = memory(*values).store
    with pytest.raises(SafetyError, match="takes 'p=.*' and 'p=.*' for one directory"):
        generate(FoldingStore(store))
    assert not written(store)
    generate(store)
    assert len(written(store)) == len(values)


def test_the_manifest_of_a_removed_partition_may_be_that_of_a_live_one() -> None:
    builder = memory("DE")
    generate(FoldingStore(builder.store))
    before = written(builder.store)
    [(path, _)] = builder.state.files
    builder.remove(path)
    builder.append([row(1, "de")])
    with pytest.raises(SafetyError, match="takes 'p=DE' and 'p=de' for one directory"):
        generate(FoldingStore(builder.store))
    assert written(builder.store) == before


def test_other_partitions_need_no_trial() -> None:
    store = memory("a", "b").store
    generate(FoldingStore(store), warn=pytest.fail)
    assert len(written(store)) == 2


# -- statements --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "types", "add", "drop"),
    [
        (
            "athena",
            ["`i` int", "`b` tinyint", "`s` struct<`x`:array<string>>", "`c` decimal(9,2)"],
            "ALTER TABLE `t` ADD IF NOT EXISTS\n  PARTITION (`d` = '2024-01-01', `n` = 5) LOCATION '",
            "ALTER TABLE `t` DROP IF EXISTS PARTITION (`d` = '__HIVE_DEFAULT_PARTITION__', `n` = 6);",
        ),
        (
            "redshift",
            ['"i" integer', '"b" smallint', '"s" struct<x:array<varchar(65535)>>'],
            'ALTER TABLE spectrum."t" ADD IF NOT EXISTS\n  PARTITION ("d" = \'2024-01-01\', "n" = 5)',
            'ALTER TABLE spectrum."t" DROP PARTITION ("d" = \'__HIVE_DEFAULT_PARTITION__\', "n" = 6);',
        ),
        (
            "trino",
            ["`i` int"],
            "partition_columns => ARRAY['d', 'n'], partition_values => ARRAY['2024-01-01', '5'], loc",
            "CALL system.unregister_partition(schema_name => 'default', table_name => 't'",
        ),
        (
            "hive",
            ["`i` int"],
            "PARTITION (`d` = '2024-01-01', `n` = 5)",
            "DROP IF EXISTS PARTITION",
        ),
    ],
)
def test_statements_of_each_engine(engine: Any, types: list[str], add: str, drop: str) -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    inner = {"type": "array", "elementType": "string", "containsNull": True}
    struct = {
        "type": "struct",
        "fields": [{"name": "x", "type": inner, "nullable": True, "metadata": {}}],
    }
    columns = [
        Column("i", "integer"),
        Column("b", "byte"),
        Column("s", struct),
        Column("c", "decimal(9,2)"),
        Column("d", "date"),
        Column("n", "long"),
    ]
    builder = TableBuilder(store, columns, partition_by=["d", "n"])
    values = dict.fromkeys("ibsc") | {"d": dt.date(2024, 1, 1), "n": 5}
    builder.append([values])
    store.put(f"{MANIFEST_DIR}/d=__HIVE_DEFAULT_PARTITION__/n=6/manifest", b"")
    options = ManifestOptions(ddl=engine, schemes={"memory": "s3"})
    statements = generate(store, options).ddl
    create, text = statements[0], "\n".join(statements)
    if engine == "trino":
        assert create.startswith("-- Run this statement in Hive: ")
        assert [text.startswith("-- Run this statement, and") for text in statements[1:]] == [
            True,
            False,
        ]
        create = create.partition("\n")[2]
    assert create.startswith("CREATE EXTERNAL TABLE")
    assert all(column in create for column in types)
    assert "SymlinkTextInputFormat" in create
    root = f"s3://{store.uri.removeprefix('memory://')}/{MANIFEST_DIR}/"
    assert f"LOCATION '{root}';" in create
    assert add in text and drop in text and f"'{root}d=2024-01-01/n=5/'" in text


def by_texts(type_: str, *texts: str) -> TableBuilder:
    """A table with a file for each text of a partition value."""
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    builder = TableBuilder(store, [Column("id"), Column("n", type_)], partition_by=["n"])
    adds = [builder.write_file([{"id": n, "n": None}])["add"] for n in range(len(texts))]
    for add, text in zip(adds, texts, strict=True):
        add["partitionValues"] = {"n": text}
    builder.commit(*({"add": add} for add in adds))
    return builder


def test_local_addresses_in_statements_are_not_encoded(tmp_path: Path) -> None:
    root = tmp_path / "é #%41 x"
    TableBuilder(LocalStore(str(root)), COLUMNS, partition_by=["p"]).append([row(1)])
    create, add = generate(LocalStore(str(root)), ManifestOptions(ddl="hive")).ddl
    assert create.startswith("CREATE EXTERNAL TABLE `é_41_x` (")
    assert f"LOCATION 'file://{root}/{MANIFEST_DIR}/';" in create
    assert f"LOCATION 'file://{root}/{MANIFEST_DIR}/p=a/';" in add


@pytest.mark.parametrize("engine", [None, "athena", "trino", "hive", "redshift"])
@pytest.mark.parametrize("text", ["2) LOCATION 's3://elsewhere/' --", "1_0", "x"])
def test_a_value_that_is_none_of_its_type_is_refused(engine: Any, text: str) -> None:
    builder = by_texts("integer", "1", text)
    with pytest.raises(CorruptLogError, match="of column 'n' is not a valid integer"):
        generate(builder.store, ManifestOptions(ddl=engine))


@pytest.mark.parametrize(
    ("type_", "texts", "literal"),
    [
        ("integer", ["7", "007", "+7"], "7"),
        ("decimal(9,2)", ["1.5", "1.50", "15e-1"], "1.50"),
        ("double", ["1", "1.0", "1e0"], "1.0"),
        ("double", ["Infinity", "inf"], "'Infinity'"),
        ("boolean", ["true", "TRUE"], "true"),
        ("date", ["2024-01-02", "2024-1-2"], "'2024-01-02'"),
        (
            "timestamp",
            ["2024-01-02 00:00:00", "2024-01-02T00:00:00.000000Z", "2024-01-02 02:00:00+02:00"],
            "'2024-01-02 00:00:00'",
        ),
        ("timestamp_ntz", ["2024-01-02 00:00:00.5", "2024-01-02T00:00:00.500"], None),
    ],
)
def test_texts_of_one_value_are_one_partition(
    type_: str, texts: list[str], literal: str | None
) -> None:
    literal = literal or "'2024-01-02 00:00:00.500000'"
    builder = by_texts(type_, *texts)
    report = generate(builder.store, ManifestOptions(ddl="hive"))
    assert len(states(report)) == 1
    assert report.ddl[1].count("PARTITION (") == 1
    assert f"PARTITION (`n` = {literal}) LOCATION" in report.ddl[1]


def test_a_directory_of_another_text_is_dropped_before_the_partition_is_added() -> None:
    builder = by_texts("integer", "7")
    for text in ("007", "x) --"):
        builder.store.put(f"{MANIFEST_DIR}/n={text}/manifest", b"")
    _, drop, add = generate(builder.store, ManifestOptions(ddl="hive")).ddl
    assert drop == "ALTER TABLE `t` DROP IF EXISTS PARTITION (`n` = 7);"
    assert "PARTITION (`n` = 7) LOCATION" in add


@pytest.mark.parametrize(
    "name", ["@type", "a-b", "a.b", "a b", "_id", "select", "a`b", "x:bigint>"]
)
def test_names_of_struct_members_are_quoted_or_refused(name: str) -> None:
    member = {"name": name, "type": "long", "nullable": True, "metadata": {}}
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    TableBuilder(store, [Column("s", {"type": "struct", "fields": [member]})]).append([{"s": None}])
    quoted = f"struct<`{name}`:bigint>"
    possible: dict[Any, tuple[str, ...]] = {
        "hive": ("_id", "select", "a.b", "a b"),
        "trino": ("_id", "select", "a.b", "a b"),  # whose tables Hive creates
        "athena": ("_id", "select", "a.b"),
        "redshift": ("_id",),
    }
    for engine, names in possible.items():
        options = ManifestOptions(ddl=engine, schemes={"memory": "s3"})
        if name in names:
            (create,) = generate(store, options).ddl
            assert quoted in create or engine == "redshift"
        else:
            whose = engine.replace("trino", "hive").capitalize()
            says = re.escape(f"{whose} cannot have the name {name!r} in column 's'")
            with pytest.raises(UnsupportedFeatureError, match=says):
                generate(store, options)


@pytest.mark.parametrize("name", ["a b", "größe", "a.b", "a:b", "a,b"])
@pytest.mark.parametrize("engine", ["athena", "hive", "trino"])
def test_names_that_an_engine_may_reject_are_in_a_comment(engine: Any, name: str) -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    TableBuilder(store, [Column("id"), Column(name)]).append([{"id": 1, name: 1}])
    (create,) = generate(store, ManifestOptions(ddl=engine, schemes={"memory": "s3"})).ddl
    comments, _, statement = create.rpartition("CREATE EXTERNAL TABLE")
    is_odd = engine == "athena" or name[1] in ".:,"
    said = f"-- {'Athena' if engine == 'athena' else 'Hive'} may reject the names {name!r}: "
    assert comments.startswith(said) == is_odd
    assert f"`{name}` bigint" in statement


@pytest.mark.parametrize("engine", ["athena", "redshift"])
def test_an_engine_that_reads_only_s3_gets_no_other_address(engine: Any, tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path / "t", [Column("id")])
    builder.append([{"id": 1}])
    with pytest.raises(UnsupportedFeatureError, match="reads tables on S3 only") as caught:
        generate(builder.store, ManifestOptions(ddl=engine))
    assert "scheme" not in (caught.value.hint or "")  # a file: address has no bucket
    assert not (tmp_path / "t" / MANIFEST_DIR).exists()
    output = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/out")
    options = ManifestOptions(ddl=engine, schemes={"memory": "s3"})
    with pytest.raises(UnsupportedFeatureError, match="the data files are under file:"):
        generate(builder.store, options, output=output)


@pytest.mark.parametrize("columns", [["p"], ["p", "v"]])
@pytest.mark.parametrize("engine", ["athena", "hive", "redshift", "trino"])
def test_statements_without_a_column_are_refused(engine: Any, columns: list[str]) -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    kinds = {"p": "string", "v": "void"}
    builder = TableBuilder(store, [Column(it, kinds[it]) for it in columns], partition_by=["p"])
    builder.commit(builder.metadata_action())
    options = ManifestOptions(ddl=engine, schemes={"memory": "s3"})
    with pytest.raises(UnsupportedFeatureError, match="a column that is not a partition column"):
        generate(store, options)


@pytest.mark.parametrize("name", ["a;b", "a\nb", "${x}"])
def test_names_that_clients_of_hive_would_split_are_refused(name: str) -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    TableBuilder(store, [Column(name)]).append([{name: 1}])
    with pytest.raises(UnsupportedFeatureError, match="Hive cannot have the name"):
        generate(store, ManifestOptions(ddl="hive"))


def hive_value(literal: str) -> str:
    """What Hive makes of the literals from a quote on: its lexer, then its unescapeSQLString."""
    pieces = re.match(r"(?s)(?:'(?:[^'\\]|\\.)*')+", literal)
    assert pieces is not None
    text = "".join(re.findall(r"(?s)'((?:[^'\\]|\\.)*)'", pieces[0]))
    escapes = dict(
        zip("bnrt0Z%_", ["\b", "\n", "\r", "\t", "\0", "\x1a", "\\%", "\\_"], strict=True)
    )

    def unescape(found: re.Match[str]) -> str:
        code, char = found[1], found[2]
        return chr(int(code, 16)) if code else escapes.get(char, char)

    return re.sub(r"(?s)\\(?:u([0-9a-f]{4})|(.))", unescape, text)


def redshift_value(literal: str) -> str:
    text = re.match(r"(?s)'((?:[^'\\]|''|\\.)*)'", literal)
    assert text is not None
    return re.sub(r"(?s)''|\\(.)", lambda found: found[1] or "'", text[1])


def standard_value(literal: str) -> str:
    text = re.match(r"(?s)(U&)?'((?:[^']|'')*)'", literal)
    assert text is not None
    value = text[2].replace("''", "'")
    if not text[1]:
        return value
    code = r"\\(?:(\\)|([0-9a-f]{4})|\+([0-9a-f]{6}))"
    return re.sub(code, lambda found: found[1] or chr(int(found[2] or found[3], 16)), value)


@pytest.mark.parametrize(
    "value",
    [
        *("back\\slash", "it's", "\\", "\\'", "a\nb", "${x}", "a;b", "\\u0041", "\\%", 'q"', "$1"),
        *("a\tb", "\x9f'\\\u202e"),
    ],
)
@pytest.mark.parametrize(
    ("engine", "before", "read"),
    [
        ("hive", "PARTITION (`p``q` = ", hive_value),
        ("athena", "PARTITION (`p``q` = ", hive_value),
        ("trino", "partition_values => ARRAY[", standard_value),
        ("redshift", 'PARTITION ("p`q" = ', redshift_value),
    ],
)
def test_literals_are_read_as_they_were_meant(
    engine: Any, before: str, read: Callable[[str], str], value: str
) -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/it's {{t}}")
    builder = TableBuilder(store, [Column("id"), Column("p`q", "string")], partition_by=["p`q"])
    builder.append([{"id": 1, "p`q": value}])
    options = ManifestOptions(ddl=engine, schemes={"memory": "s3"})
    create, add = generate(store, options).ddl
    literal = add.partition(before)[2]  # Redshift reads the escapes of the page as C does
    assert read(literal if engine == "redshift" else safe_text(literal)) == value
    place = hive_value if engine == "trino" else read  # Hive runs the CREATE for Trino
    root = f"s3:{store.uri.removeprefix('memory:')}/{MANIFEST_DIR}/"
    assert place(create.partition("LOCATION ")[2]) == root
    assert read(re.split("(?:LOCATION|location =>) ", add)[1]).startswith(root)
    if engine in ("hive", "athena"):
        assert "${" not in add and add.count("\n") == 1 and add.count(";") == 1


def test_negative_numbers_have_quotes() -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    builder = TableBuilder(store, [Column("id"), Column("n", "integer")], partition_by=["n"])
    builder.append([{"id": 1, "n": -5}], [{"id": 2, "n": 7}])
    _, add = generate(store, ManifestOptions(ddl="hive")).ddl
    assert "PARTITION (`n` = '-5')" in add
    assert "PARTITION (`n` = 7)" in add


def test_many_partitions_are_added_a_hundred_at_a_time() -> None:
    store = MemoryStore(f"memory://ddl/{next(_NUMBERS)}/t")
    builder = TableBuilder(store, [Column("id"), Column("n", "integer")], partition_by=["n"])
    builder.append(*([{"id": 1, "n": n}] for n in range(150)))
    statements = generate(store, ManifestOptions(ddl="hive")).ddl
    assert [text.count("PARTITION (") for text in statements] == [0, 100, 50]


# -- after our own commits ---------------------------------------------------------------------


def test_our_commits_refresh_the_partitions_they_touched(tmp_path: Path) -> None:
    builder = local(tmp_path, properties=REFRESHED)
    builder.append(*([row(n, "ab"[n % 2])] for n in range(6)))
    builder.append([row(9, "c")])
    # A killed run may have left this: it says of no partition that it has a manifest.
    builder.store.put(f"{MANIFEST_DIR}/p=a/.deltactl-{'0' * 32}.tmp", b"half")
    run_on(builder.store, optimize_table, OptimizeOptions(where="p = 'a'"))
    assert set(manifests(tmp_path)) == {"p=a", "p=b", "p=c"}  # there were none: all
    assert_reads_alike(tmp_path, builder)
    untouched = tmp_path / "t x" / MANIFEST_DIR / "p=c/manifest"
    os.utime(untouched, (1, 1))
    untouched.write_text("file:/written/by/another/program\n")
    run_on(builder.store, optimize_table, OptimizeOptions())
    assert len(manifests(tmp_path)["p=b"]) == 1
    assert untouched.read_text() == "file:/written/by/another/program\n"


def test_a_refresh_keeps_the_scheme_of_the_manifests(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1, "a")], [row(2, "a")], [row(3, "b")])
    options = ManifestOptions(schemes={"file": "hdfs"})
    generate(builder.store, options)
    run_on(builder.store, alter_table, AlterOptions(properties=REFRESHED))
    assert generate(builder.store, replace(options, check=True)).plan.is_empty
    run_on(builder.store, optimize_table, OptimizeOptions(where="p = 'a'"))
    assert len(manifests(tmp_path)["p=a"]) == 1
    assert generate(builder.store, replace(options, check=True)).plan.is_empty


def test_a_refresh_of_a_shallow_clone_keeps_the_scheme_of_the_manifests(tmp_path: Path) -> None:
    source, clone = local(tmp_path / "source"), LocalStore(str(tmp_path / "clone"))
    source.append([row(1, "a")], [row(2, "a")], [row(3, "b")])
    Table(source.store.uri, warn=lambda _: None).clone(clone.uri, CloneOptions(deep=False))
    options = ManifestOptions(schemes={"file": "hdfs"})
    generate(clone, options)
    run_on(clone, alter_table, AlterOptions(properties=REFRESHED))
    assert generate(clone, replace(options, check=True)).plan.is_empty
    # The first file is then outside the table and no longer live.
    run_on(clone, optimize_table, OptimizeOptions(where="p = 'a'"))
    found = list_manifests(tmp_path / "clone" / MANIFEST_DIR)
    (moved,), (kept,) = found["p=a"], found["p=b"]
    assert moved.startswith(f"hdfs:{tmp_path}/clone/")
    assert kept.startswith(f"hdfs:{tmp_path}/source/")
    assert generate(clone, replace(options, check=True)).plan.is_empty


def test_a_refresh_after_column_mapping_was_dropped(tmp_path: Path) -> None:
    """Until then, engines could not read the manifests, and commits did not update them."""
    builder = local(tmp_path)
    builder.append([row(1, "a")])
    generate(builder.store, ManifestOptions())
    mapped = AlterOptions(properties={"delta.columnMapping.mode": "name"})
    version = run_on(builder.store, alter_table, mapped).versions[-1]
    (found,) = bodies(builder.store, version, "metaData")
    found["configuration"] |= REFRESHED  # by another writer: alter refuses it
    actions = {"metaData": found}, builder.write_file([row(2, "a")])
    builder.store.put(commit_path(version + 1), encode_lines(actions))
    run_on(builder.store, alter_table, AlterOptions(drop_feature="columnMapping"))
    assert [len(lines) for lines in manifests(tmp_path).values()] == [2]
    assert generate(builder.store, ManifestOptions(check=True)).plan.is_empty


@pytest.mark.parametrize("first", ["optimize", "generate", "nothing"])
def test_a_refresh_catches_up_with_a_run_that_was_killed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    builder = local(tmp_path, properties=REFRESHED)
    builder.append(*([row(n, "abcd"[n % 4])] for n in range(12)))

    def optimize(where: str) -> None:
        run_on(builder.store, optimize_table, OptimizeOptions(where=where), warn=pytest.fail)

    match first:
        case "optimize":
            optimize("p = 'a'")
        case "generate":
            generate(builder.store, ManifestOptions())
        case _:  # another writer did, so no version is recorded
            generate(builder.store, ManifestOptions())
            builder.store.delete_many(["_deltactl/runs/manifests.json"])
    with monkeypatch.context() as killed:
        killed.setattr(manifest_run, "write_manifests", Mock(side_effect=Crash))
        with pytest.raises(Crash):
            optimize("p = 'b'")
    assert len(manifests(tmp_path)["p=b"]) == 3, "the files before the optimize"
    optimize("p = 'c'")
    assert [len(lines) for lines in manifests(tmp_path).values()].count(1) >= 2
    assert_reads_alike(tmp_path, builder)
    # Nothing is left to catch up with: other partitions are not read again.
    untouched = tmp_path / "t x" / MANIFEST_DIR / "p=b/manifest"
    untouched.write_text("file:/written/by/another/program\n")
    optimize("p = 'd'")
    assert untouched.read_text() == "file:/written/by/another/program\n"


@pytest.mark.parametrize("harm", ["moved", "copied", "numbers used again"])
def test_a_refresh_compares_all_if_the_record_is_of_other_files(tmp_path: Path, harm: str) -> None:
    builder = local(tmp_path, properties=REFRESHED)
    builder.append(*([row(n, "ab"[n % 2])] for n in range(4)))
    root, backup = tmp_path / "t x", tmp_path / "backup"
    shutil.copytree(root / "_delta_log", backup)
    builder.append([row(9, "b")])
    generate(builder.store, ManifestOptions())
    match harm:
        case "moved":
            root = root.rename(tmp_path / "elsewhere")
        case "copied":
            root = shutil.copytree(root, tmp_path / "elsewhere")
        case _:
            shutil.rmtree(root / "_delta_log")
            shutil.copytree(backup, root / "_delta_log")
    store = LocalStore(str(root))
    run_on(store, optimize_table, OptimizeOptions(where="p = 'a'"), warn=pytest.fail)
    assert generate(store, ManifestOptions(check=True)).plan.is_empty


def test_a_refresh_that_fails_is_reported_and_harms_no_commit(tmp_path: Path) -> None:
    builder = local(tmp_path, features=["deletionVectors"], properties=REFRESHED)
    paths = builder.append(*([row(n)] for n in range(3)), [row(8, "b"), row(9, "b")])
    builder.delete_rows(paths[3], [0])
    told: list[str] = []
    report = run_on(
        builder.store, optimize_table, OptimizeOptions(where="p = 'a'"), warn=told.append
    )
    assert report.versions
    assert any(
        "not refreshed" in message and "deltactl generate-manifest" in message for message in told
    )


def test_a_restore_says_that_manifests_are_outdated_which_nothing_refreshes(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1)])
    builder.append([row(2)])
    told: list[str] = []

    def restore(version: int) -> None:
        run_on(builder.store, restore_table, RestoreOptions(version=version), warn=told.append)

    restore(1)
    assert told == [], "there are none"
    generate(builder.store)
    run_on(builder.store, alter_table, AlterOptions(properties=REFRESHED))
    restore(2)  # which has no such property
    (message,), (name,) = told, REFRESHED
    assert message == (
        f"the manifests in {builder.store.uri}/{MANIFEST_DIR} are outdated, so their readers may "
        f"get old rows: the table does not set {name}. Run `deltactl generate-manifest "
        f"{builder.store.uri}`"
    )
    restore(4)  # which has it
    assert len(told) == 1
    assert generate(builder.store, ManifestOptions(check=True)).plan.is_empty


def test_the_advice_after_a_restore_of_column_mapping_is_not_refused() -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], mapping="name")
    builder.append([{"id": 1}])
    builder.change_metadata(configuration={})
    builder.append([{"id": 2}])
    generate(builder.store)
    told: list[str] = []
    run_on(builder.store, restore_table, RestoreOptions(version=1), warn=told.append)
    uri = builder.store.uri
    commands = f"Run `deltactl alter {uri} --drop-feature columnMapping`, then `deltactl generate-"
    assert commands in told[-1]
    with pytest.raises(UnsupportedFeatureError, match="column mapping"):
        generate(builder.store)


def test_manifests_are_written_when_the_property_is_set(tmp_path: Path) -> None:
    builder = local(tmp_path)
    builder.append([row(1)], [row(2, "b")])
    generate(builder.store, ManifestOptions(where="p = 'a'"))
    builder.append([row(3)])
    run_on(builder.store, alter_table, AlterOptions(properties=REFRESHED), warn=pytest.fail)
    assert set(manifests(tmp_path)) == {"p=a", "p=b"}
    assert_reads_alike(tmp_path, builder)


def test_without_the_property_nothing_is_refreshed() -> None:
    builder = memory("a", "a", "a")
    store = CountingStore(builder.store)
    run_on(store, optimize_table, OptimizeOptions())
    assert store.calls["put"] == 0
