"""A store that fails at any call: the search fails or says so, and never that a value is erased."""

from __future__ import annotations

import pytest

from deltactl.errors import AccessDeniedError, StorageError
from deltactl.storage.store import Store
from tests.operations.erased.test_places import BY_ID, PLANTED, base, search
from tests.support.forwarding import Call, InterceptingStore
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
