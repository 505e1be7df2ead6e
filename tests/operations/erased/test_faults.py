"""A store that fails at any call: the search fails or says so, and never that a value is erased."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from deltactl.errors import AccessDeniedError, StorageError, UnsupportedByStoreError
from deltactl.storage.store import OldVersion, Store, Versions
from tests.operations.erased.test_places import BY_ID, ID, PLANTED, base, search
from tests.support.forwarding import Call, ForwardingStore, InterceptingStore
from tests.support.stores import Fault, FaultyStore


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


def test_refused_access_has_its_status() -> None:
    store: Store = Denied(base().store)
    report = search(store, BY_ID)
    assert {it.code for it in report.unread} == {"ACCESS_DENIED"}
    error = report.find_error()
    assert error is not None
    assert error.exit_code == 8
    assert not report.is_found
