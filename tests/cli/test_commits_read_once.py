"""Each command reads each commit of a table once."""

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from deltactl.catalog import open as catalogs
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.cli.conftest import NAMES, RunCli
from tests.support.checkpoints import fail
from tests.support.parameters import all_pairs
from tests.support.stores import CountingStore, MemoryStore, opened_as
from tests.support.table_builder import START_MS, Column, TableBuilder

_NUMBERS = itertools.count()
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_READS = ("read", "read_many", "read_ranges", "read_tail", "open_input")

READING = (
    "describe-history",
    "describe-history --all",
    "describe-history --since 2020-01-01 --all",
    "describe-history --operation WRITE",
    "describe-history --at 2030-01-01",
    "describe-history --version 9 --files",
    "describe-history --diff 2..10",
    "describe-history --diff 8..10",
    "describe-history --blame p=a",
    "describe-history --blame p=unknown",
    "describe-history --restorable",
    "describe-detail",
    "describe-detail --version 3",
    "describe-detail --at 2030-01-01",
    "check",
    "check --all-versions --files data --proofs --checkpoints",
    "check --fix path-encoding --dry-run",
    "check --fix missing-files --dry-run",
    "vacuum --dry-run",
    "vacuum --mode lite --dry-run",
    "vacuum --keep-last 2 --dry-run",
    "vacuum --keep-version 3 --dry-run",
    "optimize --dry-run",
    "optimize --since-version 3 --dry-run",
    "checkpoint --dry-run",
    "generate-manifest --dry-run",
    "restore --to-version 3 --dry-run",
    "maintain --dry-run",
    "clone TARGET --deep --dry-run",
    "clone TARGET --shallow --dry-run",
    "convert",
    "register uc://a.b.t --dry-run",
)
WRITING = (
    "alter --set team=x",
    "check --fix path-encoding --yes",
    "check --fix stats --yes",
    "vacuum --yes",
    "vacuum --mode lite --yes",
    "optimize",
    "optimize --since-version 3",
    "optimize --cluster-by id",
    "checkpoint",
    "checkpoint --version 9",
    "checkpoint --cleanup --yes",
    "checkpoint --repair",
    "generate-manifest",
    "generate-manifest --since 3",
    "restore --to-version 3 --yes",
    "maintain",
    "clone TARGET --deep",
    "clone TARGET --shallow",
)


def build(store: Store, features: Iterable[str]) -> TableBuilder:
    """A table with a checkpoint of version 6, versions up to 13, and checksums of both."""
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(store, columns, partition_by=["p"], features=features)
    paths: list[str] = []
    for number in range(8):
        paths += builder.append([{"id": 2 * number + i, "p": "ab"[number % 2]} for i in range(4)])
    change = {"path": "_change_data/x.parquet", "partitionValues": {"p": "a"}, "size": 1}
    builder.commit({"cdc": {**change, "dataChange": False}})
    builder.remove(paths[0])
    for number, operation in enumerate(["OPTIMIZE", "WRITE", "WRITE"]):
        builder.append([{"id": 100 + number, "p": "a"}], operation=operation)
    builder.checkpoint(6)
    for version in (6, builder.version):
        snapshot = DeltaLog(store, fail).snapshot(version)
        assert write_checksum(store, snapshot, snapshot.num_files, snapshot.size_bytes)
    return builder


def count_reads(store: CountingStore) -> Counter[int]:
    """How often each commit was read, by version."""
    names = [name for method in _READS for name in store.names.get(method, [])]
    return Counter(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))


@pytest.mark.parametrize(
    ("words", "place", "features"),
    all_pairs([*READING, *WRITING], ["memory", "local"], [[], ["inCommitTimestamp"]]),
)
def test_each_commit_is_read_once(
    words: str, place: str, features: list[str], cli: RunCli, tmp_path: Path
) -> None:
    number = next(_NUMBERS)
    inner: Store = LocalStore(str(tmp_path))
    if place == "memory":
        inner = MemoryStore(f"memory://read-once/{number}")
        inner.advance(int(time.time() * 1000) - START_MS)
    before = build(inner, features).version
    store, target = CountingStore(inner), MemoryStore(f"memory://read-once-target/{number}")
    command, *options = words.replace("TARGET", target.uri).split()
    with ExitStack() as stack:
        for opened in (store, target):
            stack.enter_context(opened_as(opened))
        empty = Mock(title="Unity Catalog", find=Mock(return_value=None))
        stack.enter_context(patch.object(catalogs, "connect_to", return_value=empty))
        ran = cli(command, store.uri, *options, "-o", "json")
    assert ran.code == 0, ran.err
    # Commits of the run itself are read back if the outcome of a put is unknown, and for the work
    # after the commit.
    read = {version: count for version, count in count_reads(store).items() if version <= before}
    # `maintain` observes all tables before it acts on one, and keeps no content of commits between.
    most = 2 if words == "maintain" else 1
    assert {version: count for version, count in read.items() if count > most} == {}


def test_a_sync_reads_each_commit_of_both_tables_once(cli: RunCli) -> None:
    number = next(_NUMBERS)
    inner = MemoryStore(f"memory://read-once/{number}")
    builder = build(inner, ())
    store = CountingStore(inner)
    target = CountingStore(MemoryStore(f"memory://read-once-target/{number}"))
    with ExitStack() as stack:
        for opened in (store, target):
            stack.enter_context(opened_as(opened))
        clone = ("clone", store.uri, target.uri, "--deep", "-o", "json")
        assert cli(*clone).code == 0
        builder.append([{"id": 200, "p": "b"}])
        store.names.clear()
        target.names.clear()
        ran = cli(*clone, "--sync")
    assert ran.code == 0, ran.err
    assert set(count_reads(store).values()) == {1}
    assert count_reads(target)[0] == 1


def test_every_command_that_reads_commits_is_run() -> None:
    others = {"complete", "config", "explain"}
    assert {words.split()[0] for words in (*READING, *WRITING)} == NAMES - others
