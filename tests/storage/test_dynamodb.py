"""Tables on S3 whose writers agree in DynamoDB: ours, and delta-rs as long as it spoke to it."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deltactl import DynamoDbLogStore, SafetyError, StorageError, Table, UsageError
from deltactl.cli.app import run
from deltactl.clock import SystemClock
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.storage.dynamodb import CommitEntry, DynamoDbEntries
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage.conftest import S3_BUCKET, create_log_table, dynamodb, write_rows
from tests.support.commits import FACTS, settle
from tests.support.fault_proxy import Answer, Cut, FaultProxy, Rule, fault_proxy
from tests.support.object_servers import (
    S3_ENVIRON,
    delta_rs_options,
    ensure_delta_rs_with_dynamodb,
    s3_options,
)
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS
from tests.support.restores import ids_of

pytestmark = [
    pytest.mark.xdist_group("s3"),
    pytest.mark.usefixtures("short_pauses"),
    *UNCLOSED_SESSIONS,
]

_numbers = itertools.count()

DeltaRs = Callable[[str, str], list[int]]
"""``delta_rs(uri, code)``: runs code with ``uri`` and ``options``, and gives the table's ids."""

_CHILD = """
import json, sys
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
uri, options = sys.argv[1], json.loads(sys.argv[2])
exec(sys.argv[3])
table = DeltaTable(uri, storage_options=options)
rows = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
print(json.dumps(sorted(pa.table(rows)["id"].to_pylist())))
"""


@pytest.fixture
def proxy(moto: str) -> Iterator[FaultProxy]:
    with fault_proxy(moto) as proxy:
        yield proxy


@pytest.fixture
def log_store(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> DynamoDbLogStore:
    """A table in DynamoDB for this test alone."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", proxy.endpoint)
    place = DynamoDbLogStore(f"log-{next(_numbers)}", "eu-west-1")
    create_log_table(place, proxy.endpoint)
    return place


@pytest.fixture
def uri() -> str:
    return f"s3://{S3_BUCKET}/dynamodb/{next(_numbers)}/table"


@pytest.fixture
def entries(proxy: FaultProxy, log_store: DynamoDbLogStore) -> DynamoDbEntries:
    return DynamoDbEntries(log_store, s3_options(proxy.endpoint))


@pytest.fixture
def log(uri: str, proxy: FaultProxy, log_store: DynamoDbLogStore) -> DeltaLog:
    return DeltaLog.open(uri, s3_options(proxy.endpoint), log_store, warn=pytest.fail)


@pytest.fixture
def delta_rs(proxy: FaultProxy, log_store: DynamoDbLogStore) -> DeltaRs:
    try:
        library = ensure_delta_rs_with_dynamodb()
    except subprocess.CalledProcessError:
        pytest.skip("no package index that has deltalake 1.4.2, which speaks to DynamoDB")
    options = delta_rs_options(
        proxy.endpoint,
        AWS_S3_LOCKING_PROVIDER="dynamodb",
        AWS_ENDPOINT_URL_DYNAMODB=proxy.endpoint,
        AWS_REGION_DYNAMODB=log_store.region,
        DELTA_DYNAMO_TABLE_NAME=log_store.table_name,
    )
    del options["aws_conditional_put"]

    def call(uri: str, code: str) -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, uri, json.dumps(options), code],
            env={**os.environ, "PYTHONPATH": str(library)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        ids: list[int] = json.loads(done.stdout)
        return ids

    return call


def append(*ids: int) -> str:
    return (
        f"for number in {ids}:\n    write_deltalake(uri, pa.table({{'id': [number]}}), "
        "mode='append', storage_options=options)"
    )


def items_of(place: DynamoDbLogStore, proxy: FaultProxy) -> dict[str, dict[str, Any]]:
    found = dynamodb(proxy.endpoint, place.region).scan(TableName=place.table_name)["Items"]
    return {item["fileName"]["S"]: item for item in found}


def commit(txn_id: str) -> bytes:
    return json.dumps({"commitInfo": {"txnId": txn_id}}).encode() + b"\n"


def test_side_by_side_with_delta_rs(
    uri: str,
    proxy: FaultProxy,
    entries: DynamoDbEntries,
    log_store: DynamoDbLogStore,
    delta_rs: DeltaRs,
) -> None:
    """Each commits on top of the other, and finishes what the other left half done."""
    assert delta_rs(uri, append(0, 1, 2)) == [0, 1, 2]
    table = Table(uri, s3_options(proxy.endpoint), log_store=log_store)
    assert table.optimize().versions == (3,)
    plain = open_store(uri, s3_options(proxy.endpoint))
    begin(plain, entries, 4, f".tmp/{commit_name(4)}.id")
    assert delta_rs(uri, append(3)) == [0, 0, 1, 1, 2, 2, 3]
    begin(plain, entries, 6, "_commit_id.json.tmp")
    # A look finishes nothing, nor does a dry run: they show what is in the log.
    options = s3_options(proxy.endpoint)
    looking = DeltaLog.open(uri, options, log_store, warn=pytest.fail, read_only=True)
    assert looking.snapshot().version == 5
    proxy.clear()
    assert table.optimize(dry_run=True).version_before == 5
    assert ids_of(table) == [0, 0, 1, 1, 2, 2, 3]
    assert proxy.find("PUT|DELETE|POST", "") == []
    assert table.checkpoint().plan.version == 6
    assert ids_of(table) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    items = items_of(log_store, proxy)
    assert sorted(items) == [commit_name(version) for version in range(7)]
    # Field by field of the same types, whoever wrote it.
    for item in items.values():
        assert {name: next(iter(value)) for name, value in item.items()} == {
            "tablePath": "S",
            "fileName": "S",
            "tempPath": "S",
            "complete": "S",
            "expireTime": "N",
        }
    assert {it["complete"]["S"] for it in items.values()} == {"true"}
    assert {it["tablePath"]["S"] for it in items.values()} == {uri}


def begin(store: Store, entries: DynamoDbEntries, version: int, temp_path: str) -> None:
    """What a writer leaves that dies right after its commit was decided: rows 0, 1 and 2 again."""
    data = Table(store.uri, store=store).snapshot(3).files["path"][0].as_py()
    copy = f"copy-{version}.parquet"
    store.put(copy, store.read(data))
    add = {
        "path": copy,
        "partitionValues": {},
        "size": len(store.read(copy)),
        "modificationTime": 0,
        "dataChange": True,
    }
    store.put(f"{LOG_DIR}/{temp_path}", json.dumps({"add": add}).encode() + b"\n")
    assert entries.create(store.uri, CommitEntry(commit_name(version), temp_path))


VERSION = 1


def commit_to(log: DeltaLog, version: int, txn_id: str) -> bool:
    return settle(log.store, log.ensure_committer(), version, commit(txn_id))


FAULTS = [
    ("PutItem", Cut(after=True)),
    ("PutItem", Cut(after=False)),
    ("PutItem", Answer(500, after=True)),
    ("UpdateItem", Cut(after=True)),
    ("UpdateItem", Answer(503, after=False)),
    ("GetItem", Cut(after=False)),
    ("Query", Answer(500, after=False)),
]


@pytest.mark.parametrize(("call", "fault"), FAULTS, ids=lambda it: str(it)[:24])
def test_a_lost_reply_of_dynamodb(
    call: str, fault: Any, uri: str, proxy: FaultProxy, log: DeltaLog
) -> None:
    """The library tries again; what it is told then is about its own first try."""
    name = f"{LOG_DIR}/{commit_name(1)}"
    assert commit_to(log, 0, "0")
    proxy.add(Rule(fault, "POST", headers={"x-amz-target": f"DynamoDB_20120810.{call}"}))
    assert commit_to(log, VERSION, "ours")
    assert log.store.read(name) == commit("ours")
    assert not commit_to(log, VERSION, "more")
    assert len([info for info in log.store.list_from(LOG_DIR) if info.name.endswith(".json")]) == 2


def test_a_store_that_ignores_conditions_is_good_enough(
    uri: str, proxy: FaultProxy, log: DeltaLog
) -> None:
    proxy.drop_header("if-none-match")
    name = f"{LOG_DIR}/{commit_name(0)}"
    log.ensure_can_commit()
    assert commit_to(log, 0, "ours")
    assert not commit_to(log, 0, "more")
    assert log.store.read(name) == commit("ours")


@pytest.mark.parametrize("sign", [f".tmp/{commit_name(3)}.an-id", "_commit_an-id.json.tmp"])
def test_signs_of_such_a_writer_are_heeded(sign: str, uri: str, proxy: FaultProxy) -> None:
    options = s3_options(proxy.endpoint)
    plain = open_store(uri, options)
    write_rows(uri, proxy.endpoint, 3)
    plain.put(f"{LOG_DIR}/{sign}", b"")
    before = sorted(name for names in plain.walk() for name in names)
    proxy.clear()
    with pytest.raises(SafetyError, match="coordinates its commits outside of S3") as refused:
        Table(uri, options).optimize()
    assert "--log-store dynamodb" in (refused.value.hint or "")
    assert sign in refused.value.message
    assert proxy.find("PUT|POST|DELETE", "") == []
    assert sorted(name for names in plain.walk() for name in names) == before
    # Looking is not committing.
    Table(uri, options).optimize(dry_run=True)
    log = DeltaLog.open(uri, options, warn=pytest.fail)
    with pytest.raises(SafetyError):
        log.ensure_committer().commit(3, b"", FACTS)


def test_ours_are_signs_too(uri: str, proxy: FaultProxy, log: DeltaLog) -> None:
    """Once a table is committed to by entries, a run without the flag is refused."""
    commit_to(log, 0, "0")
    with pytest.raises(SafetyError, match="coordinates its commits outside of S3"):
        DeltaLog.open(uri, s3_options(proxy.endpoint), warn=pytest.fail).ensure_can_commit()


def test_the_table_in_dynamodb_is_missing(
    uri: str, proxy: FaultProxy, log_store: DynamoDbLogStore
) -> None:
    place = DynamoDbLogStore("no_such_table", log_store.region)
    log = DeltaLog.open(uri, s3_options(proxy.endpoint), place, warn=pytest.fail)
    with pytest.raises(StorageError, match="there is no DynamoDB table 'no_such_table'") as missing:
        log.ensure_can_commit()
    assert "--ddb-table-name" in (missing.value.hint or "")


def test_errors_and_texts_keep_the_secret(
    uri: str, proxy: FaultProxy, log: DeltaLog, log_store: DynamoDbLogStore
) -> None:
    secret = S3_ENVIRON["AWS_SECRET_ACCESS_KEY"]
    body = json.dumps({"__type": "x#AccessDeniedException", "message": f"signed {secret}"})
    proxy.add(Rule(Answer(400, after=False, body=body.encode()), "POST", times=None))
    with pytest.raises(StorageError) as denied:
        log.ensure_can_commit()
    assert denied.value.code == "ACCESS_DENIED"
    assert secret not in f"{denied.value}{denied.value.hint}{log.store!r}"


def test_only_for_tables_on_s3(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="is for tables on S3"):
        Table(tmp_path, log_store=DynamoDbLogStore())


def test_from_the_command_line(
    uri: str,
    proxy: FaultProxy,
    log_store: DynamoDbLogStore,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_rows(uri, proxy.endpoint, 2)
    pairs = [f"{key}={value}" for key, value in s3_options(proxy.endpoint).items()]
    options = [word for pair in pairs for word in ("--storage-option", pair)]
    place = ["--ddb-table-name", log_store.table_name, "--ddb-region", log_store.region]
    assert run(["optimize", uri, *options, *place]) == 2
    assert "Add --log-store dynamodb." in capsys.readouterr().err
    assert run(["optimize", uri, *options, *place, "--log-store", "dynamodb", "--dry-run"]) == 0
    assert items_of(log_store, proxy) == {}
    assert run(["optimize", uri, *options, *place, "--log-store", "dynamodb"]) == 0
    assert sorted(items_of(log_store, proxy)) == [commit_name(2)]
    monkeypatch.setenv("DELTACTL_LOG_STORE", "dynamodb")
    monkeypatch.setenv("DELTACTL_DDB_TABLE_NAME", log_store.table_name)
    monkeypatch.setenv("DELTACTL_DDB_REGION", log_store.region)
    write_rows(uri, proxy.endpoint, 2)
    assert run(["optimize", uri, *options]) == 0
    assert sorted(items_of(log_store, proxy)) == [commit_name(2), commit_name(5)]
    monkeypatch.setenv("DELTACTL_LOG_STORE", "zookeeper")
    assert run(["optimize", uri, *options]) == 2
    said = capsys.readouterr().err
    assert "DELTACTL_LOG_STORE: 'zookeeper' is not possible" in said


def test_no_command_goes_on_after_a_lost_commit(
    uri: str,
    proxy: FaultProxy,
    entries: DynamoDbEntries,
    log_store: DynamoDbLogStore,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_rows(uri, proxy.endpoint, 3)
    store = open_store(uri, s3_options(proxy.endpoint))
    file_name = commit_name(2)
    entry = CommitEntry(file_name, "_commit_id.json.tmp")  # delta-rs moves its temporary files
    assert entries.create(uri, entry)
    entries.complete(uri, entry, 1 << 40)
    store.delete_many([f"{LOG_DIR}/{file_name}"])
    pairs = [f"{key}={value}" for key, value in s3_options(proxy.endpoint).items()]
    options = [word for pair in pairs for word in ("--storage-option", pair)]
    options += ["--ddb-table-name", log_store.table_name, "--ddb-region", log_store.region]
    options += ["--log-store", "dynamodb"]
    assert run(["check", uri, *options]) == 3
    said = capsys.readouterr().out
    assert "LOG_GAP (1)" in said
    assert file_name in said
    proxy.clear()
    assert run(["check", uri, *options]) == 3
    assert len(proxy.find("POST", "", b"ScanIndexForward")) == 1
    capsys.readouterr()
    before = sorted(name for names in store.walk() for name in names)
    for command in (
        ["maintain", uri],
        ["vacuum", uri, "--yes"],
        ["vacuum", uri, "--dry-run"],
        ["checkpoint", uri],
        ["checkpoint", uri, "--repair"],
        ["optimize", uri],
    ):
        assert run([*command, *options]) == 1, command
        assert "does not have this commit" in capsys.readouterr().err
    assert sorted(name for names in store.walk() for name in names) == before
    # One that can be finished is no damage.
    store.put(f"{LOG_DIR}/{file_name}", commit("theirs"))
    store.put(f"{LOG_DIR}/.tmp/x", commit("theirs"))
    assert entries.create(uri, CommitEntry(commit_name(3), ".tmp/x"))
    assert run(["check", uri, *options]) == 0
    assert "version 3 is committed in DynamoDB, but" in capsys.readouterr().out


def test_entries_and_an_external_store_by_hand(
    uri: str, proxy: FaultProxy, entries: DynamoDbEntries
) -> None:
    """What the seam promises, of the real thing."""
    entry = CommitEntry(commit_name(1), ".tmp/a")
    assert entries.get(uri, commit_name(1)) is None
    assert entries.find_latest(uri) is None
    assert entries.create(uri, entry)
    assert not entries.create(uri, CommitEntry(commit_name(1), ".tmp/b"))
    assert entries.create(uri, CommitEntry(commit_name(0), ".tmp/c"))
    assert entries.find_latest(uri) == entry
    assert not entries.complete(uri, CommitEntry(commit_name(1), ".tmp/b"), 5)
    assert not entries.complete(uri, CommitEntry(commit_name(9), ".tmp/b"), 5)
    assert entries.complete(uri, entry, 5)
    assert entries.complete(uri, entry, 6)
    assert entries.get(uri, commit_name(1)) == CommitEntry(commit_name(1), ".tmp/a", complete=True)
    inner = open_store(uri, s3_options(proxy.endpoint))
    assert "planted" not in repr(DynamoDb(inner, entries, SystemClock()))
