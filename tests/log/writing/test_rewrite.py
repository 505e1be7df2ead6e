"""One commit of a rearrangement, without the optimize around it."""

from typing import Any

import pyarrow as pa
import pytest

from deltactl.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    CorruptLogError,
    NotATableError,
    ObjectExistsError,
    StorageError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing import transaction
from deltactl.log.writing.actions import NewFile
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.concurrent_deletes import Bin
from deltactl.operations.optimize.rewrite_commit import BinCommitter
from deltactl.protocol.stats import num_records
from deltactl.storage.store import Store
from deltactl.units import DAY_MS
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.restores import commit_lines
from tests.support.stores import CountingStore, Fault, FaultyStore, MemoryStore, fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path

DRAFT = Description(
    operation="OPTIMIZE", parameters={"auto": False}, engine_info="test", tags={"a": "b"}
)
NEW = NewFile("p/new 1.parquet", {"p": None}, 5, 6, 7, "{}", {"t": "1"})


def build(*features: str) -> TableBuilder:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], features=features)
    builder.append(*([{"id": i}] for i in range(3)))
    store.put(NEW.path, b"12345")
    return builder


def load(store: Store) -> Snapshot:
    return DeltaLog(store, pytest.fail).snapshot()


def bin_of(snapshot: Snapshot, rows: slice, *added: NewFile) -> Bin:
    files = snapshot.files.append_column("num_records", num_records(snapshot.files["stats"]))
    taken = files.take(pa.array(range(*rows.indices(files.num_rows))))
    return Bin(taken, added or (NEW,))


def commit(store: Store, *bins: Bin, snapshot: Snapshot | None = None) -> Any:
    if snapshot is not None:
        object.__setattr__(snapshot, "store", store)
    naps: list[float] = []
    files = pa.concat_tables([bin_.removed for bin_ in bins])
    log = DeltaLog(store, pytest.fail)
    committer = BinCommitter(
        log, snapshot or log.snapshot(), files, clock=FixedClock(), sleep=naps.append
    )
    return committer.commit(bins, DRAFT)


@pytest.mark.parametrize("behind_ms", [-5, 0, 40 * DAY_MS])
def test_a_clock_that_is_behind_does_not_date_a_deletion_before_the_last_commit(
    behind_ms: int,
) -> None:
    builder = build()
    now_ms = FixedClock().now_ms()
    assert isinstance(builder.store, MemoryStore)
    builder.store.set_modified(commit_path(1), now_ms + behind_ms)
    commit(builder.store, bin_of(load(builder.store), slice(0, 2)))
    removes = [line["remove"] for line in commit_lines(builder.store, 2) if "remove" in line]
    assert {it["deletionTimestamp"] for it in removes} == {now_ms + max(behind_ms, 0)}


def test_a_commit_costs_two_looks_a_put_and_a_read() -> None:
    builder = build()
    snapshot = load(builder.store)
    counting = CountingStore(builder.store)
    commit(counting, bin_of(snapshot, slice(0, 2)), snapshot=snapshot)
    assert counting.calls == {"stat_many": 2, "put_if_absent": 1, "read_ranges": 1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("failures", [1, 2, 4])
def test_errors_are_settled_by_reading_back(when: Any, failures: int) -> None:
    builder = build()
    snapshot = load(builder.store)
    faults = [Fault(i, "error", when, "put_if_absent") for i in range(1, failures + 1)]
    committed = commit(
        FaultyStore(builder.store, *faults), bin_of(snapshot, slice(0, 2)), snapshot=snapshot
    )
    assert committed.version == 2
    assert commit_path(3) not in _names(builder.store)


def test_a_store_that_never_answers() -> None:
    builder = build()
    snapshot = load(builder.store)
    faults = [Fault(i, "error", "before", "put_if_absent") for i in range(1, 99)]
    with pytest.raises(CommitOutcomeUnknownError) as caught:
        commit(
            FaultyStore(builder.store, *faults), bin_of(snapshot, slice(0, 2)), snapshot=snapshot
        )
    assert caught.value.exit_code == 4
    assert caught.value.hint is not None


class _Local(FaultyStore):
    """A store whose address says that puts either happen or do not."""

    @property
    def uri(self) -> str:
        return "file:///table"


def test_a_local_store_that_refuses_is_believed() -> None:
    builder = build()
    snapshot = load(builder.store)
    fault = Fault(1, "error", "before", "put_if_absent")
    with pytest.raises(StorageError) as caught:
        commit(_Local(builder.store, fault), bin_of(snapshot, slice(0, 2)), snapshot=snapshot)
    assert not isinstance(caught.value, ConflictError)
    assert commit_path(2) not in _names(builder.store)


def test_a_winner_without_commit_info_is_not_us() -> None:
    builder = build()
    snapshot = load(builder.store)
    builder.store.put(commit_path(2), b'{"txn":{"appId":"x","version":1}}\n')
    assert commit(builder.store, bin_of(snapshot, slice(0, 2)), snapshot=snapshot).version == 3


def test_a_winner_that_no_listing_shows_yet() -> None:
    """The listing lags behind the put: the next attempt asks again."""
    builder = build()
    snapshot = load(builder.store)

    class Stale(ForwardingStore):
        listings = 0

        def list_from(self, prefix: str, start: str = "") -> Any:
            self.listings += 1
            return iter(()) if self.listings < 3 else super().list_from(prefix, start)

    builder.append([{"id": 9}])
    stale = Stale(builder.store)
    assert commit(stale, bin_of(snapshot, slice(0, 2)), snapshot=snapshot).version == 3
    assert stale.listings == 3


@pytest.mark.parametrize("holes", [1, 5])
def test_a_listing_with_a_hole_is_not_jumped_over(holes: int) -> None:
    builder = build()
    snapshot = load(builder.store)

    class Holey(ForwardingStore):
        listings = 0

        def list_from(self, prefix: str, start: str = "") -> Any:
            self.listings += 1
            found = super().list_from(prefix, start)
            return (f for f in found if self.listings > holes or f.name != commit_path(2))

    for i in range(3):
        builder.append([{"id": i}])
    assert (
        commit(Holey(builder.store), bin_of(snapshot, slice(0, 2)), snapshot=snapshot).version == 5
    )


def test_a_race_that_is_never_won_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = build()
    monkeypatch.setattr(transaction, "_MAX_ATTEMPTS", 5)

    class Crowded(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            builder.append([{"id": 1}])
            raise ObjectExistsError("taken")

    snapshot = load(builder.store)
    with pytest.raises(ConflictError, match="5 attempts"):
        commit(Crowded(builder.store), bin_of(snapshot, slice(0, 2)), snapshot=snapshot)


def test_a_log_that_is_gone_is_not_created_again() -> None:
    builder = build()
    snapshot = load(builder.store)
    bin_ = bin_of(snapshot, slice(0, 2))
    builder.store.delete_many(_names(builder.store))
    with pytest.raises(NotATableError, match="deleted"):
        commit(builder.store, bin_, snapshot=snapshot)
    assert _names(builder.store) == []


@pytest.mark.parametrize("features", [(), ("inCommitTimestamp",)])
def test_a_log_cleanup_may_be_faster(features: tuple[str, ...]) -> None:
    """The commit that was read is gone, but not what came after it."""
    builder = build(*features)
    snapshot = load(builder.store)
    builder.append([{"id": 7}])
    builder.append([{"id": 8}])
    builder.checkpoint()
    builder.forget_commits(snapshot.version + 1)
    assert commit_path(snapshot.version) not in _names(builder.store)
    bin_ = bin_of(snapshot, slice(0, 2))
    assert commit(builder.store, bin_, snapshot=snapshot).version == snapshot.version + 3
    assert load(builder.store).num_files == 4


def test_what_a_log_cleanup_took_is_not_passed_by() -> None:
    builder = build()
    snapshot = load(builder.store)
    builder.append([{"id": 7}])
    builder.append([{"id": 8}])
    builder.checkpoint()
    builder.forget_commits(snapshot.version + 2)
    with pytest.raises(ConflictError, match="does not have version 2, although"):
        commit(builder.store, bin_of(snapshot, slice(0, 2)), snapshot=snapshot)


def test_a_version_known_by_its_checkpoint_alone_is_built_upon() -> None:
    builder = build()
    builder.checkpoint()
    builder.forget_commits(2)
    snapshot = load(builder.store)
    assert commit(builder.store, bin_of(snapshot, slice(0, 2)), snapshot=snapshot).version == 2


@pytest.mark.parametrize(
    "text", ["{", "{}", "[]", '{"rowIdHighWaterMark":null}', '{"rowIdHighWaterMark":Infinity}']
)
def test_a_broken_high_water_mark_is_not_guessed(text: str) -> None:
    builder = build("rowTracking")
    body = {"domain": "delta.rowTracking", "configuration": text, "removed": False}
    builder.commit({"domainMetadata": body})
    with pytest.raises(CorruptLogError, match="rowIdHighWaterMark"):
        commit(builder.store, bin_of(load(builder.store), slice(0, 2)))


def test_suspended_row_tracking_hands_out_nothing() -> None:
    builder = build("rowTracking")
    builder.change_metadata(
        properties={"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}
    )
    commit(builder.store, bin_of(load(builder.store), slice(0, 2)))
    lines = commit_lines(builder.store, 3)
    assert "baseRowId" not in lines[1]["add"]
    assert not any("domainMetadata" in line for line in lines)


def test_the_first_row_id_is_zero() -> None:
    builder = build("domainMetadata")
    builder.commit(builder.protocol_action(["rowTracking"]))
    commit(builder.store, bin_of(load(builder.store), slice(0, 2)))
    _, add, *_, domain = commit_lines(builder.store, 3)
    assert (add["add"]["baseRowId"], add["add"]["defaultRowCommitVersion"]) == (0, 3)
    assert domain["domainMetadata"] == {
        "domain": "delta.rowTracking",
        "configuration": '{"rowIdHighWaterMark":6}',
        "removed": False,
    }


def test_no_row_id_no_domain() -> None:
    builder = build("rowTracking")
    snapshot = load(builder.store)
    bin_ = Bin(bin_of(snapshot, slice(0, 2)).removed, ())
    commit(builder.store, bin_, snapshot=snapshot)
    assert not any("domainMetadata" in line for line in commit_lines(builder.store, 2))


def test_a_winner_that_names_an_input_by_another_text_beats_the_group() -> None:
    """Delta on Spark takes "./x" for "x": its rows must not come back."""
    builder = build()
    snapshot = load(builder.store)
    bin_ = bin_of(snapshot, slice(0, 2))
    path = bin_.removed["encoded_path"][0].as_py()
    builder.commit({"remove": {"path": f"./{path}", "deletionTimestamp": 1, "dataChange": True}})
    with pytest.raises(ConflictError, match="rewrote or deleted"):
        commit(builder.store, bin_, snapshot=snapshot)


def _names(store: Store) -> list[str]:
    return [name for batch in store.walk() for name in batch]
