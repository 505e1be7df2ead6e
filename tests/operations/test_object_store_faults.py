"""Commands on object stores through a network that fails: afterwards the table is right.

Each request but the first fails once: what is sent again passes, and the next new one fails.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deltactl import AccessDeniedError, StorageError, Table
from deltactl.operations.vacuum.journal import list_quarantine
from deltactl.operations.vacuum.run import VacuumOptions
from deltactl.storage.open import open_store
from tests.support.clock import await_next_second
from tests.support.fault_proxy import (
    Answer,
    Cut,
    Fault,
    FaultProxy,
    HalfBody,
    Rule,
    SendTwice,
    SlowBody,
    fault_proxy,
)
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import (
    ALL_SERVERS,
    UNCLOSED_SESSIONS,
    azure_blob,
    choose_servers,
)
from tests.support.table_builder import Column, TableBuilder, multiset

_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
FAULTS: dict[str, Fault] = {
    "cut before": Cut(after=False),
    "cut after": Cut(after=True),
    "busy": Answer(503, after=False, body=_BUSY),
    "busy after": Answer(503, after=True, body=_BUSY),
    "half a body": HalfBody(),
    "sent twice": SendTwice(),
    "slow body": SlowBody(0.02),
}
# Of stores that are told to slow down, few are told so at every second request.
PASSING = {"busy": 6, "busy after": 6}

pytestmark = [*UNCLOSED_SESSIONS, pytest.mark.usefixtures("short_pauses")]


def _optimize(table: Table) -> None:
    report = table.optimize()
    assert (report.files_removed, report.files_added) == (6, 2)


def _vacuum(table: Table) -> None:
    options = VacuumOptions(retain_ms=0, force_retention=True, mode="full")
    report = table.vacuum(options)
    assert (report.files_removed + report.vanished, report.failures) == (6, ())


def _checkpoint(table: Table) -> None:
    table.checkpoint()
    assert table.snapshot().segment.checkpoint_version == table.snapshot().version


COMMANDS: dict[str, Callable[[Table], None]] = {
    "optimize": _optimize,
    "vacuum": _vacuum,
    "checkpoint": _checkpoint,
}


def _fail_often(proxy: FaultProxy, fault: Fault, passing: int) -> None:
    # All rules that wait count what passes: the first fails one after so many, the next likewise.
    proxy.add(*(Rule(fault, skip=number * passing) for number in range(1, 500)))


def _build(server: ObjectServer, root: str, command: str) -> TableBuilder:
    store = open_store(root, server.options)
    builder = TableBuilder(store, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number in range(3):
        builder.append([{"id": number, "p": "x"}], [{"id": number, "p": "y"}])
    if command == "vacuum":
        Table(root, storage_options=server.options).optimize()
        await_next_second()
    return builder


def _check(command: str, fault: str, server: ObjectServer, root: str) -> None:
    builder = _build(server, root, command)
    quiet = Table(root, storage_options=server.options)
    before = quiet.snapshot().version
    with fault_proxy(server.endpoint) as proxy:
        _fail_often(proxy, FAULTS[fault], PASSING.get(fault, 1))
        options = server.at(proxy.endpoint).options
        COMMANDS[command](Table(root, storage_options=options, warn=lambda _: None))
        failed = sum(1 for request in proxy.requests if request.fault is not None)
        assert failed >= (2 if fault in PASSING else 5)
    after = quiet.snapshot()
    commits = {"optimize": 1, "vacuum": 2, "checkpoint": 0}[command]
    assert after.version == before + commits, "each commit landed once"
    assert multiset(quiet.scan().read_all().to_pylist()) == multiset(builder.rows())


@pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)
@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("optimize", "cut after"),
        ("optimize", "half a body"),
        ("vacuum", "cut after"),
        ("checkpoint", "busy"),
    ],
)
def test_the_table_is_right(command: str, fault: str, server: ObjectServer, root: str) -> None:
    _check(command, fault, server, root)


@pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)
@pytest.mark.parametrize("deletes_copies", [False, True])
def test_a_quarantine_without_the_right_to_delete(
    server: ObjectServer, root: str, proxy: FaultProxy, deletes_copies: bool
) -> None:
    _build(server, root, "vacuum")
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
    keys = f"<Key>{root.removeprefix('s3://lake/')}/{'p=' if deletes_copies else ''}".encode()
    proxy.add(Rule(Answer(403, after=False, body=denied), "POST", r"\?delete", keys, times=None))
    table = Table(root, storage_options=server.at(proxy.endpoint).options, warn=lambda _: None)
    options = VacuumOptions(retain_ms=0, force_retention=True, mode="full", quarantine=True)
    with pytest.raises(AccessDeniedError, match="6 files could not be removed") as caught:
        table.vacuum(options)
    report: Any = caught.value.report
    assert (report.files_removed, len(report.failures)) == (0, 6)
    assert report.run_id is not None
    kept = len(list_quarantine(open_store(root, server.options), report.run_id))
    assert kept == (0 if deletes_copies else 6)
    for failure in report.failures:
        said = "A copy of it stays in _deltactl/quarantine/" in failure.reason
        assert said != deletes_copies
        assert ".." not in failure.reason
        advised = "--purge-quarantine` deletes the copies." in (failure.error.hint or "")
        assert advised != deletes_copies


@pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True)
def test_a_quarantine_of_blobs_that_azure_keeps(server: ObjectServer, root: str) -> None:
    _build(server, root, "vacuum")
    table = Table(root, storage_options=server.options, warn=lambda _: None)
    plan = VacuumOptions(retain_ms=0, force_retention=True, mode="full")
    names = table.vacuum(plan, dry_run=True).plan.files["path"].to_pylist()
    assert len(names) == 6
    for number, name in enumerate(names):
        blob = azure_blob(server, root, name)
        blob.create_snapshot() if number % 2 else blob.acquire_lease()
    for _ in range(2):
        with pytest.raises(StorageError, match="6 files could not be removed") as caught:
            table.vacuum(replace(plan, quarantine=True))
        report: Any = caught.value.report
        assert {failure.error.code for failure in report.failures} == {"STORAGE"}
        assert not any("copy" in failure.reason for failure in report.failures)
    store = open_store(root, server.options)
    assert None not in store.stat_many(names)
    assert [name for batch in store.walk("_deltactl/quarantine") for name in batch] == []


@pytest.mark.slow
@pytest.mark.parametrize("server", ALL_SERVERS, indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_is_right_everywhere(
    command: str, fault: str, server: ObjectServer, root: str
) -> None:
    _check(command, fault, server, root)
