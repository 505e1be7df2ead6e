"""Unfinished uploads: which runs have ended, and what happens if one cannot be aborted."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from deltactl.errors import AccessDeniedError, SafetyError, StorageError
from deltactl.operations.leases import LEASE_MS, Holder, hold_lease
from deltactl.operations.uploads import (
    UploadingRun,
    abort_ended_uploads,
    find_uploading_run,
    note_uploads,
)
from deltactl.storage.names import resolve_name
from deltactl.storage.store import OnUpload, Store
from deltactl.storage.write_guard import refuse_changes
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.stores import Fault, FaultyStore, MemoryStore

_NUMBERS = itertools.count()
_DAY_MS = 24 * 60 * 60 * 1000


class _PartsStore(ForwardingStore):
    """Keeps the ids of uploads by name, as S3 keeps their parts."""

    def __init__(self, inner: Store | None = None) -> None:
        self.memory = MemoryStore(f"memory://uploads-{next(_NUMBERS)}/t")
        super().__init__(inner or self.memory)
        self.unfinished: dict[str, str] = {}
        self.refusal: StorageError | None = None
        self.on_upload: OnUpload | None = None

    @property
    def uploads(self) -> _PartsStore:
        return self

    def observed(self, on_upload: OnUpload) -> Store:
        self.on_upload = on_upload
        return self

    def abort_upload(self, name: str, upload_id: str) -> None:
        resolve_name(name)
        if self.refusal is not None:
            raise self.refusal
        assert self.unfinished.pop(name, upload_id) == upload_id

    def notes(self) -> list[str]:
        return [info.name for info in self.list_from("_deltactl/uploads")]


def _begin(store: _PartsStore, run: UploadingRun, name: str = "part-0.parquet") -> None:
    """Leave an upload unfinished, as a killed run does."""
    note_uploads(store, run)
    assert store.on_upload is not None
    store.unfinished[name] = f"id of {name}"
    store.on_upload(name, f"id of {name}")


def _elsewhere(clock: FixedClock, *, is_leased: bool) -> UploadingRun:
    holder = replace(Holder.here("killed", clock), host="other", processes="other")
    return UploadingRun(holder, is_leased)


def _abort(store: Store, clock: FixedClock) -> list[str]:
    warnings: list[str] = []
    abort_ended_uploads(store, clock, warnings.append)
    return warnings


def test_a_note_says_what_and_whose_and_goes_when_the_upload_ends() -> None:
    store, clock = _PartsStore(), FixedClock()
    run = find_uploading_run(store, "run", clock)
    assert run is not None
    note_uploads(store, run)
    assert store.on_upload is not None
    ended = store.on_upload("p=1/part.parquet", "an id")
    (name,) = store.notes()
    assert name.startswith("_deltactl/uploads/run-")
    note = json.loads(store.read(name))
    assert (note["name"], note["upload_id"]) == ("p=1/part.parquet", "an id")
    assert note["run"]["holder"]["pid"] == os.getpid()
    ended()
    assert store.notes() == []


def test_nothing_is_noted_where_the_store_keeps_no_parts() -> None:
    store = MemoryStore(f"memory://uploads-{next(_NUMBERS)}/t")
    assert find_uploading_run(store, "run", FixedClock()) is None
    assert note_uploads(store, None) is store
    assert _abort(store, FixedClock()) == []


def test_the_uploads_of_a_process_that_exists_are_left_alone() -> None:
    store, clock = _PartsStore(), FixedClock()
    _begin(store, UploadingRun(Holder.here("other", clock), is_leased=False))
    assert _abort(store, clock) == []
    assert store.unfinished
    assert store.notes()


def test_the_uploads_of_a_process_that_ended_are_aborted() -> None:
    store, clock = _PartsStore(), FixedClock()
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    holder = replace(Holder.here("killed", clock), pid=int(ended.stdout))
    _begin(store, UploadingRun(holder, is_leased=False))
    assert _abort(store, clock) == []
    assert store.unfinished == {}
    assert store.notes() == []


def test_a_run_elsewhere_has_ended_when_it_lost_its_lease() -> None:
    store, clock = _PartsStore(), FixedClock()
    run = _elsewhere(clock, is_leased=True)
    with hold_lease(store, "optimize", run.holder, clock=clock, warn=pytest.fail):
        found = find_uploading_run(store, "killed", clock)
        assert found is not None
        assert found.is_leased
        _begin(store, run)
        assert _abort(store, clock) == []
        assert store.unfinished, "it holds the lease"
        clock.advance(LEASE_MS + 1)
        assert _abort(store, clock) == []
        assert store.unfinished, "only this machine's clock says that the lease has expired"
        store.memory.advance(LEASE_MS + 1)
        assert _abort(store, clock) == []
    assert store.unfinished == {}
    assert store.notes() == []


def test_a_run_elsewhere_without_a_lease_has_ended_a_day_later() -> None:
    store, clock = _PartsStore(), FixedClock()
    _begin(store, _elsewhere(clock, is_leased=False))
    (info,) = store.list_from("_deltactl/uploads")
    _abort(store, FixedClock(info.modified_ms + _DAY_MS - 1))
    assert store.unfinished
    _abort(store, FixedClock(info.modified_ms + _DAY_MS))
    assert store.unfinished, "only this machine's clock says so"
    store.memory.advance(_DAY_MS)
    _abort(store, FixedClock(info.modified_ms + _DAY_MS))
    assert store.unfinished == {}


@pytest.mark.parametrize(
    ("refusal", "next_step"),
    [
        (AccessDeniedError("cannot abort it"), "AbortIncompleteMultipartUpload"),
        (StorageError("cannot abort it"), "The next run tries again"),
    ],
)
def test_what_cannot_be_aborted_is_warned_of_and_stays_noted(
    refusal: StorageError, next_step: str
) -> None:
    store, clock = _PartsStore(), FixedClock()
    for name in ("a.parquet", "b.parquet"):
        _begin(store, _elsewhere(clock, is_leased=True), name)
    store.refusal = refusal
    (warning,) = _abort(store, clock)
    assert "cannot abort it" in warning
    assert next_step in warning
    assert len(store.notes()) == 2
    store.refusal = None
    assert _abort(store, clock) == []
    assert store.notes() == []


def test_notes_that_are_not_valid_do_not_hold_up_others() -> None:
    """What lies in the table is not trusted: an upload outside of it is not touched."""
    store, clock = _PartsStore(), FixedClock()
    _begin(store, _elsewhere(clock, is_leased=True), "b.parquet")
    text = store.read(store.notes()[0]).decode()
    store.put("_deltactl/uploads/a.json", b"{")
    store.put("_deltactl/uploads/b.json", b'["name"]')
    store.put("_deltactl/uploads/c.json", text.replace("b.parquet", "../other/x").encode())
    (warning,) = _abort(store, clock)
    assert "../other/x" in warning
    assert store.unfinished == {}


def test_a_listing_that_fails_is_a_warning() -> None:
    memory = MemoryStore(f"memory://uploads-{next(_NUMBERS)}/t")
    faulty = FaultyStore(memory, Fault(1, "error", method="list_from"))
    (warning,) = _abort(_PartsStore(faulty), FixedClock())
    assert "unfinished uploads of killed runs" in warning


class _NotesRefused(_PartsStore):
    def put(self, name: str, data: bytes) -> None:
        raise AccessDeniedError(f"cannot write {name!r}")


def test_an_upload_that_may_not_be_noted_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    store, clock = _NotesRefused(), FixedClock()
    note_uploads(store, find_uploading_run(store, "run", clock))
    assert store.on_upload is not None
    store.on_upload("a.parquet", "id")()
    assert "a.parquet is not recorded" in caplog.text


def test_no_part_is_sent_if_the_store_fails_to_take_the_note() -> None:
    memory = MemoryStore(f"memory://uploads-{next(_NUMBERS)}/t")
    store = _PartsStore(FaultyStore(memory, Fault(1, "error", method="put")))
    note_uploads(store, find_uploading_run(store, "run", FixedClock()))
    assert store.on_upload is not None
    with pytest.raises(StorageError):
        store.on_upload("a.parquet", "id")


def test_a_dry_run_cannot_abort() -> None:
    uploads = refuse_changes(_PartsStore()).uploads
    assert uploads is not None
    with pytest.raises(SafetyError, match="dry run"):
        uploads.abort_upload("a.parquet", "id")
