"""A store that fails at any call: the search fails or says so, and never that a value is erased."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl import Table
from deltactl.errors import AccessDeniedError, StorageError, UnsupportedByStoreError
from deltactl.operations.erased.data import FileSearch
from deltactl.storage.store import OldVersion, Store, Versions
from tests.operations.erased.test_places import BY_ID, BY_NAME, ID, PLANTED, base, search
from tests.support.forwarding import Call, ForwardingStore, InterceptingStore
from tests.support.stores import Fault, FaultyStore
from tests.support.table_builder import LOG


@pytest.mark.parametrize("place", ["hidden", "quarantine", "checksum", "v2 checkpoint"])
def test_a_fault_hides_no_value(place: str) -> None:
    builder = base(features=["deletionVectors"])
    PLANTED[place].plant(builder)
    counting = FaultyStore(builder.store)
    assert search(counting, BY_ID).is_found
    named = 0
    for number in range(1, len(counting.calls) + 1):
        store = FaultyStore(builder.store, Fault(number, "error"))
        try:
            report = search(store, BY_ID)
        except StorageError:
            continue
        assert not report.is_erased, store.calls[number - 1]
        named += bool(report.unread)
    assert named > 0


@pytest.mark.parametrize("place", ["older", "quarantine", "other"])
def test_a_file_that_vanishes_is_not_searched(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = base()
    before = {it for part in builder.store.walk() for it in part}
    PLANTED[place].plant(builder)
    planted = [it for part in builder.store.walk() for it in part if it not in before]
    moved = [it for it in planted if not it.startswith(LOG)]
    run_before(monkeypatch, lambda: builder.store.delete_many(moved))
    (unread,) = search(builder.store, BY_NAME).unread
    assert unread.code == "SEARCH_INCOMPLETE"
    assert "search again" in unread.reason


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
def test_a_footer_does_not_end_the_process(name: str) -> None:
    """Arrow would end it at a look into a column chunk."""
    finds = Path(__file__).parents[2] / "fuzz" / "finds" / "footer"
    builder = base()
    builder.store.put("x.parquet", (finds / name).read_bytes())
    (unread,) = search(builder.store, BY_NAME).unread
    assert (unread.name, unread.reason) == ("x.parquet", "unreadable: OSError")


def test_a_table_that_is_moved_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    run_before(monkeypatch, lambda: (tmp_path / "t").rename(tmp_path / "u"))
    with pytest.raises(StorageError, match="moved or deleted during the run"):
        Table(str(tmp_path / "t")).check_erased("id = 42")


def run_before(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change the table after the listing, before the files are searched."""
    original = FileSearch.run

    def run(files: FileSearch, spec: Any, **options: Any) -> None:
        change()
        original(files, spec, **options)

    monkeypatch.setattr(FileSearch, "run", run)


class WithVersions(ForwardingStore):
    """Lists old versions, or cannot list them."""

    def __init__(self, inner: Store, old: Sequence[OldVersion] | StorageError) -> None:
        super().__init__(inner)
        self._old = old

    @property
    def versions(self) -> Versions:
        return self

    def list_old(self) -> Iterator[OldVersion]:
        if isinstance(self._old, StorageError):
            raise self._old
        yield from self._old

    def open_old(self, version: OldVersion) -> pa.NativeFile:
        return pa.BufferReader(f"id,q\n{ID},1\n".encode())


@pytest.mark.parametrize(
    ("old", "reason", "parts"),
    [
        (UnsupportedByStoreError("it does not list them"), "it does not list them", []),
        (StorageError("503"), "unreadable: StorageError", []),
        ([OldVersion(f"id={ID}/x", "1", 1, 1)], "not searched without versions=True", [["paths"]]),
        ([OldVersion(f"id={ID + 1}/x", "1", 1, 1)], "not searched without versions=True", []),
    ],
)
def test_old_versions_that_are_not_read(old: Any, reason: str, parts: list[list[str]]) -> None:
    """Their names are searched, and what is not searched is said."""
    report = search(WithVersions(base().store, old), BY_ID)
    assert [it.reason for it in report.unread] == [reason]
    assert [list(it.parts) for it in report.places] == parts
    assert not report.is_erased


class Denied(InterceptingStore):
    """Data files may be listed, but not read."""

    def _intercept(self, call: Call) -> object:
        if call.method == "open_input" and call.names[0].endswith(".parquet"):
            raise AccessDeniedError("no permission to read it")
        return call.do()


def test_a_table_of_values_is_found_in_an_old_version() -> None:
    store = WithVersions(base().store, [OldVersion("x.csv", "1", 1, 1)])
    (place,) = search(store, BY_ID, versions=True).places
    assert place.name == "old object versions"


def test_refused_access_has_its_status() -> None:
    store: Store = Denied(base().store)
    report = search(store, BY_ID)
    assert {it.code for it in report.unread} == {"ACCESS_DENIED"}
    error = report.find_error()
    assert error is not None
    assert error.exit_code == 8
    assert not report.is_found
